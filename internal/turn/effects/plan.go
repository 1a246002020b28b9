package effects

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/retry"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/internal/turn/user"
)

// plan asks the model for the step's reply and returns the calls to run. A model that fails for good, a veto and a stop
// request are not errors: the step's commit handles them. If abandoned is set, the host has abandoned the effect: plan
// records abandoned as the reply's failure, and calls no user code.
func (fx *Effects) plan(ctx context.Context, l *session.Live, a *cairn.Agent, at turn.Position, abandoned *cairn.Error) (turn.Planned, error) {
	if l.Step == nil || l.Step.Number != at.Step {
		l.Step = l.NewStep(at.Step)
	}
	if l.Unopened() && abandoned == nil {
		if err := fx.open(ctx, a, l); err != nil {
			return turn.Planned{}, err
		}
	}
	if l.Step.Planned() {
		return fx.planned(l, a, true), nil
	}
	var answers []cairn.Message
	if abandoned == nil {
		err := fx.persist(ctx, func() (err error) { answers, err = fx.companionAnswers(ctx, a, l); return err })
		if err != nil {
			return turn.Planned{}, err
		}
	}
	l.Emit.Event(journal.StepStart(at.Step))
	if err := l.Emit.Lost(); err != nil {
		return turn.Planned{}, err
	}

	work, key := l.Work(ctx)
	defer l.Release(key)
	r := &step.Reply{Failed: abandoned}
	s := fx.Scope(l, at.Step, l.Step.Below(nil)...).Hold()
	if abandoned == nil && !l.Step.EndedByBudget() {
		err := fx.ask(work, a, l, s, r, answers)
		if limit := (*limitError)(nil); errors.As(err, &limit) {
			atLimit(r, limit)
		} else if err != nil {
			r.Failed = cairn.AsError(err)
		}
	}
	// An ended ctx is neither a failure nor a stop: the step is left as if it had never begun.
	if ctx.Err() != nil {
		fx.leaveCall(ctx, l, r.Usage)
		return turn.Planned{}, context.Cause(ctx)
	}
	if r.Writes = s.End(); r.Message != nil {
		r.Message.ID = l.Step.ID + "/reply"
	}
	if err := fx.replied(ctx, a, l, r); err != nil {
		return turn.Planned{}, err
	}
	return fx.planned(l, a, l.Step.Failed() == nil && l.StopRequest() == nil), nil
}

// replied adds the reply to the step. A reply that was broken off by a failure or a stop is kept for this step's commit
// only; the next lease holder ignores it.
func (fx *Effects) replied(ctx context.Context, a *cairn.Agent, l *session.Live, r *step.Reply) error {
	// A reply that delegates must last: without it, another attempt would begin other children. So must one with effectful
	// calls, which a process that has it alone stages with the first of them. A reply after deferred steps need not, since
	// those steps are repeated with it.
	lasts := r.Failed == nil && l.StopRequest() == nil && !l.Defers() && (define.Durability(a).Stages() || l.Step.WouldDelegate(r) || l.Shared() && l.Step.WouldSend(r))
	if lasts || l.Shared() {
		l.KeepsAlone(nil)
	} else {
		l.KeepsAlone(r)
	}
	err := fx.put(ctx, l, r, lasts)
	if unkeepable(err) { // what the store rejects once it rejects each time
		spent := l.Step.Spent
		l.Step = l.NewStep(l.Step.Number)
		l.Step.Spent = spent
		err = fx.put(ctx, l, &step.Reply{Usage: discarded(r.Usage), Failed: cairn.AsError(err)}, false)
	}
	return err
}

// planned returns what is left to do in the step under way. If its calls must not run, that is only to judge and commit
// it.
func (fx *Effects) planned(l *session.Live, a *cairn.Agent, run bool) turn.Planned {
	var p turn.Planned
	if run {
		p = l.Step.Plan()
	}
	p.Judge = fx.judges(l, a, l.Step)
	return p
}

// ask makes the model call and records its outcome in to. answers are the outcomes of companions. An error fails the
// run. If user code fails because the run was stopped, ask returns no error.
func (fx *Effects) ask(ctx context.Context, a *cairn.Agent, l *session.Live, s *user.Scope, to *step.Reply, answers []cairn.Message) error {
	number := l.Step.Number
	base, err := fx.request(ctx, a, l, s, to, answers)
	var req *cairn.Request
	if err == nil {
		req, err = fx.before(ctx, l, s, base)
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	var r *reply
	fixes := mender{fx: fx, a: a, l: l}
	for n := 0; ; n++ {
		model, _ := define.Model(a, l.Run.Model)
		r = &reply{step: number, agent: a, live: l, offered: l.Offered(to.Context), logger: fx.Logger, meter: fx.meter(model.Info())}
		err := fx.afford(ctx, a, l, to, req)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err == nil {
			err = fx.stream(ctx, a, l, r, s, req)
		}
		if err == nil {
			break
		}
		if ctx.Err() != nil { // stopped: keep what arrived so far
			if err := take(to, r, true); err != nil || to.Message == nil {
				return err
			}
			to.Message.Fingerprint = fingerprint(l, req, base)
			return nil
		}
		to.Usage = to.Usage.Add(r.meter.wasted())
		if r.said {
			l.Emit.Event(journal.StepDiscarded(number, cairn.AsError(err)))
		}
		mended, why := fixes.mend(ctx, s, to, base, err)
		switch {
		case ctx.Err() != nil:
			return nil
		case why == nil:
			if req = mended; r.said {
				l.Emit.Event(journal.StepStart(number))
			}
			n-- // not an attempt at the same request
			continue
		}
		err = why
		wait, failed := fx.retryWait(ctx, a.Retry, err, n, "the agent's")
		if failed != nil {
			to.Said = r.text()
			return cairn.AsError(failed)
		}
		fx.Logger.Warn("model call failed; retrying", "session", l.Row.ID, "step", number, "error", err, "wait", wait)
		l.Emit.Event(journal.StepRetry(number, n+1, cairn.AsError(err), l.Now(fx.Now()).Add(wait)))
		if retry.Sleep(ctx, wait) != nil {
			return nil
		}
		if r.said {
			l.Emit.Event(journal.StepStart(number))
		}
	}
	if err := take(to, r, false); err != nil {
		return err
	}
	finishReply(ctx, l, s, to)
	to.Message.Fingerprint = fingerprint(l, req, base)
	return nil
}

// finishReply completes a whole reply and calls the AfterModel hooks.
func finishReply(ctx context.Context, l *session.Live, s *user.Scope, to *step.Reply) {
	to.Refused = l.Refused(to.Message)
	if to.Message == nil {
		to.Message = &cairn.Message{Role: cairn.RoleAssistant, Parts: []cairn.Part{cairn.TextPart("")}}
	}
	s.Observe(ctx, "AfterModel", func(h *cairn.Hooks) user.Hook {
		if h.AfterModel == nil {
			return nil
		}
		shown, usage := user.Shown(to.Message), to.Usage.Usage
		return func(ctx context.Context, step *cairn.Step) error { h.AfterModel(ctx, step, shown, usage); return nil }
	})
}

// fingerprint identifies a request, which hooks may have made of base.
func fingerprint(l *session.Live, req, base *cairn.Request) *cairn.Fingerprint {
	changed := len(req.Messages) != len(base.Messages) || len(req.Messages) > 0 && &req.Messages[0] != &base.Messages[0]
	return l.Fingerprint(req, changed)
}

// take makes a finished or partial answer the reply, unless it is invalid.
func take(to *step.Reply, r *reply, partial bool) error {
	m := r.message(partial)
	if r.meter.model != "" {
		to.Requested = r.requested
	}
	if m != nil {
		m.Tokens = r.meter.window()
		if err := m.Validate(); err != nil {
			to.Usage = to.Usage.Add(r.meter.wasted())
			return cairn.Errorf(cairn.ErrModelReply, "cannot store the model's reply: %w", err)
		}
	}
	to.Usage = to.Usage.Add(r.meter.used())
	to.Message, to.Passed = m, r.passed
	return nil
}

// request builds the model's request. It is identical, byte for byte, up to the new messages, so that providers can
// cache the prefix.
func (fx *Effects) request(ctx context.Context, a *cairn.Agent, l *session.Live, s *user.Scope, to *step.Reply, answers []cairn.Message) (*cairn.Request, error) {
	req := &cairn.Request{SessionID: l.Row.ID, Depth: l.Row.Depth, System: a.Instructions, Settings: a.Settings}
	switch b := l.Row.Branch; {
	case b != nil && b.Instructions != "":
		req.System = b.Instructions
	case a.InstructionsFunc != nil:
		var err error
		u := user.Code{What: "the function", Err: cairn.ErrHook, Limit: fx.HookTimeout}
		if req.System, err = user.Lent(ctx, s, u, a.InstructionsFunc); err != nil {
			return nil, cairn.Errorf(cairn.ErrHook, "agent %q: instructions: %w", a.Name, err)
		}
	}
	if err := stepContext(ctx, l, s, to, fx.HookTimeout); err != nil {
		return nil, cairn.Errorf(cairn.ErrHook, "step context: %w", err)
	}
	offers, err := fx.offers(ctx, a, l)
	if err != nil {
		return nil, err
	}
	to.Context = append(to.Context, offers...)
	to.Context = append(to.Context, answers...)
	model, _ := define.Model(a, l.Run.Model)
	req.Messages = sent(l, model, to.Context)
	req.Tools = define.Specs(req.Tools, l.Listed(to.Context))
	if a.Output != nil {
		req.NativeOutput = a.Output.IsNative()
		req.Tools = append(req.Tools, cairn.ToolSpec{Name: cairn.FinishTool, Schema: a.Output.Schema(),
			Description: "Call this once, when you are done, with the final result."})
		if l.Step.Number >= define.Steps(a) || a.StopWhen != nil && transcript.MustFinish(l.Transcript(), l.Run.ID) {
			req.Choice = cairn.ToolChoice{Tool: cairn.FinishTool}
		}
	}
	if err := fx.fit(ctx, a, l, to, req); err != nil {
		return nil, err
	}
	return req, nil
}

// before returns the request after the hooks before the model call have changed it.
func (fx *Effects) before(ctx context.Context, l *session.Live, s *user.Scope, base *cairn.Request) (*cairn.Request, error) {
	req, own := new(*base), false
	err := s.Veto(ctx, "BeforeModel", func(h *cairn.Hooks) user.Hook {
		if h.BeforeModel == nil {
			return nil
		}
		if !own { // a hook may change the lists, one of which is the session's
			req.Messages, req.Tools, own = slices.Clone(req.Messages), slices.Clone(req.Tools), true
		}
		return func(ctx context.Context, step *cairn.Step) error { return h.BeforeModel(ctx, step, req) }
	})
	if err != nil {
		return nil, cairn.Errorf(cairn.ErrHook, "before model: %w", err)
	}
	fx.unforce(l, req)
	return req, nil
}

// stepContext adds to the step's context what hooks want the model to know.
func stepContext(ctx context.Context, l *session.Live, s *user.Scope, to *step.Reply, limit time.Duration) error {
	for _, h := range l.Hooks() {
		if h.StepContext == nil {
			continue
		}
		u := user.Code{What: "a StepContext hook", Err: cairn.ErrHook, Limit: limit}
		texts, err := user.Lent(ctx, s, u, h.StepContext)
		if err != nil {
			return err
		}
		for _, text := range texts {
			if err := cairn.CheckText("text", text); err != nil {
				return err
			}
			to.Context = append(to.Context, cairn.Context(text))
		}
	}
	return nil
}

// stream makes one attempt at the model call. The error is nil only for a complete reply.
func (fx *Effects) stream(ctx context.Context, a *cairn.Agent, l *session.Live, r *reply, s *user.Scope, req *cairn.Request) error {
	u := user.Code{What: "the model", Err: cairn.ErrInternal, Idle: fx.ModelIdle, Pulse: user.NewPulse(), Session: l.Row.ID, Agent: a.Name}
	// Read here: an abandoned attempt may still run when the session is parked.
	hooks := l.Hooks()
	listens := hooks.Any(func(h *cairn.Hooks) bool { return h.TextDelta != nil })
	model, known := define.Model(a, l.Run.Model)
	if !known {
		fx.Logger.Warn("unknown model of the run; using the agent's own", "session", l.Row.ID, "agent", a.Name, "model", l.Run.Model)
	}
	read := func(ctx context.Context, stream iter.Seq2[cairn.Chunk, error]) (none struct{}, err error) {
		for chunk, err := range stream {
			if ctx.Err() != nil {
				return none, context.Cause(ctx)
			}
			if err != nil {
				return none, err
			}
			u.Pulse.Busy()
			if err := r.take(&chunk); err != nil {
				return none, err
			}
			if listens && chunk.Type == cairn.ChunkText {
				notifyDelta(ctx, hooks, r, s, chunk.Text)
			}
			u.Pulse.Beat()
		}
		return none, nil
	}
	r.requested = model.Info().ID()
	var err error
	if wrapsModel(hooks) {
		u.What = "the model, or an AroundModel hook,"
		_, err = user.Lent(ctx, s, u, func(ctx context.Context, step *cairn.Step) (struct{}, error) {
			return read(ctx, chunks(ctx, hooks, step, model, req))
		})
	} else {
		_, err = user.Call(ctx, &fx.User, u, func(ctx context.Context) (struct{}, error) { return read(ctx, model.Stream(ctx, req)) })
	}
	r.end()
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !r.ended:
		return cairn.Errorf(cairn.ErrModel, "the model's reply ended unexpectedly")
	}
	return nil
}

// notifyDelta calls the hooks that observe each piece of text. A hook that times out is not called again for this
// reply.
func notifyDelta(ctx context.Context, hooks user.Hooks, r *reply, s *user.Scope, text string) {
	for n, h := range hooks {
		if h.TextDelta == nil || r.muted[n] {
			continue
		}
		err := s.Hook(ctx, "TextDelta", func(ctx context.Context, step *cairn.Step) error { h.TextDelta(ctx, step, text); return nil })
		if err == nil {
			continue
		}
		s.Failed("TextDelta", err)
		if errors.Is(err, &cairn.Error{Code: cairn.ErrTimeout}) {
			if r.muted == nil {
				r.muted = map[int]bool{}
			}
			r.muted[n] = true
		}
	}
}
