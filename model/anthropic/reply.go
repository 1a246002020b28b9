package anthropic

import (
	"encoding/json"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
)

// reply turns the events of a stream into chunks, or those of several streams if the provider pauses the reply.
type reply struct {
	failures provider.Failures
	model    string
	say      provider.Emit

	parts     []cairn.Part // complete parts, as the session keeps them; a paused reply is continued with them
	container string       // container that the provider's code ran in

	began      bool     // the message has begun
	open       *content // the open block; it ends before the next begins
	index      int      // of open
	calls      int
	bill       bill
	stopReason string
	refused    string // reason for the model's refusal; empty if it did not refuse
	done       bool
}

// paused reports whether the provider expects a request that continues the reply. Calls need their results first.
func (r *reply) paused() bool {
	return (r.stopReason == "pause_turn" || r.stopReason == "compaction") && r.calls == 0
}

// resume prepares the reply for the stream that continues it.
func (r *reply) resume() error {
	if err := r.stop(); err != nil {
		return err
	}
	r.bill.next()
	r.stopReason, r.done, r.began = "", false, false
	return nil
}

// received decodes an event. Some gateways leave out its name, others its type.
func (r *reply) received(kind string, data []byte) error {
	if kind == "error" {
		return r.failures.Fault(provider.ParseFault(data))
	}
	ev := event{Type: kind}
	if err := json.Unmarshal(data, &ev); err != nil {
		return r.failures.Errorf(cairn.ErrModel, "invalid event in the stream: %w", err)
	}
	return r.event(ev)
}

// event processes one event. Events of unknown types are ignored.
func (r *reply) event(ev event) error {
	switch ev.Type {
	case "error":
		return r.failures.Fault(provider.ParseFault(ev.raw))
	case "message_start":
		if r.began { // a gateway asked again in the middle of the stream; both replies may have the same calls
			return r.failures.Errorf(cairn.ErrModel, "the stream has a second message within the first")
		}
		r.began = true
		r.contained(ev.Message.Container)
		r.bill.served = ev.Message.Model
		if ev.Message.Usage != nil {
			r.bill.start = ev.Message.Usage.own()
		}
		return r.count(ev.Message.Usage)
	case "content_block_start":
		return r.start(ev.Index, ev.ContentBlock)
	case "content_block_delta":
		if r.open == nil || r.index != ev.Index {
			return r.failures.Errorf(cairn.ErrModel, "the stream has a delta for unknown content")
		}
		return r.delta(r.open, &ev)
	case "content_block_stop":
		return r.stop()
	case "message_delta":
		if ev.Delta.StopReason != "" {
			r.stopReason, r.refused = ev.Delta.StopReason, ev.Delta.StopDetails.Explanation
			if category := ev.Delta.StopDetails.Category; category != "" {
				r.refused += " (" + category + ")"
			}
		}
		r.contained(ev.Delta.Container)
		return r.count(ev.Usage)
	case "message_stop":
		r.done = true
	}
	return nil
}

func (r *reply) contained(c *container) {
	if c != nil && c.ID != "" {
		r.container = c.ID
	}
}

// count reports the usage so far.
func (r *reply) count(u *usage) error {
	if u == nil {
		return nil
	}
	r.bill.now.add(u)
	return r.say(r.bill.chunk())
}

// start begins a content block.
func (r *reply) start(index int, raw json.RawMessage) error {
	if err := r.stop(); err != nil { // the previous block, if it was not stopped
		return err
	}
	c, err := newContent(raw)
	if err != nil {
		return r.failures.Errorf(cairn.ErrModel, "invalid content in the stream: %w", err)
	}
	r.open, r.index = c, index
	switch c.Type {
	case "text":
		return r.text(c, c.Text)
	case "thinking":
		return r.thinking(c, c.Thinking)
	case "tool_use":
		r.calls++
		chunk := cairn.Chunk{Type: cairn.ChunkToolStart, CallID: c.ID, Tool: c.Name}
		if chunk.Provider = provider.Keepable(c.more()); chunk.Provider != nil {
			chunk.Model = r.model
		}
		c.provider = chunk.Provider
		return r.say(chunk)
	}
	return nil
}

// delta extends a content block.
func (r *reply) delta(c *content, ev *event) error {
	switch d := &ev.Delta; d.Type {
	case "text_delta":
		return r.text(c, d.Text)
	case "thinking_delta":
		return r.thinking(c, d.Thinking)
	case "signature_delta":
		c.Signature += d.Signature
	case "citations_delta":
		c.Citations = append(c.Citations, d.Citation)
	case "input_json_delta":
		if d.PartialJSON == "" {
			return nil
		}
		c.said.WriteString(d.PartialJSON)
		if c.Type == "tool_use" {
			return r.say(cairn.Chunk{Type: cairn.ChunkToolArgs, CallID: c.ID, Text: d.PartialJSON})
		}
	default:
		c.merge(ev.raw)
	}
	return nil
}

func (r *reply) text(c *content, text string) error {
	if text == "" {
		return nil
	}
	c.said.WriteString(text)
	return r.say(cairn.Chunk{Type: cairn.ChunkText, Text: text})
}

func (r *reply) thinking(c *content, text string) error {
	if text == "" {
		return nil
	}
	c.said.WriteString(text)
	return r.say(cairn.Chunk{Type: cairn.ChunkReasoning, Text: text})
}

// stop closes the open content block, if there is one.
func (r *reply) stop() error {
	c := r.open
	if c == nil {
		return nil
	}
	r.open = nil
	part := cairn.Part{Text: c.said.String()}
	switch c.Type {
	case "text":
		if part.Type = cairn.PartText; part.Text == "" {
			return nil
		}
		part.Provider, part.Sources = provider.Keepable(c.more()), c.sources()
	case "thinking":
		part.Type, part.Provider = cairn.PartReasoning, c.signed()
		if part.Text == "" && part.Provider == nil {
			return nil
		}
		if part.Text == "" { // the part begins with a chunk
			if err := r.say(cairn.Chunk{Type: cairn.ChunkReasoning}); err != nil {
				return err
			}
		}
	case "tool_use":
		return r.called(c)
	default:
		whole := c.whole()
		if _, result := c.fields["tool_use_id"]; result {
			r.bill.found += len(whole)
		}
		part = cairn.Part{Type: cairn.PartProvider, Provider: provider.Keepable(whole), Sources: c.sources()}
		if part.Provider == nil {
			return nil
		}
	}
	if part.Provider != nil {
		part.Model = r.model
	}
	r.parts = append(r.parts, part)
	chunk := cairn.Chunk{Type: cairn.ChunkPartEnd, Provider: part.Provider, Model: part.Model, Sources: part.Sources}
	if part.Type == cairn.PartProvider {
		chunk.Type = cairn.ChunkProvider
	}
	return r.say(chunk)
}

// called closes a call. A call that received no arguments gets those of its first event, or {}.
func (r *reply) called(c *content) error {
	part := cairn.Part{Type: cairn.PartToolUse, Provider: c.provider, ToolUse: &cairn.ToolUse{CallID: c.ID, Tool: c.Name}}
	if part.Provider != nil {
		part.Model = r.model
	}
	if c.said.Len() == 0 {
		input := string(c.Input)
		if input == "" || input == "null" {
			input = "{}"
		}
		c.said.WriteString(input)
		if err := r.say(cairn.Chunk{Type: cairn.ChunkToolArgs, CallID: c.ID, Text: input}); err != nil {
			return err
		}
	}
	part.ToolUse.Input = json.RawMessage(c.said.String())
	r.parts = append(r.parts, part)
	return nil
}

// finish ends the reply once it is complete.
func (r *reply) finish() error {
	if err := r.stop(); err != nil {
		return err
	}
	var reason cairn.FinishReason
	switch r.stopReason {
	case "refusal":
		why := ""
		if r.refused != "" {
			why = ": " + r.refused
		}
		return r.failures.Errorf(cairn.ErrFiltered, "the model refused to answer%s", why)
	case "max_tokens":
		reason = cairn.FinishReasonLength
	case "model_context_window_exceeded":
		reason = cairn.FinishReasonWindow
	case "stop_sequence":
		reason = cairn.FinishReasonStopSequence
	case "end_turn", "tool_use":
		reason = cairn.FinishReasonEnd
		if r.calls > 0 {
			reason = cairn.FinishReasonTools
		}
	case "pause_turn", "compaction":
		if reason = cairn.FinishReason(r.stopReason); r.calls > 0 { // the provider continues with the results
			reason = cairn.FinishReasonTools
		}
	default:
		reason = cairn.FinishReason(r.stopReason)
	}
	return r.say(cairn.Chunk{Type: cairn.ChunkFinish, FinishReason: reason})
}
