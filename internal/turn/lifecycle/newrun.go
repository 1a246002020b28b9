package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/retry"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/internal/turn/user"
	"github.com/cairn-agents/cairn/store/driver"
)

// NewRun is the input of every verb that begins a run. [Turn] and [Resumption] add their own fields.
type NewRun struct {
	SessionID string
	RunID     string
	// Messages are added to the transcript by the begin.
	Messages []cairn.Message
	// Model names the run's model. Nil means the agent's own or, for a run that continues another, that run's model.
	Model *string
	// TraceParent is the trace context of the caller; empty for none.
	TraceParent string
	// Hooks are called after those of the engine and the agent, while this process drives the run.
	Hooks *cairn.Hooks
	// Child is set if the session's parent begins the run. No other caller may run a child.
	Child bool
	// Background is set for a companion that its parent does not wait for. A run that continues another inherits it.
	Background bool
	// Owner is the user that an existing session must belong to. Nil means any.
	Owner *string
	// Known is the agent, if the caller has it from a run under way. Nil means the registered one.
	Known *cairn.Agent
	// LogLast is a lower bound of the log's last sequence. The process that drives a tree may know a later one than the
	// session has.
	LogLast int64
}

// beginning is a run before its first write. The steps of a verb set its fields, in their order.
type beginning struct {
	*NewRun
	kind  cairn.RunKind
	agent *cairn.Agent
	live  *session.Live
	// row is the session before the run.
	row    *cairn.Session
	commit *driver.Commit
}

// admit makes the checks for every run on an existing session: its owner, its agent and its state, and that no run
// holds it.
func (r *Runs) admit(ctx context.Context, l *session.Live, in *NewRun, agent string, kind cairn.RunKind) (*beginning, error) {
	b := &beginning{NewRun: in, kind: kind, live: l, row: l.Row}
	row := b.row
	if err := in.mayBegin(row); err != nil {
		return nil, err
	}
	if agent != "" && agent != row.Agent {
		return nil, cairn.Invalid("agent", "session %q belongs to agent %q, not %q", row.ID, row.Agent, agent)
	}
	if err := r.chooseAgent(ctx, b); err != nil {
		return nil, err
	}
	if b.agent.State != nil {
		if err := l.CheckState(func(raw json.RawMessage) error { return r.checkState(ctx, b.agent, raw) }); err != nil {
			return nil, cairn.Errorf(cairn.ErrState, "session %q: %w", row.ID, err)
		}
	}
	return b, r.vacant(ctx, b)
}

// mayBegin returns the error of a caller that may not begin runs on a session.
func (in *NewRun) mayBegin(row *cairn.Session) error {
	if err := CheckOwner(row, in.Owner); err != nil {
		return err
	}
	if row.ParentID != "" && !in.Child {
		return cairn.Invalid("session", "%q belongs to a sub-agent; its root is %q", row.ID, row.RootID)
	}
	return nil
}

// foreignError is the ErrNotFound of a session that exists and belongs to another user.
type foreignError struct{ error }

// Unwrap returns the error of a session that does not exist.
func (e foreignError) Unwrap() error { return e.error }

// CheckOwner returns ErrNotFound, as for a session that does not exist, if owner is not nil and the session belongs to
// another user.
func CheckOwner(row *cairn.Session, owner *string) error {
	if owner == nil || row.UserID == *owner {
		return nil
	}
	return foreignError{driver.NotFound(row.ID)}
}

// vacant returns ErrAlreadyRunning if a process or a host drives the session, and a DiedError if the process that drove
// it has died: its run is taken over, never replaced.
func (r *Runs) vacant(ctx context.Context, b *beginning) error {
	row := b.row
	switch {
	case row.Status != cairn.SessionActive:
		return nil
	case row.Crashed(row.AsOf):
		if err := r.CheckKeeper(ctx, row); err != nil {
			return err
		}
		return &DiedError{SessionID: row.ID}
	}
	e := cairn.Errorf(cairn.ErrAlreadyRunning, "session %q is already running", row.ID)
	e.RetryAfter = cairn.Duration(max(0, row.Lease.Until.Sub(b.live.Now(r.Now()))))
	return &driver.ConflictError{Err: e, Session: row}
}

// chooseAgent sets the run's agent. It reads the previous run only if that run's version decides.
func (r *Runs) chooseAgent(ctx context.Context, b *beginning) (err error) {
	if b.Known != nil {
		b.agent = b.Known
		return nil
	}
	a, err := r.Agent(b.row.Agent, "")
	if err == nil && a.Version != "" && b.row.RunID != "" && (b.kind != cairn.RunExecute || a.KeepVersion) {
		var last *cairn.Run
		if last, err = r.lastRun(ctx, b); err == nil {
			a, err = r.Agent(b.row.Agent, last.AgentVersion)
		}
	}
	b.agent = a
	return err
}

// agentOfRun returns the agent of a session's last run.
func (r *Runs) agentOfRun(ctx context.Context, row *cairn.Session) (*cairn.Agent, error) {
	a, err := r.Agent(row.Agent, "")
	if err != nil || a.Version == "" {
		return a, err
	}
	run, err := driver.FindRun(ctx, r.Store, row.ID, row.RunID)
	if err != nil {
		return nil, err
	}
	return r.Agent(row.Agent, run.AgentVersion)
}

// lastRun returns the record of the session's run before this one.
func (r *Runs) lastRun(ctx context.Context, b *beginning) (*cairn.Run, error) {
	if run := b.live.Run; run != nil && run.ID == b.row.RunID {
		return run, nil
	}
	return driver.FindRun(ctx, r.Store, b.row.ID, b.row.RunID)
}

// CheckState returns an error unless a state decodes as the state type of the agent that the session's next run would
// have.
func (r *Runs) CheckState(ctx context.Context, row *cairn.Session, raw json.RawMessage) error {
	a, err := r.Agent(row.Agent, "")
	if err == nil && row.RunID != "" && (row.Status != cairn.SessionCompleted || a.KeepVersion) {
		a, err = r.agentOfRun(ctx, row)
	}
	if err != nil || a.State == nil {
		return err
	}
	if err := r.checkState(ctx, a, raw); err != nil {
		return &cairn.Error{Code: cairn.ErrState, Field: "state", Message: fmt.Sprintf("agent %q: %v", row.Agent, err)}
	}
	return nil
}

// checkState reports whether a stored state is of the agent's type, which may decode itself.
func (r *Runs) checkState(ctx context.Context, a *cairn.Agent, raw json.RawMessage) error {
	u := user.Code{What: "the state type", Err: cairn.ErrState, Limit: r.HookTimeout, Agent: a.Name}
	_, err := user.Call(ctx, &r.User, u, func(context.Context) (struct{}, error) { return struct{}{}, a.State.Check(raw) })
	return err
}

// draft makes the part of the run's first commit that all verbs have in common.
func (r *Runs) draft(ctx context.Context, b *beginning) (err error) {
	l, row := b.live, b.row
	messages := b.Messages
	switch {
	case row.SuspendedStep == "":
		messages = append(openers(l, messages), messages...)
	case b.kind == cairn.RunResume:
		messages = nil // see join
	}
	b.commit = r.first(b, row.Agent, messages, max(row.LogSequence, b.LogLast))
	// The fencing token distinguishes successive sessions of this id.
	b.commit.Guard = driver.Guard{Token: row.Lease.Token, Version: row.Version, Idle: true}
	if b.kind != cairn.RunExecute {
		b.commit.StartRun.PreviousRunID = row.RunID
		if row.Kind == cairn.ChildCompanion {
			last, err := r.lastRun(ctx, b)
			if err != nil {
				return err
			}
			b.commit.StartRun.Background = last.Background
		}
	}
	b.commit.StartRun.Model, err = r.chooseModel(ctx, b)
	return err
}

// first returns the part of the commit that all new runs have in common. start is a sequence that the log has.
func (r *Runs) first(b *beginning, agent string, messages []cairn.Message, start int64) *driver.Commit {
	stamp(messages, b.RunID)
	return &driver.Commit{
		StartRun: &cairn.Run{ID: b.RunID, Agent: agent, AgentVersion: b.agent.Version, Kind: b.kind, Status: cairn.RunRunning, StartSequence: start,
			Background: b.Background, TraceParent: b.TraceParent},
		Messages: messages, Status: cairn.SessionActive, LogSequence: start,
		Lease: driver.LeaseChange{Action: driver.LeaseTake, Owner: r.Owner, TTL: r.LeaseTTL},
	}
}

// chooseModel returns the name of the run's model. It reads the previous run only if that run's model decides.
func (r *Runs) chooseModel(ctx context.Context, b *beginning) (string, error) {
	name := ""
	switch {
	case b.Model != nil:
		name = *b.Model
	case b.row == nil || len(b.agent.Models) == 0:
	case b.kind == cairn.RunExecute || b.row.RunID == "":
		if b.row.Branch != nil {
			name = b.row.Branch.Model
		}
	default:
		run, err := r.lastRun(ctx, b)
		if err != nil {
			return "", err
		}
		name = run.Model
	}
	if _, known := define.Model(b.agent, name); !known { // the agent may have changed since the name was chosen
		r.Logger.Warn("unknown model; the run uses the agent's own", "session", b.SessionID, "agent", b.agent.Name, "model", name)
		name = ""
	}
	return name, nil
}

// openers returns the messages that come before a run's own: results of calls that were left open and, if the
// transcript would end with a reply, a request to continue, since a model expects that another party has spoken last.
func openers(l *session.Live, own []cairn.Message) []cairn.Message {
	var list []cairn.Message
	if l.Damaged() {
		if m := transcript.Closing(l.Messages); m != nil {
			list = append(list, *m)
		}
	}
	if len(own)+len(list) > 0 || len(l.Messages) == 0 {
		return list
	}
	if l.Messages[len(l.Messages)-1].Role == cairn.RoleAssistant {
		list = append(list, cairn.Context("Continue where you stopped."))
	}
	return list
}

// write commits the beginning, with its events, and updates the session in memory.
func (r *Runs) write(ctx context.Context, b *beginning) error {
	first := b.row.MessageCount
	if events := r.begins(b, b.row, first); len(b.commit.Events) == 0 {
		b.commit.Events = events
	} else {
		b.commit.Events = append(b.commit.Events, events...)
	}
	begun, err := r.commitBegin(ctx, b.row.ID, b.row, b.commit)
	if err != nil {
		return err
	}
	b.live.Sees(begun, r.Now())
	b.live.Append(b.commit.Messages)
	b.live.Wrote(b.commit.Calls)
	return nil
}

// begins returns the events of a run's begin on a session, behind its first messages. The step of a resumed run starts
// with it, and so do the results of calls that its first message closes.
func (r *Runs) begins(b *beginning, row *cairn.Session, first int) []cairn.Event {
	c, run := b.commit, b.commit.StartRun
	run.FirstMessage = first
	list := journal.Begin(run, first+len(c.Messages), c.Messages)
	if row.SuspendedStep != "" && c.Suspend == nil && b.live.AtBudget() == nil { // at a budget, the step begins anew
		list = append(list, journal.StepStart(1))
	}
	if len(c.Messages) > 0 && c.Messages[0].Origin == cairn.OriginWithdrawn { // closes calls of earlier runs
		list = append(list, journal.Results(0, c.Messages[:1])...)
	}
	return r.Marks(row, run.ID, list...)
}

// commitBegin writes the beginning of a run. The end of ctx does not interrupt the write: a run that was begun and that
// no process drives would hold the session until its lease lapses.
func (r *Runs) commitBegin(ctx context.Context, id string, before *cairn.Session, c *driver.Commit) (*cairn.Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.LeaseTTL)
	defer cancel()
	row, err := r.Write(ctx, id, before, c)
	if ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
		return nil, cairn.Errorf(cairn.ErrUnavailable, "session %q: cannot begin the run within %s: %w", id, r.LeaseTTL, err)
	}
	if err == nil && (row.RunID != c.StartRun.ID || row.Lease.Owner != r.Owner) { // a run of the same id was begun before
		return nil, driver.Conflict(cairn.ErrAlreadyRunning, row, "session %q: another process has begun run %q", id, c.StartRun.ID)
	}
	return row, err
}

// closePast ends what the runs before left suspended once a run has begun on a session that did not wait any more. The
// sub-agents of a wait have ended before the commit, see endWaitFirst. Without a wait, nothing would keep another process
// from beginning a run before the commit, whose sub-agents would be ended. The run has begun, so ctx does not end it. If
// this process dies here, the process that takes over the new run reaps.
func (r *Runs) closePast(ctx context.Context, b *beginning) {
	row := b.row
	if row.SuspendedStep == "" || row.Status == cairn.SessionPaused || b.kind == cairn.RunResume {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.LeaseTTL)
	defer cancel()
	err := retry.Storage(ctx, r.Logger, func() error { return r.ReapChildren(ctx, row, time.Time{}) })
	if err != nil {
		r.Logger.Warn("sub-agents of an earlier run still wait", "session", row.ID, "run", row.RunID, "error", err)
	}
}

// started makes this process the driver of a session whose new run is committed.
func (r *Runs) started(ctx context.Context, b *beginning) {
	l, run := b.live, b.commit.StartRun
	run.SessionID, run.Turn, run.StartedAt, run.StartSequence = l.Row.ID, l.Row.Turn, l.Row.UpdatedAt, b.starts()
	r.SetAgent(l, b.agent, b.Hooks)
	l.Begins(run)
	l.Drives(r.Journal.Emitter(ctx, l.Row, run.ID, l.Row.LogSequence), nil, l.Row.UpdatedAt)
	l.SetRun(run.ID)
	r.Cache.Drive(l)
	if b.kind == cairn.RunResume {
		r.Logger.Info(LineRunResumed, "session", l.Row.ID, "root", l.Row.RootID, "run", run.ID, "agent", l.Row.Agent, "previous", run.PreviousRunID)
	}
}

// starts returns where the run starts on the log, as the store has it.
func (b *beginning) starts() int64 {
	if b.commit.Outbox {
		return b.commit.StartRun.StartSequence
	}
	return b.live.Row.LogSequence - int64(len(b.commit.Events))
}
