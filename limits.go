package cairn

import (
	"encoding/json"
	"time"

	"github.com/cairn-agents/cairn/internal/limits"
)

// Limits of the content of a session. Sizes are in bytes.
const (
	// MaxJSONDepth is the maximum nesting depth of arrays and objects in any JSON that a session keeps: arguments,
	// results, state, events. It is 128. Text in it must be valid UTF-8 without NUL, and its numbers finite.
	MaxJSONDepth = limits.Depth
	// MaxMessageBytes is the maximum size of a message, all its parts together, and also of one text, of one JSON value
	// and of a session's state. It is 32 MiB.
	MaxMessageBytes = limits.Bytes
	// MaxInputBytes is the maximum size of an input, all text and files together.
	MaxInputBytes = MaxMessageBytes
	// MaxAnswerBytes is the maximum size of the value and the text of a submission together.
	MaxAnswerBytes = 1 << 20
	// MaxPromptBytes is the maximum size of the prompt and the payload of a call together.
	MaxPromptBytes = 1 << 20
	// MaxPinnedBytes is the maximum size of the offer that a toolset pins in a session.
	MaxPinnedBytes = 1 << 20
	// MaxEventText is the maximum size of a message's text in an event. Longer text is cut at a character boundary and
	// marked by [Event.Truncated].
	MaxEventText = 1 << 10
	// MaxMetadataBytes limits the total size of a session's user id, tags and metadata, the latter as JSON.
	MaxMetadataBytes = 16 << 10
	// MaxInstructionsBytes limits the instructions that a branch has in place of its agent's.
	MaxInstructionsBytes = 64 << 10
	// MaxTitleBytes limits the title of a session.
	MaxTitleBytes = 256
	// MaxOpeningBytes limits the beginning of the first message in a session's row.
	MaxOpeningBytes = 256
	// MaxKeywords is the maximum number of keywords of a deferred tool.
	MaxKeywords = 32
	// MaxClaim is the longest time for which a reviewer may reserve a call at once.
	MaxClaim = 24 * time.Hour
)

// Values of options that are not set.
const (
	// DefaultMaxSteps is the step limit of a turn whose agent sets none.
	DefaultMaxSteps = 50
	// DefaultDeferAbove is the size of tool definitions, in tokens, above which requests leave out deferred tools.
	DefaultDeferAbove = 10_000
	// DefaultCompactionTrigger and DefaultCompactionKeep are the defaults of a [Compaction], in percent of the model's
	// window.
	DefaultCompactionTrigger = 80
	DefaultCompactionKeep    = 20
	// DefaultClaim is how long a reviewer reserves a call who names no time.
	DefaultClaim = 15 * time.Minute
)

// refused returns the error for a value of a given size that cannot be kept: ErrTooLarge if its size is the reason,
// else ErrInvalid.
func refused(field, problem string, size int) error {
	e := Invalid(field, "%s", problem)
	if limits.Size(size) != "" {
		e.Code = ErrTooLarge
	}
	return e
}

// CheckText returns an error for text that a session cannot keep: text that is not valid UTF-8, has a NUL, or has
// more than MaxMessageBytes. The error is ErrInvalid or ErrTooLarge and names the field.
func CheckText(field, text string) error {
	if text == "" {
		return nil
	}
	if problem := limits.Text(text); problem != "" {
		return refused(field, problem, len(text))
	}
	return nil
}

// CheckJSON returns an error for a JSON value that a session cannot keep. Such a value is malformed, is nested deeper
// than MaxJSONDepth, has text that is not valid UTF-8 or has a NUL, has a number that is not finite, or has more than
// MaxMessageBytes. An empty value is accepted and means that there is no value. The error is ErrInvalid or ErrTooLarge
// and names the field.
func CheckJSON(field string, value json.RawMessage) error {
	if len(value) == 0 {
		return nil
	}
	if problem := limits.JSON(value); problem != "" {
		return refused(field, problem, len(value))
	}
	return nil
}

// checkTime returns an error for a time that JSON cannot hold.
func checkTime(field string, t time.Time) error {
	if s := t.Unix(); s < firstSecond || s > lastSecond {
		return Invalid(field, "year %d is not between 1 and 9999", t.UTC().Year())
	}
	return nil
}

// The first second of the year 1 and the last one of the year 9999, in Unix time.
const firstSecond, lastSecond = -62135596800, 253402300799
