package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/inbox"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// WithBranchAnswer branches where the session waited for a call of its own, and gives that call another answer: the
// step that waited continues in the branch with it, with the answers that the other calls of the step had. The
// submission is checked as by [Engine.Submit]. No other option may select the point.
//
// In a branch that asks before effects, see [WithEffects], an effectful call only takes a denial: with any other answer,
// it asks for approval again in the branch. So does a call whose answer needs more reviewers. The error is ErrNotFound
// if the session has no such call, ErrInvalid for a call of another session of the tree, for one about a budget or an
// effect, and if the state of the point was pruned.
func WithBranchAnswer(s cairn.Submission) BranchOption {
	return func(o *branchOptions) { o.answer = &s }
}

// WithBranchResult branches behind the step of a tool call and gives that call another result, encoded as JSON; an
// error becomes the text of a failed call. The other calls of the step keep their results, and the state is as the step
// left it. No other option may select the point. The error is ErrNotFound if the session has no result of such a call.
func WithBranchResult(callID string, result any) BranchOption {
	return func(o *branchOptions) { o.result = &changedResult{callID, result} }
}

// changedResult is a result that a branch has in place of a call's.
type changedResult struct {
	callID string
	value  any
}

// encode returns the result of the call whose result was old.
func (c *changedResult) encode(old *cairn.ToolResult) (*cairn.ToolResult, error) {
	if failed, is := c.value.(error); is {
		if err := cairn.CheckText("result", failed.Error()); err != nil {
			return nil, err
		}
		return transcript.Failed(&cairn.ToolUse{CallID: old.CallID, Tool: old.Tool}, cairn.ErrTool, failed.Error()), nil
	}
	raw, err := json.Marshal(c.value)
	if err != nil {
		return nil, cairn.Invalid("result", "cannot be encoded as JSON: %v", err)
	}
	if len(raw) > cairn.MaxAnswerBytes {
		return nil, &cairn.Error{Code: cairn.ErrTooLarge, Field: "result", Message: "result: too large (max 1 MiB)"}
	}
	return &cairn.ToolResult{CallID: old.CallID, Tool: old.Tool, Output: raw}, cairn.CheckJSON("result", raw)
}

// answerInBranch plans a branch in which a call has another answer: it is suspended with the step of the call.
func (e *Engine) answerInBranch(ctx context.Context, row *cairn.Session, p *branchPlan, s cairn.Submission) error {
	if err := s.Validate(); err != nil {
		return err
	}
	s = s.Storable()
	var err error
	if s.Reviewer, err = qualify("reviewer", row.ID, s.Reviewer); err != nil {
		return err
	}
	call, err := e.call(ctx, row.RootID, s.CallID)
	switch {
	case err != nil:
		return err
	case call.SessionID != row.ID:
		return cairn.Invalid("call_id", "call %q belongs to session %q; branch that one", call.ID, call.SessionID)
	case call.Kind == cairn.CallEffect || call.Kind == cairn.CallBudget:
		return cairn.Invalid("call_id", "call %q of kind %s cannot be answered in a branch", call.ID, call.Kind)
	}
	next, _, err := inbox.Decide(inbox.Reopen(*call), &s, e.opts.NewID("answer"), row.AsOf)
	if err != nil {
		return err
	}
	if err := e.placeAt(ctx, row, p, call); err != nil {
		return err
	}
	p.at.Suspend = &driver.Suspend{StepID: call.StepID}
	asks := func(c *cairn.PendingCall) bool { return !p.effects && e.mayAffect(row.Agent, c.Tool) }
	for other, err := range store.All(func(cursor string) (store.Page[cairn.PendingCall], error) {
		return e.store.Calls(ctx, store.CallQuery{RootID: row.RootID, SessionID: row.ID, Statuses: everyStatus, Cursor: cursor})
	}) {
		if err != nil {
			return err
		}
		if own := answerKept(call, &next, other); own != nil && (own.Answer.Kind == cairn.DecisionDenied || !asks(own)) {
			p.at.Calls = append(p.at.Calls, driver.CallWrite{Call: *own})
		}
	}
	return nil
}

// answerKept returns the row that a branch has of a call of the step in which call has the answer of next; nil if the
// branch has none, so that the call begins anew.
func answerKept(call, next, other *cairn.PendingCall) *cairn.PendingCall {
	switch {
	case other.ID == call.ID && next.Status == cairn.CallAnswered:
		return next
	case other.ID == call.ID, other.StepID != call.StepID, other.Answer == nil, other.Kind == cairn.CallEffect, other.Kind == cairn.CallBudget:
		return nil
	case inbox.ToolCall(other) == inbox.ToolCall(call) && other.Number >= call.Number: // the tool asked it after this answer
		return nil
	}
	own := *other
	own.Status = cairn.CallAnswered
	return &own
}

// mayAffect reports whether a tool of an agent is effectful, or is not known.
func (e *Engine) mayAffect(agent, tool string) bool {
	a := e.agent(agent)
	if a == nil {
		return true
	}
	for i := range a.Tools {
		if t := define.Of(&a.Tools[i]); t.Name == tool {
			return t.Effectful
		}
	}
	return true
}

// placeAt sets the point of a branch to where the step of a call began to wait. Without its checkpoint, as in a branch or
// after pruning, that is the reply with the call: then the other calls of the step begin anew.
func (e *Engine) placeAt(ctx context.Context, row *cairn.Session, p *branchPlan, call *cairn.PendingCall) error {
	for cp, err := range store.All(func(cursor string) (store.Page[cairn.Checkpoint], error) {
		return e.store.Checkpoints(ctx, row.ID, store.PageQuery{Cursor: cursor, Newest: true})
	}) {
		if err != nil {
			return err
		}
		if cp.StepID == call.StepID {
			p.at.CheckpointID = cp.ID
			return nil
		}
	}
	for m, err := range e.transcript(ctx, row) {
		if err != nil {
			return err
		}
		if slices.ContainsFunc(m.ToolUses(), func(use *cairn.ToolUse) bool { return use.CallID == inbox.ToolCall(call) }) {
			p.at.Messages = new(m.at + 1)
			return nil
		}
	}
	return &cairn.Error{Code: cairn.ErrNotFound, Field: "call_id", Message: fmt.Sprintf("session %q has no reply with call %q any more", row.ID, call.ID)}
}

// placed is a message with its index.
type placed struct {
	*cairn.Message
	at int
}

// transcript yields the messages of a session.
func (e *Engine) transcript(ctx context.Context, row *cairn.Session) iter.Seq2[placed, error] {
	return func(yield func(placed, error) bool) {
		for at := 0; at < row.MessageCount; {
			list, err := driver.Messages(ctx, e.store, row.ID, at, 1000)
			if err != nil || len(list) == 0 {
				if err != nil {
					yield(placed{}, err)
				}
				return
			}
			for i := range list {
				if !yield(placed{&list[i], at + i}, nil) {
					return
				}
			}
			at += len(list)
		}
	}
}

// resultInBranch plans a branch behind the step of a call, with another result of the call.
func (e *Engine) resultInBranch(ctx context.Context, row *cairn.Session, p *branchPlan, c *changedResult) error {
	first, tail, err := e.stepBehind(ctx, row, c.callID)
	if err != nil {
		return err
	}
	for i := range tail {
		parts := slices.Clone(tail[i].Parts)
		for j := range parts {
			if r := parts[j].Result; r != nil && r.CallID == c.callID {
				if parts[j].Result, err = c.encode(r); err != nil {
					return err
				}
			}
		}
		tail[i].Parts, tail[i].EndsTurn = parts, false
	}
	p.at.Messages, p.at.Tail = new(first+len(tail)), tail
	return nil
}

// stepBehind returns the messages of a step from that with the result of a call on, and the index of the first of them:
// up to the step's checkpoint, which has the state that its tools wrote.
func (e *Engine) stepBehind(ctx context.Context, row *cairn.Session, callID string) (first int, tail []cairn.Message, err error) {
	first = -1
	for m, err := range e.transcript(ctx, row) {
		if err != nil {
			return 0, nil, err
		}
		if first < 0 && slices.ContainsFunc(m.ToolResults(), func(r *cairn.ToolResult) bool { return r.CallID == callID }) {
			first = m.at
		}
		if first < 0 {
			continue
		}
		if m.Role == cairn.RoleAssistant || m.Role == cairn.RoleUser && !m.Hidden {
			break
		}
		tail = append(tail, *m.Message)
	}
	if first < 0 {
		return 0, nil, &cairn.Error{Code: cairn.ErrNotFound, Field: "call_id", Message: fmt.Sprintf("session %q has no result of call %q", row.ID, callID)}
	}
	return first, tail, nil
}
