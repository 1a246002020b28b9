package openaichat

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
)

// kept is the provider data of a part: fields of the message that only the server that sent them understands.
type kept struct {
	// Field is the field in which the text of a part of reasoning is sent back.
	Field string `json:"field,omitempty"`
	Host  string `json:"host"`
	// Details is reasoning_details as OpenRouter defines it. They are sent back with each request.
	Details []json.RawMessage `json:"reasoning_details,omitempty"`
	// Extra is extra_content as Google defines it: the thought signature of a call or of a message.
	Extra json.RawMessage `json:"extra_content,omitempty"`
}

// The fields in which reasoning is sent back. Fields of other names are only read.
const (
	reasoningContent = "reasoning_content"
	thinkingList     = "thinking" // an item of content that is a list
)

// raw encodes the data; it is nil if a session cannot keep it.
func (k kept) raw() json.RawMessage {
	data, err := json.Marshal(k)
	if err != nil {
		return nil
	}
	return provider.Keepable(data)
}

// had returns the provider data of a part. ok is false unless it came from this model and this server.
func (m *ChatModel) had(p *cairn.Part) (k kept, ok bool) {
	if p.Model != m.endpoint.ID || json.Unmarshal(p.Provider, &k) != nil || k.Host != m.endpoint.host {
		return kept{}, false
	}
	return k, true
}

// keep ends the text and emits the fields of the message that no part has.
func (r *reply) keep() error {
	if err := r.endText(); err != nil {
		return err
	}
	data := kept{Host: r.host, Details: merged(r.details), Extra: r.extra}
	if data.Details == nil && data.Extra == nil && len(r.sources) == 0 {
		return nil
	}
	raw := data.raw()
	if raw == nil {
		return nil
	}
	return r.say(cairn.Chunk{Type: cairn.ChunkProvider, Provider: raw, Model: r.model, Sources: r.sources})
}

// endText ends the open text with what it cites.
func (r *reply) endText() error {
	open := r.open
	r.open = ""
	if open != cairn.ChunkText || len(r.sources) == 0 {
		return nil
	}
	list := r.sources
	r.sources = nil
	return r.say(cairn.Chunk{Type: cairn.ChunkPartEnd, Sources: list})
}

// merged joins the pieces of streamed reasoning details. Pieces of one detail follow each other and have its type and
// index. A text or summary continues that of the piece before; any other field replaces its earlier value.
func merged(pieces []json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	var open map[string]json.RawMessage
	for _, raw := range pieces {
		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) != nil {
			list, open = append(list, raw), nil
			continue
		}
		if open == nil || fields["index"] == nil || !same(open, fields, "type", "index") || !same(open, fields, "id", "data") {
			list, open = append(list, raw), fields
			continue
		}
		for name, value := range fields {
			var had, more string
			joins := name == "text" || name == "summary"
			if joins && json.Unmarshal(open[name], &had) == nil && json.Unmarshal(value, &more) == nil {
				value, _ = json.Marshal(had + more) // strings always encode
			}
			if given(value) || open[name] == nil {
				open[name] = value
			}
		}
		list[len(list)-1], _ = json.Marshal(open) // parts of valid JSON
	}
	return list
}

// same reports whether fields that both objects have are equal.
func same(a, b map[string]json.RawMessage, names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		return given(a[name]) && given(b[name]) && !bytes.Equal(a[name], b[name])
	})
}
