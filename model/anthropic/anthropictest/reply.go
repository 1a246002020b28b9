package anthropictest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/cairn-agents/cairn/internal/provider/testserver"
)

// Reply is the server's response to one request. Build it with [Text], [CallTool], [Content], [Fail] or [Raw], or
// by its fields. The zero value is an empty reply.
type Reply struct {
	// Blocks are the content blocks, in order.
	Blocks []Part
	// Stop is the stop reason. Default: "tool_use" with calls, else "end_turn".
	Stop string
	// Explanation accompanies the stop reason "refusal".
	Explanation string
	// Usage is the reported usage. Default: a rough count.
	Usage Usage

	// Wire is how the reply is sent; with Status it is an error.
	Wire
}

// Part is a content block of a reply. One field is set.
type Part struct {
	// Thinking is reasoning, signed by the server.
	Thinking string
	// Redacted is encrypted reasoning.
	Redacted string
	Text     string
	// Citations belong to Text.
	Citations []any
	Call      *Call
	// Item is any other block, complete.
	Item map[string]any
}

// Call is a tool call of a reply.
type Call = testserver.Call

// Usage is the token counts of a reply. As in the API, Input excludes tokens read from and written to the cache.
type Usage struct {
	Input, CacheRead, CacheWrite, Output, Thinking int
}

// Text is a reply of text, streamed word by word.
func Text(text string) Reply { return Content(Part{Text: text}) }

// Content is a reply of several blocks.
func Content(blocks ...Part) Reply { return Reply{Blocks: blocks} }

// CallTool is a reply that calls a tool. A string is used as the text of the arguments; anything else is
// marshalled, and CallTool panics if that fails.
func CallTool(tool string, args any) Reply {
	return Content(Part{Call: &Call{Tool: tool, Arguments: testserver.Arguments(tool, args)}})
}

// Fail is an error response with a status and an error type.
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

func failure(w *Wire) any {
	kind := "api_error"
	if w.Status == http.StatusBadRequest {
		kind = "invalid_request_error"
	}
	return map[string]any{"type": "error", "request_id": "req_test",
		"error": map[string]any{"type": cmp.Or(w.Code, kind), "message": w.Message}}
}

// stream collects events.
type stream struct{ list []string }

func (s *stream) send(kind string, fields map[string]any) {
	fields["type"] = kind
	s.list = append(s.list, testserver.Event(kind, fields))
}

// events returns the reply as the events of a stream.
func (r *Reply) events(given *items, req *Request, n int) []string {
	var out stream
	u := r.usage(req)
	out.send("message_start", map[string]any{"message": map[string]any{"id": fmt.Sprintf("msg_%d", n), "type": "message",
		"role": "assistant", "model": req.Model, "content": []any{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": map[string]any{"input_tokens": u.Input, "cache_creation_input_tokens": u.CacheWrite,
			"cache_read_input_tokens": u.CacheRead, "output_tokens": 1, "service_tier": "standard"}}})
	prefix := req.canonical()
	stop := "end_turn"
	for i := range r.Blocks {
		whole := r.block(given, req, &out, i, n, prefix)
		prefix = append(prefix, "assistant "+canonical(json.RawMessage(whole)))
		if r.Blocks[i].Call != nil {
			stop = "tool_use"
		}
		if i == 0 {
			out.send("ping", map[string]any{})
		}
	}
	if r.ErrorAfter > 0 {
		return r.Cut(out.list, func() string { return testserver.Event("error", failure(&r.Wire)) })
	}
	delta := map[string]any{"stop_reason": cmp.Or(r.Stop, stop), "stop_sequence": nil}
	if r.Explanation != "" {
		delta["stop_details"] = map[string]any{"type": "refusal", "category": "cyber", "explanation": r.Explanation}
	}
	out.send("message_delta", map[string]any{"delta": delta,
		"usage": map[string]any{"output_tokens": u.Output, "output_tokens_details": map[string]any{"thinking_tokens": u.Thinking}}})
	out.send("message_stop", map[string]any{})
	return out.list
}

// block streams a content block, and returns it in the form in which a client sends it back.
func (r *Reply) block(given *items, req *Request, out *stream, i, n int, prefix []string) string {
	p := &r.Blocks[i]
	delta := func(kind, field string, value any) {
		out.send("content_block_delta", map[string]any{"index": i, "delta": map[string]any{"type": kind, field: value}})
	}
	start := func(block map[string]any) {
		out.send("content_block_start", map[string]any{"index": i, "content_block": block})
	}
	defer func() { out.send("content_block_stop", map[string]any{"index": i}) }()
	switch {
	case p.Thinking != "":
		start(map[string]any{"type": "thinking", "thinking": "", "signature": ""})
		for _, word := range testserver.Words(p.Thinking) {
			delta("thinking_delta", "thinking", word)
		}
		signature := testserver.Sign(signed, req.Model, prefix, p.Thinking)
		delta("signature_delta", "signature", signature)
		return testserver.Encode(map[string]any{"type": "thinking", "thinking": p.Thinking, "signature": signature})
	case p.Redacted != "":
		given.add(p.Redacted)
		block := map[string]any{"type": "redacted_thinking", "data": p.Redacted}
		start(block)
		return testserver.Encode(block)
	case p.Call != nil:
		id := cmp.Or(p.Call.ID, fmt.Sprintf("toolu_%d_%d", n, i+1))
		start(map[string]any{"type": "tool_use", "id": id, "name": p.Call.Tool, "input": map[string]any{}, "caller": map[string]any{"type": "direct"}})
		delta("input_json_delta", "partial_json", "")
		for _, piece := range p.Call.Pieces() {
			delta("input_json_delta", "partial_json", piece)
		}
		return testserver.Encode(map[string]any{"type": "tool_use", "id": id, "name": p.Call.Tool, "input": object(p.Call.Arguments)})
	case p.Item != nil:
		start(p.Item)
		return testserver.Encode(p.Item)
	}
	start(map[string]any{"type": "text", "text": ""})
	for _, word := range testserver.Words(p.Text) {
		delta("text_delta", "text", word)
	}
	for _, c := range p.Citations {
		delta("citations_delta", "citation", c)
	}
	if len(p.Citations) > 0 {
		return testserver.Encode(map[string]any{"type": "text", "text": p.Text, "citations": p.Citations})
	}
	return testserver.Encode(map[string]any{"type": "text", "text": p.Text})
}

// object returns arguments as JSON, whatever they are.
func object(arguments string) any {
	if raw := json.RawMessage(cmp.Or(arguments, "{}")); json.Valid(raw) {
		return raw
	}
	return arguments
}

func (r *Reply) usage(req *Request) Usage {
	u := r.Usage
	if u == (Usage{}) {
		u.Input = 1 + len(req.Body)/4
		for _, p := range r.Blocks {
			u.Thinking += len(testserver.Words(p.Thinking))
			u.Output += 1 + len(testserver.Words(p.Text)) + len(testserver.Words(p.Thinking))
		}
	}
	return u
}
