package openaichat

import (
	"encoding/json"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
)

// content processes content: a text, or a list of texts, reasoning and images, as models of Mistral send it.
func (r *reply) content(raw json.RawMessage) error {
	if !given(raw) {
		return nil
	}
	switch raw[0] {
	case '"':
		return r.text(provider.Scalar(raw))
	case '{':
		return r.piece(raw)
	case '[':
		var list []json.RawMessage
		_ = json.Unmarshal(raw, &list) // valid, since it is part of the event
		for _, item := range list {
			if err := r.piece(item); err != nil {
				return err
			}
		}
		return nil
	}
	return r.failures.Errorf(cairn.ErrModel, "the reply's content is not text: %s", provider.Clip(string(raw)))
}

// piece processes an item of a list. Items without a form in a session, such as references, are left out.
func (r *reply) piece(raw json.RawMessage) error {
	if raw[0] == '"' {
		return r.text(provider.Scalar(raw))
	}
	var item contentItem
	if raw[0] != '{' || decode(raw, &item) != nil {
		return nil
	}
	if given(item.Thinking) {
		return r.think(plain(item.Thinking), r.listed)
	}
	if given(item.ImageURL) {
		return r.image(item.ImageURL)
	}
	return r.text(item.Text)
}

// plain returns the text of reasoning: a string, or a list of items.
func plain(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var list []contentItem
	_ = json.Unmarshal(raw, &list) // anything else has no text
	for _, item := range list {
		text += item.Text
	}
	return text
}

// image processes a generated image: its address, as a string or in an object.
func (r *reply) image(raw json.RawMessage) error {
	var in imageURL
	if json.Unmarshal(raw, &in.URL) != nil && json.Unmarshal(raw, &in) != nil || in.URL == "" {
		return nil
	}
	f := cairn.File{MediaType: "image/*", URL: in.URL}
	if cairn.IsDataURL(in.URL) {
		var err error
		if f, err = cairn.FileFromDataURL("", in.URL); err != nil {
			return r.failures.Errorf(cairn.ErrModel, "the reply has an invalid image: %w", err)
		}
	}
	r.spoke, r.open = true, ""
	return r.say(cairn.Chunk{Type: cairn.ChunkFile, File: &f})
}

// cite adds the addresses that a chunk cites. Each chunk repeats them.
func (r *reply) cite(chunk *chatChunk) {
	for _, raw := range chunk.Citations {
		var s cairn.Source
		if json.Unmarshal(raw, &s.URL) == nil && s.URL != "" {
			r.source(s)
		}
	}
}

func (r *reply) source(s cairn.Source) {
	if !slices.ContainsFunc(r.sources, func(had cairn.Source) bool { return had.URL == s.URL && (s.Quote == "" || had.Quote == s.Quote) }) {
		r.sources = append(r.sources, s)
	}
}

// splice detects that a gateway began the reply again within its stream. The chunks of a reply have one id. Some
// servers give each chunk an id of its own, so only a second id that follows a repeated one, and that comes with a
// role, begins another reply.
type splice struct {
	id       string
	repeated bool
}

func (s *splice) by(chunk *chatChunk) bool {
	switch {
	case chunk.ID == "":
		return false
	case chunk.ID == s.id:
		s.repeated = true
		return false
	case s.repeated && len(chunk.Choices) > 0 && chunk.Choices[0].Delta.Role != "":
		return true
	}
	s.id, s.repeated = chunk.ID, false
	return false
}
