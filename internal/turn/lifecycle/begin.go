package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/inbox"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/retry"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/internal/turn/user"
	"github.com/cairn-agents/cairn/store"
)

// BeginIn asks for a new run.
type BeginIn struct {
	SessionID string
	// Agent is the agent's name; empty for a session that exists.
	Agent string
	// Known is the agent itself, if a run under way has it from its own; nil for the one that is registered.
	Known *cairn.Agent
	Kind  cairn.RunKind
	// Model names the model that the run asks; nil for the agent's own or, of a run that continues another, that one's.
	Model    *string
	RunID    string
	Messages []cairn.Message
	// Create holds the context of a session that is to be made if it does not exist; nil means that it must.
	Create *cairn.Session
	// Hooks are called beside those of the engine and the agent, as long as this process drives the run.
	Hooks *cairn.Hooks
	// Dequeue are the turns of the session's queue that this one takes out of it.
	Dequeue []string
	// Child says that the session's parent asks; nobody else may.
	Child bool
	// Paused says that the session must wait, or have died while it ran: not that it was stopped meanwhile.
	Paused bool
	// Withdraw says that an Execute may end the session's wait, as long as none of the calls is answered. The open ones
	// are closed as not executed.
	Withdraw bool
	// Replaces is a run of the session that this one takes the place of: the session goes back to where that began, in the
	// same write. The session must neither run nor wait.
	Replaces string
	// Version is the version that the session must have then; 0 for any.
	Version int64
	// LogLast is the log's last sequence as far as known, for a session of a tree: its own process may know an earlier one.
	LogLast int64
}

// DiedError says that a session's run is to be recovered rather than resumed: its process has died.
type DiedError struct{ SessionID string }

// Error names the session.
func (e *DiedError) Error() string {
	return "session \"" + e.SessionID + "\": the process that ran it is gone"
}

// Unwrap makes it an ErrStale: the session is not as it was.
func (e *DiedError) Unwrap() error { return cairn.ErrStale }

// beginTries bounds how often a begin starts over because the session changed under it.
const beginTries = 16

// Begin starts a run: one write that takes the lease, records the run and adds its messages. A session that this
// process drove last costs no read.
func (r *Runs) Begin(ctx context.Context, in BeginIn) (turn.Begun, error) {
	defer r.Cache.Expect(in.SessionID, in.RunID)() // others see the run before this process has it in memory
	l, err := r.tryBegin(ctx, in)
	return r.part(ctx, l, err)
}

func (r *Runs) tryBegin(ctx context.Context, in BeginIn) (*session.Live, error) {
	if in.Replaces != "" {
		return r.replace(ctx, in)
	}
	known, current := r.Cache.Take(in.SessionID)
	if current {
		err := r.begin(ctx, known, in)
		if !r.outdated(err) && !refused(err) {
			return known, err
		}
	} else if known == nil && in.Create != nil {
		l, err := r.create(ctx, in)
		if !errors.Is(err, cairn.ErrExists) {
			return l, err
		}
	}
	var err error
	for range beginTries {
		var l *session.Live
		if l, err = r.read(ctx, in.SessionID, known); err != nil {
			if errors.Is(err, cairn.ErrNotFound) && in.Create != nil {
				return r.create(ctx, in)
			}
			return nil, err
		}
		err = r.begin(ctx, l, in)
		if erased := in.Create != nil && errors.Is(err, cairn.ErrNotFound); !erased && !r.outdated(err) {
			return l, err
		}
	}
	return nil, err
}

// outdated reports whether a begin failed because the session in memory is not the one in the store: it changed, or is
// another one of that id, or another process ran it since and crashed.
func (r *Runs) outdated(err error) bool {
	if died := (*DiedError)(nil); errors.As(err, &died) {
		return false
	}
	if seen := store.Seen(err); seen != nil && errors.Is(err, cairn.ErrAlreadyRunning) {
		return seen.Crashed(seen.AsOf)
	}
	return errors.Is(err, cairn.ErrStale) || errors.Is(err, cairn.ErrFenced)
}

// refused reports whether a begin failed over what the session is like, or because it is gone. If that was said of a
// session in memory, the store has the last word.
func refused(err error) bool {
	for _, target := range []error{cairn.ErrNotResumable, cairn.ErrState, cairn.ErrInvalid, cairn.ErrNotFound, cairn.ErrNotRunning, cairn.ErrWaiting} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// read loads a session that this process does not have in memory as it is, but perhaps as it was.
func (r *Runs) read(ctx context.Context, id string, known *session.Live) (*session.Live, error) {
	var err error
	if known != nil {
		if known, err = known.Fork(); err != nil { // others may be copying it
			return nil, err
		}
		known.Run = nil
	}
	l, snap, err := r.Refresh(ctx, id, "", known)
	if err != nil {
		return nil, err
	}
	l.LogIncomplete = snap.Session.Status != cairn.SessionActive
	_, l.LogLast, err = r.Log.Bounds(ctx, snap.Session.Log())
	return l, err
}

// Create begins the first run of a session that should not exist yet. The error is ErrExists if it does.
func (r *Runs) Create(ctx context.Context, in BeginIn) (turn.Begun, error) {
	l, err := r.create(ctx, in)
	return r.part(ctx, l, err)
}

// create begins the first run of a session that should not exist yet.
func (r *Runs) create(ctx context.Context, in BeginIn) (*session.Live, error) {
	a, err := r.agentOf(ctx, nil, &in)
	if err != nil {
		return nil, err
	}
	c := r.beginning(in, a, in.LogLast)
	if c.StartRun.Model, err = r.modelOf(ctx, a, nil, &in); err != nil {
		return nil, err
	}
	c.Guard = store.Guard{New: true}
	c.Create = in.Create
	if a.State != nil {
		c.InitialState = a.State.Initial()
	}
	row, err := r.commitBegin(ctx, in.SessionID, c)
	if errors.Is(err, cairn.ErrAlreadyRunning) {
		return nil, store.Conflict(cairn.CodeExists, store.Seen(err), "session %q already exists", in.SessionID)
	}
	if err != nil {
		return nil, err
	}
	if row.Version != 1 { // our own commit, whose answer was lost, came first
		return nil, store.Conflict(cairn.CodeExists, row, "session %q already exists", in.SessionID)
	}
	session.Dated(c.Messages, row)
	messages := append(make([]cairn.Message, 0, max(4, len(c.Messages))), c.Messages...)
	l, err := session.New(&store.Contents{Session: row, State: c.InitialState, Messages: messages}, r.Now())
	if err != nil {
		return nil, err
	}
	l.LogLast = in.LogLast
	r.started(ctx, a, l, c, in.Hooks)
	return l, nil
}

// agentOf returns the agent that a run is to have; l is nil for the first run of a session. The run before is looked up only
// if its version counts.
func (r *Runs) agentOf(ctx context.Context, l *session.Live, in *BeginIn) (*cairn.Agent, error) {
	if in.Known != nil {
		return in.Known, nil
	}
	a, err := r.Agent(in.Agent, "")
	if err != nil || a.Version == "" || l == nil || l.Row.RunID == "" || in.Kind == cairn.RunExecute && !a.KeepVersion {
		return a, err
	}
	run, err := r.lastRun(ctx, l)
	if err != nil {
		return nil, err
	}
	return r.Agent(in.Agent, run.AgentVersion)
}

// agentOfRun returns the agent of a session's last run.
func (r *Runs) agentOfRun(ctx context.Context, row *cairn.Session) (*cairn.Agent, error) {
	a, err := r.Agent(row.Agent, "")
	if err != nil || a.Version == "" {
		return a, err
	}
	run, err := store.FindRun(ctx, r.Store, row.ID, row.RunID)
	if err != nil {
		return nil, err
	}
	return r.Agent(row.Agent, run.AgentVersion)
}

// lastRun returns the record of a session's last run.
func (r *Runs) lastRun(ctx context.Context, l *session.Live) (*cairn.Run, error) {
	if l.Run != nil && l.Run.ID == l.Row.RunID {
		return l.Run, nil
	}
	return store.FindRun(ctx, r.Store, l.Row.ID, l.Row.RunID)
}

// modelOf names the model that a run asks; l is nil for the first run of a session. The run before is looked up only if its
// model counts.
func (r *Runs) modelOf(ctx context.Context, a *cairn.Agent, l *session.Live, in *BeginIn) (string, error) {
	name := ""
	switch {
	case in.Model != nil:
		name = *in.Model
	case in.Kind == cairn.RunExecute || len(a.Models) == 0 || l == nil || l.Row.RunID == "":
	default:
		run, err := r.lastRun(ctx, l)
		if err != nil {
			return "", err
		}
		name = run.Model
	}
	if _, known := define.Model(a, name); !known { // by now
		r.Logger.Warn("the agent has no model of that name; the run asks its own", "session", in.SessionID, "agent", a.Name, "model", name)
		name = ""
	}
	return name, nil
}

// beginning is the part of the commit that every new run has in common.
func (r *Runs) beginning(in BeginIn, a *cairn.Agent, start int64) *store.Commit {
	r.stamp(in.Messages, in.RunID)
	return &store.Commit{
		StartRun: &cairn.Run{ID: in.RunID, Agent: in.Agent, AgentVersion: a.Version, Kind: in.Kind, Status: cairn.RunRunning, StartSequence: start},
		Messages: in.Messages, Status: cairn.SessionActive, LogSequence: start, Dequeue: in.Dequeue, Published: true,
		Lease: store.LeaseChange{Action: store.LeaseTake, Owner: r.Owner, TTL: r.LeaseTTL},
	}
}

// stamp says of messages which run brings them. When, says the commit.
func (r *Runs) stamp(list []cairn.Message, runID string) []cairn.Message {
	for i := range list {
		m := &list[i]
		m.RunID, m.CreatedAt = runID, time.Time{}
		if m.ID == "" {
			m.ID = runID + "/in" + strconv.Itoa(i)
		}
	}
	return list
}

// begin starts a run on a session in memory. On an error the caller forgets the session.
func (r *Runs) begin(ctx context.Context, l *session.Live, in BeginIn) error {
	row := l.Row
	l.LogLast = max(l.LogLast, in.LogLast)
	a, crashed, err := r.admit(ctx, l, &in)
	if err != nil {
		return err
	}
	last, err := r.Publish(ctx, row)
	if err != nil {
		return err
	}
	l.LogLast = max(l.LogLast, last)
	if row.SuspendedStep == "" {
		in.Messages = append(openers(l, in), in.Messages...)
	}
	c := r.beginning(in, a, l.LogLast)
	if c.StartRun.Model, err = r.modelOf(ctx, a, l, &in); err != nil {
		return err
	}
	if row.SuspendedStep != "" {
		if err := r.goOn(ctx, l, c, in.Kind); err != nil {
			return err
		}
	}
	// The token says which of the sessions that had this id one after the other it is.
	c.Guard = store.Guard{Token: row.Lease.Token, Version: row.Version, Idle: !crashed, Lapsed: crashed}
	if in.Kind != cairn.RunExecute {
		c.StartRun.PreviousRunID = row.RunID
	}
	if crashed {
		if c.EndRun, err = r.crashedRun(ctx, row); err != nil {
			return err
		}
		c.StartRun.Abandoned = c.EndRun.ID
		c.DropStaged = true
	}
	owed, err := r.leaves(ctx, c, row.ID)
	if err != nil {
		return err
	}
	begun, err := r.commitBegin(ctx, row.ID, c)
	if err != nil {
		return err
	}
	l.Sees(begun, r.Now())
	l.Append(c.Messages)
	l.Wrote(c.Calls)
	c.StartRun.FirstMessage = row.MessageCount
	r.closePast(ctx, a, l, row, c, crashed)
	r.Deliver(ctx, owed)
	r.started(ctx, a, l, c, in.Hooks)
	if len(c.Messages) > 0 && c.Messages[0].Origin == cairn.OriginWithdrawn {
		for _, ev := range journal.Results(0, c.Messages[:1]) {
			l.Emit.Event(ev)
		}
	}
	return nil
}

// admit checks that a run may begin on a session in memory, and returns the agent that it is to have and whether the
// last run's process has died.
func (r *Runs) admit(ctx context.Context, l *session.Live, in *BeginIn) (a *cairn.Agent, crashed bool, err error) {
	row := l.Row
	if in.Agent == "" {
		in.Agent = row.Agent
	}
	if row.ParentID != "" && !in.Child {
		return nil, false, cairn.Invalid("session", "%q belongs to a sub-agent; its root is %q", row.ID, row.RootID)
	}
	if in.Agent != row.Agent {
		return nil, false, cairn.Invalid("agent", "session %q belongs to agent %q, not %q", row.ID, row.Agent, in.Agent)
	}
	a, err = r.agentOf(ctx, l, in)
	if err != nil {
		return nil, false, err
	}
	if a.State != nil && !l.Checked {
		if err := r.checkState(ctx, a, l.Doc.Raw()); err != nil {
			return nil, false, cairn.Errorf(cairn.CodeState, "session %q: %w", row.ID, err)
		}
		l.Checked = true
	}
	crashed = row.Crashed(row.AsOf)
	if crashed {
		if err := r.Kept(ctx, row); err != nil {
			return nil, false, err
		}
	}
	if in.Paused && row.Status != cairn.SessionPaused && !crashed {
		return nil, false, store.Conflict(cairn.CodeNotRunning, row, "session %q is not waiting, it is %s", row.ID, row.Status)
	}
	if err := r.allowed(ctx, row, in.Kind, crashed); err != nil {
		return nil, false, err
	}
	if in.Kind == cairn.RunExecute && !in.Child {
		if err := r.lets(ctx, l, in.Withdraw, crashed); err != nil {
			return nil, false, err
		}
	}
	if crashed && in.Kind == cairn.RunResume && len(in.Messages) == 0 && in.Model == nil {
		return nil, false, &DiedError{SessionID: row.ID}
	}
	return a, crashed, nil
}

// closePast closes what the runs before one that has begun left behind: marks that the log lacks, and sub-agents that no
// run waits for any more. row is the session as it was before. It does not end with ctx, as the run has begun. What fails here
// readers and workers do later.
func (r *Runs) closePast(ctx context.Context, a *cairn.Agent, l *session.Live, row *cairn.Session, c *store.Commit, crashed bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.LeaseTTL)
	defer cancel()
	if l.LogIncomplete {
		if err := r.completeTree(ctx, a, row); err != nil {
			r.Logger.Warn("the log of an earlier run was not completed; a reader will do it", "session", row.ID, "run", row.RunID, "error", err)
		}
		l.LogIncomplete = false
	}
	if crashed || row.SuspendedStep != "" && c.StartRun.Kind != cairn.RunResume {
		// Only now: should this process die, a process that takes the new run over does it, but nobody would resume a session
		// that waits for sub-agents that were ended.
		if err := r.reapPast(ctx, row); err != nil {
			r.Logger.Warn("sub-agents of an earlier run still wait", "session", row.ID, "run", row.RunID, "error", err)
		}
	}
	if crashed { // only now is the dead process fenced off, should it still live
		p := pastOf(row, c.EndRun)
		p.End, p.Fresh, p.token = true, true, l.Row.Lease.Token
		var err error
		if row.Step == 0 { // it may have died before it published those before it
			err = r.completeEnds(ctx, l.Row, row.Turn-1)
		}
		if err == nil {
			l.LogLast, err = r.reconcile(ctx, row, p)
		}
		if err != nil {
			r.Logger.Warn("the log of a dead run was not completed; a reader will do it", "session", row.ID, "run", row.RunID, "error", err)
		}
	}
}

// reapPast ends the sub-agents that the wait of a session left behind. On the log they end within the calls that consulted them,
// whose ends are published next: so the ends of those that another process has just ended are published first, too.
func (r *Runs) reapPast(ctx context.Context, row *cairn.Session) error {
	return retry.Storage(ctx, r.Logger, func() error {
		if err := r.ReapChildren(ctx, row, time.Time{}); err != nil {
			return err
		}
		return r.CompleteBelow(ctx, row, row.UpdatedAt)
	})
}

// checkState reports whether a stored state is of the agent's type, which may decode itself.
func (r *Runs) checkState(ctx context.Context, a *cairn.Agent, raw json.RawMessage) error {
	u := user.Code{What: "the state type", Err: cairn.CodeState, Limit: r.HookTimeout, Agent: a.Name}
	_, err := user.Call(ctx, &r.User, u, func(context.Context) (struct{}, error) { return struct{}{}, a.State.Check(raw) })
	return err
}

// commitBegin writes the beginning of a run. Once it is under way it does not end with ctx: a run that was begun but
// that nobody drives would hold the session until its lease runs out.
func (r *Runs) commitBegin(ctx context.Context, id string, c *store.Commit) (*cairn.Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.LeaseTTL)
	defer cancel()
	row, err := r.Store.Commit(ctx, id, c)
	if ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
		return nil, cairn.Errorf(cairn.CodeUnavailable, "session %q: the run could not be begun within %s: %w", id, r.LeaseTTL, err)
	}
	if err == nil && (row.RunID != c.StartRun.ID || row.Lease.Owner != r.Owner) { // a run of a given id was begun before
		return nil, store.Conflict(cairn.CodeRunning, row, "session %q: another process has begun run %q", id, c.StartRun.ID)
	}
	return row, err
}

// goOn adds to the commit that begins a run what becomes of the step that waits: a resume expires what is overdue and
// carries the step on, any other run cancels the wait.
func (r *Runs) goOn(ctx context.Context, l *session.Live, c *store.Commit, kind cairn.RunKind) error {
	if kind != cairn.RunResume {
		messages := c.Messages
		c.Messages = nil
		if err := r.CancelCalls(ctx, c, l.Row, l.Messages, l.Calls, Leaving, WentOn); err != nil {
			return err
		}
		c.Messages = append(c.Messages, messages...)
		return nil
	}
	for _, call := range l.Calls {
		if now := l.Row.AsOf; call.Overdue(now) {
			c.Calls = append(c.Calls, store.CallWrite{Call: inbox.Expire(call, now), Seen: call.Version})
		}
	}
	return nil
}

// allowed says whether a run of some kind may begin on a session.
func (r *Runs) allowed(ctx context.Context, row *cairn.Session, kind cairn.RunKind, crashed bool) error {
	if row.Status == cairn.SessionActive && !crashed {
		return store.Conflict(cairn.CodeRunning, row, "session %q is already running", row.ID)
	}
	switch kind {
	case cairn.RunResume:
		if ok, why := Resumable(row); !ok {
			return cairn.Errorf(cairn.CodeNotResumable, "session %q cannot be resumed: %s", row.ID, why)
		}
		if row.Status == cairn.SessionPaused {
			what, err := r.WaitsFor(ctx, row)
			if err == nil && what != "" {
				err = cairn.Errorf(cairn.CodeNotResumable, "session %q cannot be resumed: it waits for %s", row.ID, what)
			}
			return err
		}
	case cairn.RunRetry:
		if row.Status != cairn.SessionFailed {
			return cairn.Errorf(cairn.CodeNotResumable, "session %q cannot be retried: it is %s, not failed", row.ID, row.Status)
		}
	}
	return nil
}

// Resumable says whether a session that nobody drives can be resumed, or why not.
func Resumable(row *cairn.Session) (ok bool, why string) {
	switch row.Status {
	case cairn.SessionInterrupted, cairn.SessionPaused, cairn.SessionActive:
		return true, ""
	case cairn.SessionFailed:
		return false, "its last run failed; retry it"
	case cairn.SessionIdle:
		if row.MessageCount > 0 {
			return true, ""
		}
		return false, "it has no messages yet"
	}
	return false, "its last run completed; execute the next turn"
}

// openers are the messages a run puts ahead of its own: answers to calls that were left open, and, where a run is to go
// on from a reply, words that ask for it, because a model expects another party to have spoken last.
func openers(l *session.Live, in BeginIn) []cairn.Message {
	var list []cairn.Message
	if l.Damaged {
		if m := transcript.Closing(l.Messages); m != nil {
			list = append(list, *m)
		}
	}
	if len(in.Messages)+len(list) > 0 || len(l.Messages) == 0 {
		return list
	}
	if l.Messages[len(l.Messages)-1].Role == cairn.RoleAssistant {
		list = append(list, cairn.Context("Continue where you stopped."))
	}
	return list
}

// started makes a session driven, once its run is recorded.
func (r *Runs) started(ctx context.Context, a *cairn.Agent, l *session.Live, c *store.Commit, hooks *cairn.Hooks) {
	run := c.StartRun
	run.SessionID, run.Turn, run.StartedAt = l.Row.ID, l.Row.Turn, l.Row.UpdatedAt
	l.Run = run
	r.Drives(l, a, hooks)
	l.LastCommit = l.Row.UpdatedAt
	l.Emit = r.Journal.Emitter(ctx, l.Row, run.ID, l.LogLast)
	l.Drives(run.ID)
	r.Cache.Drive(l)
	l.Emit.Together(journal.Begin(run, l.Row.MessageCount, c.Messages))
	l.Unopened = true
	if l.Row.SuspendedStep == "" {
		return
	}
	if st := l.NewStep(l.Row.Step + 1); l.Reopen(st) {
		l.Step = st
		l.Emit.Event(journal.StepStart(st.Number))
	}
}

// Evict drops what is kept in memory of the sessions of a tree that nobody drives.
func (r *Runs) Evict(root string) { r.Cache.Evict(root) }

// Forget drops a session that is no longer driven here without having come to an end.
func (r *Runs) Forget(at turn.Position) { r.Cache.Forget(at) }

// part returns a run that was begun or recovered, and releases its session if its effects are remote. By now this
// process may have taken the run over from itself.
func (r *Runs) part(ctx context.Context, l *session.Live, err error) (turn.Begun, error) {
	if err != nil || l == nil {
		return turn.Begun{}, err
	}
	b := l.Begun()
	if !r.Remote {
		return b, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.LeaseTTL)
	defer cancel()
	r.Cache.Drop(l)
	defer l.Emit.Close()
	if err := l.Emit.Flush(ctx); err != nil {
		r.Logger.Warn("the beginning of a run was not written to the event log; its first effect will", "session", b.SessionID, "run", b.RunID, "error", err)
	}
	l.LogLast = l.Emit.Position()
	base, err := l.Fork()
	if err != nil {
		return turn.Begun{}, err
	}
	r.Cache.Keep(base)
	return b, nil
}

// Refresh returns the session as the store has it, and what was read of it, with a run if one is named. Of a session that this
// process has known, a copy of its own, it reads the messages since only.
func (r *Runs) Refresh(ctx context.Context, id, runID string, known *session.Live) (*session.Live, *store.Contents, error) {
	read := func(from int) (*store.Contents, error) {
		want := store.ToDrive(from)
		want.Run = runID
		return r.Store.Read(ctx, id, want)
	}
	if known != nil {
		snap, err := read(known.End())
		if err != nil {
			return nil, nil, err
		}
		if known.GrewInto(snap.Session) {
			return known, snap, known.Grow(snap, r.Now())
		}
	}
	snap, err := read(0)
	if err != nil {
		return nil, nil, err
	}
	l, err := session.New(snap, r.Now())
	return l, snap, err
}
