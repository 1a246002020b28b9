package openaitest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Reply is what the server answers to one request. Build it with [Text], [CallTool], [Fail] or [Raw], or by its
// fields. The zero value is an empty reply.
type Reply struct {
	Reasoning string // sent as reasoning_content
	Text      string
	Refusal   string
	Calls     []Call
	// Finish is the finish reason. Default: "tool_calls" with calls, else "stop".
	Finish string
	// Usage is sent if the client asks for it. Default: a rough count.
	Usage Usage

	// Status makes the answer an error, with Code and Message.
	Status  int
	Code    string
	Message string
	// Header is added to the answer.
	Header http.Header

	// Raw is sent as it is in place of everything else: as the event stream, or as the body of an error.
	Raw string
	// Piece is how many bytes are sent at a time. Default: whole events; a Raw stream whole.
	Piece int
	// BreakAfter drops the connection after that many events. Default: the stream is complete.
	BreakAfter int
	// ErrorAfter sends an error event with Code and Message after that many events, and ends the stream.
	ErrorAfter int
	// Gate holds the stream after its first piece until the channel is closed or the server or client is gone.
	Gate <-chan struct{}
}

// Call is a tool call of a reply.
type Call struct {
	// ID is the call's id. Default: one that follows from the number of the request and the call's place.
	ID        string
	Tool      string
	Arguments string
}

// Usage is the token counts of a reply.
type Usage struct {
	Input, Output, Reasoning, Cached int
}

// Text is a reply of text, streamed word by word.
func Text(text string) Reply { return Reply{Text: text} }

// CallTool is a reply that calls a tool. A string is taken as the text of the arguments; anything else is marshalled,
// and panics if it cannot be.
func CallTool(tool string, args any) Reply {
	text, ok := args.(string)
	if !ok {
		data, err := json.Marshal(args)
		if err != nil {
			panic(fmt.Sprintf("openaitest: arguments of tool %q: %v", tool, err))
		}
		text = string(data)
	}
	return Reply{Calls: []Call{{Tool: tool, Arguments: text}}}
}

// Fail is an error answer. An empty code is sent as null, an empty message is the status's own words.
func Fail(status int, code, message string) Reply {
	return Reply{Status: status, Code: code, Message: message}
}

// Raw is an event stream that is sent as it is.
func Raw(stream string) Reply { return Reply{Raw: stream} }

// RetryAfter returns the reply with a Retry-After header.
func (r Reply) RetryAfter(value string) Reply {
	r.Header = r.Header.Clone()
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set("Retry-After", value)
	return r
}

// play answers one request with the reply.
func (s *Server) play(w http.ResponseWriter, r *http.Request, req *Request, reply *Reply, n int) {
	switch {
	case reply.Status != 0 && reply.Status != http.StatusOK:
		reply.write(w, n)
	case !req.Stream && reply.Raw == "":
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(encode(reply.whole(req, n)))) // the client may be gone
	default:
		s.stream(w, r, req, reply, n)
	}
}

func (s *Server) stream(w http.ResponseWriter, r *http.Request, req *Request, reply *Reply, n int) {
	for name, values := range reply.Header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	pieces := reply.events(req, n)
	if reply.Raw != "" {
		pieces = []string{reply.Raw}
	}
	if reply.BreakAfter > 0 {
		pieces = pieces[:min(reply.BreakAfter, len(pieces))]
	}
	if reply.Piece > 0 {
		pieces = cut(strings.Join(pieces, ""), reply.Piece)
	}
	for i, piece := range pieces {
		if i == 1 && reply.Gate != nil {
			select {
			case <-reply.Gate:
			case <-r.Context().Done():
				return
			case <-s.closed:
				return
			}
		}
		if _, err := w.Write([]byte(piece)); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush() // fails only if the client is gone
	}
	if reply.BreakAfter > 0 {
		panic(http.ErrAbortHandler) // drops the connection without the end of the body
	}
}

func cut(text string, size int) []string {
	var list []string
	for len(text) > size {
		list, text = append(list, text[:size]), text[size:]
	}
	return append(list, text)
}

// events returns the reply as the events of a stream.
func (r *Reply) events(req *Request, n int) []string {
	var list []string
	send := func(chunk map[string]any) { list = append(list, "data: "+encode(chunk)+"\n\n") }
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
	for _, word := range words(r.Reasoning) {
		delta(map[string]any{"reasoning_content": word})
	}
	for _, word := range words(r.Text) {
		delta(map[string]any{"content": word})
	}
	for _, word := range words(r.Refusal) {
		delta(map[string]any{"refusal": word})
	}
	for i, c := range r.Calls {
		delta(map[string]any{"tool_calls": []any{map[string]any{"index": i, "id": r.callID(n, i), "type": "function",
			"function": map[string]any{"name": c.Tool, "arguments": ""}}}})
		for piece := range slices.Chunk([]rune(c.Arguments), 7) {
			delta(map[string]any{"tool_calls": []any{map[string]any{"index": i,
				"function": map[string]any{"arguments": string(piece)}}}})
		}
	}
	if r.ErrorAfter > 0 {
		list = list[:min(r.ErrorAfter, len(list))]
		send(map[string]any{"error": r.failure()})
		return list
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
		u.Reasoning = len(words(r.Reasoning))
		u.Output = u.Reasoning + len(words(r.Text)) + len(words(r.Refusal))
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

// words cuts text after each space.
func words(text string) []string {
	if text == "" {
		return nil
	}
	list := strings.SplitAfter(text, " ")
	if list[len(list)-1] == "" {
		list = list[:len(list)-1]
	}
	return list
}
