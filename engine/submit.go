package engine

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/inbox"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// Submit answers a pending call of a session tree: it gives a client tool's result or decides about an approval. root
// is the tree's root, whichever session of it the call belongs to. Any process can do that, also one that does not know
// the agent. Only the first answer counts; the receipt reports whether this one did.
//
// Submitting runs nothing, unless Options.AutoResume is set or a worker serves the store; Resume does. The error is
// ErrNotFound if there is no such call (OutcomeUnknownCall). It is ErrInvalid, ErrTooLarge or ErrClaimed for a
// submission that does not match the call, or for a call whose wait is being ended (OutcomeInvalid). Nothing is stored
// then. A reviewer of a tenant's call is one of the tenant, see [cairn.InTenant]. An answer that was late or not the
// first is not an error. If the store fails, the receipt has no outcome; once the answer is stored, a later failure is
// only logged.
func (e *Engine) Submit(ctx context.Context, root string, s cairn.Submission) (cairn.Receipt, error) {
	invalid := cairn.Receipt{Outcome: cairn.OutcomeInvalid}
	if err := cairn.CheckSessionID(root); err != nil {
		return invalid, err
	}
	if err := s.Validate(); err != nil {
		return invalid, err
	}
	s = s.Storable()
	var err error
	if s.Reviewer, err = qualify("reviewer", root, s.Reviewer); err != nil {
		return invalid, err
	}
	var receipt cairn.Receipt
	id := e.opts.NewID("answer")
	row, err := e.changeCall(ctx, root, s.CallID, func(call cairn.PendingCall, c *driver.Commit, row *cairn.Session) (next cairn.PendingCall, err error) {
		next, receipt.Outcome, err = inbox.Decide(call, &s, id, row.AsOf)
		if receipt.Outcome == cairn.OutcomeLate {
			m := cairn.Context(inbox.LateText(&next, &s))
			m.ID = id
			add(c, row, []cairn.Message{m})
		}
		shown := next
		shown.Kept, receipt.Call = nil, &shown
		return next, err
	})
	switch {
	case errors.Is(err, cairn.ErrNotFound):
		receipt.Outcome = cairn.OutcomeUnknownCall
	case errors.Is(err, cairn.ErrInvalid) && receipt.Outcome != cairn.OutcomeInvalid: // its wait is being ended
		receipt = invalid
	}
	answers := receipt.Outcome == cairn.OutcomeAccepted || receipt.Outcome == cairn.OutcomeLate
	if err != nil {
		switch receipt.Outcome {
		case cairn.OutcomeInvalid, cairn.OutcomeUnknownCall:
			return receipt, err
		}
		if row = e.answered(ctx, root, s.CallID, id); !answers || row == nil {
			return cairn.Receipt{}, err
		}
	}
	if answers {
		if call, err := e.Call(ctx, root, s.CallID); err == nil {
			receipt.Call = call
			e.logAnswer(call, &s, receipt.Outcome)
		} else {
			e.opts.Logger.Warn("receipt of an answer shows the call before the commit", "session", root, "call", s.CallID, "error", err)
		}
	}
	receipt.Ready = row.Ready()
	if receipt.Ready && e.opts.AutoResume && answers {
		e.resumeSoon(ctx, root)
	}
	return receipt, nil
}

// logAnswer writes the lines about a stored answer to a call: that it came, and that it denied the call.
func (e *Engine) logAnswer(call *cairn.PendingCall, s *cairn.Submission, outcome cairn.Outcome) {
	lifecycle.LogCall(e.opts.Logger, slog.LevelInfo, lifecycle.LineCallSubmitted, call, "outcome", outcome, "reviewer", s.Reviewer)
	if call.Answer != nil && call.Answer.Kind == cairn.DecisionDenied {
		lifecycle.LogCall(e.opts.Logger, slog.LevelInfo, lifecycle.LineCallDenied, call, "reviewer", s.Reviewer, "reason", call.Answer.Text)
	}
}

// answered returns the row of the session that a call belongs to if the decision with that id is stored with the call,
// although the commit returned an error; otherwise nil.
func (e *Engine) answered(ctx context.Context, root, callID, id string) *cairn.Session {
	call, err := e.call(ctx, root, callID)
	if err != nil || !slices.ContainsFunc(call.Trail, func(d cairn.Decision) bool { return d.ID == id }) {
		return nil
	}
	row, err := driver.Load(ctx, e.store, call.SessionID)
	if err != nil {
		return nil
	}
	return row
}

// changeCall changes the row of a pending call, together with what its session's row says of it, unless change leaves
// it at the version it had and gives the commit nothing to do. change gets the session's row, which says the store's
// time. It returns the row after the commit.
func (e *Engine) changeCall(ctx context.Context, root, callID string,
	change func(cairn.PendingCall, *driver.Commit, *cairn.Session) (cairn.PendingCall, error)) (*cairn.Session, error) {
	call, err := e.call(ctx, root, callID)
	if err != nil {
		return nil, err
	}
	return e.runs.Change(ctx, call.SessionID, func(row *cairn.Session) (*driver.Commit, error) {
		call, err := e.call(ctx, root, callID) // no older than row
		if err != nil {
			return nil, err
		}
		c := &driver.Commit{}
		next, err := change(*call, c, row)
		if err != nil || len(next.Trail) == len(call.Trail) {
			return nil, err
		}
		if row.Ending != nil && row.SuspendedStep == call.StepID {
			return nil, cairn.Invalid("call_id", "call %q is no longer pending: the wait of session %q is being ended", call.ID, row.ID)
		}
		c.Calls = []driver.CallWrite{{Call: next, Seen: call.Version}}
		if call.Status == cairn.CallOpen && next.Status != cairn.CallOpen && row.SuspendedStep == call.StepID {
			c.Suspend = &driver.Suspend{StepID: row.SuspendedStep, OpenCalls: row.OpenCalls - 1}
			if c.Suspend.OpenCalls > 0 {
				c.Suspend.NextDeadline = row.NextDeadline
			}
		}
		return c, nil
	})
}

// Inbox pages through pending calls of all sessions, the oldest first: the open ones, unless the query names statuses. It
// leaves out effects that no person was asked about, see Effects, unless the query is for calls of that kind. A page may
// have fewer items than the limit, or none, although more follow.
func (e *Engine) Inbox(ctx context.Context, q store.CallQuery) (store.Page[cairn.PendingCall], error) {
	if len(q.Statuses) == 0 {
		q.Statuses = []cairn.CallStatus{cairn.CallOpen}
	}
	page, err := e.store.Calls(ctx, q)
	page.Items = slices.DeleteFunc(slices.Clone(page.Items), func(c cairn.PendingCall) bool { // a store may share what it returns
		return c.Kind == cairn.CallEffect && q.Kind != cairn.CallEffect && c.Status != cairn.CallOpen && c.Answer == nil
	})
	for i := range page.Items {
		page.Items[i].Kept = nil
	}
	return page, err
}

// Call returns a pending call of a session tree, with its audit trail. The error is ErrNotFound if there is no such
// call.
func (e *Engine) Call(ctx context.Context, root, callID string) (*cairn.PendingCall, error) {
	call, err := e.call(ctx, root, callID)
	if err != nil {
		return nil, err
	}
	shown := *call
	shown.Kept = nil
	return &shown, nil
}

// call returns a pending call with what its tool has kept.
func (e *Engine) call(ctx context.Context, root, callID string) (*cairn.PendingCall, error) {
	if err := cairn.CheckSessionID(root); err != nil {
		return nil, err
	}
	if callID == "" {
		return nil, cairn.Invalid("call_id", "is empty")
	}
	return driver.FindCall(ctx, e.store, root, callID)
}

// ClaimOption is an option of Claim and Release.
type ClaimOption func(*claimOptions)

type claimOptions struct{ override bool }

// OverrideClaim ends another reviewer's claim, so that the call can be claimed or is free. It is for callers that have
// checked the reviewer's right to do so, such as an administrator's. The call's trail names both reviewers.
func OverrideClaim() ClaimOption { return func(o *claimOptions) { o.override = true } }

// Claim gives an open call to one reviewer alone for a time, so that two people do not work on the same thing. d is at
// most [cairn.MaxClaim] (24 hours); 0 means [cairn.DefaultClaim] (15 minutes). The reviewer who holds the claim may
// claim again, for a time from now. The error is ErrClaimed while another reviewer has it (see [OverrideClaim]),
// ErrInvalid if d is out of bounds or the call is no longer open. It is ErrInvalid, too, for a reviewer who may not answer
// the call or is of another tenant.
func (e *Engine) Claim(ctx context.Context, root, callID, reviewer string, d time.Duration, opts ...ClaimOption) (*cairn.PendingCall, error) {
	o := claimOptionsOf(opts)
	reviewer, err := qualify("reviewer", root, reviewer)
	if err != nil {
		return nil, err
	}
	return e.changeClaim(ctx, root, callID, func(c cairn.PendingCall, now time.Time) (cairn.PendingCall, error) {
		if o.override {
			var err error
			if c, err = inbox.Override(c, reviewer, now); err != nil {
				return c, err
			}
		}
		return inbox.Claim(c, reviewer, d, now)
	})
}

// Release removes a reviewer's claim. The error is ErrClaimed if it is another reviewer's, see [OverrideClaim], and
// ErrInvalid if the call is not claimed or no longer open.
func (e *Engine) Release(ctx context.Context, root, callID, reviewer string, opts ...ClaimOption) (*cairn.PendingCall, error) {
	o := claimOptionsOf(opts)
	reviewer, err := qualify("reviewer", root, reviewer)
	if err != nil {
		return nil, err
	}
	return e.changeClaim(ctx, root, callID, func(c cairn.PendingCall, now time.Time) (cairn.PendingCall, error) {
		if o.override && c.Claimed(now) && c.ClaimedBy != reviewer {
			return inbox.Override(c, reviewer, now)
		}
		return inbox.Release(c, reviewer, now)
	})
}

func claimOptionsOf(list []ClaimOption) (o claimOptions) {
	for _, opt := range list {
		opt(&o)
	}
	return o
}

func (e *Engine) changeClaim(ctx context.Context, root, callID string, change func(cairn.PendingCall, time.Time) (cairn.PendingCall, error)) (*cairn.PendingCall, error) {
	_, err := e.changeCall(ctx, root, callID, func(call cairn.PendingCall, _ *driver.Commit, row *cairn.Session) (cairn.PendingCall, error) {
		return change(call, row.AsOf)
	})
	if err != nil {
		return nil, err
	}
	return e.Call(ctx, root, callID)
}
