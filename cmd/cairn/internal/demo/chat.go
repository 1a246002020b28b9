package demo

import (
	"cmp"
	"context"
	"errors"
	"os"
	"time"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/dialog"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/setup"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/support"
	"github.com/cairn-agents/cairn/engine"
)

// DefaultSession is the session that the demo begins or resumes if none is named.
const DefaultSession = "demo"

// grace is how long an answer may take once the process is terminated.
const grace = 2 * time.Second

// chat is a conversation with the demo's agent over lines of text.
type chat struct {
	desk    *setup.Setup
	eng     *engine.Engine
	session string
	user    string
	yes     bool   // approves every call without asking
	program string // how this program is called
	*dialog.Dialog
	failed error // error of the last answer; nil if none failed
	left   bool  // the user does not want to wait any longer
	// behind reports whether another process drove the session, so that there may be more to show.
	behind bool
}

func newChat(a *cli.App, d *setup.Setup, session string, interrupts <-chan os.Signal) *chat {
	c := &chat{
		desk: d, eng: d.Eng, session: session, program: cmp.Or(a.Program, "cairn"),
		Dialog: dialog.New(a, interrupts),
	}
	c.Agent = support.Name
	return c
}

// line returns the next line. At a terminal it returns early, woken, if another process has changed the session.
func (c *chat) line(ctx context.Context) (line string, ok, woken bool, err error) {
	ask := func() (err error) {
		line, ok, err = c.Ask(ctx, "")
		return err
	}
	if err = c.watched(ctx, c.state(ctx), ask); errors.Is(err, dialog.ErrWoken) {
		c.behind = true
		return "", false, true, nil
	}
	return line, ok, false, err
}

// patience returns how long to wait for an answer when the conversation ends.
func (c *chat) patience() time.Duration {
	if c.left {
		return 0
	}
	return grace
}

// talk resumes the session and answers lines until there are no more. Without a terminal, it returns the error of
// the last answer.
func (c *chat) talk(ctx context.Context) error {
	err := c.pickUp(ctx)
	for err == nil {
		line, ok, woken, asked := c.line(ctx)
		if woken {
			err = c.settle(ctx)
			continue
		}
		if err = asked; err != nil || !ok {
			break
		}
		if err = c.obey(ctx, line); err == nil {
			err = c.settle(ctx)
		}
	}
	c.farewell(ctx)
	switch {
	case ctx.Err() != nil: // the process is terminated
		return nil
	case err != nil && !errors.Is(err, dialog.ErrLeft):
		return err
	case c.Prompting:
		return nil
	}
	return c.failed
}
