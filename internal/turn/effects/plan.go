package effects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/limits"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/store"
)

// hold returns the session an effect works on, which this process must be driving under the position's lease.
func (fx *Effects) hold(at turn.Position) (*live, *cairn.Agent, error) {
	l := fx.cache.get(at.SessionID)
	if l == nil || l.row.Lease.Token != at.Token || l.run.ID != at.RunID {
		return nil, nil, cairn.Errorf(cairn.CodeFenced, "session %q is not driven by this process", at.SessionID)
	}
	a, err := fx.agent(at.Agent)
	return l, a, err
}

// Plan asks the model for the step's reply and returns which tools are to run. A model that fails for good, a veto
// and a stop request are not errors: the step's commit deals with them.
func (fx *Effects) Plan(ctx context.Context, at turn.Position) (turn.Planned, error) {
	l, a, err := fx.hold(at)
	if err != nil {
		return turn.Planned{}, err
	}
	return fx.plan(ctx, l, a, at, nil)
}

// plan does not ask the model if the host has given that up.
func (fx *Effects) plan(ctx context.Context, l *live, a *cairn.Agent, at turn.Position, givenUp *cairn.Error) (turn.Planned, error) {
	if l.unopened && givenUp == nil {
		if err := fx.open(ctx, a, l, at); err != nil {
			return turn.Planned{}, err
		}
	}
	if l.step != nil && l.step.number == at.Step && l.step.planned {
		return fx.planned(l, a), nil
	}
	if fx.Apart {
		if err := fx.takeBack(ctx, l); err != nil {
			return turn.Planned{}, err
		}
	}
	var heard []cairn.Message
	if givenUp == nil {
		err := fx.persist(ctx, func() (err error) { heard, err = fx.hear(ctx, a, l); return err })
		if err != nil {
			return turn.Planned{}, err
		}
	}
	st := &step{number: at.Step, id: stepID(at.RunID, at.Step)}
	l.step = st
	st.scope = fx.newScope(l, at.Step, l.opening)
	l.emit.event(cairn.Event{Type: cairn.EventStepStart, Step: at.Step})
	if err := l.emit.lost(); err != nil {
		return turn.Planned{}, err
	}

	work, key := l.work(ctx)
	defer l.release(key)
	if st.failed = givenUp; givenUp == nil {
		if err := fx.ask(work, a, l, st, heard); err != nil {
			st.failed = cairn.AsError(err)
		}
	}
	// The caller going away is neither a failure nor a stop: the step is as if it had never begun.
	if ctx.Err() != nil {
		return turn.Planned{}, context.Cause(ctx)
	}
	st.planned = true
	broken := st.failed != nil || l.stopRequest() != nil
	if !broken || fx.Apart {
		err := fx.stageReply(ctx, a, l, st, broken)
		if unkeepable(err) { // what the store refuses it refuses each time
			fresh := &step{number: st.number, id: st.id, usage: st.usage, failed: cairn.AsError(err), planned: true, scope: fx.newScope(l, at.Step)}
			st, l.step, l.opening, broken = fresh, fresh, nil, true
			err = fx.stageReply(ctx, a, l, st, broken)
		}
		if err != nil {
			return turn.Planned{}, err
		}
	}
	if fx.Apart {
		if err := fx.settleReply(ctx, a, l, st); err != nil {
			return turn.Planned{}, err
		}
		broken = l.step.failed != nil || l.stopRequest() != nil
	}
	if broken {
		return turn.Planned{Judge: fx.judges(l, a, l.step)}, nil
	}
	return fx.planned(l, a), nil
}

// planned says what is to be done of the step under way.
func (fx *Effects) planned(l *live, a *cairn.Agent) turn.Planned {
	p := l.step.plan()
	p.Judge = fx.judges(l, a, l.step)
	return p
}

func stepID(runID string, number int) string { return runID + "/" + strconv.Itoa(number) }

// plan lists the calls that have no result yet.
func (s *step) plan() turn.Planned {
	var p turn.Planned
	for _, c := range s.calls {
		switch {
		case c.result != nil && !c.done:
		case c.finishing():
			p.Finishing = append(p.Finishing, c.use.CallID)
		case c.delegates():
			p.Children = append(p.Children, c.use.CallID)
		default:
			p.Parallel = append(p.Parallel, c.use.CallID)
		}
	}
	return p
}

func (c *call) finishing() bool {
	return c.use.Tool == cairn.FinishTool || c.tool != nil && c.tool.Finishes()
}

// delegates reports whether the call is one of a sub-agent or a companion.
func (c *call) delegates() bool {
	return c.tool != nil && (c.tool.Agent() != nil || c.tool.TalksToCompanion())
}

// consults reports whether the call gives an agent something to do.
func (c *call) consults() bool {
	return c.delegates() && (c.tool.Agent() != nil || consultsCompanion(c.use.Tool))
}

// consultsCompanion reports whether a tool is one of those that give a companion something to do.
func consultsCompanion(tool string) bool {
	return tool == cairn.CompanionSpawn || tool == cairn.CompanionSend
}

// ask makes the model call and leaves its outcome on the step. heard is what companions have come to. An error fails the
// run; what user code fails with because the run was stopped is none.
func (fx *Effects) ask(ctx context.Context, a *cairn.Agent, l *live, st *step, heard []cairn.Message) error {
	req, err := fx.request(ctx, a, l, st, heard)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	var r *reply
	for n := 0; ; n++ {
		r = &reply{step: st.number, agent: a, live: l}
		err := fx.stream(ctx, a, l, r, st.scope, req)
		if err == nil {
			break
		}
		if ctx.Err() != nil { // stopped: what came so far stays
			return fx.take(st, r, a, true)
		}
		if r.said {
			l.emit.event(cairn.Event{Type: cairn.EventStepDiscarded, Step: st.number, Error: cairn.AsError(err)})
		}
		wait, failed := retryWait(a.Retry, err, n)
		if failed != nil {
			return cairn.AsError(failed)
		}
		fx.Logger.Warn("model call failed, trying again", "session", l.row.ID, "step", st.number, "error", err, "wait", wait)
		if sleep(ctx, wait) != nil {
			return nil
		}
		if r.said {
			l.emit.event(cairn.Event{Type: cairn.EventStepStart, Step: st.number})
		}
	}
	if err := fx.take(st, r, a, false); err != nil {
		return err
	}
	l.refuse(st)
	if st.reply == nil {
		st.reply = &cairn.Message{Role: cairn.RoleAssistant, Parts: []cairn.Part{cairn.TextPart("")}}
	}
	fx.observe(ctx, l, a, "AfterModel", st.scope, func(h *cairn.Hooks) hook {
		if h.AfterModel == nil {
			return nil
		}
		shown, usage := shownMessage(st.reply), st.usage
		return func(ctx context.Context, step *cairn.Step) error { h.AfterModel(ctx, step, shown, usage); return nil }
	})
	return nil
}

// take moves a finished or partial reply to the step, unless it cannot be kept.
func (fx *Effects) take(s *step, r *reply, a *cairn.Agent, partial bool) error {
	reply := r.message(partial)
	s.usage, s.stop = r.usage, r.stop
	s.usage.ModelCalls++
	if reply != nil {
		if err := reply.Validate(); err != nil {
			return cairn.Errorf(cairn.CodeModelReply, "the model's reply cannot be kept: %w", err)
		}
	}
	s.reply = reply
	fx.setCalls(s, a)
	return nil
}

func (fx *Effects) setCalls(s *step, a *cairn.Agent) {
	if s.reply == nil {
		return
	}
	for i := range s.reply.Parts {
		if s.reply.Parts[i].Type != cairn.PartToolUse {
			continue
		}
		use := s.reply.Parts[i].ToolUse
		c := &call{use: use, tool: fx.tool(a, use.Tool)}
		if c.tool != nil && c.tool.Cache() != nil {
			c.most = a.CachedResults()
		}
		s.calls = append(s.calls, c)
	}
}

// request builds what the model is sent. It is the same, byte for byte, up to the messages that are new, so that
// providers can cache its prefix.
func (fx *Effects) request(ctx context.Context, a *cairn.Agent, l *live, st *step, heard []cairn.Message) (*cairn.Request, error) {
	req := &cairn.Request{SessionID: l.row.ID, System: a.Instructions, Settings: a.Settings}
	if a.InstructionsFunc != nil {
		var err error
		u := userCall{what: "the function", code: cairn.CodeHook, limit: fx.HookTimeout}
		if req.System, err = lent(ctx, fx, l, u, st.scope, a.InstructionsFunc); err != nil {
			return nil, cairn.Errorf(cairn.CodeHook, "agent %q: instructions: %w", a.Name, err)
		}
	}
	if err := fx.stepContext(ctx, a, l, st); err != nil {
		return nil, cairn.Errorf(cairn.CodeHook, "step context: %w", err)
	}
	st.context = append(st.context, heard...)
	messages := l.transcript()
	if l.damaged {
		messages = transcript.Heal(messages)
	}
	req.Messages = append(messages, st.context...)
	for _, t := range a.Tools {
		req.Tools = append(req.Tools, t.Spec())
	}
	for _, t := range fx.companionTools(a) {
		req.Tools = append(req.Tools, t.Spec())
	}
	if a.Output != nil {
		req.Tools = append(req.Tools, cairn.ToolSpec{Name: cairn.FinishTool, Schema: a.Output.Schema(),
			Description: "Call this once, when you are done, with the final result."})
		if st.number >= a.Steps() || a.StopWhen != nil && transcript.MustFinish(messages, l.run.ID) {
			req.Choice = cairn.ToolChoice{Tool: cairn.FinishTool}
		}
	}
	own := false
	err := fx.veto(ctx, l, a, "BeforeModel", st.scope, func(h *cairn.Hooks) hook {
		if h.BeforeModel == nil {
			return nil
		}
		if !own { // a hook may change the list, which so far is the session's
			req.Messages, own = slices.Clone(req.Messages), true
		}
		return func(ctx context.Context, step *cairn.Step) error { return h.BeforeModel(ctx, step, req) }
	})
	if err != nil {
		return nil, cairn.Errorf(cairn.CodeHook, "before model: %w", err)
	}
	fx.unforce(l, req)
	return req, nil
}

// stepContext adds to the step what hooks want the model to know.
func (fx *Effects) stepContext(ctx context.Context, a *cairn.Agent, l *live, st *step) error {
	for h := range fx.allHooks(l, a) {
		if h.StepContext == nil {
			continue
		}
		u := userCall{what: "a StepContext hook", code: cairn.CodeHook, limit: fx.HookTimeout}
		texts, err := lent(ctx, fx, l, u, st.scope, h.StepContext)
		if err != nil {
			return err
		}
		for _, text := range texts {
			if err := cairn.CheckText("text", text); err != nil {
				return err
			}
			st.context = append(st.context, cairn.Context(text))
		}
	}
	return nil
}

// shownMessage returns a copy of a message for user code, which may keep or change it.
func shownMessage(m *cairn.Message) *cairn.Message {
	shown := *m
	shown.Parts = slices.Clone(m.Parts)
	for i := range shown.Parts {
		p := &shown.Parts[i]
		if p.ToolUse != nil {
			p.ToolUse = new(*p.ToolUse)
		}
		if p.Result != nil {
			p.Result = new(*p.Result)
		}
	}
	return &shown
}

// callID gives a call its id in the session: the provider's, unless that cannot be used or is taken. One that people far
// away answer to says nothing but that somebody was given it.
func (r *reply) callID(provider, tool string) string {
	if t, ok := r.agent.Tool(tool); ok && (t.Waits() != "" || t.Agent() != nil) || !ok && consultsCompanion(tool) {
		// The run is in it because what a dead run began under a provider's id is not in the transcript.
		provider = ids.Derive("call", r.live.row.Secret, r.live.row.ID, r.live.run.ID, provider)
	}
	id := provider
	for n := 1; !r.usable(id); n++ {
		id = fmt.Sprintf("%s_%d_%d", trimID(provider), r.step, n)
	}
	return id
}

func (r *reply) usable(id string) bool {
	if len(id) > 64 || ids.Check(id) != "" {
		return false
	}
	if r.live.index.Taken(id) {
		return false
	}
	return !slices.ContainsFunc(r.parts, func(p *part) bool { return p.Type == cairn.PartToolUse && p.ToolUse.CallID == id })
}

// trimID shortens a provider's call id so that a suffix fits within what every provider takes back.
func trimID(id string) string {
	if id = limits.Cut(id, 40); ids.Check(id) != "" {
		return "call"
	}
	return id
}

// stream makes one attempt at the model call. The error is nil only for a complete reply.
func (fx *Effects) stream(ctx context.Context, a *cairn.Agent, l *live, r *reply, s *scope, req *cairn.Request) error {
	u := userCall{what: "the model", code: cairn.CodeInternal, idle: fx.ModelIdle, pulse: newPulse(), session: l.row.ID, agent: a.Name}
	listens := fx.anyHook(l, a, func(h *cairn.Hooks) bool { return h.TextDelta != nil })
	_, err := callUser(ctx, fx, u, func(ctx context.Context) (struct{}, error) {
		none := struct{}{}
		for chunk, err := range a.Model.Stream(ctx, req) {
			if ctx.Err() != nil {
				return none, context.Cause(ctx)
			}
			if err != nil {
				return none, err
			}
			u.pulse.busy()
			if err := r.take(&chunk); err != nil {
				return none, err
			}
			if listens && chunk.Type == cairn.ChunkText {
				fx.tellDelta(ctx, a, l, r, s, chunk.Text)
			}
			u.pulse.beat()
		}
		return none, nil
	})
	r.end()
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !r.ended:
		return cairn.Errorf(cairn.CodeModel, "the model's reply broke off")
	}
	return nil
}

// tellDelta calls the hooks that hear every piece of text. One that takes too long hears no more of this reply.
func (fx *Effects) tellDelta(ctx context.Context, a *cairn.Agent, l *live, r *reply, s *scope, text string) {
	n := -1
	for h := range fx.allHooks(l, a) {
		if n++; h.TextDelta == nil || r.deaf[n] {
			continue
		}
		err := fx.hook(ctx, l, "TextDelta", s, func(ctx context.Context, step *cairn.Step) error { h.TextDelta(ctx, step, text); return nil })
		if err == nil {
			continue
		}
		fx.Logger.Warn("hook failed", "session", l.row.ID, "agent", a.Name, "hook", "TextDelta", "error", err)
		if errors.Is(err, &cairn.Error{Code: cairn.CodeTimeout}) {
			if r.deaf == nil {
				r.deaf = map[int]bool{}
			}
			r.deaf[n] = true
		}
	}
}

// retryWait says whether a failed model call is tried again, and after which wait. A provider that asks for a longer wait than
// the policy allows is not asked again: what it says is in the error that is returned.
func retryWait(p *cairn.RetryPolicy, err error, n int) (wait time.Duration, failed error) {
	policy := cairn.RetryPolicy{}
	if p != nil {
		policy = *p
	}
	if policy.Max == 0 {
		policy.Max = 3
	}
	if policy.First == 0 {
		policy.First = time.Second
	}
	if policy.Limit == 0 {
		policy.Limit = time.Minute
	}
	var e *cairn.Error
	switch {
	case !errors.As(err, &e) || !e.Retryable() || n >= policy.Max:
		return 0, err
	case e.RetryAfter > policy.Limit:
		return 0, fmt.Errorf("%w (the provider asks to wait %s, more than the %s that the agent's retry policy allows)", err, e.RetryAfter, policy.Limit)
	case e.RetryAfter > 0:
		return e.RetryAfter, nil
	}
	return backoff(policy.First, policy.Limit, n), nil
}

// stagedReply and stagedCall are the stored forms of what a step has so far.
type stagedReply struct {
	Reply   *cairn.Message   `json:"reply"`
	Context []cairn.Message  `json:"context,omitempty"`
	Usage   cairn.Usage      `json:"usage"`
	Stop    cairn.StopReason `json:"stop,omitempty"`
	Refused []string         `json:"refused,omitempty"` // ids of calls
	Failed  *cairn.Error     `json:"failed,omitempty"`
	Writes  stagedWrites     `json:"writes"`
	// Told is the log's last sequence when all of the reply was there.
	Told int64 `json:"told,omitempty"`
	// By names the writer of the try that brought it.
	By string `json:"by,omitempty"`
}

type stagedCall struct {
	Result     *cairn.ToolResult `json:"result"`
	Done       bool              `json:"done,omitempty"`
	Completion *cairn.Completion `json:"completion,omitempty"`
	Failed     *cairn.Error      `json:"failed,omitempty"`
	Feedback   string            `json:"feedback,omitempty"`
	Hit        bool              `json:"hit,omitempty"`
	Made       time.Time         `json:"made,omitzero"`
	Visited    *cairn.Event      `json:"visited,omitempty"`
	Writes     stagedWrites      `json:"writes"`
	// Pending and Waiting are what a call without a result waits for; Child is the session that does.
	Pending *cairn.PendingCall `json:"pending,omitempty"`
	Waiting *cairn.Suspension  `json:"waiting,omitempty"`
	Child   string             `json:"child,omitempty"`
	// By names the writer of the try that brought it.
	By string `json:"by,omitempty"`
}

type stagedWrites struct {
	Ops        []cairn.Op         `json:"ops,omitempty"`
	Context    []cairn.Message    `json:"context,omitempty"`
	Usage      map[string]float64 `json:"usage,omitempty"`
	Checkpoint bool               `json:"checkpoint,omitempty"`
}

func (w *stagedWrites) empty() bool {
	return len(w.Ops)+len(w.Context)+len(w.Usage) == 0 && !w.Checkpoint
}

func (s *scope) writes() stagedWrites {
	if s == nil {
		return stagedWrites{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return stagedWrites{Ops: s.ops, Context: s.context, Usage: s.usage, Checkpoint: s.checkpoint}
}

func (s *scope) restore(w stagedWrites) {
	s.ops, s.context, s.usage, s.checkpoint = w.Ops, w.Context, w.Usage, w.Checkpoint
}

// stages reports whether a reply and the results of its calls are kept in the store at once.
func (fx *Effects) stages(a *cairn.Agent) bool { return fx.Apart || a.Durability.Stages() }

// stageReply keeps the step's reply. Of one that is broken, by a failure or a stop, nothing is promised: it is kept for the
// step's commit only.
func (fx *Effects) stageReply(ctx context.Context, a *cairn.Agent, l *live, st *step, broken bool) error {
	// Without the reply another try would begin other children. What follows steps that are put off is repeated with them.
	lasts := !broken && len(l.deferred.steps) == 0 && (a.Durability.Stages() || slices.ContainsFunc(st.calls, (*call).delegates))
	if !lasts && !fx.Apart {
		return nil
	}
	// The reply's events come first, so that the log never lacks what the store has.
	if err := l.emit.flush(ctx); err != nil {
		return err
	}
	writes := st.scope.writes()
	if opening := l.opening.writes(); !opening.empty() {
		writes = join(opening, writes)
	}
	return fx.stage(ctx, l, st.id, l.key(replyKey, lasts), stagedReply{Reply: st.reply, Context: st.context, Usage: st.usage, Stop: st.stop,
		Refused: st.refused(), Failed: st.failed, Writes: writes, Told: l.emit.position(), By: l.emit.writer.ID})
}

// stageCall keeps the result of a call.
func (fx *Effects) stageCall(ctx context.Context, a *cairn.Agent, l *live, c *call) error {
	saved := stagedCall{Result: c.result, Done: c.done, Failed: c.failed, Feedback: c.feedback, Hit: c.hit, Made: c.made, Visited: c.visited, Writes: c.scope.writes(), By: l.emit.writer.ID}
	if c.done {
		saved.Completion = &c.completion
	}
	err := fx.stage(ctx, l, l.step.id, l.key(callPrefix+c.use.CallID, a.Durability.Stages()), saved)
	if unkeepable(err) { // what the store refuses it refuses each time
		c.result, c.done, c.scope, c.hit, c.made = failure(c.use, err), false, fx.newScope(l, l.step.number), false, time.Time{}
		err = fx.stage(ctx, l, l.step.id, l.key(callPrefix+c.use.CallID, a.Durability.Stages()), stagedCall{Result: c.result, By: l.emit.writer.ID})
	}
	return err
}

func join(a, b stagedWrites) stagedWrites {
	sum := stagedWrites{Ops: append(append([]cairn.Op(nil), a.Ops...), b.Ops...),
		Context: append(append([]cairn.Message(nil), a.Context...), b.Context...), Checkpoint: a.Checkpoint || b.Checkpoint}
	for _, usage := range []map[string]float64{a.Usage, b.Usage} {
		for name, n := range usage {
			if sum.Usage == nil {
				sum.Usage = map[string]float64{}
			}
			sum.Usage[name] += n
		}
	}
	return sum
}

func (fx *Effects) stage(ctx context.Context, l *live, stepID, key string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return cairn.Errorf(cairn.CodeInternal, "step %s: %w", stepID, err)
	}
	return fx.persist(ctx, func() error {
		return fx.Store.Stage(ctx, l.row.ID, l.row.Lease.Token, store.Staged{StepID: stepID, Key: key, Data: raw})
	})
}

// restore makes what was staged of the next step the step under way.
func (l *live) restore(a *cairn.Agent, fx *Effects, staged []store.Staged) error {
	number := l.row.Step + len(l.deferred.steps) + 1
	st := &step{number: number, id: stepID(l.row.RunID, number)}
	if number == l.row.Step+1 {
		if waited := fx.reopen(l, a); waited != nil {
			st = waited
		}
	}
	have := l.staged(st.id, staged)
	var r stagedReply
	replied, err := have.get(replyKey, &r)
	if err != nil {
		return err
	}
	if replied {
		st.reply, st.context, st.usage, st.stop, st.failed, st.planned = r.Reply, r.Context, r.Usage, r.Stop, r.Failed, true
		st.scope = fx.newScope(l, st.number)
		st.scope.restore(r.Writes)
		fx.setCalls(st, a)
		st.restoreRefused(r.Refused)
		l.replied = r.Told
	} else if err := l.restoreOpening(fx, have, number); err != nil {
		return err
	}
	var j judgement
	if judged, err := have.get(judgedKey, &j); err != nil {
		return err
	} else if judged {
		st.judged = &j
	}
	if !st.planned {
		return nil
	}
	if st.scope == nil {
		st.scope = fx.newScope(l, st.number, l.opening)
	}
	for _, c := range st.calls {
		if err := l.restoreCall(fx, st, c, have); err != nil {
			return err
		}
	}
	l.step = st
	return nil
}

// restoreOpening takes over what the hooks wrote that ran when the run began. Before its first step they may not have run.
func (l *live) restoreOpening(fx *Effects, have pieces, number int) error {
	var w stagedWrites
	found, err := have.get(openingKey, &w)
	if found {
		l.opening = fx.newScope(l, 0)
		l.opening.restore(w)
	}
	l.unopened = !found && number == 1
	return err
}

func (l *live) restoreCall(fx *Effects, st *step, c *call, have pieces) error {
	if err := l.restoreChild(fx, st, c, have); err != nil {
		return err
	}
	var saved stagedCall
	found, err := have.get(callPrefix+c.use.CallID, &saved)
	if !found || err != nil {
		return err
	}
	if saved.Result == nil {
		c.waiting, c.child = saved.Waiting, saved.Child
		if saved.Pending != nil {
			c.pending = saved.Pending
		}
		return nil
	}
	c.result, c.done, c.failed, c.feedback = saved.Result, saved.Done, saved.Failed, saved.Feedback
	c.hit, c.made, c.visited = saved.Hit, saved.Made, saved.Visited
	if saved.Completion != nil {
		c.completion = *saved.Completion
	}
	c.scope = fx.newScope(l, st.number, st.scope)
	c.scope.restore(saved.Writes)
	return nil
}
