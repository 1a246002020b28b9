package session

import (
	"encoding/json"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/ops"
	"github.com/cairn-agents/cairn/internal/turn/budget"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/store/driver"
)

// Drives makes this process work on the session's run, of which the last commit was at committed, by the session's
// clock. Events go to emit. Facts go to sink; nil keeps them in this process.
func (l *Live) Drives(emit *journal.Emitter, sink Sink, committed time.Time) {
	l.Emit, l.sink, l.lastCommit = emit, sink, committed
}

// Begins makes a run that was committed, and whose hooks have not run, the session's run. If it continues the suspended
// step, that is the step under way. The run's agent must be set.
func (l *Live) Begins(run *cairn.Run) {
	l.Run, l.unopened = run, true
	if st := l.NewStep(l.Row.Step + 1); l.Reopen(st) {
		l.Step = st
	}
}

// Unopened reports whether the hooks of the run's beginning have not run.
func (l *Live) Unopened() bool { return l.unopened }

// Opens records that the hooks of the run's beginning run now.
func (l *Live) Opens() { l.unopened = false }

// Agent returns the agent that drives the session, even if another version was registered since.
func (l *Live) Agent() *cairn.Agent { return l.agent }

// CallHooks returns the hooks of the call that began the run.
func (l *Live) CallHooks() *cairn.Hooks { return l.callHooks }

// LeftOut returns why tools that toolsets would offer, as pinned, are left out.
func (l *Live) LeftOut(pinned map[string]json.RawMessage) []error {
	_, problems := define.Offered(l.agent, l.extra, pinned)
	return problems
}

// Shared reports whether the run's effects may each be executed by another process, so that facts are kept for those.
func (l *Live) Shared() bool { return l.sink != nil }

// Accounts returns the budgets that model calls of the run must fit; ok is false if they are not known.
func (l *Live) Accounts() (list []budget.Account, ok bool) {
	return l.accounts, l.accountsOf != "" && l.accountsOf == l.Run.ID
}

// SetAccounts sets the budgets that model calls of the run must fit.
func (l *Live) SetAccounts(list []budget.Account) { l.accounts, l.accountsOf = list, l.Run.ID }

// Sink returns where facts of the run are kept: own, if they stay in this process.
func (l *Live) Sink(own Sink) Sink {
	if l.sink == nil {
		return own
	}
	return l.sink
}

// First returns the index of the first message in memory. Messages that a summary stands for are not here.
func (l *Live) First() int { return l.first }

// Known returns how many messages of the transcript so far are in memory.
func (l *Live) Known() int { return len(l.Messages) + len(l.deferred.Messages) }

// Index returns the index of the transcript so far.
func (l *Live) Index() *transcript.Index { return &l.index }

// Damaged reports whether the transcript has tool uses without a result.
func (l *Live) Damaged() bool { return l.damaged }

// Calls returns the rows of the suspended step's calls, as of the session's row. The caller does not modify them.
func (l *Live) Calls() []cairn.PendingCall { return l.calls }

// State returns the state, with the operations of finished steps applied.
func (l *Live) State() json.RawMessage { return l.doc.Raw() }

// CheckState checks the state, unless it has passed since it was loaded.
func (l *Live) CheckState(check func(json.RawMessage) error) error {
	if l.checked {
		return nil
	}
	err := check(l.doc.Raw())
	l.checked = err == nil
	return err
}

// Judges keeps the outcome of the step under way for its commit.
func (l *Live) Judges(out *Outcome) { l.judged = out }

// Judged returns the outcome of the step under way; nil if this process did not judge it.
func (l *Live) Judged() *Outcome { return l.judged }

// NextStep returns the number of the step after those that have ended.
func (l *Live) NextStep() int { return l.Row.Step + len(l.deferred.Steps) + 1 }

// Defers reports whether steps have ended since the last commit.
func (l *Live) Defers() bool { return len(l.deferred.Steps) > 0 }

// SinceCommit returns the time from the run's last commit to at.
func (l *Live) SinceCommit(at time.Time) time.Duration { return at.Sub(l.lastCommit) }

// Marks returns the events of what the step under way came to, and logs what parallel calls overwrote.
func (l *Live) Marks(out *Outcome) []cairn.Event {
	st := l.Step
	list := make([]cairn.Event, 0, 3)
	if len(out.Patch) > 0 {
		list = append(list, cairn.Event{Type: cairn.EventStatePatch, Step: st.Number, Patch: out.Patch, Conflicts: out.Conflicts})
	}
	for _, c := range out.Conflicts {
		out.Logger.Warn("a call's write to the state was overwritten by a parallel call", "session", l.Row.ID, "run", l.Run.ID, "step", st.Number,
			"path", c.Path, "lost", c.Lost, "won", c.Won)
	}
	if out.About != nil {
		data, _ := json.Marshal(out.About) // it was made of JSON
		list = append(list, cairn.Event{Type: cairn.EventContextChanged, Step: st.Number, Name: journal.SessionChanged, Data: data})
	}
	list = append(list, out.Warnings...)
	usage := out.Usage.Usage
	switch {
	case out.Counts:
		list = append(list, journal.Usage(st.Number, &usage, out.Usage.Entries))
	case Paid(usage): // the step leaves nothing else
		list = append(list, journal.Usage(0, &usage, out.Usage.Entries))
	}
	return list
}

// Paid reports whether a provider reported any usage.
func Paid(u cairn.Usage) bool { return u.InputTokens+u.OutputTokens+u.CostNanos > 0 }

// Ended publishes the marks of the step under way, whose commit is deferred, as live events. It returns what is kept of
// the step.
func (l *Live) Ended(out *Outcome) *step.Ended {
	for _, ev := range l.Marks(out) {
		l.Emit.Event(ev)
	}
	e := &step.Ended{Messages: out.Messages, Ops: out.Ops, Usage: out.Usage, About: out.About}
	e.Cache, e.CacheDrop = l.results.Writes()
	return e
}

// Loses counts the usage of a model call that was cut because the run was released.
func (l *Live) Loses(used step.Bill) { l.lost = l.lost.Add(used) }

// KeepsAlone says which reply only this process has; nil if another lease holder would find it in the store.
func (l *Live) KeepsAlone(r *step.Reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unkept = r
}

// Alone returns the reply of the step in progress that only this process has, or nil.
func (l *Live) Alone() *step.Reply {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Step == nil || l.Step.Reply != l.unkept {
		return nil
	}
	return l.unkept
}

// Unrecorded returns what models were paid for work of the run that is lost with this process.
func (l *Live) Unrecorded() step.Bill {
	sum := l.lost.Add(l.deferred.Paid)
	if l.unkept != nil && l.Step != nil && l.Step.Reply == l.unkept {
		sum = sum.Add(l.unkept.Usage)
	}
	return sum
}

// RunUsage returns the usage of the run, with that of the step under way.
func (l *Live) RunUsage(out *Outcome) cairn.Usage {
	return l.Row.RunUsage.Add(l.deferred.Usage.Usage).Add(out.Usage.Usage)
}

// Due returns what the next commit has of the deferred steps and of the step under way.
func (l *Live) Due(out *Outcome) Deferred {
	d := Deferred{Messages: out.Messages, Ops: append(l.deferred.Ops, out.Ops...), Usage: l.deferred.Usage.Add(out.Usage),
		About: l.deferred.About.Then(out.About), Steps: l.deferred.Steps}
	if len(l.deferred.Messages) > 0 {
		d.Messages = append(l.deferred.Messages, out.Messages...)
	}
	if out.Counts {
		d.Steps = append(d.Steps, l.Step.Number)
	}
	return d
}

// CacheWrites returns the changes of the tool-result cache that the next commit writes.
func (l *Live) CacheWrites() (puts []driver.CacheEntry, drops []string) { return l.results.Writes() }

// Committed takes over what a commit of the step under way, and of those deferred before it, has written: the row, as
// of here, a time of this process, and the messages. at is when the commit was worked out, by the session's clock.
func (l *Live) Committed(row *cairn.Session, here time.Time, messages []cairn.Message, at time.Time) {
	l.Sees(row, here)
	l.Append(messages)
	l.deferred, l.Step, l.judged = Deferred{}, nil, nil
	l.lastCommit = at
	l.results.Written()
}

// DropsDeferred forgets the steps that have ended since the last commit.
func (l *Live) DropsDeferred() { l.deferred = Deferred{} }

// Spoils takes over the row of a commit that does not have the steps that are here. The session is of no use after it.
func (l *Live) Spoils(row *cairn.Session, here time.Time) {
	l.Sees(row, here)
	l.spoiled = true
}

// Spoiled reports whether what is here differs from what was committed.
func (l *Live) Spoiled() bool { return l.spoiled }

// Rebase takes over what other writers did to the session, with the uncommitted operations on top. It returns the
// operations that still fit, and calls dropped for each of the others.
func (l *Live) Rebase(snap *driver.Contents, here time.Time, list []cairn.Op, dropped func(error)) (fitting []cairn.Op, err error) {
	doc, err := ops.NewDoc(snap.State)
	if err != nil {
		return nil, cairn.Errorf(cairn.ErrCorrupt, "session %q: stored state: %w", l.Row.ID, err)
	}
	for _, op := range list {
		if _, err := doc.Apply([]cairn.Op{op}); err != nil {
			dropped(err)
			continue
		}
		fitting = append(fitting, op)
	}
	l.Sees(snap.Session, here)
	l.calls = snap.Calls
	l.results.Lost(snap.Cache)
	if l.Step.Carried || l.Step.Budget != nil {
		l.Step.Attach(l.calls)
	}
	if err := l.Load(doc.Raw(), snap.Messages); err != nil {
		return nil, err
	}
	l.doc = doc
	return fitting, nil
}
