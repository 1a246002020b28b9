package effects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/limits"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/internal/turn/user"
)

// sent returns the messages that a model is sent: those of the session, followed by context.
func sent(l *session.Live, m cairn.Model, context []cairn.Message) []cairn.Message {
	messages := recent(l, without(l, m, append(l.Transcript(), context...)))
	if slices.ContainsFunc(context, func(m cairn.Message) bool { return len(m.Pinned) > 0 }) && !l.Index().Differs() {
		messages = transcript.Sent(messages)
	}
	return shaped(l, messages)
}

// without returns the messages of a session's transcript, from the first in memory on, without files that a model's
// provider does not accept.
func without(l *session.Live, m cairn.Model, messages []cairn.Message) []cairn.Message {
	if !leavesOut(l, messages) {
		return messages
	}
	return transcript.LeaveOut(messages, l.First(), m.Info().ID())
}

// leavesOut reports whether messages of a session, from the first in memory on, list files that are left out. It does
// not look at those that the session's index knows.
func leavesOut(l *session.Live, messages []cairn.Message) bool {
	known := l.Known()
	return l.Index().LeavesOut() || slices.ContainsFunc(messages[min(known, len(messages)):], func(m cairn.Message) bool { return m.LeftOut != nil })
}

// recent returns those of a session's messages that a model is sent.
func recent(l *session.Live, messages []cairn.Message) []cairn.Message {
	latest := transcript.Recent(messages, l.First())
	if !leavesOut(l, messages) {
		return latest
	}
	return transcript.Plain(latest)
}

// shaped returns messages of a session in the form that models are sent.
func shaped(l *session.Live, messages []cairn.Message) []cairn.Message {
	if l.Damaged() {
		messages = transcript.Heal(messages)
	}
	if l.Index().Differs() {
		messages = transcript.Sent(messages)
	}
	return messages
}

// roomOf is the token budget of a request: in total (all), before its older part is summarized (trigger), for the
// latest messages that a summary leaves unchanged (keep), and for what a summarizing model is given at once (piece).
// All are 0 if the model's window is unknown.
type roomOf struct {
	cairn.Compaction
	model                     cairn.Model // the run's model
	all, trigger, keep, piece int64
}

// pieceShare is the share of its window that a summarizing model is given at once, in percent.
const pieceShare = 60

// roomFor returns the token budget of an agent's compaction with a model.
func (fx *Effects) roomFor(a *cairn.Agent, m cairn.Model, settings *cairn.Settings) roomOf {
	r := roomOf{model: m}
	if a.Compaction != nil {
		r.Compaction = *a.Compaction
	}
	r.Trigger, r.Keep = cmp.Or(r.Trigger, cairn.DefaultCompactionTrigger), cmp.Or(r.Keep, cairn.DefaultCompactionKeep)
	window := r.Window
	if window == 0 {
		window = fx.window(m.Info())
	}
	if window > 0 {
		r.all = int64(max(window-settings.MaxOutputTokens, window/4))
		r.trigger, r.keep, r.piece = r.all*int64(r.Trigger)/100, r.all*int64(r.Keep)/100, r.all*pieceShare/100
	}
	if r.Compaction.Model != nil {
		if n := fx.window(r.Compaction.Model.Info()); n > 0 {
			r.piece = int64(n) * pieceShare / 100
		}
	}
	return r
}

// fit summarizes the older part of the history if the request is about to fill the model's window.
func (fx *Effects) fit(ctx context.Context, a *cairn.Agent, l *session.Live, to *step.Reply, req *cairn.Request) error {
	model, _ := define.Model(a, l.Run.Model)
	r := fx.roomFor(a, model, &req.Settings)
	if r.Off || r.all == 0 {
		return nil
	}
	n := fx.count(ctx, a, l, r, req)
	if n <= r.trigger {
		return nil
	}
	over := n > r.all
	err := fx.summarise(ctx, a, l, r, to, req, over)
	if errors.Is(err, errTooLittle) && !over || ctx.Err() != nil {
		return nil
	}
	if limit := (*limitError)(nil); errors.As(err, &limit) || errors.Is(err, cairn.ErrBudget) {
		return err
	}
	if err != nil && !over { // the request fits unchanged
		fx.Logger.Warn("history not summarised", "session", l.Row.ID, "agent", a.Name, "tokens", n, "window", r.all, "error", err)
		return nil
	}
	return err
}

// refit summarizes the older part of the history after the provider has rejected a request as too long, and returns a
// new request. The error is why that is not possible.
func (fx *Effects) refit(ctx context.Context, a *cairn.Agent, l *session.Live, s *user.Scope, to *step.Reply, req *cairn.Request, why error) (*cairn.Request, error) {
	model, _ := define.Model(a, l.Run.Model)
	r := fx.roomFor(a, model, &req.Settings)
	if r.Off {
		return nil, why
	}
	counted, estimated := transcript.Measured(req.Messages, before(req))
	if n := counted + estimated; r.all == 0 || n < r.all { // the window is unknown, or smaller than believed
		if r.Compaction.Model == nil || r.piece == 0 {
			r.piece = n * pieceShare / 100
		}
		r.all, r.keep = n, n*int64(r.Keep)/100
	}
	if err := fx.summarise(ctx, a, l, r, to, req, true); err != nil {
		return nil, fmt.Errorf("%w (%v)", why, err)
	}
	return fx.before(ctx, l, s, req)
}

// countLimit bounds how long a provider may take to count tokens.
const countLimit = 5 * time.Second

// count returns how many tokens a request has. It asks a provider that counts tokens only if the answer can decide
// whether to summarize: that is, if half and twice the estimate of the part that the provider has not counted yet are
// on different sides of the trigger.
func (fx *Effects) count(ctx context.Context, a *cairn.Agent, l *session.Live, r roomOf, req *cairn.Request) int64 {
	counted, estimated := transcript.Measured(req.Messages, before(req))
	n := counted + estimated
	if _, counts := r.model.(cairn.TokenCounter); !counts || counted+estimated/2 > r.trigger || counted+estimated*2 <= r.trigger {
		return n
	}
	u := user.Code{What: "the model's count of tokens", Err: cairn.ErrInternal, Limit: countLimit, Session: l.Row.ID, Agent: a.Name}
	exact, err := user.Call(ctx, &fx.User, u, func(ctx context.Context) (int64, error) { return cairn.CountTokens(ctx, r.model, req) })
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return n
	case err != nil || exact <= 0:
		fx.Logger.Warn("provider did not count tokens; using an estimate", "session", l.Row.ID, "agent", a.Name, "error", err)
		return n
	}
	return exact
}

// errTooLittle means that a summary would not be worth losing the prefix that the provider has cached.
var errTooLittle = errors.New("too little history before the kept messages to summarise")

// summarise adds a summary to the step's context, and reduces the request to the messages that remain with it. must
// reports whether the request cannot be sent without it.
func (fx *Effects) summarise(ctx context.Context, a *cairn.Agent, l *session.Live, r roomOf, to *step.Reply, req *cairn.Request, must bool) error {
	all := without(l, r.model, append(l.Transcript(), to.Context...))
	cut, err := r.cut(all, l.First(), before(req), must)
	if err != nil {
		return err
	}
	if err := fx.afford(ctx, a, l, to, req); err != nil {
		return err
	}
	m, usage, err := fx.summaryOf(ctx, a, l, r, all[:cut:cut], req.System)
	to.Usage = to.Usage.Add(usage)
	if err != nil {
		return err
	}
	index := l.Index().Clone()
	for i := range to.Context {
		index.Add(&to.Context[i])
	}
	fx.restate(a, l.Row.ID, &index, &m)
	if transcript.MustFinish(l.Transcript(), l.Run.ID) {
		m.Origin = cairn.OriginMustFinish
	}
	to.Context = append(to.Context, m)
	req.Messages = sent(l, r.model, to.Context)
	fx.Logger.Info("history summarised", "session", l.Row.ID, "agent", a.Name, "messages", l.First()+cut)
	return nil
}

// summaryOf makes the message that is to stand for the first messages of a session's transcript. system is the system
// prompt of the requests that they were part of.
func (fx *Effects) summaryOf(ctx context.Context, a *cairn.Agent, l *session.Live, r roomOf, all []cairn.Message, system string) (cairn.Message, step.Bill, error) {
	older := recent(l, all)
	text, usage, err := fx.summary(ctx, a, l.Row.ID, r, older)
	if err != nil {
		return cairn.Message{}, usage, err
	}
	m := cairn.Context("Summary of the conversation before this point:\n\n" + text)
	m.Summary = &cairn.Summary{From: l.First() + len(all)}
	if r.ByProvider {
		req := &cairn.Request{SessionID: l.Row.ID, System: system, Messages: shaped(l, older)}
		usage = usage.Add(fx.byProvider(ctx, a, r, req, &m.Parts[0]))
	}
	return m, usage, nil
}

// restate adds to a summary what the session's messages before it say besides their texts, by their index.
func (fx *Effects) restate(a *cairn.Agent, sessionID string, x *transcript.Index, m *cairn.Message) {
	x.Summarise(m)
	texts, problems := define.Restated(a, m.Pinned)
	for _, text := range texts {
		m.Parts = append(m.Parts, cairn.TextPart(text))
	}
	for _, err := range problems {
		fx.Logger.Warn("summary lacks the text of a toolset", "session", sessionID, "agent", a.Name, "error", err)
	}
}

// byProvider adds the provider's own compaction of a request's messages to their summary, if the model supports that,
// and returns the usage.
func (fx *Effects) byProvider(ctx context.Context, a *cairn.Agent, r roomOf, req *cairn.Request, summary *cairn.Part) step.Bill {
	if _, can := r.model.(cairn.Compactor); !can {
		return step.Bill{}
	}
	u := user.Code{What: "the model's compaction", Err: cairn.ErrInternal, Limit: fx.ModelIdle, Session: req.SessionID, Agent: a.Name}
	c, err := user.Call(ctx, &fx.User, u, func(ctx context.Context) (cairn.Compacted, error) { return cairn.Compact(ctx, r.model, req) })
	if errors.Is(err, errors.ErrUnsupported) {
		return step.Bill{}
	}
	tokens, most := transcript.TextTokens(len(c.Provider)), max(r.keep, r.all/10)
	switch {
	case err == nil && len(c.Provider) == 0:
		err = errors.New("it is empty")
	case err == nil && tokens > most:
		err = fmt.Errorf("it has about %d tokens, more than %d", tokens, most)
	case err == nil:
		c.Provider, _ = limits.CleanJSON(c.Provider)
		err = cairn.CheckJSON("provider", c.Provider)
	}
	if err != nil {
		fx.Logger.Warn("ignoring provider-side compaction", "session", req.SessionID, "agent", a.Name, "error", err)
	} else {
		summary.Provider, summary.Model = c.Provider, r.model.Info().ID()
	}
	m := fx.meter(r.model.Info())
	_ = m.report(&cairn.Chunk{Usage: c.Usage}) // usage that cannot be stored is left out
	if err != nil {
		return m.wasted()
	}
	return m.used()
}

// cut returns the index in all of the first message that is kept; all[0] has index first in the transcript. fixed is
// the number of tokens that a request has ahead of its messages.
func (r *roomOf) cut(all []cairn.Message, first int, fixed int64, must bool) (int, error) {
	rest := transcript.Tokens(all)
	last, at := 0, 0
	for i := range all {
		if all[i].Summary != nil {
			last = i + 1
		}
	}
	cuts := transcript.Cuts(all)
	for _, i := range cuts {
		rest -= transcript.Tokens(all[at:i])
		if at = i; i >= last && rest <= r.keep {
			break
		}
	}
	older := transcript.Tokens(transcript.Recent(all[:at:at], first))
	switch {
	case at < max(last, 1) || !must && older < r.all/10:
		if !must {
			return 0, errTooLittle
		}
		return 0, tooLong(rest+fixed, r.all, "no older messages to summarise")
	case rest+fixed > r.all:
		return 0, tooLong(rest+fixed, r.all, "the messages at its end that cannot be separated are larger than the window")
	}
	return at, nil
}

func tooLong(tokens, window int64, why string) error {
	return cairn.Errorf(cairn.ErrContextLength, "the request has about %d tokens, the window %d: %s", tokens, window, why)
}
