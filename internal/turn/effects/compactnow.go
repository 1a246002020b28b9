package effects

import (
	"cmp"
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/store/driver"
)

// Summarise returns the message that is to stand for the older part of a session that no run holds, and the usage of
// making it. It returns ErrInvalid if nothing is older than what the agent's compaction keeps.
func (fx *Effects) Summarise(ctx context.Context, a *cairn.Agent, snap *driver.Contents) (m cairn.Message, usage step.Bill, err error) {
	l, err := session.New(snap, fx.Now())
	if err != nil {
		return m, usage, err
	}
	r := fx.roomFor(a, a.Model, &a.Settings)
	n := transcript.Tokens(sent(l, a.Model, nil))
	r.all, r.keep, r.piece = max(r.all, n), n*int64(r.Keep)/100, cmp.Or(r.piece, n)
	all := without(l, a.Model, l.Messages)
	cut, err := r.cut(all, l.First(), 0, true)
	if errors.Is(err, &cairn.Error{Code: cairn.ErrContextLength}) {
		return m, usage, cairn.Invalid("session", "%q has no older messages to summarise", l.Row.ID)
	}
	if err != nil {
		return m, usage, err
	}
	if m, usage, err = fx.summaryOf(ctx, a, l, r, all[:cut:cut], ""); err != nil {
		return m, usage, err
	}
	fx.restate(a, l.Row.ID, l.Index(), &m)
	return m, usage, nil
}
