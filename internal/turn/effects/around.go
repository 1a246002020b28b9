package effects

import (
	"context"
	"encoding/json"
	"iter"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/turn/user"
)

// wrapsModel reports whether any hooks wrap model calls.
func wrapsModel(hooks user.Hooks) bool {
	return hooks.Any(func(h *cairn.Hooks) bool { return h.AroundModel != nil })
}

// chunks calls a model within the hooks that wrap its calls.
func chunks(ctx context.Context, hooks user.Hooks, step *cairn.Step, model cairn.Model, req *cairn.Request) iter.Seq2[cairn.Chunk, error] {
	next := func(ctx context.Context) iter.Seq2[cairn.Chunk, error] { return model.Stream(ctx, req) }
	for _, h := range slices.Backward(hooks) {
		if h.AroundModel == nil {
			continue
		}
		inner := next
		next = func(ctx context.Context) iter.Seq2[cairn.Chunk, error] {
			if reply := h.AroundModel(ctx, step, req, inner); reply != nil {
				return reply
			}
			return func(yield func(cairn.Chunk, error) bool) {
				yield(cairn.Chunk{}, cairn.Errorf(cairn.ErrHook, "an AroundModel hook returned no stream"))
			}
		}
	}
	return next(ctx)
}

// run calls a tool's function within the hooks that wrap its calls. ran reports whether the function returned without an
// error, whatever the hooks made of it.
func run(ctx context.Context, hooks user.Hooks, call *cairn.Call, tool *define.Tool, input json.RawMessage) (out json.RawMessage, ran bool, err error) {
	if !hooks.Any(func(h *cairn.Hooks) bool { return h.AroundTool != nil }) {
		out, err = tool.Run(ctx, call, input)
		return out, err == nil || user.Is(err, define.ErrRan), err
	}
	return runWithin(ctx, hooks, call, tool, input)
}

func runWithin(ctx context.Context, hooks user.Hooks, call *cairn.Call, tool *define.Tool, input json.RawMessage) (out json.RawMessage, ran bool, err error) {
	next := func(ctx context.Context) (json.RawMessage, error) {
		out, err := tool.Run(ctx, call, input)
		ran = ran || err == nil || user.Is(err, define.ErrRan)
		return out, err
	}
	for _, h := range slices.Backward(hooks) {
		if h.AroundTool == nil {
			continue
		}
		inner := next
		next = func(ctx context.Context) (json.RawMessage, error) { return h.AroundTool(ctx, call, inner) }
	}
	if out, err = next(ctx); err == nil {
		out, err = define.Storable("the result", out)
	}
	return out, ran, err
}
