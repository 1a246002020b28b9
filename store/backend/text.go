package backend

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/cairn-agents/cairn"
)

// ReadText sets the text of a run that was kept without it, see [plan.Delta.TextAt], from its message in JSON. It reads
// both forms that messages have.
func ReadText(run *cairn.Run, message string) (err error) {
	s := textReader{rest: message}
	text := s.message()
	if s.failed {
		text, err = decodeText(message)
	}
	if err == nil {
		run.Text = text
	}
	return err
}

// decodeText returns the text of a message by decoding it, for JSON that textReader does not read.
func decodeText(message string) (string, error) {
	var m struct {
		Text  string `json:"text"`
		Parts []struct {
			Type cairn.PartType `json:"type"`
			Text string         `json:"text"`
		} `json:"parts"`
	}
	if err := DecodeJSON("message", message, &m); err != nil {
		return "", err
	}
	text := m.Text
	for _, p := range m.Parts {
		if p.Type == cairn.PartText {
			text += p.Text
		}
	}
	return text, nil
}

// textReader reads the text of a message out of its JSON as stores write it, without spaces between tokens. It decodes nothing
// else: a list of runs reads a message for each of them. It fails if it meets anything that it does not expect.
type textReader struct {
	rest   string
	failed bool
}

// message reads a whole message.
func (s *textReader) message() string {
	var text strings.Builder
	var first string // which is all there is, as a rule
	s.fields(func(name string) {
		switch {
		case name == "text":
			first = s.text()
		case name == "parts" && s.next() == '[':
			s.items(func() { text.WriteString(s.part()) })
		default:
			s.skip()
		}
	})
	if s.rest != "" {
		s.failed = true
	}
	if text.Len() == 0 {
		return first
	}
	return first + text.String()
}

// part reads a part and returns its text, if it is of type text.
func (s *textReader) part() (text string) {
	var kind string
	s.fields(func(name string) {
		switch name {
		case "type":
			kind = s.text()
		case "text":
			text = s.text()
		default:
			s.skip()
		}
	})
	if kind != string(cairn.PartText) {
		return ""
	}
	return text
}

// fields reads an object; field reads the value of a field.
func (s *textReader) fields(field func(name string)) {
	s.list('{', '}', func() {
		name := s.text()
		s.take(':')
		if !s.failed {
			field(name)
		}
	})
}

// items reads an array; item reads an item.
func (s *textReader) items(item func()) { s.list('[', ']', item) }

func (s *textReader) list(open, end byte, item func()) {
	if s.take(open); s.next() == end {
		s.take(end)
		return
	}
	for !s.failed {
		item()
		if s.next() == end {
			s.take(end)
			return
		}
		s.take(',')
	}
}

// next returns the next byte; 0 at the end.
func (s *textReader) next() byte {
	if s.rest == "" {
		return 0
	}
	return s.rest[0]
}

func (s *textReader) take(b byte) {
	if s.next() != b || s.failed {
		s.failed = true
		return
	}
	s.rest = s.rest[1:]
}

// text reads a string.
func (s *textReader) text() string {
	raw, escaped := s.quoted()
	if s.failed {
		return ""
	}
	raw = raw[1 : len(raw)-1]
	if escaped {
		return s.unescape(raw)
	}
	return raw
}

// escapes are what single characters after a backslash stand for.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unescape returns what the inside of a string stands for.
func (s *textReader) unescape(raw string) string {
	text := make([]byte, 0, len(raw))
	for {
		n := strings.IndexByte(raw, '\\')
		if n < 0 {
			return string(append(text, raw...))
		}
		text = append(text, raw[:n]...)
		raw = raw[n+1:] // quoted has seen that something follows
		if raw[0] != 'u' {
			if escapes[raw[0]] == 0 {
				s.failed = true
				return ""
			}
			text, raw = append(text, escapes[raw[0]]), raw[1:]
			continue
		}
		code, err := strconv.ParseUint(raw[1:min(5, len(raw))], 16, 16)
		if err != nil || len(raw) < 5 || utf16.IsSurrogate(rune(code)) {
			s.failed = true
			return ""
		}
		text, raw = utf8.AppendRune(text, rune(code)), raw[5:]
	}
}

// quoted reads a string as it is. escaped reports whether it has escape sequences.
func (s *textReader) quoted() (raw string, escaped bool) {
	if s.next() != '"' || s.failed {
		s.failed = true
		return "", false
	}
	for at := 1; ; {
		n := strings.IndexByte(s.rest[at:], '"')
		if n < 0 {
			s.failed = true
			return "", false
		}
		if slash := strings.IndexByte(s.rest[at:at+n], '\\'); slash >= 0 { // a character follows it, before the quote or the quote itself
			escaped, at = true, at+slash+2
			continue
		}
		at += n + 1
		raw, s.rest = s.rest[:at], s.rest[at:]
		return raw, escaped
	}
}

// skip reads a value of any kind.
func (s *textReader) skip() {
	switch s.next() {
	case '"':
		s.quoted()
	case '{':
		s.fields(func(string) { s.skip() })
	case '[':
		s.items(s.skip)
	default:
		n := strings.IndexAny(s.rest, ",]}")
		if n <= 0 {
			s.failed = true
			return
		}
		s.rest = s.rest[n:]
	}
}
