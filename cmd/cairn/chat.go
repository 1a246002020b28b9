package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/support"
	"github.com/cairn-agents/cairn/engine"
)

// chat is a conversation with the demo's agent over lines of text.
type chat struct {
	eng        *engine.Engine
	session    string
	user       string
	screen     *screen
	lines      *lines
	interrupts <-chan os.Signal
	// prompting says that somebody sits at a terminal.
	prompting bool
	failed    error // of the last answer; nil if there was none or it went well
	left      bool  // the user does not want to wait any longer
}

func newChat(a *app, d *desk, session, user string, interrupts <-chan os.Signal) *chat {
	return &chat{
		eng: d.eng, session: session, user: user, interrupts: interrupts,
		screen:    newScreen(a),
		lines:     readLines(a.stdin),
		prompting: isTerminal(a.stdin) && isTerminal(a.stdout),
	}
}

// errLeft says that the conversation ends before the answer did.
var errLeft = errors.New("left")

// patience is how long to wait for an answer when the conversation ends.
func (c *chat) patience() time.Duration {
	if c.left {
		return 0
	}
	return grace
}

// talk goes on with the session and answers lines until there are no more. Where nobody sits at a terminal, the error
// is that of the last answer.
func (c *chat) talk(ctx context.Context) error {
	err := c.pickUp(ctx)
	for err == nil {
		var line string
		var ok bool
		if line, ok, err = c.ask(ctx); err != nil || !ok {
			break
		}
		err = c.obey(ctx, line)
	}
	switch {
	case errors.Is(err, errLeft):
		err = nil
	case err == nil && !c.prompting:
		err = c.failed
	}
	return err
}

// pickUp shows where the session stands and completes an answer that was cut off.
func (c *chat) pickUp(ctx context.Context) error {
	snap, err := c.eng.Snapshot(ctx, c.session)
	if errors.Is(err, cairn.ErrNotFound) {
		c.screen.note("Ask about an order, such as \"Order 42 arrived broken\". /help tells more.")
		return nil
	}
	if err != nil {
		return err
	}
	c.screen.recent(snap.Messages)
	c.screen.seen = snap.Sequence
	if err := c.settle(ctx); err != nil {
		return err
	}
	row, err := c.eng.Session(ctx, c.session)
	if err != nil {
		return err
	}
	switch row.Status {
	case cairn.SessionFailed:
		c.screen.note("The last answer failed. Enter /retry to try again.")
	case cairn.SessionInterrupted:
		c.screen.note("The last answer was interrupted. Enter /resume to go on with it.")
	}
	return nil
}

// settle returns when no run holds the session: an answer that another process gives is shown, one that a process left
// behind is completed.
func (c *chat) settle(ctx context.Context) error {
	for {
		row, err := c.eng.Session(ctx, c.session)
		if err != nil || row.Status != cairn.SessionActive {
			return err
		}
		can, err := c.eng.CanResume(ctx, c.session)
		if err != nil {
			return err
		}
		if can.Resume {
			if c.screen.partial {
				c.screen.note("The answer was cut off: its last step starts again.")
			} else {
				c.screen.note("The last answer was cut off: going on with it.")
			}
			run, err := c.eng.Resume(ctx, c.session)
			switch {
			case errors.Is(err, cairn.ErrAlreadyRunning), errors.Is(err, cairn.ErrStale):
				continue // another process was faster
			case err != nil:
				return c.report(err)
			}
			if err := c.skipDiscarded(ctx); err != nil {
				return err
			}
			if err := c.stream(ctx, run, nil); err != nil {
				return err
			}
			continue
		}
		if err := c.watch(ctx); err != nil {
			return err
		}
	}
}

// watch shows the answer that another process gives, until it ends or that process turns out to be dead. What is in the
// log already is held back until more comes: if the process is dead it will be said again.
func (c *chat) watch(ctx context.Context) error {
	run, err := c.eng.Attach(ctx, c.session)
	if err != nil {
		return err
	}
	c.screen.note("Another process is answering, or died a moment ago. Waiting for it.")
	for ev, err := range c.unseen(ctx) {
		if err != nil {
			return err
		}
		c.screen.hold(ev.Sequence)
	}
	defer c.screen.release()
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

// ask returns the next line. ok is false when there are no more, errLeft says that the user wants to go.
func (c *chat) ask(ctx context.Context) (line string, ok bool, err error) {
	for {
		if c.prompting {
			c.screen.prompt()
		}
		select {
		case line, ok = <-c.lines.next:
		case <-c.interrupts:
			c.screen.newline()
			return "", false, errLeft
		case <-ctx.Done():
			c.screen.newline()
			return "", false, errLeft
		}
		if !ok {
			if c.prompting {
				c.screen.newline()
			}
			return "", false, c.lines.err
		}
		c.screen.typed()
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if !c.prompting {
			c.screen.said(line)
		}
		return line, true, nil
	}
}

const helpText = `Write what you want, for example:
  Where is order 44?
  Order 42 arrived broken
  Ship order 43 to 5 Elm Road, Boston
  What has Grace Hopper ordered?
Commands:
  /history  show the whole conversation
  /resume   go on with an answer that was interrupted
  /retry    try again after an answer failed
  /quit     leave; Ctrl-D and Ctrl-C do too
Ctrl-C while an answer comes stops it. Kill the process at any time: it goes on when you start it again.`

// obey answers one line. The error ends the conversation.
func (c *chat) obey(ctx context.Context, line string) error {
	switch line {
	case "/quit", "/exit":
		return errLeft
	case "/help":
		c.screen.note(helpText)
		return nil
	case "/history":
		return c.report(c.history(ctx))
	case "/retry":
		return c.answer(ctx, func() (*engine.Run, error) { return c.eng.Retry(ctx, c.session) })
	case "/resume":
		return c.answer(ctx, func() (*engine.Run, error) { return c.eng.Resume(ctx, c.session) })
	}
	if strings.HasPrefix(line, "/") {
		return c.report(cairn.Errorf(cairn.CodeInvalid, "there is no command %s; /help lists them", strings.Fields(line)[0]))
	}
	return c.answer(ctx, func() (*engine.Run, error) {
		return c.eng.Execute(ctx, c.session, support.Name, cairn.Text(line), engine.WithUser(c.user), engine.WithTags("demo"))
	})
}

// report shows an error that does not end the conversation.
func (c *chat) report(err error) error {
	c.failed = err
	if err != nil {
		c.screen.fail(err)
	}
	return nil
}

func (c *chat) history(ctx context.Context) error {
	snap, err := c.eng.Snapshot(ctx, c.session)
	if err != nil {
		return err
	}
	for i := range snap.Messages {
		c.screen.message(&snap.Messages[i])
	}
	return nil
}

// answer begins a run and shows it. If another process holds the session it is waited for.
func (c *chat) answer(ctx context.Context, begin func() (*engine.Run, error)) error {
	for {
		run, err := begin()
		if errors.Is(err, cairn.ErrAlreadyRunning) {
			if err := c.settle(ctx); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return c.report(err)
		}
		return c.stream(ctx, run, nil)
	}
}
