package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/store/driver"
)

// BranchOption is an option of Branch: the place where the branch leaves its session, or a change that it makes.
type BranchOption func(*branchOptions)

type branchOptions struct {
	driver.BranchPoint
	state        any // instead of the session's, if stated
	stated       bool
	effects      bool
	model        *string
	instructions *string
	answer       *cairn.Submission
	result       *changedResult
}

// AtCheckpoint branches from one of the session's checkpoints.
func AtCheckpoint(id string) BranchOption {
	return func(o *branchOptions) { o.CheckpointID = id }
}

// AtMessage branches after the first n messages, with the state of the latest checkpoint that had no more messages. The
// error is ErrInvalid if that checkpoint was pruned.
func AtMessage(n int) BranchOption { return func(o *branchOptions) { o.Messages = &n } }

// WithBranchState gives the branch a state of its own, instead of the session's at that point. The value and its errors
// are as for [Engine.SetState].
func WithBranchState(state any) BranchOption {
	return func(o *branchOptions) { o.state, o.stated = state, true }
}

// WithEffects lets the branch call [cairn.Effectful] tools as its session does. By default each such call of a branch asks
// for approval first, since a branch often repeats steps of its session.
func WithEffects() BranchOption { return func(o *branchOptions) { o.effects = true } }

// WithBranchModel makes the turns of the branch use another model unless they name one: the entry of
// [cairn.Agent].Models with that name, or Agent.Model if the name is empty. The error is ErrInvalid for a name that the
// agent does not have, and lists those that it has. Without the option, a branch of a branch has the model of that one.
func WithBranchModel(name string) BranchOption { return func(o *branchOptions) { o.model = &name } }

// WithBranchInstructions gives the branch a system prompt in place of its agent's, at most
// [cairn.MaxInstructionsBytes]; empty means the agent's. Its sub-agents keep theirs. Without the option, a branch of a
// branch has the instructions of that one.
func WithBranchInstructions(text string) BranchOption {
	return func(o *branchOptions) { o.instructions = &text }
}

// Branch creates the session to from the messages and state of another session, at their current point or at one that
// an option selects. The new session belongs to the same agent and user and is independent: it has its own time to
// live, and stays when the other one is deleted or expires. A branch at the end of a completed turn is completed; one
// within a turn is idle and can be resumed. The error is ErrExists if to exists, ErrNotFound if from does not or has no
// such checkpoint. The branch has the decisions about the calls in its messages, see [Engine.Decisions]. A branch of a
// tenant's session belongs to the tenant, see [cairn.InTenant]. The error is ErrInvalid if to has another one.
//
// The branch has the artifacts of its messages, and its workspace is as it was after the last of them. If the files cannot
// be kept for the branch, for example because storage is unavailable, Branch returns the error, and the branch exists. A
// worker then keeps them, also if the process dies meanwhile, as long as the other session is not purged.
func (e *Engine) Branch(ctx context.Context, from, to string, opts ...BranchOption) (*cairn.Session, error) {
	row, to, err := e.branchable(ctx, from, to)
	if err != nil {
		return nil, err
	}
	p, err := e.planBranch(ctx, row, opts)
	if err != nil {
		return nil, err
	}
	return e.branch(ctx, row, to, p)
}

// branch makes a planned branch of a session.
func (e *Engine) branch(ctx context.Context, row *cairn.Session, to string, p *branchPlan) (*cairn.Session, error) {
	from, at, n, status := row.ID, p.at, p.messages, p.status
	at.Events = e.runs.Marks(&cairn.Session{ID: to, Agent: row.Agent}, "", cairn.Event{Type: cairn.EventBranched, Name: from, CheckpointID: at.CheckpointID})
	at.Outbox = !e.runs.Journal.Own
	kind := cairn.ChildBranch
	if p.effects {
		kind = ""
	}
	keep, drop, err := e.announce(ctx, row, to)
	if err != nil {
		return nil, err
	}
	branch, err := e.store.Branch(ctx, from, at, &cairn.Session{ID: to, Agent: row.Agent, UserID: row.UserID, Status: status, Kind: kind, Branch: p.origin,
		Title: row.Title, Opening: row.Opening, OpeningAt: row.OpeningAt,
		Tags: row.Tags, Metadata: row.Metadata, ExpiresAt: row.ExpiresAt, TTL: e.ttl(row.Agent)})
	if err != nil {
		if !errors.Is(err, cairn.ErrUnavailable) && ctx.Err() == nil { // otherwise it may have been made
			drop()
		}
		return nil, err
	}
	if branch.MessageCount != n && at.Suspend == nil { // the other session has changed in between
		if status, err = e.branchStatus(ctx, to, branch.MessageCount); err != nil {
			return nil, err
		}
		either := []cairn.SessionStatus{cairn.SessionIdle, cairn.SessionCompleted}
		if branch, _, err = driver.CompareAndSetStatus(ctx, e.store, to, either, status); err != nil {
			return nil, err
		}
	}
	if err := keep(branch); err != nil {
		return nil, err
	}
	branch = e.runs.Settle(ctx, branch)
	e.upkeep.publish(ctx, row.Log(), cairn.Event{Type: cairn.EventBranched, SessionID: from, Agent: row.Agent, ChildID: to,
		CheckpointID: at.CheckpointID, MessageCount: branch.MessageCount})
	return branch, nil
}

// branchLength returns how many messages a branch takes from a session.
func (e *Engine) branchLength(ctx context.Context, row *cairn.Session, at driver.BranchPoint) (int, error) {
	switch {
	case at.CheckpointID != "":
		cp, err := driver.FindCheckpoint(ctx, e.store, row.ID, at.CheckpointID)
		if err != nil {
			return 0, err
		}
		return cp.MessageCount, nil
	case at.Messages != nil:
		return *at.Messages, nil // the store validates it
	}
	return row.MessageCount, nil
}

// branchStatus returns the status of a branch with the first n messages of a session.
func (e *Engine) branchStatus(ctx context.Context, id string, n int) (cairn.SessionStatus, error) {
	status, err := driver.StatusAt(ctx, e.store, id, n)
	if status == cairn.SessionInterrupted {
		status = cairn.SessionIdle // no run has used the branch
	}
	return status, err
}

// branchable returns the row of a session that is to be branched, and the id of the branch.
func (e *Engine) branchable(ctx context.Context, from, to string) (*cairn.Session, string, error) {
	row, err := e.Session(ctx, from)
	if err != nil {
		return nil, "", err
	}
	if to, err = qualify("session", from, to); err != nil {
		return nil, "", err
	}
	return row, to, cairn.CheckSessionID(to)
}

// branchPlan is a branch that is about to be made.
type branchPlan struct {
	at       driver.BranchPoint
	messages int
	status   cairn.SessionStatus
	origin   *cairn.BranchOrigin
	effects  bool
	// ran is the model of the run at the point, if the branch names none.
	ran string
}

// planBranch resolves and checks the options of a branch. It writes nothing.
func (e *Engine) planBranch(ctx context.Context, row *cairn.Session, opts []BranchOption) (*branchPlan, error) {
	var o branchOptions
	for _, opt := range opts {
		opt(&o)
	}
	p := &branchPlan{at: o.BranchPoint, effects: o.effects}
	if err := o.check(); err != nil {
		return nil, err
	}
	var err error
	if p.origin, err = e.originOf(row, &o); err != nil {
		return nil, err
	}
	switch {
	case o.answer != nil:
		err = e.answerInBranch(ctx, row, p, *o.answer)
	case o.result != nil:
		err = e.resultInBranch(ctx, row, p, o.result)
	}
	if err != nil {
		return nil, err
	}
	if o.stated {
		if p.at.State, err = encodeState(o.state); err != nil {
			return nil, err
		}
		if err := e.runs.CheckState(ctx, &cairn.Session{Agent: row.Agent}, p.at.State); err != nil {
			return nil, err
		}
	}
	if p.messages, err = e.branchLength(ctx, row, p.at); err != nil {
		return nil, err
	}
	p.origin.Messages = p.messages - len(p.at.Tail)
	decided, err := e.decidedBefore(ctx, row, p.messages)
	if err != nil {
		return nil, err
	}
	p.at.Calls = append(p.at.Calls, slices.DeleteFunc(decided, func(w driver.CallWrite) bool {
		return slices.ContainsFunc(p.at.Calls, func(own driver.CallWrite) bool { return own.Call.ID == w.Call.ID }) || p.at.Suspend != nil && w.Call.StepID == p.at.Suspend.StepID
	})...)
	if p.status, err = e.branchStatus(ctx, row.ID, p.messages); err != nil {
		return nil, err
	}
	if len(p.at.Tail) > 0 {
		p.status = cairn.SessionIdle
	}
	if o.model == nil && p.origin.Model == "" {
		p.ran, err = e.ranWith(ctx, row, p.messages)
	}
	return p, err
}

// check refuses options that contradict each other.
func (o *branchOptions) check() error {
	placed := o.CheckpointID != "" || o.Messages != nil
	switch {
	case o.CheckpointID != "" && o.Messages != nil:
		return cairn.Invalid("options", "set either a checkpoint or a message index, not both")
	case o.answer != nil && o.result != nil:
		return cairn.Invalid("options", "set either another answer or another result, not both")
	case placed && o.answer != nil:
		return cairn.Invalid("options", "an answer selects the point itself; set no checkpoint and no message index")
	case placed && o.result != nil:
		return cairn.Invalid("options", "a result selects the point itself; set no checkpoint and no message index")
	}
	return nil
}

// originOf returns what the branch of a session has in place of its agent's own.
func (e *Engine) originOf(row *cairn.Session, o *branchOptions) (*cairn.BranchOrigin, error) {
	b := &cairn.BranchOrigin{From: row.ID}
	if row.Branch != nil {
		b.Model, b.Instructions = row.Branch.Model, row.Branch.Instructions
	}
	if o.model != nil {
		a := e.agent(row.Agent)
		if a == nil {
			return nil, unknownAgent(row.Agent)
		}
		if _, known := define.Model(a, *o.model); !known {
			return nil, unknownModel(a, *o.model)
		}
		b.Model = *o.model
	}
	if o.instructions != nil {
		b.Instructions = *o.instructions
	}
	switch {
	case o.answer != nil:
		b.CallID = o.answer.CallID
	case o.result != nil:
		b.CallID = o.result.callID
	}
	return b, b.Validate()
}

// ranWith returns the model of the run that wrote the last of the first n messages; empty for the agent's own.
func (e *Engine) ranWith(ctx context.Context, row *cairn.Session, n int) (string, error) {
	a := e.agent(row.Agent)
	if n == 0 || a == nil || len(a.Models) == 0 {
		return "", nil
	}
	last, err := driver.Messages(ctx, e.store, row.ID, n-1, 1)
	if err != nil || len(last) == 0 || last[0].RunID == "" {
		return "", err
	}
	run, err := driver.FindRun(ctx, e.store, row.ID, last[0].RunID)
	if errors.Is(err, cairn.ErrNotFound) { // it belongs to the session that this one was branched from
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if _, known := define.Model(a, run.Model); !known {
		return "", nil
	}
	return run.Model, nil
}
