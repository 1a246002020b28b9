// Package learning has memories learn from turns that have ended, see [cairn.Memory]. That a turn is to be learned from is
// recorded before the commit that ends it, so that another process does it if this one dies. No run is driven or changed
// here.
package learning

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine/settings"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/retry"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/user"
	"github.com/cairn-agents/cairn/store/driver"
)

// Turns are the ended turns that the memories of a process's agents are to learn from. It is safe for concurrent use.
type Turns struct {
	*settings.Options
	Store driver.Store
	// Records are the store's, if it keeps any; else nil. Without them, a turn is lost with the process.
	Records driver.Records
	Agents  func(name, version string) (*cairn.Agent, bool)
	User    *user.Caller
	// Text asks a model for a text.
	Text func(ctx context.Context, a *cairn.Agent, model cairn.Model, req *cairn.Request, what string) (string, step.Bill, error)
	// Learned adds usage to a session and publishes events there.
	Learned func(ctx context.Context, session string, usage step.Bill, events ...cairn.Event)
	// Finish calls a function in a goroutine that the end of the engine waits for.
	Finish func(func(context.Context))

	// slots has an entry per turn that is learned from right after its end.
	slots chan struct{}
}

// New returns the turns of a process, with the fields of t.
func New(t Turns) *Turns {
	t.slots = make(chan struct{}, atOnce)
	return &t
}

// ended is the end of a turn's run. It is a record from before the commit that ends the run until the memory has
// learned from the turn: a process may die at any time between. The record alone says nothing: a commit may have failed,
// or the session may have been rewound since. What the session is like then decides.
type ended struct {
	Session string `json:"session"`
	Run     string `json:"run"`
	Agent   string `json:"agent"`
	Version string `json:"version,omitempty"`
}

const (
	// atOnce is how many turns a process learns from at once.
	atOnce = 8
	// learnFor is how long a turn is attempted to be learned from, and recordTTL how long its record is kept: longer, so
	// that a process can log that it was abandoned.
	learnFor  = 7 * 24 * time.Hour
	recordTTL = learnFor + time.Hour
	// young is how long a turn is left to the process that ended it.
	young = 2 * cairn.LearnTimeout
	// The pauses between two attempts grow from the first to the longest.
	firstPause   = time.Second
	longestPause = 10 * time.Minute
)

func (o *ended) key() string { return ids.Derive("learn", o.Session, o.Run) }

// Record records that the agent's memory is to learn from a turn, if run is about to be committed as ended and not
// suspended. For an agent that is not known here it does too: a process that has the agent decides. The caller calls
// learn, unless it is nil, once the run's end is committed. The error is ErrUnavailable.
func (t *Turns) Record(ctx context.Context, run *cairn.Run, session string) (learn func(), err error) {
	if run.Status == cairn.RunSuspended {
		return nil, nil
	}
	a, known := t.Agents(run.Agent, run.AgentVersion)
	if known && a.Memory == nil || !known && t.Records == nil {
		return nil, nil
	}
	o := &ended{Session: session, Run: run.ID, Agent: run.Agent, Version: run.AgentVersion}
	if t.Records != nil {
		value, err := json.Marshal(o)
		if err == nil {
			_, err = t.Records.Put(ctx, driver.RecordWrite{Namespace: driver.LearnRecords, Key: o.key(), Value: value, Seen: driver.AnyVersion, TTL: recordTTL})
		}
		switch {
		case errors.Is(err, cairn.ErrUnavailable), ctx.Err() != nil:
			return nil, err
		case err != nil: // it would be so each time
			t.Logger.Warn("ended turn not recorded; its memories are lost if this process dies", "session", session, "run", run.ID, "error", err)
		}
	}
	return func() { t.Finish(func(ctx context.Context) { t.first(ctx, o) }) }, nil
}

// first learns from a turn right after its end. If that fails, a worker repeats it.
func (t *Turns) first(ctx context.Context, o *ended) {
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
	case <-ctx.Done():
		return
	}
	done, err := t.learn(ctx, o)
	switch {
	case done:
		t.learned(ctx, o, driver.AnyVersion)
	case err != nil && t.Records == nil:
		t.Logger.Error("memory did not learn from turn", "session", o.Session, "run", o.Run, "agent", o.Agent, "error", err)
	case err != nil:
		t.Logger.Warn("memory did not learn from turn; a worker retries", "session", o.Session, "run", o.Run, "agent", o.Agent, "error", err)
	}
}

// learned deletes the record of a turn, of the version that was seen, and reports whether this process did.
func (t *Turns) learned(ctx context.Context, o *ended, seen int64) bool {
	if t.Records == nil {
		return true
	}
	err := t.Records.Delete(ctx, driver.LearnRecords, o.key(), seen)
	if err != nil && !errors.Is(err, cairn.ErrNotFound) && !errors.Is(err, cairn.ErrStale) {
		t.Logger.Warn("record of a learned turn not deleted; the memory learns from it again", "session", o.Session, "run", o.Run, "error", err)
	}
	return err == nil
}

// learn has the agent's memory learn from a turn. It reports whether nothing is left to do; if not, and err is nil, it is
// for another process, or later.
func (t *Turns) learn(ctx context.Context, o *ended) (done bool, err error) {
	a, known := t.Agents(o.Agent, o.Version)
	switch {
	case !known:
		return false, nil
	case a.Memory == nil:
		return true, nil
	}
	of, err := t.read(ctx, o)
	switch {
	case err != nil:
		return false, err
	case of == nil:
		return true, nil
	case of.Run.Status == cairn.RunRunning: // the commit that was to end it has failed, or is in progress
		return false, nil
	}
	var got gains
	of.Reread = func(ctx context.Context) (*cairn.Session, error) { return t.reread(ctx, o, of.Session) }
	of.Saved = func(id, text string) { got.add(step.Bill{}, journal.Saved(id, text)) }
	of.Ask = func(ctx context.Context, model cairn.Model, req *cairn.Request) (string, cairn.Usage, error) {
		if model == nil {
			model, _ = define.Model(a, of.Run.Model)
		}
		text, usage, err := t.Text(ctx, a, model, req, "the memory's model")
		got.add(usage)
		return text, usage.Usage, err
	}
	u := user.Code{What: "the memory", Err: cairn.ErrHook, Limit: cairn.LearnTimeout, Session: o.Session, Agent: o.Agent}
	_, err = user.Call(ctx, t.User, u, func(ctx context.Context) (none struct{}, err error) { return none, a.Memory.Learn(ctx, of) })
	usage, events := got.all()
	t.Learned(ctx, o.Session, usage, events...)
	return err == nil, err
}

// gains are the usage and the events of a call of Learn.
type gains struct {
	mu     sync.Mutex
	usage  step.Bill
	events []cairn.Event
}

func (g *gains) add(usage step.Bill, events ...cairn.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.usage = g.usage.Add(usage)
	if len(g.events) < maxSaved {
		g.events = append(g.events, events...)
	}
}

func (g *gains) all() (step.Bill, []cairn.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.usage, g.events
}

// maxSaved limits how many events one turn's memories have.
const maxSaved = 100

// read returns a turn by the run that ended it; nil if the session or the turn is gone, or the turn has not
// ended but waits.
func (t *Turns) read(ctx context.Context, o *ended) (*cairn.EndedTurn, error) {
	row, err := driver.Load(ctx, t.Store, o.Session)
	if errors.Is(err, cairn.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	of := &cairn.EndedTurn{Session: row}
	runs, from := map[string]bool{}, 0
	for id := o.Run; id != "" && !runs[id]; {
		run, err := driver.FindRun(ctx, t.Store, row.ID, id)
		if errors.Is(err, cairn.ErrNotFound) {
			if of.Run == nil {
				return nil, nil
			}
			break
		}
		if err != nil {
			return nil, err
		}
		if of.Run == nil {
			of.Run = run
		}
		runs[id], of.ID, from = true, id, run.FirstMessage
		id = run.PreviousRunID
	}
	if of.Run.Status == cairn.RunSuspended {
		return nil, nil
	}
	of.First = from
	of.Messages, err = t.messages(ctx, row.ID, from, runs)
	if err != nil || !slices.ContainsFunc(of.Messages, func(m cairn.Message) bool { return runs[m.RunID] }) {
		return nil, err // the session was rewound to before it
	}
	return of, nil
}

// reread returns the session of a turn, which was read before, as it is now; nil if the turn is no longer in it.
func (t *Turns) reread(ctx context.Context, o *ended, seen *cairn.Session) (*cairn.Session, error) {
	row, err := driver.Load(ctx, t.Store, o.Session)
	switch {
	case errors.Is(err, cairn.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case row.Incarnation == seen.Incarnation && row.Epoch == seen.Epoch:
		return row, nil
	}
	of, err := t.read(ctx, o)
	if of == nil {
		return nil, err
	}
	return of.Session, nil
}

// messages returns the messages of a session from an index on, up to the first one of a run that is not listed.
func (t *Turns) messages(ctx context.Context, session string, from int, runs map[string]bool) (list []cairn.Message, err error) {
	const page = 200
	for {
		more, err := driver.Messages(ctx, t.Store, session, from+len(list), page)
		if err != nil {
			return nil, err
		}
		for i := range more {
			if m := &more[i]; m.RunID != "" && !runs[m.RunID] {
				return list, nil
			}
			list = append(list, more[i])
		}
		if len(more) < page {
			return list, nil
		}
	}
}

// Pauses returns what a worker remembers between calls of [Turns.LearnRecorded].
func Pauses() *retry.Pauses { return &retry.Pauses{First: firstPause, Longest: longestPause} }

// LearnRecorded has the memories of this process's agents learn from the turns that are recorded and no longer young. The
// error says that the records could not be read.
func (t *Turns) LearnRecorded(ctx context.Context, pauses *retry.Pauses) error {
	for rec, err := range driver.All(func(cursor string) (driver.Page[driver.Record], error) {
		return t.Records.List(ctx, driver.RecordQuery{Namespace: driver.LearnRecords, Cursor: cursor})
	}) {
		if err != nil {
			return err
		}
		o := new(ended)
		if err := json.Unmarshal(rec.Value, o); err != nil || o.key() != rec.Key || rec.AsOf.Sub(rec.UpdatedAt) < young {
			continue // also one of a version to come; it expires
		}
		agent, now := "agent "+o.Agent, t.Now()
		if alone, away := pauses.Has(rec.Key, now), pauses.Has(agent, now); alone || away {
			continue
		}
		t.again(ctx, rec, o, pauses)
		if ctx.Err() != nil {
			return nil
		}
	}
	pauses.Tidy()
	return nil
}

// again makes a worker's attempt to learn from a turn.
func (t *Turns) again(ctx context.Context, rec *driver.Record, o *ended, pauses *retry.Pauses) {
	agent, late := "agent "+o.Agent, rec.AsOf.Sub(rec.UpdatedAt) >= learnFor
	done, err := t.learn(ctx, o)
	switch {
	case ctx.Err() != nil:
		return
	case done:
		if t.learned(ctx, o, rec.Version) {
			t.Logger.Info("memory is done with turn, late", "session", o.Session, "run", o.Run, "agent", o.Agent, "after", rec.AsOf.Sub(rec.UpdatedAt))
		}
		pauses.End(agent)
		return
	case err != nil && late:
		if t.learned(ctx, o, rec.Version) { // one process says so
			t.Logger.Error("giving up on learning from turn after a week", "session", o.Session, "run", o.Run, "agent", o.Agent, "error", err)
		}
		return
	case errors.Is(err, cairn.ErrUnavailable): // nor can the agent's memory learn from others
		pauses.Add(agent, t.Now())
	}
	pauses.Add(rec.Key, t.Now())
}
