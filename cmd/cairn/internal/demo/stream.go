package demo

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/dialog"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/pages"
	"github.com/cairn-agents/cairn/engine"
)

// errInterrupted is the outcome of an interrupted answer.
var errInterrupted = cairn.Errorf(cairn.ErrNotExecuted, "the answer was interrupted")

// stream shows a run's events to its end. watching is set for a run that another process drives: when it is done,
// there is nothing more to show. The error ends the conversation; a failed answer returns none.
func (c *chat) stream(ctx context.Context, run *engine.Run, watching context.Context) error {
	reading := context.WithoutCancel(ctx) // an answer may finish after the process received the signal to terminate
	if watching != nil {
		reading = watching
	}
	reading, stop := context.WithCancelCause(reading)
	answering, ended := context.WithCancel(reading)
	defer ended()
	heed := heeding{chat: c, elsewhere: watching != nil, reading: reading, answering: answering, stop: stop}
	var wg sync.WaitGroup
	wg.Go(func() { heed.signals(ctx) })
	err := c.show(reading, run, ended)
	cause := context.Cause(reading)
	stop(nil)
	wg.Wait()
	if heed.err != nil {
		c.Fail(heed.err)
	}

	switch {
	case errors.Is(cause, dialog.ErrLeft):
		c.left = true
		c.Note("Left in the middle of the answer. Start again to resume it.")
		return dialog.ErrLeft
	case errors.Is(err, cairn.ErrClosed):
		c.Note("Stopped in the middle of the answer. Start again to resume it.")
		return dialog.ErrLeft
	case ctx.Err() != nil, heed.late:
		return dialog.ErrLeft
	case watching != nil && errors.Is(err, context.Canceled):
		return nil // settle looks again
	}
	c.failed = err
	if heed.asked && errors.Is(err, errInterrupted) {
		if !c.Prompting {
			return err // without a prompt, Ctrl-C ends the conversation
		}
		c.failed = nil
	}
	return nil
}

// show prints events until the run ends and returns the run's error, if it has one. It calls ended before it prints
// how the run ended.
func (c *chat) show(ctx context.Context, run *engine.Run, ended func()) error {
	for ev, err := range run.Events(ctx) {
		if err != nil {
			c.Newline()
			return err
		}
		if ev.Ends(run.ID()) {
			ended()
		}
		c.Show(ev)
	}
	c.Newline()
	res, err := run.Wait(ctx)
	switch {
	case err == nil && res.Status == cairn.RunInterrupted:
		return errInterrupted
	case err == nil && res.Status == cairn.RunSuspended: // another process may answer and resume it before this one asks
		c.behind = true
	}
	return err
}

// heeding handles signals while the events of an answer are read.
type heeding struct {
	chat      *chat
	elsewhere bool // another process drives the run
	reading   context.Context
	answering context.Context // derived from reading; ends with the run
	stop      context.CancelCauseFunc

	asked bool  // the answer was interrupted from here
	late  bool  // Ctrl-C arrived after the answer had ended; it counts as one at the prompt
	err   error // the interrupt failed
}

// signals returns when the run has ended. The first Ctrl-C interrupts the answer, the second leaves it behind. When
// ctx ends because the process is terminated, the answer gets a grace time to end.
func (h *heeding) signals(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		select {
		case <-h.answering.Done():
			return
		case <-ctx.Done():
			switch {
			case h.elsewhere:
				h.stop(nil)
				return
			case h.chat.desk.Hosting != nil: // the host continues the answer
				h.leaveAfter(grace)
				return
			}
			closing, cancel := context.WithTimeout(h.reading, grace)
			defer cancel()
			_ = h.chat.eng.Close(closing) // the events of a run that could not end say so
			return
		case <-h.chat.Interrupts:
		}
		switch {
		case h.answering.Err() != nil: // the run has ended: its pending calls, if any, must not be cancelled
			h.late = true
			return
		case h.asked:
			h.stop(dialog.ErrLeft)
			return
		}
		h.asked = true
		wg.Go(func() {
			err := h.chat.eng.Interrupt(h.reading, h.chat.session, "Ctrl-C")
			if err != nil && h.reading.Err() == nil && !errors.Is(err, cairn.ErrNotRunning) {
				h.err = err
			}
		})
	}
}

// leaveAfter leaves the answer behind if it has not ended within wait.
func (h *heeding) leaveAfter(wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-h.reading.Done():
	case <-timer.C:
		h.stop(dialog.ErrLeft)
	}
}

// unseen yields the events that are on the log but not on the screen.
func (c *chat) unseen(ctx context.Context) iter.Seq2[cairn.Event, error] {
	return pages.Events(ctx, c.eng, c.session, cairn.After(c.Seen))
}

// skipDiscarded makes the screen skip what a dead process published and what was discarded since.
func (c *chat) skipDiscarded(ctx context.Context) error {
	var open []cairn.Event // events of steps that are neither committed nor discarded
	for ev, err := range c.unseen(ctx) {
		if err != nil {
			return err
		}
		switch ev.Type {
		case cairn.EventStepCommitted:
			open = slices.DeleteFunc(open, func(e cairn.Event) bool {
				return e.SessionID == ev.SessionID && e.RunID == ev.RunID && e.Step == ev.Step
			})
		case cairn.EventStepDiscarded:
			for _, e := range append(open, ev) {
				if ev.Voids(&e) {
					c.Skip[e.Sequence] = true
				}
			}
		default:
			open = append(open, ev)
		}
	}
	return nil
}
