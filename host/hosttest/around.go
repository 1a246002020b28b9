package hosttest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
)

// wrapped are scenarios of hooks that wrap model and tool calls.
var wrapped = []scenario{
	{"around", (*scene).around},
	{"around-instead", (*scene).aroundInstead},
	{"hook-writes-waiting", (*scene).hookWritesWaiting},
	{"hook-writes-stopped", (*scene).hookWritesStopped},
}

// layer is the context key under which hooks record their names.
type layer struct{}

// wraps returns hooks that record when they are entered and left, and which hooks were entered before them.
func (s *scene) wraps(name string) *cairn.Hooks {
	enter := func(ctx context.Context, what string) context.Context {
		outer, _ := ctx.Value(layer{}).(string)
		s.say("%s enters %s after %q", name, what, outer)
		return context.WithValue(ctx, layer{}, outer+name+".")
	}
	return &cairn.Hooks{
		AroundModel: func(ctx context.Context, step *cairn.Step, req *cairn.Request, next func(context.Context) iter.Seq2[cairn.Chunk, error]) iter.Seq2[cairn.Chunk, error] {
			return func(yield func(cairn.Chunk, error) bool) {
				ctx := enter(ctx, "the model")
				for chunk, err := range next(ctx) {
					if !yield(chunk, err) {
						return
					}
				}
				s.say("%s leaves the model of step %d, which read %d messages", name, step.Number, len(req.Messages))
			}
		},
		AroundTool: func(ctx context.Context, call *cairn.Call, next func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
			out, err := next(enter(ctx, call.Tool))
			s.say("%s leaves %s with %s, %v", name, call.Tool, out, err)
			return out, err
		},
	}
}

// The engine's hooks wrap those of the agent, which wrap those of the call. Each attempt is wrapped.
func (s *scene) around() {
	tries := 0
	look := s.tool("look", func(ctx context.Context, _ *cairn.Call, in words) (string, error) {
		if tries++; tries == 1 {
			return "", cairn.Errorf(cairn.ErrUnavailable, "away")
		}
		outer, _ := ctx.Value(layer{}).(string)
		return in.Text + " within " + outer, nil
	}, cairn.Retry(cairn.RetryPolicy{First: time.Millisecond}))
	a := bot(plays(asks("c1", "look", "here"), scripted.Text("I saw it.")), look)
	a.Hooks = s.wraps("agent")
	s.agents = []*cairn.Agent{a}
	p := s.process(func(o *engine.Options) { o.Hooks = []*cairn.Hooks{s.wraps("engine")} })
	p.turn("s", "look", engine.WithHooks(s.wraps("call")))
}

// A hook may answer instead of the model or a tool. Its error or panic counts as the model's or the tool's.
func (s *scene) aroundInstead() {
	note := s.tool("note", func(context.Context, *cairn.Call, words) (string, error) {
		return "", errors.New("the tool was called")
	})
	a := bot(plays(scripted.Reply(asks("c1", "note", "kept"), asks("c2", "note", "refused"), asks("c3", "note", "panics"), asks("c4", "note", "bad")),
		scripted.Text("never said")), note)
	a.Hooks = &cairn.Hooks{
		AroundModel: func(ctx context.Context, _ *cairn.Step, req *cairn.Request, next func(context.Context) iter.Seq2[cairn.Chunk, error]) iter.Seq2[cairn.Chunk, error] {
			switch len(req.Messages) {
			case 1:
				return next(ctx)
			case 3:
				return func(yield func(cairn.Chunk, error) bool) {
					_ = yield(cairn.Chunk{Type: cairn.ChunkText, Text: "From the cache."}, nil) && yield(cairn.Chunk{Type: cairn.ChunkFinish}, nil)
				}
			case 5:
				panic("boom")
			}
			return nil
		},
		AroundTool: func(_ context.Context, call *cairn.Call, _ func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
			var in words
			if err := json.Unmarshal(call.Input, &in); err != nil {
				return nil, err
			}
			switch in.Text {
			case "kept":
				return json.RawMessage(`"from the cache"`), call.Append([]string{"hits"}, call.ID)
			case "refused":
				return nil, errors.New("not this one")
			case "panics":
				panic("boom")
			}
			return json.RawMessage(`{`), nil
		},
	}
	s.agents = []*cairn.Agent{a}
	p := s.process()
	p.turn("s", "go")
	p.turn("s", "a model call that panics")
	p.turn("s", "a model call without a stream")
}

// beforeAll sets an agent whose hook writes before each call. The calls wait for a client, for the answer to a
// question, for an approval and for a sub-agent; the last one does not wait.
func (s *scene) beforeAll() {
	repay := s.tool("repay", func(context.Context, *cairn.Call, words) (string, error) { return "repaid", nil }, cairn.RequireApproval())
	helper := agent("helper", plays(asks("h1", "repay", "7"), scripted.Text("I did it.")), repay)
	a := bot(plays(scripted.Reply(asks("c1", "locate", "1"), asks("c2", "pay", "2"), asks("c3", "refund", "3"), delegates("c4", "helper"), asks("c5", "note", "5")),
		scripted.Text("Done.")), locate(), s.pay(), s.refund(), cairn.SubAgent(helper), s.note())
	writes := func(call *cairn.Call, what string) error {
		call.RecordUsage(what, 1)
		return cmp.Or(call.Append([]string{"asked"}, what+" "+call.Tool), call.AddContext(what+" "+call.Tool))
	}
	a.Hooks = &cairn.Hooks{
		BeforeTool:     func(_ context.Context, call *cairn.Call) error { return writes(call, "before") },
		BeforeSubAgent: func(_ context.Context, call *cairn.Call, _ string) error { return writes(call, "consulting") },
	}
	s.agents = []*cairn.Agent{a}
}

// What a hook writes before a call is committed with the step that the call is pending in, once, whatever the call
// waits for. For a call that needs approval, the hook is called after the approval.
func (s *scene) hookWritesWaiting() {
	s.beforeAll()
	one, two := s.process(), s.process()
	one.turn("s", "go")
	state, err := two.State(s.Context(), "s", "")
	s.must(err)
	s.say("while it waits: %s", state)
	two.submit("s", cairn.Answer(s.open("s", "locate"), place{"Oslo"}), cairn.OutcomeAccepted)
	two.submit("s", cairn.Answer(s.open("s", "pay"), amount{7}), cairn.OutcomeAccepted)
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	two.submit("s", cairn.Approve(s.open("s", "repay")), cairn.OutcomeAccepted)
	two.resume("s")
}

// The writes are committed as well if the run is stopped while it waits.
func (s *scene) hookWritesStopped() {
	s.beforeAll()
	one, two := s.process(), s.process()
	one.turn("s", "go")
	s.must(two.Interrupt(s.Context(), "s", "enough"))
}
