package geminitest

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/cairn-agents/cairn/internal/provider/testserver"
)

// Reply is the server's response to one request. Build it with [Text], [CallTool], [Content], [Fail] or [Raw], or
// by its fields. The zero value is an empty reply.
type Reply struct {
	// Parts are the parts of the reply, in order.
	Parts []Part
	// Finish is the finish reason. Default: "STOP".
	Finish string
	// Blocked is why the prompt is blocked. Default: it is not blocked.
	Blocked string
	// Sources are pages that the reply is grounded in, by address and title.
	Sources [][2]string
	// Usage is the reported usage. Default: a rough count.
	Usage Usage

	// Wire is how the reply is sent; with Status it is an error.
	Wire
}

// Part is a part of a reply. Exactly one field other than Signed is set.
type Part struct {
	// Thought is a summary of thinking.
	Thought string
	Text    string
	// Signed makes the server sign a Text. The first Call of a reply is always signed.
	Signed bool
	Call   *Call
	// Own is any other part, complete.
	Own map[string]any
}

// Call is a tool call of a reply.
type Call = testserver.Call

// Usage is the token counts of a reply. As in the API, Output excludes Thoughts.
type Usage struct {
	Input, Cached, Output, Thoughts int
}

// Text is a reply of text, streamed word by word.
func Text(text string) Reply { return Content(Part{Text: text}) }

// Content is a reply of several parts.
func Content(parts ...Part) Reply { return Reply{Parts: parts} }

// CallTool is a reply that calls a tool. A string is used as the text of the arguments; anything else is
// marshalled, and CallTool panics if that fails.
func CallTool(tool string, args any) Reply {
	return Content(Part{Call: &Call{Tool: tool, Arguments: testserver.Arguments(tool, args)}})
}

// Fail is an error response with a status and the API's name for it.
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

// events returns the reply as the events of a stream.
func (r *Reply) events(req *Request, n int) []string {
	var list []string
	send := func(f fields) {
		f["modelVersion"], f["responseId"] = req.Model, fmt.Sprintf("r%d", n)
		list = append(list, testserver.Event("", f))
	}
	candidate := func(more fields, parts ...any) fields {
		more["content"], more["index"] = fields{"role": "model", "parts": append([]any{}, parts...)}, 0
		return fields{"candidates": []any{more}}
	}
	signed := false
	for i := range r.Parts {
		for _, f := range r.Parts[i].pieces(req.Model, &signed) {
			send(candidate(fields{}, f))
		}
	}
	if r.ErrorAfter > 0 {
		return r.Cut(list, func() string { return testserver.Event("", failure(&r.Wire)) })
	}
	u := r.usage(req)
	end := candidate(fields{"finishReason": cmp.Or(r.Finish, "STOP")})
	if len(r.Sources) > 0 {
		var chunks []any
		for _, s := range r.Sources {
			chunks = append(chunks, fields{"web": fields{"uri": s[0], "title": s[1]}})
		}
		end["candidates"].([]any)[0].(fields)["groundingMetadata"] = fields{"groundingChunks": chunks}
	}
	if r.Blocked != "" {
		end = fields{"promptFeedback": fields{"blockReason": r.Blocked}}
	}
	end["usageMetadata"] = fields{"promptTokenCount": u.Input, "cachedContentTokenCount": u.Cached, "candidatesTokenCount": u.Output,
		"thoughtsTokenCount": u.Thoughts, "totalTokenCount": u.Input + u.Output + u.Thoughts}
	send(end)
	return list
}

// pieces returns a part in the pieces in which it is streamed.
func (p *Part) pieces(model string, signed *bool) []fields {
	var list []fields
	switch {
	case p.Thought != "":
		for _, word := range testserver.Words(p.Thought) {
			list = append(list, fields{"text": word, "thought": true})
		}
	case p.Call != nil:
		call := fields{"name": p.Call.Tool, "args": json.RawMessage(cmp.Or(p.Call.Arguments, "{}"))}
		if p.Call.ID != "" {
			call["id"] = p.Call.ID
		}
		f := fields{"functionCall": call}
		if !*signed {
			*signed, f["thoughtSignature"] = true, sign(model, p.Call.Tool, []byte(cmp.Or(p.Call.Arguments, "{}")))
		}
		list = append(list, f)
	case p.Own != nil:
		list = append(list, p.Own)
	case p.Signed:
		list = append(list, fields{"text": p.Text, "thoughtSignature": sign(model, p.Text, nil)})
	default:
		for _, word := range testserver.Words(p.Text) {
			list = append(list, fields{"text": word})
		}
	}
	return list
}

func (r *Reply) usage(req *Request) Usage {
	u := r.Usage
	if u == (Usage{}) {
		u.Input = 1 + len(req.Body)/4
		for i := range r.Parts {
			u.Thoughts += len(testserver.Words(r.Parts[i].Thought))
			u.Output += 1 + len(testserver.Words(r.Parts[i].Text))
		}
	}
	return u
}
