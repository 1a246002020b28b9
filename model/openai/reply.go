package openai

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
)

// reply turns the events of a stream into chunks.
type reply struct {
	failures provider.Failures
	model    string
	say      provider.Emit

	end     *response // set once the reply is complete
	spoke   bool      // whether the current message had text
	thought bool      // whether the current reasoning had text
	refused strings.Builder
	calls   map[int]*call // by the index of the output
	ids     provider.Unique
}

// call is a call that has begun.
type call struct {
	given  string // the server's id
	id     string // the same id, made unique in the reply
	filled bool
}

func (r *reply) complete() bool { return r.end != nil }

// event processes one event. Events of unknown types are ignored.
func (r *reply) event(ev event) error {
	switch ev.Type {
	case "response.output_text.delta":
		return r.text(ev.Delta)
	case "response.refusal.delta":
		r.refused.WriteString(ev.Delta)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return r.think(ev.Delta)
	case "response.reasoning_summary_part.added":
		if ev.SummaryIndex > 0 {
			return r.think("\n\n")
		}
	case "response.function_call_arguments.delta":
		if c := r.calls[ev.OutputIndex]; c != nil {
			return r.arguments(c, ev.Delta)
		}
		return r.failures.Errorf(cairn.CodeModel, "the stream has arguments of a call that did not begin")
	case "response.output_item.added":
		return r.item(&ev, false)
	case "response.output_item.done":
		return r.item(&ev, true)
	case "response.completed", "response.incomplete", "response.failed":
		if ev.Response == nil {
			ev.Response = &response{}
		}
		ev.Response.Status = strings.TrimPrefix(ev.Type, "response.")
		r.end = ev.Response
		return r.count(ev.Response.Usage)
	case "error":
		return r.failures.Fault(provider.ParseFault(ev.raw))
	}
	return nil
}

func (r *reply) text(text string) error {
	if text == "" {
		return nil
	}
	r.spoke = true
	return r.say(cairn.Chunk{Type: cairn.ChunkText, Text: text})
}

func (r *reply) think(text string) error {
	if text == "" {
		return nil
	}
	r.thought = true
	return r.say(cairn.Chunk{Type: cairn.ChunkReasoning, Text: text})
}

func (r *reply) arguments(c *call, text string) error {
	if text == "" {
		return nil
	}
	c.filled = true
	return r.say(cairn.Chunk{Type: cairn.ChunkToolArgs, CallID: c.id, Text: text})
}

func (r *reply) count(u *usage) error {
	if u == nil {
		return nil
	}
	return r.say(cairn.Chunk{Type: cairn.ChunkUsage, Usage: u.total()})
}

func (u *usage) total() cairn.Usage {
	used := cairn.Usage{InputTokens: u.Input, OutputTokens: u.Output, ReasoningTokens: u.OutputDetails.Reasoning,
		CachedTokens: u.InputDetails.Cached, CacheWriteTokens: u.InputDetails.CacheWrite}
	if nanos, ok := provider.Nanos(u.CostInTicks, provider.Tick); ok {
		used.CostNanos, used.PricedCalls = nanos, 1
	}
	return used
}

// item processes an item of the output when it begins, or when it is complete.
func (r *reply) item(ev *event, done bool) error {
	var it item
	if err := json.Unmarshal(ev.Item, &it); it.Type == "" {
		return r.failures.Errorf(cairn.CodeModel, "unintelligible item in the stream: %w", cmp.Or(err, errNoType))
	}
	switch {
	case it.Type == "function_call":
		return r.call(ev, &it, done)
	case !done:
		return nil
	case it.Type == "message":
		return r.message(ev.Item, &it)
	case it.Type == "reasoning":
		return r.reasoning(ev.Item, &it)
	case it.Type == "image_generation_call" && it.Result != "":
		return r.image(&it)
	}
	raw := provider.Keepable(ev.Item)
	if raw == nil {
		return nil
	}
	chunk := cairn.Chunk{Type: cairn.ChunkProvider, Provider: raw, Model: r.model}
	for _, s := range it.Action.Sources {
		if s.URL != "" {
			chunk.Sources = append(chunk.Sources, cairn.Source{URL: s.URL})
		}
	}
	return r.say(chunk)
}

var errNoType = errors.New("it has no type")

// call begins a call, or ends it. Some servers give all calls the same index.
func (r *reply) call(ev *event, it *item, done bool) error {
	c := r.calls[ev.OutputIndex]
	if c == nil || it.CallID != "" && it.CallID != c.given {
		if it.CallID == "" || it.Name == "" {
			return r.failures.Errorf(cairn.CodeModel, "the reply has a tool call without an id or a name")
		}
		if c != nil {
			if err := r.close(c); err != nil {
				return err
			}
		}
		c = &call{given: it.CallID, id: r.ids.Of(it.CallID)}
		r.calls[ev.OutputIndex] = c
		chunk := cairn.Chunk{Type: cairn.ChunkToolStart, CallID: c.id, Tool: it.Name}
		if more := without(ev.Item, "type", "call_id", "name", "arguments", "status"); len(more) > 0 {
			raw, _ := json.Marshal(more) // parts of valid JSON
			if chunk.Provider = provider.Keepable(raw); chunk.Provider != nil {
				chunk.Model = r.model
			}
		}
		if err := r.say(chunk); err != nil {
			return err
		}
	}
	if !done || c.filled {
		return nil
	}
	return r.arguments(c, cmp.Or(it.Arguments, "{}"))
}

// close gives {} to a call that never received arguments.
func (r *reply) close(c *call) error {
	if c.filled {
		return nil
	}
	return r.arguments(c, "{}")
}

// message ends a text.
func (r *reply) message(raw json.RawMessage, it *item) error {
	k := kept{Item: without(raw, "content")}
	chunk := cairn.Chunk{Type: cairn.ChunkPartEnd}
	spoke := r.spoke
	for _, c := range it.Content {
		if c.Type == "refusal" && r.refused.Len() == 0 {
			r.refused.WriteString(c.Refusal)
		}
		if !spoke {
			if err := r.text(c.Text); err != nil {
				return err
			}
		}
		if len(it.Content) == 1 { // otherwise positions in the text would shift
			k.Annotations = c.Annotations
		}
		chunk.Sources = append(chunk.Sources, cited(c.Annotations)...)
	}
	if !r.spoke {
		return nil
	}
	r.spoke = false
	if data, err := json.Marshal(k); err == nil {
		if chunk.Provider = provider.Keepable(data); chunk.Provider != nil {
			chunk.Model = r.model
		}
	}
	return r.say(chunk)
}

// reasoning ends reasoning. Encrypted reasoning is sent back whole, since nothing is stored at the provider.
func (r *reply) reasoning(raw json.RawMessage, it *item) error {
	if !r.thought {
		var all []string
		for _, s := range it.Summary {
			all = append(all, s.Text)
		}
		if err := r.think(strings.Join(all, "\n\n")); err != nil {
			return err
		}
	}
	chunk := cairn.Chunk{Type: cairn.ChunkPartEnd}
	if it.Encrypted != "" {
		if chunk.Provider = provider.Keepable(bytes.Clone(raw)); chunk.Provider != nil {
			chunk.Model = r.model
		}
	}
	if !r.thought {
		if chunk.Provider == nil {
			return nil
		}
		if err := r.say(cairn.Chunk{Type: cairn.ChunkReasoning}); err != nil { // a part needs a chunk that begins it
			return err
		}
	}
	r.thought = false
	return r.say(chunk)
}

func (r *reply) image(it *item) error {
	data, err := base64.StdEncoding.DecodeString(it.Result)
	if err != nil {
		return r.failures.Errorf(cairn.CodeModel, "the reply has an image that is not base64: %w", err)
	}
	return r.say(cairn.Chunk{Type: cairn.ChunkFile, File: &cairn.File{MediaType: "image/" + cmp.Or(it.Format, "png"), Data: data}})
}

func cited(annotations []json.RawMessage) []cairn.Source {
	var list []cairn.Source
	for _, raw := range annotations {
		var a struct {
			URL      string `json:"url"`
			Title    string `json:"title"`
			Filename string `json:"filename"`
		}
		if json.Unmarshal(raw, &a) == nil && (a.URL != "" || a.Filename != "") {
			list = append(list, cairn.Source{URL: a.URL, Title: cmp.Or(a.Title, a.Filename)})
		}
	}
	return list
}

// finish ends the reply once it is complete.
func (r *reply) finish() error {
	if r.end.Status == "failed" {
		return r.failures.Fault(provider.ParseFault(r.end.Error))
	}
	if r.refused.Len() > 0 {
		return r.failures.Errorf(cairn.CodeFiltered, "the model refused to answer: %s", provider.Clip(r.refused.String()))
	}
	for _, c := range r.calls { // calls whose item was cut off by the end of the reply
		if err := r.close(c); err != nil {
			return err
		}
	}
	reason := cairn.FinishReasonEnd
	switch why := r.end.IncompleteDetails.Reason; {
	case r.end.Status == "incomplete" && why == "content_filter":
		return r.failures.Errorf(cairn.CodeFiltered, "the provider's content filter stopped the reply")
	case r.end.Status == "incomplete" && (why == "max_output_tokens" || why == ""):
		reason = cairn.FinishReasonLength
	case r.end.Status == "incomplete":
		reason = cairn.FinishReason(why)
	case len(r.calls) > 0:
		reason = cairn.FinishReasonTools
	}
	return r.say(cairn.Chunk{Type: cairn.ChunkFinish, FinishReason: reason})
}
