package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/store/driver"
)

// clerk answers pending calls, correctly and incorrectly. It is used by one goroutine.
type clerk struct {
	name    string
	eng     *engine.Engine
	journal *journal
	rng     *rand.Rand
	answers int // so far
}

// serve pages through the inbox repeatedly, and sometimes through the closed calls of a session.
func (c *clerk) serve(ctx context.Context, sessions []string) error {
	for {
		q := driver.CallQuery{Limit: 50}
		if c.rng.IntN(4) == 0 {
			q.RootID = sessions[c.rng.IntN(len(sessions))]
			q.Statuses = []cairn.CallStatus{cairn.CallAnswered, cairn.CallSettled, cairn.CallDropped}
		}
		page, err := c.eng.Inbox(ctx, q)
		if err != nil && !errors.Is(err, cairn.ErrUnavailable) {
			return err
		}
		for i := range page.Items {
			if c.rng.IntN(3) == 0 {
				err = c.handle(ctx, &page.Items[i])
			}
			if err != nil {
				return err
			}
		}
		if err := testclock.Pause(ctx, time.Duration(1+c.rng.IntN(8))*time.Millisecond); err != nil {
			return err
		}
	}
}

// clear answers every pending call.
func (c *clerk) clear(ctx context.Context) error {
	calls, err := pages(func(cursor string) (driver.Page[cairn.PendingCall], error) {
		return c.eng.Inbox(ctx, driver.CallQuery{Cursor: cursor})
	})
	for i := range calls {
		if err == nil {
			_, err = c.submit(ctx, &calls[i], c.draw(&calls[i]))
		}
	}
	return err
}

// handle acts on a call: mostly, it answers the call.
func (c *clerk) handle(ctx context.Context, call *cairn.PendingCall) error {
	s := c.draw(call)
	switch c.rng.IntN(8) {
	case 0: // another clerk acts concurrently
		other := c.draw(call)
		var second error
		var both sync.WaitGroup
		both.Go(func() { _, second = c.submit(ctx, call, other) })
		_, err := c.submit(ctx, call, s)
		both.Wait()
		return errors.Join(err, second)
	case 1:
		return c.mistake(ctx, call)
	case 2:
		_, err := c.eng.Claim(ctx, call.RootID, call.ID, s.Reviewer, time.Duration(1+c.rng.IntN(50))*time.Millisecond)
		if err == nil && c.rng.IntN(2) == 0 {
			_, err = c.eng.Release(ctx, call.RootID, call.ID, s.Reviewer)
		}
		if err != nil {
			return expected(err)
		}
	}
	_, err := c.submit(ctx, call, s)
	return err
}

// draw draws an answer that fits the call. Its reviewer is unique, unless several reviewers decide together.
func (c *clerk) draw(call *cairn.PendingCall) cairn.Submission {
	c.answers++
	by := fmt.Sprintf("%s-%d", c.name, c.answers)
	if n := len(call.Reviewers); n > 0 {
		by = call.Reviewers[c.rng.IntN(n)]
	}
	if call.Kind == cairn.CallEffect {
		return c.finds(call).By(by)
	}
	if call.Kind != cairn.CallApproval {
		if c.rng.IntN(5) == 0 {
			return cairn.AnswerError(call.CallRef, "no answer from "+by).By(by)
		}
		return cairn.Answer(call.CallRef, amount{1000 + c.answers}).By(by)
	}
	s := cairn.Approve(call.CallRef)
	switch n := c.rng.IntN(6); {
	case n == 0:
		s = cairn.Deny(call.CallRef, "says "+by)
	case n < 3 && call.Quorum == cairn.AnyReviewer:
		s = s.WithInput(amount{1000 + c.answers})
	}
	return s.By(by)
}

// submit submits an answer and records the outcome.
func (c *clerk) submit(ctx context.Context, call *cairn.PendingCall, s cairn.Submission) (cairn.Receipt, error) {
	receipt, err := c.eng.Submit(ctx, call.RootID, s)
	if err != nil {
		return receipt, expected(err)
	}
	r := record{Kind: answered, Session: call.SessionID, Call: call.ID, Reviewer: s.Reviewer, Decision: cairn.DecisionDenied, Outcome: receipt.Outcome}
	switch {
	case s.Approved:
		r.Decision, r.Value = cairn.DecisionApproved, s.Input
	case s.Error != "":
		r.Decision = cairn.DecisionError
	case s.Type == cairn.SubmitResult:
		r.Decision, r.Value = cairn.DecisionResult, s.Result
	case s.Type == cairn.SubmitAnswer:
		r.Decision, r.Value = cairn.DecisionResult, s.Value
	}
	c.journal.write(r)
	return receipt, nil
}

// mistake submits an answer that does not fit the call.
func (c *clerk) mistake(ctx context.Context, call *cairn.PendingCall) error {
	right := c.draw(call)
	wrong := right
	switch {
	case (call.Kind == cairn.CallQuestion || call.Kind == cairn.CallEffect) && c.rng.IntN(2) == 0:
		wrong.Value, wrong.Error = json.RawMessage(`{"n":"many"}`), ""
	case call.Kind != cairn.CallApproval && c.rng.IntN(2) == 0:
		wrong = cairn.Submission{Type: cairn.SubmitApproval, CallID: call.ID, ApprovalID: "approval", Approved: true}.By(right.Reviewer)
	case call.Kind == cairn.CallClientTool:
		wrong.Result, wrong.Error = json.RawMessage(`{"n":"many"}`), ""
	case call.Kind == cairn.CallQuestion, call.Kind == cairn.CallEffect, c.rng.IntN(2) == 0:
		wrong = cairn.Submission{Type: cairn.SubmitResult, CallID: call.ID, Result: json.RawMessage(`{"n":1}`)}.By(right.Reviewer)
	default:
		wrong.ApprovalID = "another"
	}
	receipt, err := c.eng.Submit(ctx, call.RootID, wrong)
	if receipt.Outcome == cairn.OutcomeAccepted || receipt.Outcome == cairn.OutcomeLate {
		return fmt.Errorf("call %s of %s: %+v was %s", call.ID, call.SessionID, wrong, receipt.Outcome)
	}
	return expected(err)
}

// expected returns err, or nil if err means that the call cannot, or can no longer, be answered in this way.
func expected(err error) error {
	if errors.Is(err, cairn.ErrInvalid) || errors.Is(err, cairn.ErrClaimed) || contended(err) {
		return nil
	}
	return err
}
