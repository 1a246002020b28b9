package demo

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
)

// pickUp shows the state of the session and completes an answer that was cut off.
func (c *chat) pickUp(ctx context.Context) error {
	snap, err := c.eng.Snapshot(ctx, c.session)
	if errors.Is(err, cairn.ErrNotFound) {
		c.Note("Ask about an order, such as \"Order 42 arrived broken\". /help shows more.")
		return nil
	}
	if err != nil {
		return err
	}
	c.Recent(snap.Messages)
	c.Seen = snap.Sequence
	if snap.Session.Status == cairn.SessionPaused {
		if err := c.showWaiting(ctx); err != nil {
			return err
		}
	}
	if err := c.settle(ctx); err != nil {
		return err
	}
	row, err := c.eng.Session(ctx, c.session)
	if err != nil {
		return err
	}
	switch row.Status {
	case cairn.SessionFailed:
		c.Note("The last answer failed. Enter /retry to try again.")
	case cairn.SessionInterrupted:
		c.Note("The last answer was interrupted. Enter /resume to resume it.")
	}
	return nil
}

// settle returns when no run holds the session and no call is pending. It shows an answer that another process
// gives, completes one that a dead process left, and asks about pending calls.
func (c *chat) settle(ctx context.Context) error {
	for {
		row, err := c.eng.Session(ctx, c.session)
		switch {
		case errors.Is(err, cairn.ErrNotFound):
			return nil
		case err != nil:
			return err
		case row.Status != cairn.SessionActive && row.Status != cairn.SessionPaused:
			return c.catchUp(ctx)
		}
		can, err := c.eng.CanResume(ctx, c.session)
		switch {
		case err != nil:
		case !can.Resume && row.Status == cairn.SessionPaused:
			err = c.decide(ctx)
		case !can.Resume:
			err = c.watch(ctx)
		default:
			var run *engine.Run
			run, err = c.eng.Resume(ctx, c.session)
			switch {
			case errors.Is(err, cairn.ErrAlreadyRunning), errors.Is(err, cairn.ErrStale), errors.Is(err, cairn.ErrNotResumable):
				c.behind = true // another process was faster
				continue
			case err != nil:
				return c.report(err)
			}
			err = c.resume(ctx, row, run)
		}
		if err != nil {
			return err
		}
	}
}

// resume shows a run that resumes a session. row is the session before it.
func (c *chat) resume(ctx context.Context, row *cairn.Session, run *engine.Run) error {
	switch {
	case row.Status == cairn.SessionPaused:
		return c.stream(ctx, run, nil)
	case c.Partial():
		c.Note("The answer was cut off: its last step starts again.")
	default:
		c.Note("The last answer was cut off: resuming it.")
	}
	if err := c.skipDiscarded(ctx); err != nil {
		return err
	}
	return c.stream(ctx, run, nil)
}

// watch shows the answer that another process gives, until it ends or that process turns out to be dead. Events
// that are already on the log are held back until another one arrives: if the process is dead, they will be
// repeated.
func (c *chat) watch(ctx context.Context) error {
	run, err := c.eng.Attach(ctx, c.session)
	if err != nil {
		return err
	}
	c.behind = true // the other process may finish before this one looks
	c.Note("Another process is answering, or died a moment ago. Waiting for it.")
	for ev, err := range c.unseen(ctx) {
		if err != nil {
			return err
		}
		c.Hold(ev.Sequence)
	}
	defer c.Release()
	watching, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		defer cancel()
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-watching.Done():
				return
			}
			row, err := c.eng.Session(watching, c.session)
			if err != nil || row.RunID != run.ID() {
				return
			}
			if can, err := c.eng.CanResume(watching, c.session); err != nil || can.Resume && row.Status == cairn.SessionActive {
				return
			}
		}
	})
	return c.stream(ctx, run, watching)
}
