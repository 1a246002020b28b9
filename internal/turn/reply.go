package turn

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/cairn-agents/cairn"
)

// reply gathers the chunks of a model's answer into a message, and says which event each of them is.
type reply struct {
	step  int
	agent *cairn.Agent
	live  *live
	parts []*part
	usage cairn.Usage
	stop  cairn.StopReason
	ended bool
	said  bool // something was emitted
	// deaf are the hooks that hear no more of it, by their place.
	deaf map[int]bool

	mu   sync.Mutex
	over bool // nothing is added any more
}

// take adds a chunk, unless the attempt is over.
func (r *reply) take(c *cairn.Chunk) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return cairn.Errorf(cairn.CodeAborted, "the model call was given up")
	}
	return r.add(c)
}

// end ends the attempt: what a model that was given up still sends is not part of the reply.
func (r *reply) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
}

type part struct {
	cairn.Part
	text strings.Builder
	open bool
	id   string // a call's, as the provider has it
}

// maxToolName bounds the name of a tool that a model makes up; those that there are have shorter ones.
const maxToolName = 128

func (r *reply) last(t cairn.PartType) *part {
	if n := len(r.parts); n > 0 && r.parts[n-1].Type == t && r.parts[n-1].open {
		return r.parts[n-1]
	}
	r.endThinking()
	p := &part{Part: cairn.Part{Type: t}, open: true}
	p.text.Grow(64) // or the first deltas each grow it
	r.parts = append(r.parts, p)
	return p
}

// endThinking closes the reasoning part if one is open.
func (r *reply) endThinking() {
	if n := len(r.parts); n > 0 && r.parts[n-1].Type == cairn.PartReasoning && r.parts[n-1].open {
		r.parts[n-1].open = false
		r.say(cairn.Event{Type: cairn.EventThinkingEnd})
	}
}

func (r *reply) say(ev cairn.Event) {
	ev.Step = r.step
	r.said = true
	r.live.emit.event(ev)
}

// add takes one chunk. An error says that the model's stream is not a reply.
func (r *reply) add(c *cairn.Chunk) error {
	switch c.Type {
	case cairn.ChunkText:
		if c.Text == "" {
			return nil
		}
		r.last(cairn.PartText).text.WriteString(c.Text)
		r.say(cairn.Event{Type: cairn.EventTextDelta, Text: c.Text})
	case cairn.ChunkReasoning:
		p := r.last(cairn.PartReasoning)
		p.text.WriteString(c.Text)
		if c.Provider != nil {
			p.Provider = c.Provider
		}
		if c.Text != "" {
			r.say(cairn.Event{Type: cairn.EventThinking, Text: c.Text})
		}
	case cairn.ChunkToolStart:
		r.endThinking()
		tool := cutText(strings.ToValidUTF8(c.Tool, "\uFFFD"), maxToolName)
		id := r.callID(c.CallID, tool)
		p := &part{Part: cairn.Part{Type: cairn.PartToolUse, Provider: c.Provider,
			ToolUse: &cairn.ToolUse{CallID: id, Tool: tool}}, open: true, id: c.CallID}
		r.parts = append(r.parts, p)
		r.say(cairn.Event{Type: cairn.EventToolArgStart, CallID: id, Tool: tool})
	case cairn.ChunkToolArgs:
		p := r.call(c.CallID)
		if p == nil {
			return cairn.Errorf(cairn.CodeModel, "the model sent arguments for a call %q that it did not begin", c.CallID)
		}
		p.text.WriteString(c.Text)
		if c.Provider != nil {
			p.Provider = c.Provider
		}
		if c.Text != "" {
			r.say(cairn.Event{Type: cairn.EventToolArgDelta, CallID: p.ToolUse.CallID, Text: c.Text})
		}
	case cairn.ChunkFile:
		r.endThinking()
		r.parts = append(r.parts, &part{Part: cairn.Part{Type: cairn.PartFile, File: c.File}})
	case cairn.ChunkUsage:
		r.usage = c.Usage
	case cairn.ChunkFinish:
		r.stop, r.ended = c.Stop, true
	default:
		return cairn.Errorf(cairn.CodeModel, "the model sent a chunk of unknown type %q", c.Type)
	}
	return nil
}

// call returns the call with a provider's id, the last of them if it is given twice; nil if there is none.
func (r *reply) call(provider string) *part {
	for _, p := range slices.Backward(r.parts) {
		if p.Type == cairn.PartToolUse && p.id == provider {
			return p
		}
	}
	return nil
}

// message closes the reply and returns it; nil if there is nothing in it. Of a reply that was cut short, calls whose
// arguments are not complete are left out.
func (r *reply) message(partial bool) *cairn.Message {
	r.endThinking()
	m := &cairn.Message{Role: cairn.RoleAssistant}
	for _, p := range r.parts {
		text := p.text.String()
		switch p.Type {
		case cairn.PartText, cairn.PartReasoning:
			p.Text = strings.ToValidUTF8(text, "\uFFFD")
		case cairn.PartToolUse:
			input, ok := arguments(text)
			if partial && (!ok || strings.TrimSpace(text) == "") { // what was still to come is not known
				continue
			}
			p.ToolUse.Input = input
			r.say(cairn.Event{Type: cairn.EventToolArgEnd, CallID: p.ToolUse.CallID, Tool: p.ToolUse.Tool, Data: input})
		}
		m.Parts = append(m.Parts, p.Part)
	}
	if len(m.Parts) == 0 {
		return nil
	}
	return m
}

// arguments returns a call's arguments as JSON: {} for none, and a JSON string of what is not JSON, which no schema of
// arguments accepts.
func arguments(text string) (raw json.RawMessage, ok bool) {
	text = strings.TrimSpace(text)
	if text == "" {
		return json.RawMessage("{}"), true
	}
	if raw = json.RawMessage(text); json.Valid(raw) {
		return raw, true
	}
	raw, _ = json.Marshal(text) // a string always encodes
	return raw, false
}
