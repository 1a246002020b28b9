package effects

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/session"
)

// table has the effects by name: each is one entry.
var table = map[string]kind{
	turn.Plan.Name:  of(turn.Plan, effect[turn.Position, turn.Planned]{input: position, run: (*Effects).plan, prepare: (*Effects).discardAttempts}),
	turn.Tool.Name:  of(turn.Tool, effect[turn.ToolIn, turn.ToolOut]{input: call, run: (*Effects).perform}),
	turn.Child.Name: of(turn.Child, effect[turn.ChildIn, turn.ChildOut]{input: whole, run: (*Effects).child, remote: (*Effects).remoteChild, late: (*Effects).lateChild}),
	turn.Judge.Name: of(turn.Judge, effect[turn.Position, turn.Judged]{input: position, run: (*Effects).judge}),
	turn.Commit.Name: of(turn.Commit, effect[turn.Position, turn.Committed]{input: position, run: (*Effects).commit, commits: true,
		late: func(_ *Effects, _ context.Context, _ turn.Position, over turn.Committed) (turn.Committed, error) {
			return over, nil
		}}),
	turn.Notify.Name: {carry: func(ctx context.Context, fx *Effects, in turn.ChildIn) (any, error) {
		return fx.notify(ctx, in.Position, in.Failed)
	}},
}

// kind is an effect of any input and output.
type kind struct {
	run   func(context.Context, *Effects, turn.Effect) error // nil for an effect that only hosts ask for
	carry func(context.Context, *Effects, turn.ChildIn) (any, error)
}

// effect is what executes an effect of a step.
type effect[In, Out any] struct {
	// input returns what the effect takes of what it may be given.
	input func(turn.ChildIn) In
	// run executes the effect. If failed is set, the host has abandoned it: run records that as the outcome, without
	// calling user code.
	run runs[In, Out]
	// remote is run where a host has the effects executed one by one; nil for the same.
	remote runs[In, Out]
	// prepare makes the log fit for a remote effect; nil for [Effects.follow].
	prepare func(*Effects, context.Context, *session.Live) error
	// late returns the output of a remote effect whose step is no longer under way, but over; nil for an empty one.
	late func(fx *Effects, ctx context.Context, in In, over turn.Committed) (Out, error)
	// commits reports whether the effect commits the step.
	commits bool
}

type runs[In, Out any] func(fx *Effects, ctx context.Context, l *session.Live, a *cairn.Agent, in In, failed *cairn.Error) (Out, error)

func position(in turn.ChildIn) turn.Position { return in.Position }
func call(in turn.ChildIn) turn.ToolIn       { return in.ToolIn }
func whole(in turn.ChildIn) turn.ChildIn     { return in }

// of returns the entry of an effect.
func of[In, Out any](k turn.Kind[In, Out], x effect[In, Out]) kind {
	return kind{
		run: func(ctx context.Context, fx *Effects, e turn.Effect) error {
			in, ok := turn.InputOf(e)
			out, fits := e.Out.(*Out)
			if !ok || !fits {
				return cairn.Invalid("effect", "%s: unsupported input and output types %T and %T", k.Name, e.In, e.Out)
			}
			l, a, err := fx.hold(in.Position)
			if err == nil {
				*out, err = x.run(fx, ctx, l, a, x.input(in), in.Failed)
			}
			return err
		},
		carry: x.carry,
	}
}

// Run executes one effect of a run that this process drives.
func (fx *Effects) Run(ctx context.Context, e turn.Effect) error {
	if run := table[e.Name].run; run != nil {
		return run(ctx, fx, e)
	}
	return fmt.Errorf("unknown effect %q", e.Name)
}

// Carry executes one effect, in any process that has the agent, and returns its output. It finds what the run's other
// effects left in the store, and uses its own copy of the session as long as the store has nothing newer. An effect may
// be executed again; what it has done is not done twice. Carry returns ErrFenced if another process has taken over the
// session.
//
// The output is valid along with an error, too, for what it says of runs that have ended or are to be driven.
func (fx *Effects) Carry(ctx context.Context, name string, in json.RawMessage) (out any, err error) {
	var asked turn.ChildIn
	if err := json.Unmarshal(in, &asked); err != nil {
		return nil, cairn.Invalid("effect", "%s: decode input: %s", name, err)
	}
	if carry := table[name].carry; carry != nil {
		return carry(ctx, fx, asked)
	}
	return nil, cairn.Invalid("effect", "unknown effect %q", name)
}

// carry executes the effect as a remote one.
func (x effect[In, Out]) carry(ctx context.Context, fx *Effects, asked turn.ChildIn) (any, error) {
	ctx, abandon := context.WithCancelCause(ctx)
	defer abandon(nil)
	prepare, run, in := x.prepare, x.remote, x.input(asked)
	if prepare == nil {
		prepare = (*Effects).follow
	}
	if run == nil {
		run = x.run
	}
	g, err := fx.ready(ctx, asked.Position, journal.Attempt{Step: asked.Step, Commits: x.commits, Abandon: abandon}, prepare)
	if g == nil {
		return nil, err
	}
	defer g.leave()
	var out Out
	switch {
	case g.over != nil && x.late != nil:
		out, err = x.late(fx, ctx, in, *g.over)
		return out, err
	case g.over != nil:
		return out, nil
	}
	defer g.limit(ctx, asked.Position)()
	if err == nil {
		out, err = run(fx, ctx, g.l, g.a, in, asked.Failed)
	}
	if flushed := g.emit.Flush(ctx); err == nil {
		err = flushed
	}
	if lost := g.emit.Lost(); lost != nil { // it may have caused any other error
		err = lost
	}
	if err == nil {
		g.keep(out)
	}
	return out, err
}
