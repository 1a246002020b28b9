package chat

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/calls"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/dialog"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
)

// settle shows answers and asks about calls until no run is under way and no call is pending.
func (c *chat) settle(ctx context.Context) error {
	for c.running != "" || c.waiting {
		step := c.decide
		if c.running != "" {
			step = c.watch
		}
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// silent is how long no event may arrive before the session is looked at: its driver may have died.
const silent = 2 * time.Second

// watch shows the run under way to its end. The first Ctrl-C stops it, the second leaves it.
func (c *chat) watch(ctx context.Context) error {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	ticker := time.NewTicker(silent / 4)
	defer ticker.Stop()
	asked, looking := false, false
	c.last, c.missed = time.Now(), 0
	if c.stopping {
		c.stopping, asked = false, true
		c.stop(watching, c.running)
	}
	for c.running != "" {
		select {
		case <-c.Wake:
			if err := c.drain(ctx); err != nil {
				return err
			}
		case then := <-c.done:
			then()
		case <-ticker.C:
			if !looking && time.Since(c.last) > silent {
				looking = true
				c.look(watching, func() { looking = false })
			}
		case <-ctx.Done():
			return dialog.ErrLeft
		case <-c.Interrupts:
			if asked {
				c.Note("Left in the middle of the answer.")
				return dialog.ErrLeft
			}
			asked = true
			c.stop(watching, c.running)
		}
	}
	if asked && !c.Prompting { // without a prompt, Ctrl-C ends the conversation
		return dialog.ErrLeft
	}
	return nil
}

// background makes a request while events are shown. It passes the outcome to then, unless ctx is done.
func background[T any](ctx context.Context, c *chat, request func() (T, error), then func(T, error)) {
	go func() {
		value, err := request()
		select {
		case c.done <- func() {
			if ctx.Err() == nil {
				then(value, err)
			}
		}:
		case <-ctx.Done():
		}
	}()
}

// stop stops a run.
func (c *chat) stop(ctx context.Context, runID string) {
	request := func(ctx context.Context) (any, error) {
		return nil, c.client.Interrupt(ctx, c.session, runID, "Ctrl-C")
	}
	background(ctx, c, func() (any, error) { return persist(ctx, request) }, func(_ any, err error) {
		if err != nil && !errors.Is(err, cairn.ErrNotRunning) {
			c.Fail(err)
		}
	})
}

// look compares the session with its events, and resumes it if no process drives it.
func (c *chat) look(ctx context.Context, then func()) {
	request := func() (*client.Status, error) {
		st, err := c.client.Status(ctx, c.session)
		if err == nil && st.Session.Status == cairn.SessionActive && st.Resumable.Resume {
			_, err = c.client.Resume(ctx, c.session)
		}
		return st, err
	}
	background(ctx, c, request, func(st *client.Status, err error) {
		then()
		c.last = time.Now()
		if err != nil { // the feed knows when to stop
			return
		}
		if st.Session.Status == cairn.SessionActive {
			c.missed = 0
			return
		}
		if c.missed++; c.missed > 1 { // the end is not on the log
			c.running, c.waiting = "", st.Session.Status == cairn.SessionPaused
		}
	})
}

// drain shows the events that have arrived.
func (c *chat) drain(ctx context.Context) error {
	list, over, err := c.feed.take()
	for _, ev := range list {
		if ev.Type == cairn.EventSessionDeleted {
			over, err = true, nil
			break
		}
		c.take(ev)
	}
	switch {
	case !over:
		return nil
	case err == nil:
		c.Note("The session was deleted.")
		c.feed.close()
		return dialog.ErrLeft
	case !errors.Is(err, cairn.ErrTrimmed):
		return err
	}
	c.Note("Part of the answer was trimmed from the log: /history shows it.")
	snap, err := patiently(ctx, c, func(ctx context.Context) (*client.SessionSnapshot, error) { return c.client.Snapshot(ctx, c.session) })
	if err == nil {
		c.stand(ctx, snap)
	}
	return err
}

// take updates the session's position from an event, and shows the event.
func (c *chat) take(ev cairn.Event) {
	c.last, c.missed = time.Now(), 0
	if c.ended != "" && (ev.RunID == c.ended || ev.RunID == "" || ev.SessionID != c.session) {
		return
	}
	c.ended = ""
	if ev.SessionID == c.session {
		c.Agent = cmp.Or(ev.Agent, c.Agent)
		switch ev.Type {
		case cairn.EventRunStart, cairn.EventRunResumed:
			c.running, c.waiting = ev.RunID, false
		case cairn.EventRunEnd:
			if c.running == ev.RunID {
				c.running = ""
			}
			c.waiting, c.failed = ev.Status == cairn.RunSuspended, nil
			switch {
			case ev.Error != nil:
				c.failed = ev.Error
			case ev.Status == cairn.RunInterrupted:
				c.failed = errInterrupted
			}
		case cairn.EventUserMessage:
			if !c.own[ev.RunID] && ev.Index >= c.known {
				c.Said(ev.Text)
			}
			delete(c.own, ev.RunID)
		case cairn.EventRewound:
			c.known = min(c.known, ev.MessageCount)
		}
	}
	for _, ev := range c.repeats.pass(ev) {
		c.Show(ev)
	}
}

// decide asks about the first pending call of the session, or resumes the session once all calls have answers.
func (c *chat) decide(ctx context.Context) error {
	st, err := patiently(ctx, c, func(ctx context.Context) (*client.Status, error) { return c.client.Status(ctx, c.session) })
	if err != nil {
		return err
	}
	if st.Session.Status == cairn.SessionActive {
		c.running = st.Session.RunID
		return nil
	}
	c.waiting = st.Session.Status == cairn.SessionPaused
	switch {
	case !c.waiting:
		return nil
	case st.Resumable.Resume:
		return c.resume(ctx)
	case len(st.Calls) == 0: // they have just been answered
		return c.rest(ctx)
	}
	call := &st.Calls[0]
	answer, ok, err := c.question(ctx, call)
	switch {
	case errors.Is(err, dialog.ErrWoken):
		return c.drain(ctx)
	case err != nil:
		return err
	case !ok:
		return dialog.ErrLeft
	}
	receipt, err := patiently(ctx, c, func(ctx context.Context) (*cairn.Receipt, error) { return c.client.Submit(ctx, c.session, answer) })
	switch {
	case errors.Is(err, dialog.ErrLeft), passing(err):
		return err
	case err != nil:
		_ = c.report(err)
		if !c.Prompting {
			return dialog.ErrLeft
		}
	case receipt.Outcome != cairn.OutcomeAccepted && receipt.Call != nil:
		c.Note(calls.Sentence(*receipt))
	}
	return nil
}

// pending shows the calls that are pending when this client picks up the session.
func (c *chat) pending(ctx context.Context) error {
	st, err := c.client.Status(ctx, c.session)
	if err != nil {
		return err
	}
	for i := range st.Calls {
		call := &st.Calls[i]
		c.Print(c.Waits(call.Kind, call.Tool, call.Input, call.Deadline))
		if call.Prompt != "" {
			c.Note(dialog.Indent + output.OneLine(call.Prompt, 0))
		}
	}
	return nil
}

// question asks about a call.
func (c *chat) question(ctx context.Context, call *cairn.PendingCall) (cairn.Submission, bool, error) {
	if call.Kind == cairn.CallApproval {
		return c.Approval(ctx, call, output.OneLine(call.Tool+" "+string(call.Input), output.Width))
	}
	return c.Value(ctx, call)
}

// resume resumes a session whose calls all have answers. A worker of the server may be faster.
func (c *chat) resume(ctx context.Context) error {
	started, err := patiently(ctx, c, func(ctx context.Context) (*client.Started, error) { return c.client.Resume(ctx, c.session) })
	switch {
	case errors.Is(err, cairn.ErrAlreadyRunning), errors.Is(err, cairn.ErrStale), errors.Is(err, cairn.ErrNotResumable):
		return c.rest(ctx)
	case err != nil:
		return err
	}
	c.running, c.waiting = started.RunID, false
	return nil
}

// rest pauses briefly for another process to act.
func (c *chat) rest(ctx context.Context) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.Interrupts:
		return dialog.ErrLeft
	case <-ctx.Done():
		return dialog.ErrLeft
	}
	return c.drain(ctx)
}
