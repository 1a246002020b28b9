package limits

import (
	"fmt"
	"unicode/utf8"
)

// CleanJSON returns a JSON value in the form that is stored, with U+FFFD in place of what its strings may not have: a
// NUL, half of a surrogate pair, a run of bytes that is not UTF-8. Other control characters that stand in a string as
// they are become escapes. A value that can be stored is returned as it is. problem is what is wrong with the returned
// value, see [JSON]; "" if nothing is.
func CleanJSON(raw []byte) (clean []byte, problem string) {
	problem = JSON(raw)
	if problem == "" || len(raw) > Bytes {
		return raw, problem
	}
	clean = cleaned(raw)
	return clean, JSON(clean)
}

// replacement is U+FFFD as an escape.
const replacement = `\ufffd`

// cleaned copies a text that may be JSON, and repairs its strings.
func cleaned(raw []byte) []byte {
	out := make([]byte, 0, len(raw)+16)
	for at, inside := 0, false; at < len(raw); {
		c := raw[at]
		switch {
		case c == '"':
			inside = !inside
		case !inside:
		case c == '\\':
			n, bad := escapeAt(raw[at:])
			if bad {
				out = append(out, replacement...)
			} else {
				out = append(out, raw[at:at+n]...)
			}
			at += n
			continue
		case c == 0:
			out = append(out, replacement...)
			at++
			continue
		case c < ' ':
			out = fmt.Appendf(out, `\u%04x`, c)
			at++
			continue
		case c >= utf8.RuneSelf:
			n, bad := runeAt(raw[at:])
			if bad {
				out = append(out, replacement...)
			} else {
				out = append(out, raw[at:at+n]...)
			}
			at += n
			continue
		}
		out = append(out, c)
		at++
	}
	return out
}

// escapeAt returns the length of the escape sequence at the beginning of raw, and whether it stands for something that
// cannot be stored.
func escapeAt(raw []byte) (n int, bad bool) {
	r, ok := unit(raw)
	switch {
	case !ok:
		return min(2, len(raw)), false // an invalid escape is left for the check
	case r < 0xD800 || r > 0xDFFF:
		return 6, r == 0
	}
	low, ok := unit(raw[6:])
	if r > 0xDBFF || !ok || low < 0xDC00 || low > 0xDFFF {
		return 6, true
	}
	return 12, false
}

// runeAt returns the length of the character at the beginning of raw, or of a run of bytes that is not UTF-8.
func runeAt(raw []byte) (n int, bad bool) {
	for n < len(raw) {
		r, size := utf8.DecodeRune(raw[n:])
		if r != utf8.RuneError || size != 1 {
			if n == 0 {
				return size, false
			}
			break
		}
		n++
	}
	return n, true
}
