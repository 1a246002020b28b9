package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/calls"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/dialog"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/support"
)

// reviewer is the name under which the demo answers calls.
const reviewer = "demo"

func (c *chat) openCalls(ctx context.Context) ([]cairn.PendingCall, error) {
	return calls.Open(ctx, c.eng, c.session, c.session)
}

// showWaiting shows what the session waits for, and marks earlier events as shown.
func (c *chat) showWaiting(ctx context.Context) error {
	for ev, err := range c.unseen(ctx) {
		if err != nil {
			return err
		}
		c.Seen = ev.Sequence
	}
	open, err := c.openCalls(ctx)
	if err == nil && len(open) == 0 {
		c.Note("The pending calls of the last answer were decided: resuming it.")
	}
	for i := range open {
		call := &open[i]
		c.Print(c.Waits(call.Kind, call.Tool, call.Input, call.Deadline))
	}
	return err
}

// catchUp shows the events of another process, if one drove the session in between.
func (c *chat) catchUp(ctx context.Context) error {
	if !c.behind {
		return nil
	}
	c.behind = false
	if err := c.skipDiscarded(ctx); err != nil {
		return err
	}
	for ev, err := range c.unseen(ctx) {
		if err != nil {
			return err
		}
		c.Show(ev)
	}
	c.Newline()
	return nil
}

// decide asks about the first pending call of the session. The error is dialog.ErrLeft if the call stays open.
func (c *chat) decide(ctx context.Context) error {
	before := c.state(ctx)
	open, err := c.openCalls(ctx)
	if err != nil || len(open) == 0 { // answered a moment ago
		c.behind = true
		return err
	}
	call := &open[0]
	var answer cairn.Submission
	var ok bool
	err = c.watched(ctx, before, func() (err error) {
		answer, ok, err = c.question(ctx, call)
		return err
	})
	if errors.Is(err, dialog.ErrWoken) {
		c.behind = true
		c.Note("Another process has changed the session.")
		return nil
	}
	if err != nil && !errors.Is(err, dialog.ErrLeft) {
		return err
	}
	if !ok {
		return c.unanswered(ctx, err)
	}
	receipt, err := c.eng.Submit(ctx, c.session, answer)
	if errors.Is(err, cairn.ErrUnavailable) || ctx.Err() != nil {
		return err
	}
	_ = c.report(err)
	switch {
	case err != nil && (c.yes || !c.Prompting):
		return dialog.ErrLeft
	case err != nil: // settle asks again if the call is still pending
	case receipt.Outcome != cairn.OutcomeAccepted:
		c.behind = true
		c.Note(calls.Sentence(receipt))
	case c.yes:
		c.Note(dialog.Indent + "approved: --yes")
	}
	return nil
}

// question asks whether a call may happen. ok is false if the call stays pending.
func (c *chat) question(ctx context.Context, call *cairn.PendingCall) (answer cairn.Submission, ok bool, err error) {
	switch {
	case call.Kind != cairn.CallApproval: // a call of another agent: its result cannot be given here
		return answer, false, dialog.ErrLeft
	case c.yes:
		return cairn.Approve(call.CallRef).By(reviewer), true, nil
	}
	answer, ok, err = c.Approval(ctx, call, support.Describe(ctx, c.desk.Shop, call))
	return answer.By(reviewer), ok, err
}

// unanswered returns why no answer was given. If the input has ended but the calls were answered elsewhere, it
// returns nil and the conversation continues.
func (c *chat) unanswered(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	open, err := c.openCalls(ctx)
	if err == nil && len(open) > 0 {
		err = dialog.ErrLeft
	}
	c.behind = true
	return err
}

// farewell prints how to answer the pending calls, if there are any, and resume the session without this process.
func (c *chat) farewell(ctx context.Context) {
	open, err := c.openCalls(context.WithoutCancel(ctx))
	if err != nil || len(open) == 0 { // an error is dropped: the conversation ended with another one
		return
	}
	at := c.desk.At.Option()
	c.Note("Nothing has to run while it is pending. Approve it from any terminal (or deny it) and start the demo again:")
	for i := range open {
		verb := "approve"
		if open[i].Kind != cairn.CallApproval {
			verb = "answer"
		}
		c.Print(fmt.Sprintf("  %s inbox %s %s%s\n", c.program, verb, open[i].ID, at))
	}
	demo := c.program + " demo"
	if c.session != DefaultSession {
		demo += " --session " + cli.Quoted(c.session)
	}
	c.Print("  " + demo + at + c.desk.Host.Option() + "\n")
	if !c.Prompting && !c.yes {
		c.Note("With --yes the demo approves everything by itself.")
	}
}

// glance is the interval at which the session is looked at while the demo waits for a line.
const glance = 500 * time.Millisecond

// watched calls ask, which waits for a line. At a terminal it wakes it once another process has changed the session:
// started or ended a run, or answered one of its calls. before is the state that the user has seen.
func (c *chat) watched(ctx context.Context, before string, ask func() error) error {
	if !c.Prompting { // lines were written for what was there before
		return ask()
	}
	watching, stop := context.WithCancel(ctx)
	wake := make(chan struct{}, 1)
	c.Wake = wake
	var wg sync.WaitGroup
	defer func() {
		stop()
		wg.Wait()
		c.Wake = nil
	}()
	wg.Go(func() {
		ticker := time.NewTicker(glance)
		defer ticker.Stop()
		for {
			select {
			case <-watching.Done():
				return
			case <-ticker.C:
			}
			if now := c.state(watching); now != "" && now != before {
				wake <- struct{}{}
				return
			}
		}
	})
	return ask()
}

// state identifies what another process may change about the session; empty if it cannot be read, or there is no session.
func (c *chat) state(ctx context.Context) string {
	row, err := c.eng.Session(ctx, c.session)
	if err != nil {
		return ""
	}
	open, err := c.openCalls(ctx)
	if err != nil {
		return ""
	}
	state := fmt.Sprint(row.Status, " ", row.RunID)
	for i := range open {
		state += " " + open[i].ID
	}
	return state
}
