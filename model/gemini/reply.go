package gemini

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
)

// reply turns the events of a stream into chunks.
type reply struct {
	failures provider.Failures
	model    string
	say      provider.Emit
	turn     int // from which ids are made for calls without one

	open    cairn.ChunkType // kind of the open text or reasoning; empty for none
	ending  json.RawMessage // provider data of the open part, sent when it ends
	queries []string        // of searches of the web
	sources []cairn.Source  // sources that were cited and have no text yet
	calls   int
	ids     provider.Unique
	reason  string
	message string // about the reason
	blocked string // why the prompt was blocked
	splice  splice
}

func (r *reply) complete() bool { return r.reason != "" || r.blocked != "" }

// received processes one event.
func (r *reply) received(kind string, data []byte) error {
	var ev event
	err := json.Unmarshal(data, &ev)
	switch {
	case kind == "error" || err == nil && len(ev.Error) > 0:
		return classified(r.failures.Fault(provider.ParseFault(data)))
	case bytes.HasPrefix(data, []byte("[DONE]")):
		return nil
	case err != nil:
		return r.failures.Errorf(cairn.ErrModel, "invalid event in the stream: %s", provider.Clip(string(data)))
	case r.splice.by(ev.ID):
		return r.failures.Errorf(cairn.ErrModel, "the stream has a second response within the first")
	}
	return r.event(&ev)
}

// splice detects that a gateway began the reply again within its stream. The events of a reply have one id, unless a
// server gives each an id of its own: so only an id that follows a repeated one begins another reply.
type splice struct {
	id       string
	repeated bool
}

func (s *splice) by(id string) bool {
	switch {
	case id == "":
		return false
	case id == s.id:
		s.repeated = true
		return false
	case s.repeated:
		return true
	}
	s.id = id
	return false
}

// event processes one event.
func (r *reply) event(ev *event) error {
	failed := r.content(ev)
	if u := ev.Usage; u != nil && !errors.Is(failed, provider.ErrStopped) { // of a failed reply, too
		if err := r.say(cairn.Chunk{Type: cairn.ChunkUsage, Usage: cairn.Usage{InputTokens: u.Prompt + u.ToolPrompt,
			OutputTokens: u.Candidates + u.Thoughts, ReasoningTokens: u.Thoughts, CachedTokens: u.Cached, WebSearches: int64(len(r.queries))}}); err != nil {
			return err
		}
	}
	return failed
}

// content processes what an event has of the reply.
func (r *reply) content(ev *event) error {
	if why := ev.PromptFeedback; why.BlockReason != "" {
		r.blocked = strings.TrimSpace(why.BlockReason + " " + why.BlockReasonMessage)
	}
	for i := range ev.Candidates {
		c := &ev.Candidates[i]
		if c.Index != 0 { // a reply that was not requested
			continue
		}
		for _, raw := range c.Content.Parts {
			if err := r.part(raw); err != nil {
				return err
			}
		}
		for _, q := range c.Grounding.Queries {
			if q != "" && !slices.Contains(r.queries, q) { // events repeat them
				r.queries = append(r.queries, q)
			}
		}
		for _, chunk := range c.Grounding.Chunks {
			p := page{cmp.Or(chunk.Web.URI, chunk.Retrieved.URI), cmp.Or(chunk.Web.Title, chunk.Retrieved.Title)}
			if p != (page{}) {
				r.sources = append(r.sources, cairn.Source{URL: p.URI, Title: p.Title})
			}
		}
		if c.FinishReason != "" {
			r.reason, r.message = c.FinishReason, c.FinishMessage
		}
	}
	return nil
}

// part processes a part of the reply.
func (r *reply) part(raw json.RawMessage) error {
	var p given
	if err := json.Unmarshal(raw, &p); err != nil {
		return r.failures.Errorf(cairn.ErrModel, "invalid part in the stream: %w", err)
	}
	switch {
	case p.FunctionCall != nil:
		return r.call(raw, p.FunctionCall)
	case p.InlineData != nil:
		if err := r.stop(); err != nil {
			return err
		}
		return r.say(cairn.Chunk{Type: cairn.ChunkFile, File: &cairn.File{MediaType: p.InlineData.MIMEType, Data: p.InlineData.Data}})
	case p.Text != nil && (*p.Text != "" || p.Signature == ""):
		return r.text(raw, &p)
	}
	if err := r.stop(); err != nil {
		return err
	}
	whole := provider.Keepable(bytes.Clone(raw))
	if whole == nil {
		return nil
	}
	return r.say(cairn.Chunk{Type: cairn.ChunkProvider, Provider: whole, Model: r.model})
}

// text extends the open text or reasoning. A signed part stays a part of its own, because it is sent back that way.
func (r *reply) text(raw json.RawMessage, p *given) error {
	kind := cairn.ChunkText
	if p.Thought {
		kind = cairn.ChunkReasoning
	}
	if *p.Text == "" {
		return nil
	}
	if r.open != "" && (r.open != kind || r.ending != nil || p.Signature != "") {
		if err := r.stop(); err != nil {
			return err
		}
	}
	if err := r.say(cairn.Chunk{Type: kind, Text: *p.Text}); err != nil {
		return err
	}
	r.open = kind
	if p.Signature != "" {
		r.ending = rest(raw, "text")
	}
	return nil
}

// stop ends the open text or reasoning, if there is any.
func (r *reply) stop() error {
	if r.open == "" {
		return nil
	}
	chunk := cairn.Chunk{Type: cairn.ChunkPartEnd, Provider: r.ending}
	if chunk.Provider != nil {
		chunk.Model = r.model
	}
	if r.open == cairn.ChunkText {
		chunk.Sources, r.sources = r.sources, nil
	}
	r.open, r.ending = "", nil
	return r.say(chunk)
}

// rest returns a part without some fields; nil if nothing remains.
func rest(raw json.RawMessage, names ...string) json.RawMessage {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	for _, name := range names {
		delete(fields, name)
	}
	if len(fields) == 0 {
		return nil
	}
	more, _ := json.Marshal(fields) // parts of valid JSON
	return provider.Keepable(more)
}

// call processes a call, which arrives complete.
func (r *reply) call(raw json.RawMessage, c *functionCall) error {
	if err := r.stop(); err != nil {
		return err
	}
	if c.Name == "" {
		return r.failures.Errorf(cairn.ErrModel, "the reply has a tool call without a name")
	}
	r.calls++
	id := r.ids.Of(cmp.Or(c.ID, fmt.Sprintf("call_%d_%d", r.turn, r.calls)))
	start := cairn.Chunk{Type: cairn.ChunkToolStart, CallID: id, Tool: c.Name, Provider: r.around(raw, c)}
	if start.Provider != nil {
		start.Model = r.model
	}
	if err := r.say(start); err != nil {
		return err
	}
	args := string(c.Args)
	if args == "" || args == "null" {
		args = "{}"
	}
	return r.say(cairn.Chunk{Type: cairn.ChunkToolArgs, CallID: id, Text: args})
}

// around returns the fields of a call's part other than name and arguments.
func (r *reply) around(raw json.RawMessage, c *functionCall) json.RawMessage {
	more := rest(raw, "functionCall")
	if c.ID == "" {
		return more
	}
	fields := map[string]json.RawMessage{}
	if more != nil && json.Unmarshal(more, &fields) != nil {
		return nil
	}
	fields["id"], _ = json.Marshal(c.ID) // strings always encode
	all, _ := json.Marshal(fields)
	return provider.Keepable(all)
}

// finish ends the reply once it is complete.
func (r *reply) finish() error {
	if r.blocked != "" {
		return r.failures.Errorf(cairn.ErrFiltered, "the provider blocked the prompt: %s", provider.Clip(r.blocked))
	}
	if err := r.stop(); err != nil {
		return err
	}
	reason := cairn.FinishReasonEnd
	switch why := provider.Clip(strings.TrimSpace(r.reason + " " + r.message)); r.reason {
	case "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		return r.failures.Errorf(cairn.ErrFiltered, "the provider stopped the reply: %s", why)
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS":
		return r.failures.Errorf(cairn.ErrModel, "the model failed to call a tool: %s", why)
	case "MALFORMED_RESPONSE":
		return r.failures.Errorf(cairn.ErrModel, "the model failed to reply: %s", why)
	case "MISSING_THOUGHT_SIGNATURE":
		return r.failures.Errorf(cairn.ErrModelRequest, "the provider rejected the history: %s", why)
	case "MAX_TOKENS":
		reason = cairn.FinishReasonLength
	case "STOP":
		if r.calls > 0 {
			reason = cairn.FinishReasonTools
		}
	default:
		reason = cairn.FinishReason(strings.ToLower(r.reason))
	}
	return r.say(cairn.Chunk{Type: cairn.ChunkFinish, FinishReason: reason})
}
