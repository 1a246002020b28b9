// Package remotestop delivers stops to models that work elsewhere, such as an agent of another server: see [cairn.Stopper].
// Such a stop is recorded before the commit that ends the run, so that another process delivers it if this one dies. No
// run is driven or changed here.
package remotestop

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine/settings"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store/driver"
)

// Stops records and delivers the stops that a process owes. It is safe for concurrent use.
type Stops struct {
	*settings.Options
	Store driver.Store
	// Records are the store's, if it keeps any; else nil. Without them, a stop that is owed dies with the process.
	Records driver.Records
	Agents  func(name, version string) (*cairn.Agent, bool)
	// Behind calls a function in a goroutine that ends with the engine, as does the context that it is given. It may
	// leave that out.
	Behind func(func(context.Context))
}

// Stop is a stop that is owed to what works elsewhere for a turn, see [cairn.Stopper]. It is a record from before the
// commit that ends the turn's run until it was delivered: a process may die at any time between. The record alone says
// nothing: a commit may have failed, or the turn may have been continued since. What the session is like then decides.
type Stop struct {
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
	// deliverFor is how long the delivery of a stop is attempted, and recordTTL how long its record is kept: longer,
	// so that a process can log that it was abandoned.
	deliverFor = 24 * time.Hour
	recordTTL  = deliverFor + time.Hour
	// attemptLimit bounds one attempt to deliver a stop.
	attemptLimit = 5 * time.Second
	// The pauses between two attempts grow from the first to the longest.
	firstPause   = 200 * time.Millisecond
	longestPause = time.Minute
)

func (o *Stop) key() string { return ids.Derive("stop", o.Session, o.Run) }

// Record records that a stop is owed to what works elsewhere for a run, if that is about to be committed as failed or
// interrupted and anything may. Of an agent that is not known here it may: a process that has the agent decides that.
// The caller calls deliver once the run's end is committed, after everything else, since it may take long.
func (s *Stops) Record(ctx context.Context, run *cairn.Run, session string) (deliver func(context.Context), err error) {
	o, err := s.record(ctx, run, session)
	if err != nil || o == nil {
		return func(context.Context) {}, err
	}
	return func(ctx context.Context) { s.deliver(ctx, o) }, nil
}

// record is Record, and returns the stop that is owed, or nil.
func (s *Stops) record(ctx context.Context, run *cairn.Run, session string) (*Stop, error) {
	if run.Status != cairn.RunFailed && run.Status != cairn.RunInterrupted {
		return nil, nil
	}
	o := &Stop{Session: session, Run: run.ID, Agent: run.Agent, Version: run.AgentVersion, Model: run.Model}
	if stopper, known := s.stopper(o); known && stopper == nil || !known && s.Records == nil {
		return nil, nil
	}
	for at := run; ; {
		o.Runs = append(o.Runs, at.ID)
		if at.PreviousRunID == "" || slices.Contains(o.Runs, at.PreviousRunID) {
			break
		}
		before, err := driver.FindRun(ctx, s.Store, session, at.PreviousRunID)
		if errors.Is(err, cairn.ErrUnavailable) {
			return nil, err
		}
		if err != nil { // it cannot be read; those that can name the turn as well
			break
		}
		at = before
	}
	if s.Records == nil {
		return o, nil
	}
	value, err := json.Marshal(o)
	if err == nil {
		_, err = s.Records.Put(ctx, driver.RecordWrite{Namespace: driver.StopRecords, Key: o.key(), Value: value, Seen: driver.AnyVersion, TTL: recordTTL})
	}
	if err != nil && !errors.Is(err, cairn.ErrUnavailable) && ctx.Err() == nil { // it would be so each time
		s.Logger.Warn("remote stop not recorded; it is lost if this process dies", "session", session, "run", run.ID, "error", err)
		err = nil
	}
	return o, err
}

// stopper returns what a stop is delivered by; nil if the model is none, and known if the agent is known here.
func (s *Stops) stopper(o *Stop) (stopper cairn.Stopper, known bool) {
	a, ok := s.Agents(o.Agent, o.Version)
	if !ok {
		return nil, false
	}
	model, _ := define.Model(a, o.Model)
	return stopperOf(model), true
}
