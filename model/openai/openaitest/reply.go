package openaitest

import (
	"cmp"
	"fmt"

	"github.com/cairn-agents/cairn/internal/provider/testserver"
)

// Reply is the server's response to one request. Build it with [Text], [CallTool], [Output], [Fail] or [Raw], or by
// its fields. The zero value is an empty reply.
type Reply struct {
	// Items are the items of the output, in order.
	Items []Item
	// Incomplete is why the reply is incomplete. Default: it is complete.
	Incomplete string
	// Failed is the error code of a failed response. Default: it does not fail.
	Failed string
	// Usage is the reported usage. Default: a rough count.
	Usage Usage

	// Wire is how the reply is sent; with Status it is an error.
	Wire
}

// Item is an item of a reply's output. Exactly one field other than Phase and Annotations is set.
type Item struct {
	// Reasoning is the summary of reasoning, which the server encrypts. Hidden is reasoning without a summary.
	Reasoning string
	Hidden    bool
	Text      string
	// Phase and Annotations belong to Text.
	Phase       string
	Annotations []any
	Refusal     string
	Call        *Call
	// Own is any other item, complete.
	Own map[string]any
}

// Call is a tool call of a reply.
type Call = testserver.Call

// Usage is the token counts of a reply.
type Usage struct {
	Input, Output, Reasoning, Cached, CacheWrite int
}

// Text is a reply of text, streamed word by word.
func Text(text string) Reply { return Output(Item{Text: text}) }

// Output is a reply of several items.
func Output(items ...Item) Reply { return Reply{Items: items} }

// CallTool is a reply that calls a tool. A string is used as the text of the arguments; anything else is
// marshalled, and CallTool panics if that fails.
func CallTool(tool string, args any) Reply {
	return Output(Item{Call: &Call{Tool: tool, Arguments: testserver.Arguments(tool, args)}})
}

// Fail is an error response with a status and a code.
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

type fields = map[string]any

// stream collects events.
type stream struct{ list []string }

func (s *stream) send(kind string, f fields) {
	f["type"], f["sequence_number"] = kind, len(s.list)
	s.list = append(s.list, testserver.Event(kind, f))
}

// events returns the reply as the events of a stream.
func (r *Reply) events(req *Request, n int) []string {
	var out stream
	response := func(status string) fields {
		return fields{"id": fmt.Sprintf("resp_%d", n), "object": "response", "status": status, "model": req.Model,
			"error": nil, "incomplete_details": nil, "output": []any{}, "usage": nil}
	}
	out.send("response.created", fields{"response": response("in_progress")})
	out.send("response.in_progress", fields{"response": response("in_progress")})
	for i := range r.Items {
		r.Items[i].stream(&out, req.Model, n, i)
	}
	if r.ErrorAfter > 0 {
		return r.Cut(out.list, func() string {
			f := testserver.OpenAIFailure(&r.Wire)
			f["type"] = "error"
			return testserver.Event("error", f)
		})
	}
	status := "completed"
	end := response(status)
	switch {
	case r.Failed != "":
		status, end["error"] = "failed", fields{"code": r.Failed, "message": cmp.Or(r.Message, "The model failed.")}
	case r.Incomplete != "":
		status, end["incomplete_details"] = "incomplete", fields{"reason": r.Incomplete}
	}
	u := r.usage(req)
	end["status"], end["usage"] = status, fields{"input_tokens": u.Input, "output_tokens": u.Output, "total_tokens": u.Input + u.Output,
		"input_tokens_details":  fields{"cached_tokens": u.Cached, "cache_write_tokens": u.CacheWrite},
		"output_tokens_details": fields{"reasoning_tokens": u.Reasoning}}
	out.send("response."+status, fields{"response": end})
	return out.list
}

func (it *Item) stream(out *stream, model string, n, i int) {
	id := func(prefix string) string { return fmt.Sprintf("%s_%d_%d", prefix, n, i+1) }
	at := func(more fields) fields {
		more["output_index"] = i
		return more
	}
	item := func(event string, f fields) { out.send("response.output_item."+event, at(fields{"item": f})) }
	switch {
	case it.Reasoning != "" || it.Hidden:
		summary := []any{}
		if it.Reasoning != "" {
			summary = append(summary, fields{"type": "summary_text", "text": it.Reasoning})
		}
		item("added", fields{"id": id("rs"), "type": "reasoning", "summary": []any{}, "encrypted_content": "incomplete"})
		if it.Reasoning != "" {
			out.send("response.reasoning_summary_part.added", at(fields{"summary_index": 0, "part": fields{"type": "summary_text", "text": ""}}))
		}
		for _, word := range testserver.Words(it.Reasoning) {
			out.send("response.reasoning_summary_text.delta", at(fields{"summary_index": 0, "delta": word}))
		}
		item("done", fields{"id": id("rs"), "type": "reasoning", "summary": summary, "encrypted_content": testserver.Sign(encrypted, model, id("rs"), it.Reasoning)})
	case it.Call != nil:
		call := fields{"id": id("fc"), "type": "function_call", "status": "in_progress", "call_id": cmp.Or(it.Call.ID, id("call")), "name": it.Call.Tool, "arguments": ""}
		item("added", call)
		for _, piece := range it.Call.Pieces() {
			out.send("response.function_call_arguments.delta", at(fields{"item_id": id("fc"), "delta": piece}))
		}
		out.send("response.function_call_arguments.done", at(fields{"item_id": id("fc"), "arguments": it.Call.Arguments}))
		call["status"], call["arguments"] = "completed", it.Call.Arguments
		item("done", call)
	case it.Own != nil:
		item("added", it.Own)
		item("done", it.Own)
	default:
		it.message(out, id("msg"), at, item)
	}
}

func (it *Item) message(out *stream, id string, at func(fields) fields, item func(string, fields)) {
	message := func(status string, content ...any) fields {
		f := fields{"id": id, "type": "message", "status": status, "role": "assistant", "content": append([]any{}, content...)}
		if it.Phase != "" {
			f["phase"] = it.Phase
		}
		return f
	}
	item("added", message("in_progress"))
	for _, word := range testserver.Words(it.Refusal) {
		out.send("response.refusal.delta", at(fields{"item_id": id, "content_index": 0, "delta": word}))
	}
	for _, word := range testserver.Words(it.Text) {
		out.send("response.output_text.delta", at(fields{"item_id": id, "content_index": 0, "delta": word, "logprobs": []any{}}))
	}
	if it.Refusal != "" {
		item("done", message("completed", fields{"type": "refusal", "refusal": it.Refusal}))
		return
	}
	item("done", message("completed", fields{"type": "output_text", "text": it.Text, "logprobs": []any{}, "annotations": append([]any{}, it.Annotations...)}))
}

func (r *Reply) usage(req *Request) Usage {
	u := r.Usage
	if u == (Usage{}) {
		u.Input = 1 + len(req.Body)/4
		for i := range r.Items {
			u.Reasoning += len(testserver.Words(r.Items[i].Reasoning))
			u.Output += 1 + len(testserver.Words(r.Items[i].Text)) + len(testserver.Words(r.Items[i].Reasoning))
		}
	}
	return u
}
