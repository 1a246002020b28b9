package traces

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// Exporter exports the spans of a store's sessions.
type Exporter struct {
	eng     *engine.Engine
	to      sdktrace.SpanExporter
	opts    Options
	records store.Records
	owner   string

	feed feed
	held int64 // version of the lease's record; 0 if another process has it
}

// New returns an exporter of the sessions of an engine's store to an OpenTelemetry exporter, such as one of package
// otlptracehttp, which the caller shuts down. The error is ErrInvalid, and names the option; or it names the store, if the
// store keeps no records.
func New(eng *engine.Engine, to sdktrace.SpanExporter, opts *Options) (*Exporter, error) {
	x := &Exporter{eng: eng, to: to, records: eng.Records(), owner: ids.New("exporter")}
	var err error
	if x.opts, err = complete(opts); err != nil {
		return nil, err
	}
	if x.records == nil {
		return nil, cairn.Invalid("store", "keeps no records")
	}
	return x, nil
}

// Run exports until ctx is done, and then once more the steps committed by then, for at most five seconds. It returns nil. A
// failure is logged, and the same spans are sent again after a pause.
func (x *Exporter) Run(ctx context.Context) error {
	wait := time.NewTimer(0)
	defer wait.Stop()
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			_, _ = x.attempt(last) // what is left, the next process exports
			x.release(last)
			return nil
		case <-wait.C:
		}
		_, err := x.attempt(ctx)
		if err != nil && ctx.Err() == nil {
			x.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "spans not exported; trying again", slog.Any("error", err))
			failures++
		} else {
			failures = 0
		}
		wait.Reset(min(x.opts.Interval<<min(failures, 6), time.Minute))
	}
}

// Flush exports all steps that the store has at the moment. If another process exports, Flush waits for its end, or until
// ctx is done. It is for tests and for programs that call it themselves; do not call Flush or Run while another call of
// one of them runs.
func (x *Exporter) Flush(ctx context.Context) error {
	for {
		if ok, err := x.attempt(ctx); ok || err != nil {
			return err
		}
		wait := time.NewTimer(x.opts.LeaseTTL / 4)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return context.Cause(ctx)
		}
	}
}

// attempt exports all steps that the store has at the moment. It reports false if another process has the right to do so.
func (x *Exporter) attempt(ctx context.Context) (ok bool, err error) {
	now, ok, err := x.hold(ctx)
	if err != nil || !ok {
		return false, err
	}
	return true, x.pass(ctx, now)
}

// leaseKey and cursorKey are the keys of the records of the process that exports, and of how far it has read.
const (
	leaseKey  = "lease"
	cursorKey = "cursor"
)

// hold takes or renews the right to export. It returns the time of the store, and false if another process has the right.
func (x *Exporter) hold(ctx context.Context) (now time.Time, ok bool, err error) {
	if x.held == 0 {
		switch r, err := x.records.Get(ctx, driver.TraceRecords, leaseKey); {
		case err == nil:
			return r.AsOf, false, nil
		case !errors.Is(err, cairn.ErrNotFound):
			return now, false, err
		}
	}
	r, err := x.records.Put(ctx, store.RecordWrite{Namespace: driver.TraceRecords, Key: leaseKey, Value: encode(map[string]string{"owner": x.owner}), Seen: x.held, TTL: x.opts.LeaseTTL})
	switch {
	case errors.Is(err, cairn.ErrStale):
		x.held = 0
		return now, false, nil
	case err != nil:
		return now, false, err
	}
	if x.held == 0 { // another process may have read further
		if err := x.resume(ctx, r.AsOf); err != nil {
			x.held = r.Version
			x.release(ctx)
			return now, false, err
		}
	}
	x.held = r.Version
	return r.AsOf, true, nil
}

// release gives the right to export to another process.
func (x *Exporter) release(ctx context.Context) {
	if x.held != 0 {
		_ = x.records.Delete(ctx, driver.TraceRecords, leaseKey, x.held) // otherwise it lapses
		x.held = 0
	}
}

// position is how far the usage rows were read, and which are too old.
type position struct {
	Cursor string    `json:"cursor,omitempty"`
	Since  time.Time `json:"since"`
}

// resume reads how far the rows were read.
func (x *Exporter) resume(ctx context.Context, now time.Time) error {
	at := position{Since: now.Add(-x.opts.Since)}
	r, err := x.records.Get(ctx, driver.TraceRecords, cursorKey)
	switch {
	case errors.Is(err, cairn.ErrNotFound):
		if _, err := x.records.Put(ctx, store.RecordWrite{Namespace: driver.TraceRecords, Key: cursorKey, Value: encode(at), Seen: store.AnyVersion}); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		if err := json.Unmarshal(r.Value, &at); err != nil {
			return cairn.Errorf(cairn.ErrCorrupt, "traces: cursor: %w", err)
		}
	}
	x.feed = feed{position: at, done: map[string]bool{}}
	return nil
}
