package openaichat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
)

// reply turns the events of one streamed chat completion into chunks.
type reply struct {
	failures provider.Failures
	host     string          // server that wants data back
	origin   json.RawMessage // provider data of reasoning_content
	listed   json.RawMessage // provider data of reasoning in a list
	model    string          // model that wants data back
	say      provider.Emit
	turn     int // from which ids are made for calls without one

	reason  string          // the finish reason, once it is known
	refused string          // the model's words, if it refused to answer
	failure json.RawMessage // why the server failed within the reply
	done    bool            // the server said [DONE]
	spoke   bool            // there was text
	counted bool            // the usage is known
	splice  splice

	open    cairn.ChunkType // kind of the open text or reasoning; empty for none
	sources []cairn.Source  // of the text
	details []json.RawMessage
	extra   json.RawMessage

	calls   []*toolCall
	byIndex map[int]*toolCall
	ids     provider.Unique
}

// toolCall is a call that arrives in pieces. None of it is emitted before its name and id are known.
type toolCall struct {
	given   string // the server's id
	id      string // the same id, made unique in the reply
	name    string
	held    []byte          // arguments received before the call could begin
	extra   json.RawMessage // the server's own data of the call
	started bool
	filled  bool // whether arguments were received
}

func (r *reply) complete() bool { return r.done || r.reason != "" }

// settled reports whether the reply has everything that servers send.
func (r *reply) settled() bool { return r.reason != "" && r.counted }

// event processes one event of the stream, or a whole completion.
func (r *reply) event(kind string, data []byte) error {
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0:
		return nil
	case kind == "error":
		return r.failures.Fault(provider.ParseFault(data))
	case bytes.HasPrefix(data, []byte("[DONE]")):
		r.done = true
		return nil
	}
	var chunk chatChunk
	if err := decode(data, &chunk); err != nil {
		return r.failures.Errorf(cairn.ErrModel, "invalid event in the stream: %s", provider.Clip(string(data)))
	}
	failed := r.body(data, &chunk)
	if usage := chunk.used(); usage != nil && !errors.Is(failed, provider.ErrStopped) { // of a failed reply, too
		r.counted = true
		if err := r.say(cairn.Chunk{Type: cairn.ChunkUsage, Usage: usage.usage()}); err != nil {
			return err
		}
	}
	return failed
}

// body processes what an event has of the reply, or its error.
func (r *reply) body(data []byte, chunk *chatChunk) error {
	if chunk.Object == "error" || given(chunk.Error) {
		return r.failures.Fault(provider.ParseFault(data))
	}
	if r.splice.by(chunk) {
		return r.failures.Errorf(cairn.ErrModel, "the stream has a second reply within the first")
	}
	for i := range chunk.Choices {
		if chunk.Choices[i].Index == 0 { // others are replies that were not requested
			if err := r.choice(&chunk.Choices[i]); err != nil {
				return err
			}
		}
	}
	r.cite(chunk)
	return nil
}

func (r *reply) choice(c *choice) error {
	d := &c.Delta
	if given(c.Message) {
		d = new(delta)
		if err := decode(c.Message, d); err != nil {
			return r.failures.Errorf(cairn.ErrModel, "invalid message in the reply: %w", err)
		}
	}
	if err := r.reasoning(d); err != nil {
		return err
	}
	if err := r.content(d.Content); err != nil {
		return err
	}
	r.refused = provider.Clip(r.refused + d.Refusal)
	for i := range d.Images {
		if err := r.image(d.Images[i].ImageURL); err != nil {
			return err
		}
	}
	for i := range d.ToolCalls {
		if err := r.toolCall(&d.ToolCalls[i]); err != nil {
			return err
		}
	}
	for _, a := range d.Annotations {
		if u := a.URLCitation; u.URL != "" {
			r.source(cairn.Source{URL: u.URL, Title: u.Title, Quote: u.Content})
		}
	}
	if given(d.ExtraContent) {
		r.extra = d.ExtraContent
	}
	if given(c.Error) {
		r.failure = c.Error
	}
	if c.FinishReason != "" {
		r.reason = c.FinishReason
	}
	return nil
}

func (r *reply) text(text string) error {
	if text == "" {
		return nil
	}
	r.spoke, r.open = true, cairn.ChunkText
	return r.say(cairn.Chunk{Type: cairn.ChunkText, Text: text})
}

// think emits reasoning. from is the provider data of reasoning that can be sent back.
func (r *reply) think(text string, from json.RawMessage) error {
	if text == "" {
		return nil
	}
	chunk := cairn.Chunk{Type: cairn.ChunkReasoning, Text: text, Provider: from}
	if from != nil {
		chunk.Model = r.model
	}
	r.open = cairn.ChunkReasoning
	return r.say(chunk)
}

// reasoning processes reasoning beside the content. Servers that fill several fields give each the same text.
func (r *reply) reasoning(d *delta) error {
	r.details = append(r.details, d.ReasoningDetails...)
	switch {
	case d.ReasoningContent != "":
		return r.think(d.ReasoningContent, r.origin)
	case d.Reasoning != "":
		return r.think(d.Reasoning, nil)
	}
	for _, raw := range d.ReasoningDetails {
		var detail struct {
			Text    string `json:"text"`
			Summary string `json:"summary"`
		}
		_ = json.Unmarshal(raw, &detail) // one of another form has no text that can be shown
		if err := r.think(detail.Text+detail.Summary, nil); err != nil {
			return err
		}
	}
	return nil
}

// toolCall processes one piece of a call.
func (r *reply) toolCall(d *toolCallDelta) error {
	c := r.find(d)
	if c.name == "" {
		c.name = d.Function.Name
	}
	if c.id == "" && d.ID != "" {
		c.given, c.id = d.ID, r.ids.Of(d.ID)
	}
	if given(d.ExtraContent) {
		c.extra = d.ExtraContent
	}
	args := provider.Scalar(d.Function.Arguments) // some servers send an object instead of a string
	if !c.started {
		c.held = append(c.held, args...)
		if c.name == "" || c.id == "" {
			return nil
		}
		return r.start(c)
	}
	return r.arguments(c, args)
}

// find returns the call that a piece belongs to. The pieces of a call share an index. Servers that omit it, or use
// the same one for all calls, begin each call with a name and an id of its own. Without ids, each call arrives in
// one piece.
func (r *reply) find(d *toolCallDelta) *toolCall {
	var c *toolCall
	if d.Index != nil {
		c = r.byIndex[*d.Index]
	} else if n := len(r.calls); n > 0 {
		c = r.calls[n-1]
		if d.ID == "" && d.Function.Name != "" {
			c = nil
		}
	}
	if c != nil && !c.whole(d) && (d.ID == "" || d.Function.Name == "" || c.given == "" || c.given == d.ID) {
		return c
	}
	c = &toolCall{}
	r.calls = append(r.calls, c)
	if d.Index != nil {
		if r.byIndex == nil {
			r.byIndex = map[int]*toolCall{}
		}
		r.byIndex[*d.Index] = c
	}
	return c
}

// whole reports whether a call without an id was complete before a piece with a name and arguments. The piece then
// begins another call.
func (c *toolCall) whole(d *toolCallDelta) bool {
	return c.given == "" && d.ID == "" && c.name != "" && d.Function.Name != "" && provider.Scalar(d.Function.Arguments) != "" && json.Valid(c.held)
}

func (r *reply) start(c *toolCall) error {
	c.started = true
	if err := r.endText(); err != nil {
		return err
	}
	if err := r.say(cairn.Chunk{Type: cairn.ChunkToolStart, CallID: c.id, Tool: c.name}); err != nil {
		return err
	}
	args := string(c.held)
	c.held = nil
	return r.arguments(c, args)
}

func (r *reply) arguments(c *toolCall, text string) error {
	if text == "" {
		return nil
	}
	c.filled = true
	return r.say(cairn.Chunk{Type: cairn.ChunkToolArgs, CallID: c.id, Text: text})
}

// filtered reports whether a finish reason means that a model or its provider declined to answer. Beside OpenAI's there
// are Gemini's, also behind OpenAI's and a colon, Anthropic's, and Z.ai's.
func filtered(reason string) bool {
	reason, _, _ = strings.Cut(strings.ToLower(reason), ":")
	switch reason {
	case "content_filter", "safety", "recitation", "blocklist", "prohibited_content", "spii", "refusal", "sensitive":
		return true
	}
	return false
}

// finish ends the reply once the stream has ended.
func (r *reply) finish() error {
	switch {
	case !r.complete():
		return r.failures.Errorf(cairn.ErrModel, "the stream ended before the reply was complete")
	case r.refused != "":
		return r.failures.Errorf(cairn.ErrFiltered, "the model refused to answer: %s", r.refused)
	case r.reason == "" && !r.spoke && len(r.calls) == 0:
		return r.failures.Errorf(cairn.ErrModel, "the reply is empty")
	case filtered(r.reason):
		return r.failures.Errorf(cairn.ErrFiltered, "the provider's content filter stopped the reply")
	case given(r.failure):
		return r.failures.Fault(provider.ParseFault(r.failure))
	case r.reason == "error":
		return r.failures.Errorf(cairn.ErrModel, "the provider failed within the reply")
	}
	if err := r.keep(); err != nil {
		return err
	}
	for i, c := range r.calls {
		if err := r.close(c, i+1); err != nil {
			return err
		}
	}
	stop := cairn.FinishReasonEnd
	switch {
	case r.reason == "length":
		stop = cairn.FinishReasonLength
	case r.reason == "model_context_window_exceeded": // Z.ai
		stop = cairn.FinishReasonWindow
	case len(r.calls) > 0: // whatever the server's finish reason is
		stop = cairn.FinishReasonTools
	}
	return r.say(cairn.Chunk{Type: cairn.ChunkFinish, FinishReason: stop})
}

// close begins a call that never received an id, and gives {} to one that never received arguments.
func (r *reply) close(c *toolCall, n int) error {
	if c.name == "" {
		return r.failures.Errorf(cairn.ErrModel, "the reply has a tool call without a name")
	}
	if !c.started {
		c.id = r.ids.Of(fmt.Sprintf("call_%d_%d", r.turn, n))
		if err := r.start(c); err != nil {
			return err
		}
	}
	if !c.filled {
		if err := r.arguments(c, "{}"); err != nil {
			return err
		}
	}
	if c.extra == nil {
		return nil
	}
	data := kept{Host: r.host, Extra: c.extra}.raw()
	if data == nil {
		return nil
	}
	return r.say(cairn.Chunk{Type: cairn.ChunkToolArgs, CallID: c.id, Provider: data, Model: r.model})
}
