package engine

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// exclusion is an attempt at a step, with the record of its run that keeps other attempts out. Only the end of a step
// frees the record. If the attempt ends in any other way, or does not renew the record for a lease, the record lapses.
// The run then continues under another lease: the process of the attempt may be alive, and has left parts of the step on
// the log.
type exclusion struct {
	e     *Engine
	at    host.Run
	state attempted
	write store.RecordWrite // its Seen is the version of the record
	had   bool              // the attempt has had the record
}

// attempted is the value of a run's record.
type attempted struct {
	// Attempt identifies the attempt that is in progress; empty for none.
	Attempt string `json:"attempt,omitempty"`
	// Token is the lease of the attempt, or of the last one.
	Token int64 `json:"token"`
	// Takes reports whether the attempt takes the run over from that lease.
	Takes bool `json:"takes,omitempty"`
	// From is the first lease that calls have taken over, one after the other, down to Token. 0 means none.
	From int64 `json:"from,omitempty"`
}

// lapsedFor is how long a record is kept after it has lapsed or was freed.
const lapsedFor = 24 * time.Hour

func attemptKey(at *host.Run) string { return ids.Derive("advance", at.SessionID, at.RunID) }

// exclude begins an attempt at a step. The error is ErrAlreadyRunning while another one is in progress. If that has lapsed,
// this attempt is to take the run over, as state.Takes says.
func (e *Engine) exclude(ctx context.Context, at host.Run) (*exclusion, error) {
	x := &exclusion{e: e, at: at, state: attempted{Attempt: e.fx.Owner + " " + e.opts.NewID("advance"), Token: at.Token}}
	x.write = store.RecordWrite{Namespace: driver.AdvanceRecords, Key: attemptKey(&at), TTL: e.opts.LeaseTTL + lapsedFor}
	return x, x.put(ctx)
}

// put writes the record. A record of the same attempt is what a write left whose answer was lost.
func (x *exclusion) put(ctx context.Context) error {
	for {
		var err error
		if x.write.Value, err = json.Marshal(&x.state); err != nil {
			return cairn.Errorf(cairn.ErrInternal, "encode attempt: %w", err)
		}
		r, err := x.e.records.Put(ctx, x.write)
		if err == nil {
			x.write.Seen, x.had = r.Version, true
			return nil
		}
		if !errors.Is(err, cairn.ErrStale) {
			return err
		}
		there, found, err := x.e.attempted(ctx, &x.at)
		switch {
		case err != nil:
			return err
		case found == nil && !x.had:
			x.write.Seen = 0
			continue
		case found == nil || found.Attempt != x.state.Attempt && x.had: // the run was taken over
			return busy(x.at)
		case found.Attempt == x.state.Attempt:
		case found.Attempt != "" && !lapsed(there):
			return busy(x.at)
		default:
			x.state.follow(found)
		}
		x.write.Seen = there.Version
	}
}

// follow makes the attempt the successor of one that is over.
func (a *attempted) follow(last *attempted) {
	a.Takes = last.Attempt != "" && (last.Takes || last.Token == a.Token)
	if last.Takes || last.Token == a.Token { // otherwise a worker has taken the run over
		a.From = last.From
	}
	if a.Takes && a.From == 0 {
		a.From = a.Token
	}
}

// attempted returns the record of a run, with its value; nil if there is none.
func (e *Engine) attempted(ctx context.Context, at *host.Run) (*store.Record, *attempted, error) {
	r, err := e.records.Get(ctx, driver.AdvanceRecords, attemptKey(at))
	if errors.Is(err, cairn.ErrNotFound) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	var a attempted
	if err := json.Unmarshal(r.Value, &a); err != nil {
		return nil, nil, cairn.Errorf(cairn.ErrCorrupt, "decode attempt at run %s: %w", at.RunID, err)
	}
	return r, &a, nil
}

// lapsed reports whether a record was not renewed for a lease, or not since the store's clock was set back.
func lapsed(r *store.Record) bool {
	until := r.ExpiresAt.Add(-lapsedFor)
	return !r.AsOf.Before(until) || r.UpdatedAt.Sub(r.AsOf) > until.Sub(r.UpdatedAt)
}

// keep renews the record three times per lease until end is called. It cancels the attempt if another one has the record.
func (x *exclusion) keep(ctx context.Context, cancel context.CancelCauseFunc) (end func()) {
	ctx = context.WithoutCancel(ctx)
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		often := max(x.e.opts.LeaseTTL/3, 1)
		tick := time.NewTicker(often)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
			}
			call, stop := context.WithTimeout(ctx, often)
			err := x.put(call)
			stop()
			switch {
			case errors.Is(err, cairn.ErrAlreadyRunning):
				cancel(err)
				return
			case err != nil:
				x.e.opts.Logger.Warn("record of a step in progress not renewed; retrying", "session", x.at.SessionID, "run", x.at.RunID, "error", err)
			}
		}
	}()
	return func() {
		close(over)
		<-done
	}
}

// leave ends the attempt. next is the reference to what follows; its token is 0 if nothing does. failed reports whether
// the step is unfinished: the record then lapses at once.
func (x *exclusion) leave(ctx context.Context, next host.Run, failed bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWait)
	defer cancel()
	var err error
	x.write.TTL = lapsedFor
	switch {
	case failed:
		err = x.put(ctx)
	case next.Token != 0 && x.state.From != 0: // calls with earlier references are to get this one
		x.state = attempted{Token: next.Token, From: x.state.From}
		err = x.put(ctx)
	default:
		err = x.e.records.Delete(ctx, x.write.Namespace, x.write.Key, x.write.Seen)
	}
	if err != nil && !errors.Is(err, cairn.ErrNotFound) && !errors.Is(err, cairn.ErrStale) && !errors.Is(err, cairn.ErrAlreadyRunning) {
		x.e.opts.Logger.Warn("record of a step not written; it will lapse", "session", x.at.SessionID, "run", x.at.RunID, "error", err)
	}
}
