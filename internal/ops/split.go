package ops

import (
	"bytes"
	"encoding/json"
)

// splitObject returns the members of an object, which must be valid JSON. The values alias raw.
func splitObject(raw json.RawMessage) map[string]json.RawMessage {
	m := map[string]json.RawMessage{}
	s := splitter{raw: raw}
	s.space()
	s.at++ // {
	for s.space(); s.raw[s.at] != '}'; s.space() {
		if s.raw[s.at] == ',' {
			s.at++
			s.space()
		}
		name := s.value()
		s.space()
		s.at++ // :
		s.space()
		m[nameOf(name)] = s.value()
	}
	return m
}

// splitArray returns the items of an array, which must be valid JSON. They alias raw.
func splitArray(raw json.RawMessage) []json.RawMessage {
	list := []json.RawMessage{}
	s := splitter{raw: raw}
	s.space()
	s.at++ // [
	for s.space(); s.raw[s.at] != ']'; s.space() {
		if s.raw[s.at] == ',' {
			s.at++
			s.space()
		}
		list = append(list, s.value())
	}
	return list
}

func nameOf(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var name string
	_ = json.Unmarshal(quoted, &name) // it is valid JSON
	return name
}

// splitter reads JSON that is known to be valid.
type splitter struct {
	raw json.RawMessage
	at  int
}

func (s *splitter) space() {
	for s.at < len(s.raw) {
		switch s.raw[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// value returns the next value and advances past it.
func (s *splitter) value() json.RawMessage {
	from, depth := s.at, 0
	for {
		switch s.raw[s.at] {
		case '"':
			s.text()
		case '{', '[':
			depth++
			s.at++
		case '}', ']':
			depth--
			s.at++
		case ',', ':', ' ', '\t', '\r', '\n':
			s.at++
		default:
			for s.at < len(s.raw) && !ends[s.raw[s.at]] {
				s.at++
			}
		}
		if depth == 0 {
			return s.raw[from:s.at:s.at]
		}
	}
}

// ends holds the bytes that end a number, true, false or null.
var ends = [256]bool{',': true, ':': true, '}': true, ']': true, ' ': true, '\t': true, '\r': true, '\n': true}

// text skips a string.
func (s *splitter) text() {
	for s.at++; s.raw[s.at] != '"'; s.at++ {
		if s.raw[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
}
