package demo

import (
	"context"
	"errors"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/dialog"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/support"
	"github.com/cairn-agents/cairn/engine"
)

const helpText = `Write what you want, for example:
  Where is order 44?
  Order 42 arrived broken
  Ship order 43 to 5 Elm Road, Boston
  What has Grace Hopper ordered?
Commands:
  /history  show the whole conversation
  /resume   resume an answer that was interrupted
  /retry    try again after an answer failed
  /model    have another model answer: /model anthropic:claude-sonnet-5
  /quit     leave; Ctrl-D and Ctrl-C do too
A large refund is pending until a reviewer approves it, here or from any terminal with cairn inbox.
Ctrl-C while an answer comes stops it. Kill the process at any time: the answer is resumed when you start it again.`

// obey answers one line. The error ends the conversation.
func (c *chat) obey(ctx context.Context, line string) error {
	switch line {
	case "/quit", "/exit":
		return dialog.ErrLeft
	case "/help":
		c.Note(helpText)
		return nil
	case "/history":
		return c.report(c.history(ctx))
	case "/retry":
		return c.answer(ctx, func() (*engine.Run, error) { return c.eng.Retry(ctx, c.session) })
	case "/resume":
		if c.paused(ctx) {
			return c.showWaiting(ctx) // settle does the rest
		}
		return c.answer(ctx, func() (*engine.Run, error) { return c.eng.Resume(ctx, c.session) })
	}
	if name, ok := strings.CutPrefix(line, "/model "); ok {
		err := c.desk.Switch(strings.TrimSpace(name))
		if err == nil {
			c.Note("Model " + strings.TrimSpace(name) + " answers from now on.")
		}
		return c.report(err)
	}
	if strings.HasPrefix(line, "/") {
		return c.report(cairn.Errorf(cairn.ErrInvalid, "unknown command %s; /help lists the commands", strings.Fields(line)[0]))
	}
	if c.paused(ctx) { // by another process's turn: this turn must follow the answers to its pending calls
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

// paused reports whether the session has pending calls.
func (c *chat) paused(ctx context.Context) bool {
	row, err := c.eng.Session(ctx, c.session)
	return err == nil && row.Status == cairn.SessionPaused
}

// report shows an error that does not end the conversation, if there is one.
func (c *chat) report(err error) error {
	c.failed = err
	if err != nil {
		c.Fail(err)
	}
	return nil
}

func (c *chat) history(ctx context.Context) error {
	snap, err := c.eng.Snapshot(ctx, c.session)
	if err != nil {
		return err
	}
	for i := range snap.Messages {
		c.Message(&snap.Messages[i])
	}
	return nil
}

// answer begins a run and shows it. If another process holds the session, it waits until the session is free.
func (c *chat) answer(ctx context.Context, begin func() (*engine.Run, error)) error {
	for {
		run, err := begin()
		if errors.Is(err, cairn.ErrAlreadyRunning) || errors.Is(err, cairn.ErrWaiting) {
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
