package cairn

import (
	"encoding/json"
	"time"

	"github.com/cairn-agents/cairn/internal/limits"
)

// MaxJSONDepth is how deep arrays and objects may be nested in any JSON that a session keeps: arguments, results,
// state, events. It is 128. Text in it must be valid UTF-8 without NUL, and its numbers finite.
const MaxJSONDepth = limits.Depth

// MaxMessageBytes is the most that one message may hold, all its parts together, and the most of one text, of one JSON
// value and of a session's state. It is 32 MiB.
const MaxMessageBytes = limits.Bytes

// refused says that a value of some size cannot be kept: ErrTooLarge if that is why, else ErrInvalid.
func refused(field, problem string, size int) error {
	e := Invalid(field, "%s", problem)
	if limits.Size(size) != "" {
		e.Code = CodeTooLarge
	}
	return e
}

// CheckText reports a text that a session cannot keep: one that is not valid UTF-8, has a NUL, or more than
// MaxMessageBytes. The error is ErrInvalid or ErrTooLarge and names the field.
func CheckText(field, text string) error {
	if text == "" {
		return nil
	}
	if problem := limits.Text(text); problem != "" {
		return refused(field, problem, len(text))
	}
	return nil
}

// CheckJSON reports a JSON value that a session cannot keep: one that is not valid, nested deeper than MaxJSONDepth,
// with text that is not valid UTF-8 or has a NUL, with a number that is not finite, or of more than MaxMessageBytes.
// An empty value, which is none, passes. The error is ErrInvalid or ErrTooLarge and names the field.
func CheckJSON(field string, value json.RawMessage) error {
	if len(value) == 0 {
		return nil
	}
	if problem := limits.JSON(value); problem != "" {
		return refused(field, problem, len(value))
	}
	return nil
}

// checkTime reports a time that JSON cannot hold.
func checkTime(field string, t time.Time) error {
	if s := t.Unix(); s < firstSecond || s > lastSecond {
		return Invalid(field, "the year %d is not between 1 and 9999", t.UTC().Year())
	}
	return nil
}

// The first second of the year 1 and the last one of 9999, since 1970.
const firstSecond, lastSecond = -62135596800, 253402300799
