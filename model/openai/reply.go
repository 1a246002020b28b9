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

	id      string    // the response's, once it has begun
	end     *response // set once the reply is complete
	refused strings.Builder
	outputs outputs
	calls   []*call
	ids     provider.Unique
	uses    cairn.Usage       // of the provider's own tools
	clients map[string]string // tools that answer items of the API's own types, by the types
	owed    map[string]string // types of items that lack an output of the client's, by their call ids
}

// call is a call that has begun.
type call struct {
	given  string // the server's id
	id     string // the same id, made unique in the reply
	filled bool
}

func (r *reply) complete() bool { return r.end != nil }

// received decodes an event. Some gateways leave out its name, others its type.
func (r *reply) received(kind string, data []byte) error {
	if bytes.HasPrefix(data, []byte("[DONE]")) {
		return nil
	}
	if kind == "error" {
		return r.failures.Fault(provider.ParseFault(data))
	}
	ev := event{Type: kind}
	if err := json.Unmarshal(data, &ev); err != nil {
		return r.failures.Errorf(cairn.ErrModel, "invalid event in the stream: %w", err)
	}
	if ev.Type == "error" || ev.Type == "" && len(ev.Error) > 0 {
		return r.failures.Fault(provider.ParseFault(data))
	}
	return r.event(ev)
}

// event processes one event. Events of unknown types are ignored.
func (r *reply) event(ev event) error {
	switch ev.Type {
	case "response.created":
		return r.began(ev.Response)
	case "response.output_text.delta":
		return r.text(r.outputs.of(&ev), ev.Delta)
	case "response.refusal.delta":
		r.refused.WriteString(ev.Delta)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return r.think(r.outputs.of(&ev), ev.Delta)
	case "response.reasoning_summary_part.added":
		if ev.SummaryIndex > 0 {
			return r.think(r.outputs.of(&ev), "\n\n")
		}
	case "response.function_call_arguments.delta":
		if o := r.outputs.of(&ev); o.call != nil {
			return r.arguments(o, ev.Delta)
		}
		return r.failures.Errorf(cairn.ErrModel, "the stream has arguments for an unknown call")
	case "response.output_item.added":
		return r.item(&ev, false)
	case "response.output_item.done":
		return r.item(&ev, true)
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled", "response.done":
		return r.ended(&ev)
	}
	return nil
}

// began notes the response that the stream has. Two of them are those of a gateway that asked again: both may have
// the same calls.
func (r *reply) began(res *response) error {
	switch {
	case res == nil || res.ID == "" || res.ID == r.id:
		return nil
	case r.id != "":
		return r.failures.Errorf(cairn.ErrModel, "the stream has a second response within the first")
	}
	r.id = res.ID
	return nil
}

// ended notes how the response ended.
func (r *reply) ended(ev *event) error {
	if ev.Response == nil {
		ev.Response = &response{}
	}
	if ev.Type != "response.done" { // a compatible server's event for any end
		ev.Response.Status = strings.TrimPrefix(ev.Type, "response.")
	}
	r.end = ev.Response
	output := ev.Response.Output
	if r.outputs.any { // the stream had them
		output = nil
	}
	for i, raw := range output {
		if err := r.item(&event{OutputIndex: i, Item: raw}, true); err != nil {
			return err
		}
	}
	return r.count(ev.Response.Usage)
}

func (r *reply) text(o *output, text string) error {
	if text == "" {
		return nil
	}
	o.spoke = true
	return r.emit(o, cairn.Chunk{Type: cairn.ChunkText, Text: text})
}

func (r *reply) think(o *output, text string) error {
	if text == "" {
		return nil
	}
	o.thought = true
	return r.emit(o, cairn.Chunk{Type: cairn.ChunkReasoning, Text: text})
}

func (r *reply) arguments(o *output, text string) error {
	if text == "" {
		return nil
	}
	o.call.filled = true
	return r.emit(o, cairn.Chunk{Type: cairn.ChunkToolArgs, CallID: o.call.id, Text: text})
}

func (r *reply) count(u *usage) error {
	if u == nil {
		return nil
	}
	return r.say(cairn.Chunk{Type: cairn.ChunkUsage, Usage: u.total().Add(r.uses)})
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
		return r.failures.Errorf(cairn.ErrModel, "invalid item in the stream: %w", cmp.Or(err, errNoType))
	}
	find := r.outputs.began
	if done {
		find = r.outputs.ended
	}
	o := find(ev, &it)
	if err := r.part(o, ev, &it, done); err != nil || !done {
		return err
	}
	return r.close(o)
}

// part emits what an item has become.
func (r *reply) part(o *output, ev *event, it *item, done bool) error {
	switch {
	case it.Type == functionType:
		return r.call(o, ev, it, done)
	case !done:
		return nil
	case it.Type == customType:
		return r.custom(o, ev, it)
	case it.Type == approvalType:
		return r.approval(o, ev, it)
	case r.clients[it.Type] != "":
		return r.typedCall(o, ev, it)
	case it.Type == "message":
		return r.message(o, ev.Item, it)
	case it.Type == "reasoning":
		return r.reasoning(o, ev.Item, it)
	case it.Type == "image_generation_call" && it.Result != "":
		return r.image(o, it)
	}
	r.owe(it)
	r.uses = r.uses.Add(it.uses())
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
	return r.emit(o, chunk)
}

// uses counts what a provider charges of an item. Opening a page that a search found is free.
func (it *item) uses() (u cairn.Usage) {
	switch {
	case it.Status == "failed":
	case it.Type == "web_search_call" && (it.Action.Type == "" || it.Action.Type == "search"):
		u.WebSearches = 1
	case it.Type == "file_search_call":
		u.FileSearches = 1
	}
	return u
}

var errNoType = errors.New("it has no type")

// message ends a text.
func (r *reply) message(o *output, raw json.RawMessage, it *item) error {
	k := kept{Item: without(raw, "content")}
	chunk := cairn.Chunk{Type: cairn.ChunkPartEnd}
	spoke := o.spoke
	for _, c := range it.Content {
		if c.Type == "refusal" && r.refused.Len() == 0 {
			r.refused.WriteString(c.Refusal)
		}
		if !spoke {
			if err := r.text(o, c.Text); err != nil {
				return err
			}
		}
		if len(it.Content) == 1 { // otherwise positions in the text would shift
			k.Annotations = c.Annotations
		}
		chunk.Sources = append(chunk.Sources, cited(c.Annotations)...)
	}
	if !o.spoke {
		return nil
	}
	if data, err := json.Marshal(k); err == nil {
		if chunk.Provider = provider.Keepable(data); chunk.Provider != nil {
			chunk.Model = r.model
		}
	}
	return r.emit(o, chunk)
}

// reasoning ends reasoning. Encrypted reasoning is sent back whole, since nothing is stored at the provider.
func (r *reply) reasoning(o *output, raw json.RawMessage, it *item) error {
	if !o.thought {
		var all []string
		for _, s := range it.Summary {
			all = append(all, s.Text)
		}
		for _, c := range it.Content { // of open models
			all = append(all, c.Text)
		}
		if err := r.think(o, strings.Join(all, "\n\n")); err != nil {
			return err
		}
	}
	chunk := cairn.Chunk{Type: cairn.ChunkPartEnd}
	if it.Encrypted != "" {
		if chunk.Provider = provider.Keepable(bytes.Clone(raw)); chunk.Provider != nil {
			chunk.Model = r.model
		}
	}
	if !o.thought {
		if chunk.Provider == nil {
			return nil
		}
		if err := r.emit(o, cairn.Chunk{Type: cairn.ChunkReasoning}); err != nil { // a part needs a chunk that begins it
			return err
		}
	}
	return r.emit(o, chunk)
}

func (r *reply) image(o *output, it *item) error {
	data, err := base64.StdEncoding.DecodeString(it.Result)
	if err != nil {
		return r.failures.Errorf(cairn.ErrModel, "the reply has an invalid image: %w", err)
	}
	return r.emit(o, cairn.Chunk{Type: cairn.ChunkFile, File: &cairn.File{MediaType: "image/" + cmp.Or(it.Format, "png"), Data: data}})
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
	if r.end.Status == "failed" || r.end.Status == "cancelled" {
		return r.failures.Fault(provider.ParseFault(r.end.Error))
	}
	if r.refused.Len() > 0 {
		return r.failures.Errorf(cairn.ErrFiltered, "the model refused to answer: %s", provider.Clip(r.refused.String()))
	}
	for _, o := range r.outputs.open() { // items that were cut off by the end of the reply
		if err := r.close(o); err != nil {
			return err
		}
	}
	if err := r.unanswered(); err != nil {
		return err
	}
	reason := cairn.FinishReasonEnd
	switch why := r.end.IncompleteDetails.Reason; {
	case r.end.Status == "incomplete" && why == "content_filter":
		return r.failures.Errorf(cairn.ErrFiltered, "the provider's content filter stopped the reply")
	case r.end.Status == "incomplete" && (why == "max_output_tokens" || why == ""):
		reason = cairn.FinishReasonLength
	case r.end.Status == "incomplete":
		reason = cairn.FinishReason(why)
	case len(r.calls) > 0:
		reason = cairn.FinishReasonTools
	}
	return r.say(cairn.Chunk{Type: cairn.ChunkFinish, FinishReason: reason})
}
