// Package fastjson encodes as JSON what stores write with every step, several times as fast as encoding/json. The result
// decodes to the same values. It differs only in that <, > and & are not escaped, and that JSON inside a message is not
// reformatted.
package fastjson

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/limits"
)

// MessageText returns the encoding of a message by [Message].
func MessageText(m *cairn.Message) (string, error) {
	raw, err := Message(make([]byte, 0, 512), m)
	return string(raw), err
}

// Message appends a message. It returns ErrInvalid for a part whose JSON is not valid, or a time that JSON cannot
// express.
func Message(to []byte, m *cairn.Message) ([]byte, error) {
	return message(to, m, m.ID, m.RunID, false)
}

// message appends a message with id and run instead of its own.
func message(to []byte, m *cairn.Message, id, run string, short bool) ([]byte, error) {
	w := writer{data: append(to, '{')}
	if id != "" {
		w.text("id", id)
	}
	w.text("role", string(m.Role))
	w.flag("hidden", m.Hidden)
	if short && alone(m) {
		w.content(&m.Parts[0])
	} else {
		w.parts(m.Parts)
	}
	if len(m.Metadata) > 0 {
		w.raw("metadata", m.Metadata)
	}
	if len(m.Tools) > 0 {
		w.value("tools", m.Tools)
	}
	if len(m.Pinned) > 0 {
		w.value("pinned", m.Pinned)
	}
	if m.Summary != nil {
		w.value("summary", m.Summary)
	}
	if m.LeftOut != nil {
		w.value("left_out", m.LeftOut)
	}
	if m.Trust != "" {
		w.text("trust", string(m.Trust))
	}
	if m.Workspace != "" {
		w.text("workspace", m.Workspace)
	}
	if m.Origin != "" {
		w.text("origin", string(m.Origin))
	}
	if m.Model != "" {
		w.text("model", m.Model)
	}
	if m.ChildID != "" {
		w.text("child_id", m.ChildID)
	}
	if m.CallID != "" {
		w.text("call_id", m.CallID)
	}
	if m.Cut != "" {
		w.text("cut", string(m.Cut))
	}
	if m.Tokens != 0 {
		w.int("tokens", m.Tokens)
	}
	if m.Fingerprint != nil {
		w.fingerprint(m.Fingerprint)
	}
	w.flag("ends_turn", m.EndsTurn)
	if run != "" {
		w.text("run_id", run)
	}
	if !m.CreatedAt.IsZero() {
		w.name("created_at")
		text, err := m.CreatedAt.AppendText(append(w.data, '"'))
		w.fail(err)
		w.data = append(text, '"')
	}
	if w.err != nil {
		return to, cairn.Errorf(cairn.ErrInvalid, "encode message: %w", w.err)
	}
	return append(w.data, '}'), nil
}

func (w *writer) fingerprint(f *cairn.Fingerprint) {
	w.name("fingerprint")
	w.data = append(w.data, '{')
	if f.Instructions != "" {
		w.text("instructions", f.Instructions)
	}
	if f.Tools != "" {
		w.text("tools", f.Tools)
	}
	w.flag("changed", f.Changed)
	if len(f.Blocks) > 0 {
		w.value("blocks", f.Blocks)
	}
	w.data = append(w.data, '}')
}

// Text appends a JSON string. Each byte that is not valid UTF-8 becomes U+FFFD.
func Text(to []byte, text string) []byte {
	if !utf8.ValidString(text) {
		text = string([]rune(text))
	}
	to = append(to, '"')
	from := 0
	for i := range len(text) {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		to = append(to, text[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			to = append(to, '\\', c)
		case '\n':
			to = append(to, '\\', 'n')
		case '\t':
			to = append(to, '\\', 't')
		default:
			const hex = "0123456789abcdef"
			to = append(to, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(append(to, text[from:]...), '"')
}

// writer appends the fields of objects.
type writer struct {
	data []byte
	err  error
}

func (w *writer) parts(list []cairn.Part) {
	w.name("parts")
	if list == nil {
		w.data = append(w.data, "null"...)
		return
	}
	w.data = append(w.data, '[')
	for i := range list {
		if i > 0 {
			w.data = append(w.data, ',')
		}
		w.data = append(w.data, '{')
		w.text("type", string(list[i].Type))
		w.content(&list[i])
		w.data = append(w.data, '}')
	}
	w.data = append(w.data, ']')
}

// content appends the fields of a part except its type.
func (w *writer) content(p *cairn.Part) {
	if p.Text != "" {
		w.text("text", p.Text)
	}
	if len(p.Provider) > 0 {
		w.raw("provider", p.Provider)
	}
	if p.Model != "" {
		w.text("model", p.Model)
	}
	if len(p.Sources) > 0 {
		w.value("sources", p.Sources)
	}
	if use := p.ToolUse; use != nil {
		w.name("tool_use")
		w.data = append(w.data, '{')
		w.text("call_id", use.CallID)
		w.text("tool", use.Tool)
		w.raw("input", use.Input)
		if use.Awaits != nil {
			w.value("awaits", use.Awaits)
		}
		w.flag("deferred", use.Deferred)
		w.data = append(w.data, '}')
	}
	if result := p.Result; result != nil {
		w.name("tool_result")
		w.data = append(w.data, '{')
		w.text("call_id", result.CallID)
		w.text("tool", result.Tool)
		w.raw("output", result.Output)
		w.flag("is_error", result.IsError)
		if result.Code != "" {
			w.text("code", string(result.Code))
		}
		if len(result.Edited) > 0 {
			w.raw("edited", result.Edited)
		}
		w.flag("private", result.Private)
		if result.Background != "" {
			w.text("background", result.Background)
		}
		if len(result.Data) > 0 {
			w.value("data", result.Data)
		}
		if result.Workspace != "" {
			w.text("workspace", result.Workspace)
		}
		if len(result.Artifacts) > 0 {
			w.value("artifacts", result.Artifacts)
		}
		if result.Child != (cairn.ChildEnd{}) {
			w.value("child", result.Child)
		}
		w.data = append(w.data, '}')
	}
	if p.File != nil {
		w.value("file", p.File)
	}
	if p.Data != nil {
		w.value("data", p.Data)
	}
}

// name appends a field's name, after a comma unless the field is the first.
func (w *writer) name(name string) {
	if w.data[len(w.data)-1] != '{' {
		w.data = append(w.data, ',')
	}
	w.data = append(append(append(w.data, '"'), name...), '"', ':')
}

func (w *writer) text(name, text string) {
	w.name(name)
	w.data = Text(w.data, text)
}

func (w *writer) int(name string, n int64) {
	w.name(name)
	w.data = strconv.AppendInt(w.data, n, 10)
}

// flag appends a field that is omitted if it is false.
func (w *writer) flag(name string, set bool) {
	if set {
		w.name(name)
		w.data = strconv.AppendBool(w.data, set)
	}
}

// raw appends a field whose value is JSON.
func (w *writer) raw(name string, raw json.RawMessage) {
	w.name(name)
	if raw == nil {
		raw = json.RawMessage("null")
	}
	if problem := limits.JSON(raw); problem != "" {
		w.fail(fmt.Errorf("%s %s", name, problem))
	}
	w.data = append(w.data, raw...)
}

// value appends a field that is rare or small.
func (w *writer) value(name string, v any) {
	w.name(name)
	raw, err := json.Marshal(v)
	w.fail(err)
	w.data = append(w.data, raw...)
}

func (w *writer) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}
