package limits

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// JSON returns what is wrong with a JSON value; "" if nothing is. It must be valid for encoding/json, of at most Bytes,
// and nested no deeper than Depth. Its strings must be valid text without NUL and without unpaired surrogates, and its
// numbers finite as 64-bit floating-point numbers.
func JSON(raw []byte) string {
	_, problem := Nested(raw)
	return problem
}

// Nested is JSON, and also returns how deeply the value nests: 0 for a scalar.
func Nested(raw []byte) (depth int, problem string) {
	if len(raw) > Bytes {
		return 0, Size(len(raw))
	}
	s := scan{raw: raw}
	s.value()
	return s.deepest, s.problem
}

const notValid = "is not valid JSON"

// scan is one pass over a value.
type scan struct {
	raw     []byte
	at      int
	deepest int
	problem string
}

// space holds the bytes that JSON allows between tokens.
var space = [256]bool{' ': true, '\t': true, '\r': true, '\n': true}

// plain holds the bytes that stand for themselves in a string.
var plain = func() (table [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		table[c] = c != '"' && c != '\\'
	}
	return table
}()

func (s *scan) fail(problem string) bool {
	if s.problem == "" {
		s.problem = problem
	}
	return false
}

// next returns the next byte that is not white space; 0 at the end, which no token begins with.
func (s *scan) next() byte {
	for s.at < len(s.raw) {
		if c := s.raw[s.at]; !space[c] {
			return c
		}
		s.at++
	}
	return 0
}

// value reads the whole text. One bit per level records whether the level is an object, so that nothing is allocated
// and the stack does not grow.
func (s *scan) value() bool {
	var objects [Depth/64 + 1]uint64
	depth := 0
	for {
		// A value begins here.
		switch c := s.next(); c {
		case '{', '[':
			s.at++
			if depth == Depth {
				return s.fail(fmt.Sprintf("is nested more than %d levels deep", Depth))
			}
			depth++
			s.deepest = max(s.deepest, depth)
			bit := uint64(1) << (depth % 64)
			if c == '{' {
				objects[depth/64] |= bit
			} else {
				objects[depth/64] &^= bit
			}
			if end := s.next(); end == c+2 { // in ASCII, } and ] are two after { and [
				s.at++
				depth--
				break
			}
			if c == '{' && !s.name() {
				return false
			}
			continue
		default:
			if !s.scalar(c) {
				return false
			}
		}
		// A value has ended here.
		for {
			c := s.next()
			if depth == 0 {
				if s.at < len(s.raw) {
					return s.fail(notValid)
				}
				return true
			}
			object := objects[depth/64]&(1<<(depth%64)) != 0
			if c == ',' {
				s.at++
				if object && !s.name() {
					return false
				}
				break
			}
			if object && c != '}' || !object && c != ']' {
				return s.fail(notValid)
			}
			s.at++
			depth--
		}
	}
}

// scalar reads a value that begins with c and is neither an object nor an array.
func (s *scan) scalar(c byte) bool {
	switch c {
	case '"':
		return s.text()
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	return s.number()
}

// name reads a member's name and its colon.
func (s *scan) name() bool {
	if s.next() != '"' {
		return s.fail(notValid)
	}
	if !s.text() {
		return false
	}
	if s.next() != ':' {
		return s.fail(notValid)
	}
	s.at++
	return true
}

func (s *scan) word(word string) bool {
	if len(s.raw)-s.at < len(word) || string(s.raw[s.at:s.at+len(word)]) != word {
		return s.fail(notValid)
	}
	s.at += len(word)
	return true
}

// text reads a string, including its quotes.
func (s *scan) text() bool {
	raw, at := s.raw, s.at+1
	for at < len(raw) {
		c := raw[at]
		switch {
		case plain[c]:
			at++
		case c == '"':
			s.at = at + 1
			return true
		case c == '\\':
			s.at = at
			if !s.escape() {
				return false
			}
			at = s.at
		case c < utf8.RuneSelf: // a control character
			return s.fail(notValid)
		default:
			r, n := utf8.DecodeRune(raw[at:])
			if r == utf8.RuneError && n == 1 {
				return s.fail("has text that is not valid UTF-8")
			}
			at += n
		}
	}
	return s.fail(notValid)
}

// escape reads an escape sequence.
func (s *scan) escape() bool {
	if s.at+1 >= len(s.raw) {
		return s.fail(notValid)
	}
	switch s.raw[s.at+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.at += 2
		return true
	case 'u':
	default:
		return s.fail(notValid)
	}
	r, ok := unit(s.raw[s.at:])
	switch {
	case !ok:
		return s.fail(notValid)
	case r == 0:
		return s.fail("has text with a NUL character")
	case r < 0xD800 || r > 0xDFFF:
		s.at += 6
		return true
	}
	low, ok := unit(s.raw[s.at+6:])
	if r > 0xDBFF || !ok || low < 0xDC00 || low > 0xDFFF {
		return s.fail("has text with half of a surrogate pair")
	}
	s.at += 12
	return true
}

// unit reads a \u escape.
func unit(raw []byte) (r rune, ok bool) {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0, false
	}
	for _, c := range raw[2:6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// number reads a number. Only a number that is long or has an exponent can be too large.
func (s *scan) number() bool {
	raw, at := s.raw, s.at
	if at < len(raw) && raw[at] == '-' {
		at++
	}
	digits := func() bool {
		from := at
		for at < len(raw) && raw[at] >= '0' && raw[at] <= '9' {
			at++
		}
		return at > from
	}
	first, exponent := at, false
	if !digits() || raw[first] == '0' && at > first+1 {
		return s.fail(notValid)
	}
	whole := at - first
	if at < len(raw) && raw[at] == '.' {
		at++
		if !digits() {
			return s.fail(notValid)
		}
	}
	if at < len(raw) && (raw[at] == 'e' || raw[at] == 'E') {
		exponent = true
		at++
		if at < len(raw) && (raw[at] == '+' || raw[at] == '-') {
			at++
		}
		if !digits() {
			return s.fail(notValid)
		}
	}
	if exponent || whole > 308 {
		if _, err := strconv.ParseFloat(string(raw[s.at:at]), 64); err != nil {
			return s.fail("has a number that is not finite")
		}
	}
	s.at = at
	return true
}
