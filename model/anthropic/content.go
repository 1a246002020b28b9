package anthropic

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
)

// content is a content block of a reply: its beginning, and what was received since.
type content struct {
	Type      string            `json:"type"`
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	Text      string            `json:"text"`
	Thinking  string            `json:"thinking"`
	Signature string            `json:"signature"`
	Input     json.RawMessage   `json:"input"`
	Citations []json.RawMessage `json:"citations"`

	fields   map[string]json.RawMessage // all fields
	said     strings.Builder            // its text, thinking or arguments so far
	provider json.RawMessage            // provider data of a call that has begun
}

func newContent(raw json.RawMessage) (*content, error) {
	c := &content{}
	if err := json.Unmarshal(raw, &c.fields); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, c); err != nil && (c.known() || !mistyped(err)) {
		return nil, err
	}
	if c.Type == "" || c.Type == "tool_use" && (c.ID == "" || c.Name == "") {
		return nil, fmt.Errorf("a block without its type, id or name")
	}
	return c, nil
}

// known reports whether the block becomes a part of its own type. Any other block is kept as an item of the
// provider's.
func (c *content) known() bool {
	return c.Type == "text" || c.Type == "thinking" || c.Type == "tool_use"
}

// merge adds a delta of an unknown type: text is appended to text, anything else replaces the previous value.
func (c *content) merge(ev []byte) {
	var d struct{ Delta map[string]json.RawMessage }
	if json.Unmarshal(ev, &d) != nil {
		return
	}
	for name, value := range d.Delta {
		var had, more string
		if name == "type" {
			continue
		}
		if json.Unmarshal(c.fields[name], &had) == nil && json.Unmarshal(value, &more) == nil {
			value, _ = json.Marshal(had + more) // a string always encodes
		}
		c.fields[name] = value
	}
}

// more returns the block's fields that a part does not have, as an object; nil if there are none.
func (c *content) more() json.RawMessage {
	more := map[string]json.RawMessage{}
	for name, value := range c.fields {
		switch name {
		case "type", "id", "name", "text", "thinking", "input", "citations", "signature":
			continue
		case "caller":
			if caller := (struct{ Type string }{}); json.Unmarshal(value, &caller) == nil && caller.Type == "direct" {
				continue
			}
		}
		if string(value) != "null" {
			more[name] = value
		}
	}
	if len(c.Citations) > 0 {
		more["citations"], _ = json.Marshal(c.Citations) // parts of valid JSON
	}
	if c.Signature != "" {
		more["signature"], _ = json.Marshal(c.Signature)
	}
	if len(more) == 0 {
		return nil
	}
	raw, _ := json.Marshal(more)
	return raw
}

// signed returns the provider data of thinking. It is nil if the thinking cannot be sent back: it has no signature,
// or text that a session would not keep unchanged.
func (c *content) signed() json.RawMessage {
	if c.Signature == "" || cairn.CheckText("thinking", c.said.String()) != nil {
		return nil
	}
	return provider.Keepable(c.more())
}

// whole returns the block as an item of the provider's own.
func (c *content) whole() json.RawMessage {
	if c.said.Len() > 0 {
		c.fields["input"] = json.RawMessage(c.said.String())
	}
	raw, err := json.Marshal(c.fields)
	if err != nil { // its input broke off
		return nil
	}
	return raw
}

// sources returns the sources that a text cites, or that a search or fetch of the provider found.
func (c *content) sources() []cairn.Source {
	if c.Type == "text" {
		return cited(c.Citations)
	}
	if c.Type != "web_search_tool_result" && c.Type != "web_fetch_tool_result" {
		return nil
	}
	type page struct {
		URL     string `json:"url"`
		Title   string `json:"title"`
		Content struct {
			Title string `json:"title"`
		} `json:"content"`
	}
	var pages []page
	if json.Unmarshal(c.fields["content"], &pages) != nil {
		pages = make([]page, 1) // one page, or an error, which has no address
		if json.Unmarshal(c.fields["content"], &pages[0]) != nil {
			return nil
		}
	}
	var list []cairn.Source
	for _, p := range pages {
		if p.URL != "" {
			list = append(list, cairn.Source{URL: p.URL, Title: cmp.Or(p.Title, p.Content.Title)})
		}
	}
	return list
}

func cited(citations []json.RawMessage) []cairn.Source {
	var list []cairn.Source
	for _, raw := range citations {
		var c struct {
			URL           string `json:"url"`
			Source        string `json:"source"`
			Title         string `json:"title"`
			DocumentTitle string `json:"document_title"`
			CitedText     string `json:"cited_text"`
		}
		if json.Unmarshal(raw, &c) == nil {
			list = append(list, cairn.Source{URL: cmp.Or(c.URL, c.Source), Title: cmp.Or(c.Title, c.DocumentTitle), Quote: c.CitedText})
		}
	}
	return list
}
