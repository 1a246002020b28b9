package openaichattest

import (
	"cmp"
	"fmt"

	"github.com/cairn-agents/cairn/internal/provider/testserver"
)

// Reply is the server's response to one request. Build it with [Text], [CallTool], [Fail] or [Raw], or by its
// fields. The zero value is an empty reply.
type Reply struct {
	Reasoning string // sent as reasoning_content
	Text      string
	Refusal   string
	Calls     []Call
	// Finish is the finish reason. Default: "tool_calls" with calls, else "stop".
	Finish string
	// Usage is sent if the client requests it. Default: a rough count.
	Usage Usage

	// Wire is how the reply is sent; with Status it is an error.
	Wire
}

// Call is a tool call of a reply.
type Call = testserver.Call

// Usage is the token counts of a reply.
type Usage struct {
	Input, Output, Reasoning, Cached int
}

// Text is a reply of text, streamed word by word.
func Text(text string) Reply { return Reply{Text: text} }

// CallTool is a reply that calls a tool. A string is used as the text of the arguments; anything else is
// marshalled, and CallTool panics if that fails.
func CallTool(tool string, args any) Reply {
	return Reply{Calls: []Call{{Tool: tool, Arguments: testserver.Arguments(tool, args)}}}
}

// Fail is an error response. An empty code is sent as null. An empty message defaults to the text of the status.
func Fail(status int, code, message string) Reply {
	return Reply{Wire: Wire{Status: status, Code: code, Message: message}}
}

// Raw is an event stream that is sent unchanged.
func Raw(stream string) Reply { return Reply{Wire: Wire{Raw: stream}} }

// RetryAfter returns the reply with a Retry-After header.
func (r Reply) RetryAfter(value string) Reply {
	r.Header = r.After(value)
	return r
}

// events returns the reply as the events of a stream.
func (r *Reply) events(req *Request, n int) []string {
	var list []string
	send := func(chunk map[string]any) { list = append(list, testserver.Event("", chunk)) }
	chunk := func(choices ...any) map[string]any {
		c := r.envelope(req, n, "chat.completion.chunk")
		c["choices"] = append([]any{}, choices...)
		if req.StreamOptions.IncludeUsage {
			c["usage"] = nil
		}
		return c
	}
	delta := func(d map[string]any) {
		send(chunk(map[string]any{"index": 0, "delta": d, "logprobs": nil, "finish_reason": nil}))
	}
	delta(map[string]any{"role": "assistant", "content": "", "refusal": nil})
	for _, word := range testserver.Words(r.Reasoning) {
		delta(map[string]any{"reasoning_content": word})
	}
	for _, word := range testserver.Words(r.Text) {
		delta(map[string]any{"content": word})
	}
	for _, word := range testserver.Words(r.Refusal) {
		delta(map[string]any{"refusal": word})
	}
	for i, c := range r.Calls {
		delta(map[string]any{"tool_calls": []any{map[string]any{"index": i, "id": r.callID(n, i), "type": "function",
			"function": map[string]any{"name": c.Tool, "arguments": ""}}}})
		for _, piece := range c.Pieces() {
			delta(map[string]any{"tool_calls": []any{map[string]any{"index": i,
				"function": map[string]any{"arguments": piece}}}})
		}
	}
	if r.ErrorAfter > 0 {
		return r.Cut(list, func() string {
			return testserver.Event("", map[string]any{"error": testserver.OpenAIFailure(&r.Wire)})
		})
	}
	send(chunk(map[string]any{"index": 0, "delta": map[string]any{}, "logprobs": nil, "finish_reason": r.finish()}))
	if req.StreamOptions.IncludeUsage {
		last := chunk()
		last["usage"] = r.usage(req)
		send(last)
	}
	return append(list, "data: [DONE]\n\n")
}

// whole returns the reply as one completion.
func (r *Reply) whole(req *Request, n int) map[string]any {
	message := map[string]any{"role": "assistant", "content": r.Text, "refusal": nil}
	if r.Refusal != "" {
		message["refusal"] = r.Refusal
	}
	if r.Reasoning != "" {
		message["reasoning_content"] = r.Reasoning
	}
	var calls []any
	for i, c := range r.Calls {
		calls = append(calls, map[string]any{"id": r.callID(n, i), "type": "function",
			"function": map[string]any{"name": c.Tool, "arguments": c.Arguments}})
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	c := r.envelope(req, n, "chat.completion")
	c["choices"] = []any{map[string]any{"index": 0, "message": message, "logprobs": nil, "finish_reason": r.finish()}}
	c["usage"] = r.usage(req)
	return c
}

func (r *Reply) envelope(req *Request, n int, object string) map[string]any {
	return map[string]any{"id": fmt.Sprintf("chatcmpl-%d", n), "object": object, "created": 1_700_000_000 + n,
		"model": req.Model, "system_fingerprint": nil}
}

func (r *Reply) callID(n, i int) string {
	return cmp.Or(r.Calls[i].ID, fmt.Sprintf("call_%d_%d", n, i+1))
}

func (r *Reply) finish() string {
	if r.Finish == "" && len(r.Calls) > 0 {
		return "tool_calls"
	}
	return cmp.Or(r.Finish, "stop")
}

func (r *Reply) usage(req *Request) map[string]any {
	u := r.Usage
	if u == (Usage{}) {
		u.Input = 1 + len(req.Body)/4
		u.Reasoning = len(testserver.Words(r.Reasoning))
		u.Output = u.Reasoning + len(testserver.Words(r.Text)) + len(testserver.Words(r.Refusal))
		for _, c := range r.Calls {
			u.Output += 1 + len(c.Arguments)/4
		}
	}
	return map[string]any{
		"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"prompt_tokens_details":     map[string]any{"cached_tokens": u.Cached, "audio_tokens": 0},
		"completion_tokens_details": map[string]any{"reasoning_tokens": u.Reasoning, "audio_tokens": 0},
	}
}
