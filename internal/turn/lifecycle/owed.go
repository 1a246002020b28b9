package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/turn/retry"
	"github.com/cairn-agents/cairn/store"
)

// Owed is a stop that is owed to what works elsewhere for a turn, see [cairn.Stopper]. It is a record from before the
// commit that ends the turn's run until it was delivered: a process may die at any time between. The record alone says
// nothing: a commit may have failed, or the turn may have been continued since. What the session is like then decides.
type Owed struct {
	Session string `json:"session"`
	// Run is the run whose end it is, and Runs are those of the turn up to it, the last one first.
	Run  string   `json:"run"`
	Runs []string `json:"runs"`
	// Agent, Version and Model name the model.
	Agent   string `json:"agent"`
	Version string `json:"version,omitempty"`
	Model   string `json:"model,omitempty"`
}

const (
	// owedFor is how long the delivery of a stop is tried, and owedTTL how long its record is kept: longer, so that a
	// process can say that it was given up.
	owedFor = 24 * time.Hour
	owedTTL = owedFor + time.Hour
	// stopTry bounds one attempt to deliver a stop.
	stopTry = 5 * time.Second
	// The pauses between two attempts grow from the first to the longest.
	firstStopPause   = 200 * time.Millisecond
	longestStopPause = time.Minute
)

func (o *Owed) key() string { return ids.Derive("stop", o.Session, o.Run) }

// Owe records that a stop is owed to what works elsewhere for a run, if that is about to be committed as failed or
// interrupted and anything may. Of an agent that is not known here it may: a process that has the agent decides that.
// The caller delivers what is returned once the run's end is committed; it may be nil.
func (r *Runs) Owe(ctx context.Context, run *cairn.Run, session string) (*Owed, error) {
	if run.Status != cairn.RunFailed && run.Status != cairn.RunInterrupted {
		return nil, nil
	}
	o := &Owed{Session: session, Run: run.ID, Agent: run.Agent, Version: run.AgentVersion, Model: run.Model}
	if stopper, known := r.stopper(o); known && stopper == nil || !known && r.Records == nil {
		return nil, nil
	}
	for at := run; ; {
		o.Runs = append(o.Runs, at.ID)
		if at.PreviousRunID == "" || slices.Contains(o.Runs, at.PreviousRunID) {
			break
		}
		before, err := store.FindRun(ctx, r.Store, session, at.PreviousRunID)
		if errors.Is(err, cairn.ErrUnavailable) {
			return nil, err
		}
		if err != nil { // it cannot be read; those that can name the turn as well
			break
		}
		at = before
	}
	if r.Records == nil {
		return o, nil
	}
	value, err := json.Marshal(o)
	if err == nil {
		_, err = r.Records.Put(ctx, store.RecordWrite{Namespace: store.StopRecords, Key: o.key(), Value: value, Seen: store.AnyVersion, TTL: owedTTL})
	}
	if err != nil && !errors.Is(err, cairn.ErrUnavailable) && ctx.Err() == nil { // it would be so each time
		r.Logger.Warn("a stop is not recorded; it is lost if this process dies", "session", session, "run", run.ID, "error", err)
		err = nil
	}
	return o, err
}

// stopper returns what a stop is delivered by; nil if the model is none, and known if the agent is known here.
func (r *Runs) stopper(o *Owed) (s cairn.Stopper, known bool) {
	a, ok := r.Agents(o.Agent, o.Version)
	if !ok {
		return nil, false
	}
	model, _ := define.Model(a, o.Model)
	return stopperOf(model), true
}

// stopperOf returns what a stop of a model's work is delivered by, perhaps a model that it wraps; nil if there is none.
func stopperOf(model cairn.Model) cairn.Stopper {
	for model != nil {
		if s, ok := model.(cairn.Stopper); ok {
			return s
		}
		if of, several := model.(interface{ Unwrap() []cairn.Model }); several {
			return stopperOfAny(of.Unwrap())
		}
		wraps, ok := model.(interface{ Unwrap() cairn.Model })
		if !ok {
			break
		}
		model = wraps.Unwrap()
	}
	return nil
}

// stopperOfAny returns what stops the work of any of some models; nil if there is none.
func stopperOfAny(models []cairn.Model) cairn.Stopper {
	var all stoppers
	for _, m := range models {
		if s := stopperOf(m); s != nil {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// stoppers are those of models of which it is not known which one has worked.
type stoppers []cairn.Stopper

// StopTurn stops the turn at each of them. Those that know nothing of it have nothing to do.
func (list stoppers) StopTurn(ctx context.Context, session string, runs []string) error {
	var failed []error
	for _, s := range list {
		failed = append(failed, s.StopTurn(ctx, session, runs))
	}
	return errors.Join(failed...)
}

// StopsElsewhere reports whether a stop may be owed to a model of an agent.
func StopsElsewhere(a *cairn.Agent) bool {
	if stopperOf(a.Model) != nil {
		return true
	}
	for _, m := range a.Models {
		if stopperOf(m) != nil {
			return true
		}
	}
	return false
}

// Deliver delivers a stop that is owed, once the end of its run is committed. What does not succeed at once is tried
// again without the caller, as long as the engine is open, and then by any worker that has the agent.
func (r *Runs) Deliver(ctx context.Context, o *Owed) {
	if o == nil {
		return
	}
	stopper, _ := r.stopper(o)
	if stopper == nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	err := r.attempt(ctx, stopper, o)
	if err == nil {
		r.delivered(ctx, o, store.AnyVersion)
		return
	}
	r.Logger.Warn("a stop was not delivered; it is tried again", "session", o.Session, "run", o.Run, "agent", o.Agent, "error", err)
	r.Behind(func(ctx context.Context) { r.pursue(ctx, o) })
}

// attempt makes one attempt to deliver a stop.
func (r *Runs) attempt(ctx context.Context, stopper cairn.Stopper, o *Owed) error {
	ctx, cancel := context.WithTimeout(ctx, stopTry)
	defer cancel()
	return stopper.StopTurn(ctx, o.Session, o.Runs)
}

// delivered forgets a stop of the version that was seen, and reports whether this process did.
func (r *Runs) delivered(ctx context.Context, o *Owed, seen int64) bool {
	if r.Records == nil {
		return true
	}
	err := r.Records.Delete(ctx, store.StopRecords, o.key(), seen)
	if err != nil && !errors.Is(err, cairn.ErrNotFound) && !errors.Is(err, cairn.ErrStale) {
		r.Logger.Warn("a stop that was delivered is still recorded; it will be delivered again", "session", o.Session, "run", o.Run, "error", err)
	}
	return err == nil
}

// pursue delivers a stop that could not be delivered at once, until ctx is done.
func (r *Runs) pursue(ctx context.Context, o *Owed) {
	begun := r.Now()
	for n := 0; retry.Sleep(ctx, retry.Backoff(firstStopPause, longestStopPause, n)) == nil; n++ {
		if r.Records == nil {
			if stopper, _ := r.stopper(o); stopper == nil || r.attempt(ctx, stopper, o) == nil || r.Now().Sub(begun) >= owedFor {
				return
			}
			continue
		}
		rec, err := r.Records.Get(ctx, store.StopRecords, o.key())
		if errors.Is(err, cairn.ErrNotFound) || err == nil && r.redeliver(ctx, rec, o) == nil {
			return
		}
	}
}

// standing says what has become of a run that a stop is owed for.
type standing int

const (
	undecided standing = iota // its end is not committed, or never will be
	ended                     // it has ended, and its turn with it
	continued                 // the turn was continued, or has come to its end
)

// stands looks what has become of the run that a stop is owed for.
func (r *Runs) stands(ctx context.Context, o *Owed) (standing, error) {
	row, err := store.Load(ctx, r.Store, o.Session)
	switch {
	case errors.Is(err, cairn.ErrNotFound):
		return ended, nil
	case err != nil:
		return undecided, err
	case row.RunID != o.Run:
		return r.succeeded(ctx, row, o.Run)
	}
	switch row.Status {
	case cairn.SessionFailed, cairn.SessionInterrupted:
		return ended, nil
	case cairn.SessionCompleted:
		return continued, nil
	}
	return undecided, nil
}

// succeeded says whether a session's last run continues the turn of an earlier one.
func (r *Runs) succeeded(ctx context.Context, row *cairn.Session, run string) (standing, error) {
	for id := row.RunID; id != ""; {
		if id == run {
			return continued, nil
		}
		at, err := store.FindRun(ctx, r.Store, row.ID, id)
		if errors.Is(err, cairn.ErrNotFound) {
			break
		}
		if err != nil {
			return undecided, err
		}
		id = at.PreviousRunID
	}
	return ended, nil
}

// errUndecided says that it is not known yet whether a stop is owed.
var errUndecided = errors.New("the run's end is not committed")

// redeliver delivers a stop that is recorded, if it is owed. The error says that it is to be tried again.
func (r *Runs) redeliver(ctx context.Context, rec *store.Record, o *Owed) error {
	stopper, known := r.stopper(o)
	if !known {
		return nil // it is for a process that has the agent
	}
	late := rec.AsOf.Sub(rec.CreatedAt) >= owedFor
	is, err := r.stands(ctx, o)
	switch {
	case err != nil:
		return err
	case stopper == nil, is == continued, is == undecided && late:
		r.delivered(ctx, o, rec.Version)
		return nil
	case is == undecided:
		return errUndecided
	}
	if err = r.attempt(ctx, stopper, o); err == nil {
		r.delivered(ctx, o, rec.Version)
		r.Logger.Info("a stop was delivered late", "session", o.Session, "run", o.Run, "agent", o.Agent, "after", rec.AsOf.Sub(rec.CreatedAt))
		return nil
	}
	if late && ctx.Err() == nil {
		if r.delivered(ctx, o, rec.Version) { // one process says so
			r.Logger.Error("a stop was not delivered within a day and is given up; what the run consulted may still be at work",
				"session", o.Session, "run", o.Run, "agent", o.Agent, "error", err)
		}
		return nil
	}
	return err
}

// Stops is what a worker remembers of the stops that it could not deliver: when each, or what is to be stopped by one
// agent that cannot be reached, is tried again. The zero value is ready; it is for one goroutine.
type Stops struct {
	rests map[string]rest
}

type rest struct {
	until time.Time
	n     int
}

func (s *Stops) resting(key string, now time.Time) bool { return now.Before(s.rests[key].until) }

func (s *Stops) lay(key string, now time.Time) {
	if s.rests == nil {
		s.rests = map[string]rest{}
	}
	n := s.rests[key].n
	s.rests[key] = rest{now.Add(retry.Backoff(firstStopPause, longestStopPause, n)), n + 1}
}

// DeliverStops delivers the stops that are recorded for agents of this process. The error says that the records could
// not be read.
func (r *Runs) DeliverStops(ctx context.Context, s *Stops) error {
	seen := map[string]bool{}
	for rec, err := range store.All(func(cursor string) (store.Page[store.Record], error) {
		return r.Records.List(ctx, store.RecordQuery{Namespace: store.StopRecords, Cursor: cursor})
	}) {
		if err != nil {
			return err
		}
		o := new(Owed)
		if err := json.Unmarshal(rec.Value, o); err != nil || o.key() != rec.Key {
			continue // of a version to come; it expires
		}
		agent, now := "agent "+o.Agent, r.Now()
		seen[rec.Key], seen[agent] = true, true
		if s.resting(rec.Key, now) || s.resting(agent, now) {
			continue
		}
		err := r.redeliver(ctx, rec, o)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, cairn.ErrUnavailable): // nor can it be for the others
			s.lay(agent, now)
		case err != nil:
			s.lay(rec.Key, now)
		default:
			delete(s.rests, agent)
		}
	}
	for key := range s.rests {
		if !seen[key] {
			delete(s.rests, key)
		}
	}
	return nil
}
