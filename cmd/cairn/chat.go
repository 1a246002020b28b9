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
	desk       *desk
	eng        *engine.Engine
	session    string
	user       string
	yes        bool   // everything is approved without asking
	program    string // how this program is called
	screen     *screen
	lines      *lines
	interrupts <-chan os.Signal
	// prompting says that somebody sits at a terminal.
	prompting bool
	failed    error // of the last answer; nil if there was none or it went well
	left      bool  // the user does not want to wait any longer
	// behind says that another process went on with the session, so that there may be more to show.
	behind bool
}

func newChat(a *app, d *desk, session string, interrupts <-chan os.Signal) *chat {
	return &chat{
		desk: d, eng: d.eng, session: session, program: orElse(a.program, "cairn"), interrupts: interrupts,
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
		if line, ok, err = c.ask(ctx, ""); err != nil || !ok {
			break
		}
		if err = c.obey(ctx, line); err == nil {
			err = c.settle(ctx)
		}
	}
	c.farewell(ctx)
	switch {
	case ctx.Err() != nil: // the process was asked to go
		return nil
	case err != nil && !errors.Is(err, errLeft):
		return err
	case c.prompting:
		return nil
	}
	return c.failed
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
		c.screen.note("The last answer failed. Enter /retry to try again.")
	case cairn.SessionInterrupted:
		c.screen.note("The last answer was interrupted. Enter /resume to go on with it.")
	}
	return nil
}

// settle returns when no run holds the session and it waits for nobody: an answer that another process gives is shown,
// one that a process left behind is completed, and calls that wait for approval are asked about.
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
			err = c.goOn(ctx, row, run)
		}
		if err != nil {
			return err
		}
	}
}

// goOn shows a run that carries on what the session's row tells of.
func (c *chat) goOn(ctx context.Context, row *cairn.Session, run *engine.Run) error {
	switch {
	case row.Status == cairn.SessionPaused:
		return c.stream(ctx, run, nil)
	case c.screen.partial:
		c.screen.note("The answer was cut off: its last step starts again.")
	default:
		c.screen.note("The last answer was cut off: going on with it.")
	}
	if err := c.skipDiscarded(ctx); err != nil {
		return err
	}
	return c.stream(ctx, run, nil)
}

// watch shows the answer that another process gives, until it ends or that process turns out to be dead. What is in the
// log already is held back until more comes: if the process is dead it will be said again.
func (c *chat) watch(ctx context.Context) error {
	run, err := c.eng.Attach(ctx, c.session)
	if err != nil {
		return err
	}
	c.behind = true // it may go on faster than this one looks
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

// ask returns the next line, the answer to a question or what the user says if that is empty. ok is false when there are
// no more lines, errLeft says that the user wants to go.
func (c *chat) ask(ctx context.Context, question string) (line string, ok bool, err error) {
	for {
		if c.prompting {
			c.screen.prompt(question)
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
			c.screen.prompt(question)
			c.screen.print(lined(line) + "\n")
			c.screen.typed()
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
A large refund waits until somebody approves it, here or from anywhere else with cairn inbox.
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
		if c.paused(ctx) {
			return c.showWaiting(ctx) // settle sees to the rest
		}
		return c.answer(ctx, func() (*engine.Run, error) { return c.eng.Resume(ctx, c.session) })
	}
	if strings.HasPrefix(line, "/") {
		return c.report(cairn.Errorf(cairn.CodeInvalid, "there is no command %s; /help lists them", strings.Fields(line)[0]))
	}
	if c.paused(ctx) { // by a turn that another process took: this one would withdraw what that waits for
		err := c.showWaiting(ctx)
		if err == nil {
			err = c.settle(ctx)
		}
		if err != nil {
			return err
		}
	}
	return c.answer(ctx, func() (*engine.Run, error) {
		return c.eng.Execute(ctx, c.session, support.Name, cairn.Text(line), engine.WithUser(c.user), engine.WithTags("demo"))
	})
}

// paused reports whether the session waits for somebody.
func (c *chat) paused(ctx context.Context) bool {
	row, err := c.eng.Session(ctx, c.session)
	return err == nil && row.Status == cairn.SessionPaused
}

// report shows an error that does not end the conversation, if there is one.
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
