package modeltest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cairn-agents/cairn"
)

// brief is the patience of checks that a model hangs in.
const brief = 200 * time.Millisecond

func chunks(list ...cairn.Chunk) []cairn.Chunk { return list }

func elements(list ...element) []element { return list }

var faults = map[string]fault{
	"its name changes": {func(m cairn.Model) cairn.Model {
		var n atomic.Int64
		return &faulty{Model: m, info: func() cairn.ModelInfo {
			return cairn.ModelInfo{Provider: "p", Name: "m" + string(rune('a'+n.Add(1)%20))}
		}}
	}, []string{"Info"}, 0},
	"it has no provider": {func(m cairn.Model) cairn.Model {
		return &faulty{Model: m, info: func() cairn.ModelInfo { return cairn.ModelInfo{Name: "m"} }}
	}, []string{"Info"}, 0},
	"it names itself as another model": {func(m cairn.Model) cairn.Model {
		return around(m, cairn.ChunkReasoning, nil, nil).with(cairn.Chunk{Type: cairn.ChunkModel, Model: m.Info().ID()})
	}, []string{"Info"}, 0},

	"a reply has no end": {func(m cairn.Model) cairn.Model {
		return edits(m, func(e element) []element {
			if e.chunk.Type == cairn.ChunkFinish {
				return nil
			}
			return elements(e)
		})
	}, []string{"Finish"}, 0},
	"a reply ends twice": {func(m cairn.Model) cairn.Model {
		return around(m, cairn.ChunkFinish, nil, chunks(cairn.Chunk{Type: cairn.ChunkFinish, FinishReason: cairn.FinishReasonEnd}))
	}, []string{"Finish"}, 0},
	"usage follows the end": {func(m cairn.Model) cairn.Model {
		return around(m, cairn.ChunkFinish, nil, chunks(cairn.Chunk{Type: cairn.ChunkUsage, Usage: cairn.Usage{InputTokens: 1}}))
	}, []string{"Finish"}, 0},
	"the finish reason is the provider's": {func(m cairn.Model) cairn.Model {
		return changes(m, cairn.ChunkFinish, func(c *cairn.Chunk) { c.FinishReason = "end_turn" })
	}, []string{"Finish"}, 0},

	"a text is not UTF-8": {func(m cairn.Model) cairn.Model {
		return around(m, cairn.ChunkFinish, chunks(cairn.Chunk{Type: cairn.ChunkText, Text: "\xe4\xb8"}), nil)
	}, []string{"Text"}, 0},
	"characters are split": {func(m cairn.Model) cairn.Model {
		return edits(m, func(e element) []element {
			if e.chunk.Type != cairn.ChunkText {
				return elements(e)
			}
			var list []element
			for i := range len(e.chunk.Text) {
				list = append(list, element{chunk: cairn.Chunk{Type: cairn.ChunkText, Text: e.chunk.Text[i : i+1]}})
			}
			return list
		})
	}, []string{"Text"}, 0},

	"a chunk is of an unknown type": {func(m cairn.Model) cairn.Model {
		return around(m, cairn.ChunkFinish, chunks(cairn.Chunk{Type: "message_stop"}), nil)
	}, []string{"Order"}, 0},
	"the model is named late": {func(m cairn.Model) cairn.Model {
		return around(m, cairn.ChunkFinish, chunks(cairn.Chunk{Type: cairn.ChunkModel, Model: "p:other"}), nil)
	}, []string{"Order"}, 0},
	"a part ends that has not begun": {func(m cairn.Model) cairn.Model {
		return around(m, cairn.ChunkFinish, chunks(cairn.Chunk{Type: cairn.ChunkPartEnd}, cairn.Chunk{Type: cairn.ChunkPartEnd}), nil)
	}, []string{"Order"}, 0},
	"a file is nil": {func(m cairn.Model) cairn.Model {
		return around(m, cairn.ChunkFinish, chunks(cairn.Chunk{Type: cairn.ChunkFile}), nil)
	}, []string{"Order"}, 0},
	"a provider's part has no model": {func(m cairn.Model) cairn.Model {
		return around(m, cairn.ChunkFinish, chunks(cairn.Chunk{Type: cairn.ChunkProvider, Provider: json.RawMessage(`{}`)}), nil)
	}, []string{"Order"}, 0},
	"a provider's data are broken": {func(m cairn.Model) cairn.Model {
		return changes(m, cairn.ChunkReasoning, func(c *cairn.Chunk) { c.Provider, c.Model = json.RawMessage(`{`), "p:m" })
	}, []string{"Order"}, 0},

	"arguments come before their call": {func(m cairn.Model) cairn.Model {
		return around(m, cairn.ChunkToolStart, chunks(cairn.Chunk{Type: cairn.ChunkToolArgs, CallID: "c9", Text: "{}"}), nil)
	}, []string{"Calls"}, 0},
	"arguments are cut": {func(m cairn.Model) cairn.Model {
		return changes(m, cairn.ChunkToolArgs, func(c *cairn.Chunk) { c.Text = c.Text[:len(c.Text)-1] })
	}, []string{"Calls"}, 0},
	"arguments are sent twice": {func(m cairn.Model) cairn.Model {
		return edits(m, func(e element) []element {
			if e.chunk.Type != cairn.ChunkToolArgs {
				return elements(e)
			}
			return elements(e, e)
		})
	}, []string{"Calls"}, 0},
	"a call has no arguments": {func(m cairn.Model) cairn.Model {
		return around(m, cairn.ChunkFinish, chunks(cairn.Chunk{Type: cairn.ChunkToolStart, CallID: "c9", Tool: "note"}), nil)
	}, []string{"Calls"}, 0},
	"calls have the same id": {func(m cairn.Model) cairn.Model {
		again := chunks(cairn.Chunk{Type: cairn.ChunkToolStart, CallID: "c1", Tool: "note"}, cairn.Chunk{Type: cairn.ChunkToolArgs, CallID: "c1", Text: "{}"})
		return around(m, cairn.ChunkFinish, append(again, again...), nil)
	}, []string{"Calls"}, 0},
	"a call has no id": {func(m cairn.Model) cairn.Model {
		return changes(changes(m, cairn.ChunkToolStart, func(c *cairn.Chunk) { c.CallID = "" }), cairn.ChunkToolArgs, func(c *cairn.Chunk) { c.CallID = "" })
	}, []string{"Calls"}, 0},
	"a call has no tool": {func(m cairn.Model) cairn.Model {
		return changes(m, cairn.ChunkToolStart, func(c *cairn.Chunk) { c.Tool = "" })
	}, []string{"Calls"}, 0},

	"usage is not reported": {func(m cairn.Model) cairn.Model {
		return edits(m, func(e element) []element {
			if e.chunk.Type == cairn.ChunkUsage {
				return nil
			}
			return elements(e)
		})
	}, []string{"Usage"}, 0},
	"usage is negative":                    {metered(func(u *cairn.Usage) { u.OutputTokens = -1 }), []string{"Usage"}, 0},
	"more is cached than was read":         {metered(func(u *cairn.Usage) { u.CachedTokens = u.InputTokens + 1 }), []string{"Usage"}, 0},
	"more is reasoning than was written":   {metered(func(u *cairn.Usage) { u.ReasoningTokens = u.OutputTokens + 1 }), []string{"Usage"}, 0},
	"input leaves out what the cache took": {metered(func(u *cairn.Usage) { u.CacheWriteTokens = u.InputTokens; u.CachedTokens = 1 }), []string{"Usage"}, 0},
	"requests do not add up": {func(m cairn.Model) cairn.Model {
		return changes(m, cairn.ChunkUsage, func(c *cairn.Chunk) { c.Calls = []cairn.ModelCall{{Usage: cairn.Usage{InputTokens: 1}}} })
	}, []string{"Usage"}, 0},

	"it continues after the reader stopped": {func(m cairn.Model) cairn.Model {
		return &faulty{Model: m, call: func(ctx context.Context, req *cairn.Request) sequence {
			return func(yield func(cairn.Chunk, error) bool) {
				m.Stream(ctx, req)(func(c cairn.Chunk, err error) bool {
					yield(c, err)
					return true
				})
			}
		}}
	}, []string{"Break", "Stall/break"}, brief},
	"it reads the rest once the reader stopped": {func(m cairn.Model) cairn.Model {
		return &faulty{Model: m, call: func(ctx context.Context, req *cairn.Request) sequence {
			return func(yield func(cairn.Chunk, error) bool) {
				stopped := false
				m.Stream(ctx, req)(func(c cairn.Chunk, err error) bool {
					if !stopped {
						stopped = !yield(c, err)
					}
					return true
				})
			}
		}}
	}, []string{"Stall/break"}, brief},
	"it leaks a goroutine when the reader stops": {func(m cairn.Model) cairn.Model {
		return &faulty{Model: m, call: func(ctx context.Context, req *cairn.Request) sequence {
			return func(yield func(cairn.Chunk, error) bool) {
				list, end := make(chan element), make(chan struct{})
				go func() {
					defer close(end)
					for c, err := range m.Stream(ctx, req) {
						list <- element{c, err} // for ever, once nobody reads
					}
				}()
				for {
					select {
					case e := <-list:
						if !yield(e.chunk, e.err) {
							return
						}
					case <-end:
						return
					}
				}
			}
		}}
	}, []string{"Break", "Stall/break"}, brief},
	"it works no more once a reader stopped": {func(m cairn.Model) cairn.Model {
		var broken atomic.Bool
		return &faulty{Model: m, call: func(ctx context.Context, req *cairn.Request) sequence {
			return func(yield func(cairn.Chunk, error) bool) {
				switch {
				case !saysWord(req, "red lamp"): // of another check
					m.Stream(ctx, req)(yield)
				case broken.Load():
					yield(cairn.Chunk{}, cairn.Errorf(cairn.ErrOverloaded, "the connection is in use"))
				default:
					m.Stream(ctx, req)(func(c cairn.Chunk, err error) bool {
						more := yield(c, err)
						broken.Store(broken.Load() || !more)
						return more
					})
				}
			}
		}}
	}, []string{"Break"}, 0},
	"it works before it is read": {func(m cairn.Model) cairn.Model {
		return &faulty{Model: m, call: func(ctx context.Context, req *cairn.Request) sequence {
			begun := make(chan struct{})
			go func() { begun <- struct{}{} }()
			return func(yield func(cairn.Chunk, error) bool) {
				<-begun
				m.Stream(ctx, req)(yield)
			}
		}}
	}, []string{"Unread"}, brief},

	"a deadline is an abortion": {func(m cairn.Model) cairn.Model {
		return stopped(m, func(err error) []element {
			return elements(element{err: cairn.Errorf(cairn.ErrAborted, "stopped: %w", errors.Unwrap(err))})
		})
	}, []string{"Context/expired before", "Stall/expired"}, 0},
	"a stop is a timeout": {func(m cairn.Model) cairn.Model {
		return stopped(m, func(err error) []element {
			return elements(element{err: cairn.Errorf(cairn.ErrTimeout, "stopped: %w", errors.Unwrap(err))})
		})
	}, []string{"Context/cancelled*", "Stall/cancelled"}, 0},
	"a stop is the context's error": {func(m cairn.Model) cairn.Model {
		return stopped(m, func(err error) []element { return elements(element{err: errors.Unwrap(errors.Unwrap(err))}) })
	}, []string{"Context/*", "Stall/*"}, 0},
	"a stop wraps nothing": {func(m cairn.Model) cairn.Model {
		return stopped(m, func(err error) []element {
			return elements(element{err: cairn.Errorf(cairn.AsError(err).Code, "stopped: %v", err)})
		})
	}, []string{"Context/*", "Stall/*"}, 0},
	"a stop is silent": {func(m cairn.Model) cairn.Model {
		return stopped(m, func(error) []element { return nil })
	}, []string{"Context/*", "Stall/*"}, 0},
	"a stop comes twice": {func(m cairn.Model) cairn.Model {
		return stopped(m, func(err error) []element { return elements(element{err: err}, element{err: err}) })
	}, []string{"Context/*", "Stall/*"}, 0},
	"it calls although the context is done": {func(m cairn.Model) cairn.Model {
		return &faulty{Model: m, call: func(ctx context.Context, req *cairn.Request) sequence {
			if ctx.Err() != nil && !saysWord(req, samplePause) { // on a busy machine, a stalling call begins after its stop
				ctx = context.WithoutCancel(ctx)
			}
			return m.Stream(ctx, req)
		}}
	}, []string{"Context/cancelled before", "Context/expired before"}, 0},
	"it does not notice a stop": {func(m cairn.Model) cairn.Model {
		return &faulty{Model: m, call: func(ctx context.Context, req *cairn.Request) sequence {
			if ctx.Err() == nil {
				ctx = context.WithoutCancel(ctx)
			}
			return m.Stream(ctx, req)
		}}
	}, []string{"Stall/*"}, brief},

	"it changes a setting": {func(m cairn.Model) cairn.Model {
		return before(m, func(req *cairn.Request) { req.Settings.MaxOutputTokens = 1000 })
	}, []string{"Request"}, 0},
	"it changes a part": {func(m cairn.Model) cairn.Model {
		return before(m, func(req *cairn.Request) {
			for i := range req.Messages {
				for _, use := range req.Messages[i].ToolUses() {
					if len(use.Input) > 0 {
						use.Input[0] = ' '
					}
				}
			}
		})
	}, []string{"Request"}, 0},
	"it changes an option": {func(m cairn.Model) cairn.Model {
		return before(m, func(req *cairn.Request) {
			if meta, ok := req.Settings.Options["metadata"].(map[string]any); ok {
				meta["list"].([]any)[0] = "b"
			}
		})
	}, []string{"Request"}, 0},
	"it deletes an option": {func(m cairn.Model) cairn.Model {
		return before(m, func(req *cairn.Request) { delete(req.Settings.Options, "metadata") })
	}, []string{"Request"}, 0},
	"it appends to the caller's messages": {func(m cairn.Model) cairn.Model {
		return before(m, func(req *cairn.Request) { _ = append(req.Messages, cairn.Context("more")) })
	}, []string{"Request"}, 0},

	"replies are mixed up": {func(m cairn.Model) cairn.Model {
		var last atomic.Pointer[cairn.Request]
		return &faulty{Model: m, call: func(ctx context.Context, req *cairn.Request) sequence {
			if !saysWord(req, "lamp-") {
				return m.Stream(ctx, req)
			}
			last.Store(req)
			return func(yield func(cairn.Chunk, error) bool) { m.Stream(ctx, last.Load())(yield) }
		}}
	}, []string{"Concurrent"}, 0},

	"pieces of replies are mixed up": {func(m cairn.Model) cairn.Model {
		var last atomic.Pointer[cairn.Request] // each reply begins in time, but uses the state of the last one
		return &faulty{Model: m, call: func(ctx context.Context, req *cairn.Request) sequence {
			return func(yield func(cairn.Chunk, error) bool) {
				if !saysWord(req, "lamp-") {
					m.Stream(ctx, req)(yield)
					return
				}
				last.Store(req)
				m.Stream(ctx, req)(func(c cairn.Chunk, err error) bool {
					if c.Type == cairn.ChunkText && strings.HasPrefix(c.Text, "lamp-") {
						c.Text = strings.Fields(last.Load().Messages[0].Text())[5]
					}
					return yield(c, err)
				})
			}
		}}
	}, []string{"Concurrent"}, 0},

	"an error has no code": {func(m cairn.Model) cairn.Model {
		return fails(m, func(err error) []element { return elements(element{err: errors.New(err.Error())}) })
	}, []string{"Failure/*"}, 0},
	"an error is of another category": {func(m cairn.Model) cairn.Model {
		return fails(m, func(err error) []element { return elements(element{err: cairn.Errorf(cairn.ErrInternal, "%v", err)}) })
	}, []string{"Failure/*"}, 0},
	"errors have the same code": {func(m cairn.Model) cairn.Model {
		return fails(m, func(err error) []element { return elements(element{err: cairn.Errorf(cairn.ErrModel, "%v", err)}) })
	}, []string{"Failure/[^m]*", "Failure/model_[^f]*"}, 0},
	"an error has no message": {func(m cairn.Model) cairn.Model {
		return fails(m, func(err error) []element { return elements(element{err: &cairn.Error{Code: cairn.AsError(err).Code}}) })
	}, []string{"Failure/*"}, 0},
	"a chunk follows an error": {func(m cairn.Model) cairn.Model {
		return fails(m, func(err error) []element {
			return elements(element{err: err}, element{chunk: cairn.Chunk{Type: cairn.ChunkText, Text: "x"}})
		})
	}, []string{"Failure/*"}, 0},
	"a failure is a finish": {func(m cairn.Model) cairn.Model {
		return fails(m, func(error) []element {
			return elements(element{chunk: cairn.Chunk{Type: cairn.ChunkFinish, FinishReason: cairn.FinishReasonEnd}})
		})
	}, []string{"Failure/*"}, 0},

	"it panics without messages": {func(m cairn.Model) cairn.Model {
		return before(m, func(req *cairn.Request) { _ = req.Messages[len(req.Messages)-1] })
	}, []string{"Hostile/no messages"}, 0},
	"it panics because of arguments that are no object": {func(m cairn.Model) cairn.Model {
		return before(m, func(req *cairn.Request) {
			for i := range req.Messages {
				for _, use := range req.Messages[i].ToolUses() {
					var args map[string]any
					if json.Unmarshal(use.Input, &args) != nil {
						panic("no object")
					}
				}
			}
		})
	}, []string{"Hostile/arguments*"}, 0},
	"it refuses a kind of part as the caller's mistake": {func(m cairn.Model) cairn.Model {
		return &faulty{Model: m, call: func(ctx context.Context, req *cairn.Request) sequence {
			for i := range req.Messages {
				for k := range req.Messages[i].Parts {
					if req.Messages[i].Parts[k].Type == cairn.PartData {
						return func(yield func(cairn.Chunk, error) bool) {
							yield(cairn.Chunk{}, cairn.Invalid("messages", "data is not supported"))
						}
					}
				}
			}
			return m.Stream(ctx, req)
		}}
	}, []string{"History/data"}, 0},
	"it refuses any history as the caller's mistake": {func(m cairn.Model) cairn.Model {
		return &faulty{Model: m, call: func(ctx context.Context, req *cairn.Request) sequence {
			if len(req.Messages) == 1 {
				return m.Stream(ctx, req)
			}
			return func(yield func(cairn.Chunk, error) bool) {
				yield(cairn.Chunk{}, cairn.Invalid("messages", "must be one"))
			}
		}}
	}, []string{"History/*", "Hostile/*"}, 0},
	"it answers unknown parts with nothing": {func(m cairn.Model) cairn.Model {
		return &faulty{Model: m, call: func(ctx context.Context, req *cairn.Request) sequence {
			for i := range req.Messages {
				for k := range req.Messages[i].Parts {
					if req.Messages[i].Parts[k].Type == "of_a_later_version" {
						return func(func(cairn.Chunk, error) bool) {}
					}
				}
			}
			return m.Stream(ctx, req)
		}}
	}, []string{"History/unknown part"}, 0},
}

// metered returns what changes the usage of a model.
func metered(change func(*cairn.Usage)) func(cairn.Model) cairn.Model {
	return func(m cairn.Model) cairn.Model {
		return changes(m, cairn.ChunkUsage, func(c *cairn.Chunk) { change(&c.Usage) })
	}
}

// with returns the model with a chunk before its replies.
func (f *faulty) with(first cairn.Chunk) *faulty {
	return &faulty{Model: f, call: func(ctx context.Context, req *cairn.Request) sequence {
		return func(yield func(cairn.Chunk, error) bool) {
			if ctx.Err() != nil || yield(first, nil) {
				f.Stream(ctx, req)(yield)
			}
		}
	}}
}

// saysWord reports whether the last message has some words.
func saysWord(req *cairn.Request, words string) bool {
	return len(req.Messages) > 0 && strings.Contains(req.Messages[len(req.Messages)-1].Text(), words)
}
