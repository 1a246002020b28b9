package export

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/cairn-agents/cairn"
)

// redacting applies Options.Redact. It keeps the first error, so that callers can check it once.
type redacting struct {
	redact func(string) (string, error) // nil changes nothing
	name   func(string) string
	err    error
}

func (x *exporter) redacting() *redacting {
	return &redacting{redact: x.opts.Redact, name: x.opts.Name}
}

// text returns a text as it is exported.
func (r *redacting) text(text string) string {
	if r.redact == nil || text == "" || r.err != nil {
		return text
	}
	out, err := r.redact(text)
	if err != nil {
		r.err = err
		return ""
	}
	return out
}

// named returns an id of a session, a thread or a user, or a text with ids, as it is exported.
func (r *redacting) named(text string) string {
	if r.name != nil && text != "" {
		text = r.name(text)
	}
	return r.text(text)
}

func (r *redacting) texts(list []string) (out []string) {
	for _, text := range list {
		out = append(out, r.text(text))
	}
	return out
}

// json returns a JSON value as it is exported. If nothing is redacted it is as it was stored.
func (r *redacting) json(raw json.RawMessage) json.RawMessage {
	if r.redact == nil || len(raw) == 0 || r.err != nil {
		return raw
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		r.err = cairn.Errorf(cairn.ErrCorrupt, "stored JSON: %w", err)
		return nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r.value(v)); err != nil {
		r.err = cairn.Errorf(cairn.ErrInternal, "%w", err)
	}
	return bytes.TrimSpace(b.Bytes())
}

// value redacts the texts, numbers and names in a decoded value. A number that Redact changes becomes a text.
func (r *redacting) value(v any) any {
	switch v := v.(type) {
	case string:
		return r.text(v)
	case json.Number:
		if text := r.text(v.String()); text != v.String() {
			return text
		}
	case []any:
		for i := range v {
			v[i] = r.value(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			to := r.text(name)
			for _, taken := out[to]; taken; _, taken = out[to] {
				to += "_"
			}
			out[to] = r.value(v[name])
		}
		return out
	}
	return v
}
