package engine

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// Worker is an engine in Work, as it registered with its store.
type Worker = cairn.Worker

// registration is the value of a worker's record. A worker's times are those of the record.
type registration struct {
	Owner   string   `json:"owner"`
	Agents  []string `json:"agents"`
	Host    string   `json:"host,omitempty"`
	Version string   `json:"version,omitempty"`
}

// keepRegistered registers this engine as a worker, and again three times per Options.LeaseTTL, which is the record's
// time to live, until ctx is done. Then it removes the record, unless another call of Work still runs. If the store
// fails, the worker keeps working: the failure is logged once, and the next heartbeat retries.
func (e *Engine) keepRegistered(ctx context.Context) {
	e.working.Add(1)
	tick := time.NewTicker(max(e.opts.LeaseTTL/3, 1))
	defer tick.Stop()
	for failing := false; ; {
		err := e.register(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			e.opts.Logger.Warn("worker cannot register", "error", err)
		}
		failing = err != nil
		select {
		case <-tick.C:
		case <-ctx.Done():
			if e.working.Add(-1) == 0 {
				e.deregister(ctx)
			}
			return
		}
	}
}

// workerKey returns the key of the engine's record: its owner's name, or an identifier derived from it if that is not
// one.
func (e *Engine) workerKey() string {
	if ids.Check(e.fx.Owner) != "" {
		return ids.Derive("worker", e.fx.Owner)
	}
	return e.fx.Owner
}

func (e *Engine) register(ctx context.Context) error {
	r := registration{Owner: e.fx.Owner, Agents: e.Agents(), Version: e.opts.Version}
	if k, ok := e.opts.Host.(host.Keeper); ok {
		r.Host = k.Name()
	}
	value, err := json.Marshal(r)
	if err != nil {
		return cairn.Errorf(cairn.ErrInternal, "encode worker registration: %w", err)
	}
	_, err = e.records.Put(ctx, store.RecordWrite{Namespace: driver.WorkerRecords, Key: e.workerKey(), Value: value,
		Seen: store.AnyVersion, TTL: e.opts.LeaseTTL})
	return err
}

// deregister removes the engine's record, which would lapse otherwise.
func (e *Engine) deregister(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWait)
	defer cancel()
	err := e.records.Delete(ctx, driver.WorkerRecords, e.workerKey(), store.AnyVersion)
	if err != nil && !errors.Is(err, cairn.ErrNotFound) && !errors.Is(err, cairn.ErrClosed) {
		e.opts.Logger.Warn("worker cannot deregister", "error", err)
	}
}

// ahead reports whether a worker registered before the store's clock was set back, and not since.
func ahead(w *Worker) bool {
	return w.HeartbeatAt.After(w.AsOf.Add(w.Until.Sub(w.HeartbeatAt)))
}

// Workers yields the workers registered in the store, of all processes, by the names of their owners. A dead worker is
// among them until its registration lapses, at most that worker's Options.LeaseTTL after its last heartbeat. A store
// that is not a store.RecordProvider has none.
func (e *Engine) Workers(ctx context.Context) iter.Seq2[Worker, error] {
	return func(yield func(Worker, error) bool) {
		if e.records == nil {
			return
		}
		for record, err := range store.All(func(cursor string) (store.Page[store.Record], error) {
			return e.records.List(ctx, store.RecordQuery{Namespace: driver.WorkerRecords, Cursor: cursor})
		}) {
			var w Worker
			if err == nil {
				w, err = readWorker(record)
			}
			if err == nil && ahead(&w) {
				continue
			}
			if !yield(w, err) || err != nil {
				return
			}
		}
	}
}

func readWorker(r *store.Record) (Worker, error) {
	var value registration
	if err := json.Unmarshal(r.Value, &value); err != nil {
		return Worker{}, cairn.Errorf(cairn.ErrCorrupt, "decode record of worker %q: %w", r.Key, err)
	}
	return Worker{Owner: value.Owner, Agents: value.Agents, Host: value.Host, Version: value.Version,
		Since: r.CreatedAt, HeartbeatAt: r.UpdatedAt, Until: r.ExpiresAt, AsOf: r.AsOf}, nil
}

// Unserved yields due sessions of agents that no registered worker serves, the longest due first. It reads everything
// that is due. If the store is not a store.RecordProvider, it yields everything.
func (e *Engine) Unserved(ctx context.Context) iter.Seq2[store.Due, error] {
	return func(yield func(store.Due, error) bool) {
		served := map[string]bool{}
		for w, err := range e.Workers(ctx) {
			if err != nil {
				yield(store.Due{}, err)
				return
			}
			for _, agent := range w.Agents {
				served[agent] = true
			}
		}
		for d, err := range e.Due(ctx) {
			if (err != nil || !served[d.Agent]) && !yield(d, err) {
				return
			}
		}
	}
}

// Due yields the sessions that need a worker, the longest due first. A session that is not due costs nothing.
func (e *Engine) Due(ctx context.Context) iter.Seq2[store.Due, error] {
	return func(yield func(store.Due, error) bool) {
		for d, err := range store.All(func(cursor string) (store.Page[store.Due], error) {
			return e.store.Due(ctx, driver.DueQuery{Limit: 1000, Cursor: cursor})
		}) {
			if err != nil {
				yield(store.Due{}, err)
				return
			}
			if !yield(*d, nil) {
				return
			}
		}
	}
}

// Records returns the store's rows that belong to no session; nil if the store keeps none.
func (e *Engine) Records() store.Records { return e.records }
