// Package limits defines what a session can store: how deeply JSON may nest, how large values may be, and which texts
// and numbers are valid. It is the only place for that: every entry to a session and every store checks here. Every
// store can write, and every process can read back, what passes.
package limits

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

const (
	// Depth is how many levels of arrays and objects may be nested.
	Depth = 128
	// Bytes is the maximum size of one text, value, message or input, and of a session's state.
	Bytes = 32 << 20
	// ErrorBytes is the maximum size of a stored error message.
	ErrorBytes = 64 << 10
	// RecordBytes is the maximum size of a record's value.
	RecordBytes = 256 << 10
	// Count is the largest count, and the largest sum of counts, that every store represents exactly.
	Count = 1<<53 - 1
)

// Size returns what is wrong with a number of bytes; "" if nothing is.
func Size(n int) string {
	if n <= Bytes {
		return ""
	}
	return fmt.Sprintf("is too large: %d bytes (max %d)", n, Bytes)
}

// Text returns what is wrong with a text; "" if nothing is. It must be UTF-8 without NUL, of at most Bytes.
func Text(s string) string {
	switch {
	case len(s) > Bytes:
		return Size(len(s))
	case !utf8.ValidString(s):
		return "is not valid UTF-8"
	case strings.IndexByte(s, 0) >= 0:
		return "contains a NUL character"
	}
	return ""
}

// Clean replaces NUL, and each run of bytes that is not UTF-8, with U+FFFD.
func Clean(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// Cut returns at most n bytes of a text, cut at a character boundary.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Words returns an error message in the form that is stored: clean, and at most ErrorBytes long.
func Words(s string) string { return Clean(Cut(s, ErrorBytes)) }

// Number returns what is wrong with an amount; "" if nothing is. It must be finite.
func Number(f float64) string {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return "is not a finite number"
	}
	return ""
}
