package hosttest

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
)

// wrapped are scenarios of hooks that wrap calls of models and tools.
var wrapped = []scenario{
	{"around", (*scene).around},
	{"around-instead", (*scene).aroundInstead},
}

// layer is the key under which hooks leave their name in a context.
type layer struct{}

// wraps returns hooks that say when they are entered and left, and that those outside of them were entered before.
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

// The hooks of the engine are around those of the agent, which are around those of the call; each attempt is wrapped.
func (s *scene) around() {
	tries := 0
	look := s.tool("look", func(ctx context.Context, _ *cairn.Call, in words) (string, error) {
		if tries++; tries == 1 {
			return "", cairn.Errorf(cairn.CodeUnavailable, "away")
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

// A hook may answer in place of the model or a tool; what it fails with, or panics, is the model's or the tool's.
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
