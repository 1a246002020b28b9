package demo

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/desk"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/terminal"
	"github.com/cairn-agents/cairn/engine"
)

// DefaultSession is the session that the demo begins or resumes if no other is named.
const DefaultSession = "demo"

// grace is how long an answer may take once the process is terminated.
const grace = 2 * time.Second

// chat is a conversation with the demo's agent over lines of text.
type chat struct {
	desk       *desk.Desk
	eng        *engine.Engine
	session    string
	user       string
	yes        bool   // everything is approved without asking
	program    string // how this program is called
	screen     *screen
	lines      *terminal.Lines
	interrupts <-chan os.Signal
	// prompting is set at a terminal, where lines are typed after a prompt.
	prompting bool
	failed    error // of the last answer; nil if there was none or it went well
	left      bool  // the user does not want to wait any longer
	// behind is set when another process has driven the session, so that there may be more to show.
	behind bool
}

func newChat(a *cli.App, d *desk.Desk, session string, interrupts <-chan os.Signal) *chat {
	return &chat{
		desk: d, eng: d.Eng, session: session, program: cmp.Or(a.Program, "cairn"), interrupts: interrupts,
		screen:    newScreen(a),
		lines:     terminal.ReadLines(a.Stdin),
		prompting: terminal.Is(a.Stdin) && terminal.Is(a.Stdout),
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

// talk resumes the session and answers lines until there are no more. Without a terminal, the error is that of the last
// answer.
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
	case ctx.Err() != nil: // the process is terminated
		return nil
	case err != nil && !errors.Is(err, errLeft):
		return err
	case c.prompting:
		return nil
	}
	return c.failed
}

// ask returns the next line, the answer to a question or what the user says if that is empty. ok is false when there
// are no more lines, errLeft says that the user wants to go.
func (c *chat) ask(ctx context.Context, question string) (line string, ok bool, err error) {
	for {
		if c.prompting {
			c.screen.prompt(question)
		}
		select {
		case line, ok = <-c.lines.Next:
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
			return "", false, c.lines.Err
		}
		c.screen.typed()
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if !c.prompting {
			c.screen.prompt(question)
			c.screen.print(output.Lined(line) + "\n")
			c.screen.typed()
		}
		return line, true, nil
	}
}
