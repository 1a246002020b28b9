package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/cairn-agents/cairn"
)

// Log is an append-only event log per session tree, read by position. Its name is [cairn.Session.Log] and belongs to
// one incarnation of the tree, so no reader finds events of another session with the same id. All methods are safe for
// concurrent use by any number of processes. Readers never slow a writer.
type Log interface {
	// Append adds events and returns the sequence of the last one. Sequences are contiguous from 1; the log sets them.
	// If expect is not AnySequence, it must be the log's last sequence, otherwise the error is ErrStale and nothing is
	// added. If an event exceeds the log's maximum size the error is ErrTooLarge and nothing is added. Append neither
	// keeps nor modifies events.
	Append(ctx context.Context, log string, expect int64, events ...cairn.Event) (last int64, err error)
	// Read returns at most limit events after a sequence, and fewer only if there are no more yet; limit 0 means 1000.
	// If events after that sequence were trimmed the error is a *TrimmedError with ErrTrimmed.
	Read(ctx context.Context, log string, after int64, limit int) ([]cairn.Event, error)
	// Follow yields every event after a sequence, existing and future ones, until ctx is done, which is not an error. A
	// log that does not exist yet is empty. If events after that sequence were trimmed, Follow ends with ErrTrimmed.
	Follow(ctx context.Context, log string, after int64) iter.Seq2[cairn.Event, error]
	// Bounds returns the sequences of the first and the last event. For an empty log it returns (last+1, last), where
	// last is 0 if the log never had an event.
	Bounds(ctx context.Context, log string) (first, last int64, err error)
	// Trim removes the events before a sequence. Later events keep their sequences.
	Trim(ctx context.Context, log string, before int64) error
	// Drop permanently removes a log with all its events. From then on Append, Read, Follow and Bounds of it fail with
	// ErrDeleted, and so do its current followers. So a process that has not noticed the removal can neither append to
	// the log nor create it again. A log may forget that it was dropped after [DroppedFor].
	Drop(ctx context.Context, log string) error
	// MaxEvent returns the maximum size of an encoded event, in bytes.
	MaxEvent() int

	// Self returns the receiver, see [Store].
	Self() Log
}

// Fencer is a Log that refuses events of a process that lost its lease without noticing, and that adds a repeated batch
// only once. The logs of this project are Fencers. In any other log such a process may add events to a step that the
// next lease holder drives, and an append whose answer is lost may add its events twice.
type Fencer interface {
	// AppendFenced is Append for the holder of a session's lease. If the log has seen a higher fencing token for that
	// session, the error is ErrFenced and nothing is added, regardless of expect. If the log already has this batch of
	// the writer, or a later one, it adds nothing, regardless of expect, and returns the sequence at which the writer's
	// latest batch ended. Without events it only records the token.
	AppendFenced(ctx context.Context, log string, expect int64, w Writer, events ...cairn.Event) (last int64, err error)
}

// Writer names the writer of a batch, and the batch.
type Writer struct {
	// Session is the session whose lease the writer holds, and Token the lease's fencing token.
	Session string
	Token   int64
	// ID distinguishes writers that hold the lease under the same token. There should be few of them, since a log
	// remembers each until it sees a higher token.
	ID string
	// Batch is the number of the batch, so that it can be sent again if its answer was lost. A writer counts up, and
	// sends no batch before the previous one was answered. 0 means unnumbered.
	Batch int64
}

// LogSweeper is a Log that lists the logs that are due for a sweep: logs that have grown since the last sweep, and logs
// whose next sweep time has come. The logs of this project are LogSweepers. Workers trim no other logs.
//
// A log is due for a sweep from its first event on. [LogSweeper.Swept] defers the next sweep, and the first event
// appended after that makes the log due again at once. Appending therefore writes the time only once per sweep, and an
// idle log is not examined. All times are by the log's clock.
type LogSweeper interface {
	// Unswept pages through the names of the logs that have been due for a sweep for at least age, longest due first.
	// Dropped logs are not listed. q.Newest is ignored.
	Unswept(ctx context.Context, age time.Duration, q PageQuery) (Page[string], error)
	// Swept records that a log was swept when its last event had the sequence last. The log is due again after next, or
	// at once if it has grown since then. A log that does not exist or was dropped is not an error.
	Swept(ctx context.Context, log string, last int64, next time.Duration) error
}

// DroppedFor is the minimum time for which a log remembers that it was dropped.
const DroppedFor = 30 * 24 * time.Hour

// Dropped returns the error for a log that was dropped.
func Dropped(log string) error {
	return &cairn.Error{Code: cairn.ErrDeleted, Message: fmt.Sprintf("log %q was dropped with its session", log)}
}

// AnySequence makes Append unconditional.
const AnySequence int64 = -1

// DefaultMaxEvent is the default maximum size of an event, in bytes.
const DefaultMaxEvent = 256 << 10

// EncodeEvent returns the JSON of an event. The error is ErrTooLarge if it has more than max bytes, and ErrInvalid for
// an event that [cairn.Event.Validate] refuses.
func EncodeEvent(ev *cairn.Event, max int) ([]byte, error) {
	if err := ev.Validate(); err != nil {
		return nil, err
	}
	return encodeEvent(ev, max)
}

func encodeEvent(ev *cairn.Event, max int) ([]byte, error) {
	raw, err := json.Marshal(ev)
	if err != nil {
		return nil, cairn.Errorf(cairn.ErrInvalid, "encode event %s: %w", ev.Type, err)
	}
	if len(raw) > max {
		return nil, tooLarge(ev, len(raw), max)
	}
	return raw, nil
}

// CheckEvent returns the error that EncodeEvent would return, but encodes only events whose size comes near the
// maximum.
func CheckEvent(ev *cairn.Event, max int) error {
	if err := ev.Validate(); err != nil {
		return err
	}
	const fixed = 2048 // every name, number and time of an event with its quotes
	rough := len(ev.SessionID) + len(ev.RunID) + len(ev.Agent) + len(ev.CallID) + len(ev.Tool) + len(ev.Name) + len(ev.Text) + len(ev.MessageID)
	plain := ev.Error == nil && len(ev.Patch)+len(ev.Files)+len(ev.Sources) == 0 && (ev.Usage == nil || len(ev.Usage.Custom) == 0)
	if plain && 6*(rough+len(ev.Data))+fixed <= max {
		return nil // a character takes six bytes at most
	}
	_, err := encodeEvent(ev, max)
	return err
}

func tooLarge(ev *cairn.Event, size, max int) error {
	return &cairn.Error{Code: cairn.ErrTooLarge, Field: "event",
		Message: fmt.Sprintf("event %s: too large: %d bytes (max %d)", ev.Type, size, max)}
}

// LogChanged returns the error for an append that expected another last sequence.
func LogChanged(log string, expect, last int64) error {
	return cairn.Errorf(cairn.ErrStale, "log %q has changed: expected sequence %d, now %d", log, expect, last)
}

// Fenced returns the error for a writer whose fencing token is lower than the highest one that a log has seen.
func Fenced(log string, w Writer, seen int64) error {
	return cairn.Errorf(cairn.ErrFenced, "log %q: session %q: the lease was lost: fencing token %d, now %d", log, w.Session, w.Token, seen)
}

// TrimmedError reports that requested events were trimmed.
type TrimmedError struct {
	Err *cairn.Error
	// First is the sequence of the log's first remaining event, or of its next event if none remain.
	First int64
}

// Error returns the message.
func (e *TrimmedError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error, for errors.Is and errors.As.
func (e *TrimmedError) Unwrap() error { return e.Err }

// Trimmed returns the error for a reader whose position is before a log's first event: a *TrimmedError with ErrTrimmed.
func Trimmed(log string, after, first int64) error {
	return &TrimmedError{First: first, Err: &cairn.Error{Code: cairn.ErrTrimmed,
		Message: fmt.Sprintf("log %q: events after %d were trimmed; the first one left is %d", log, after, first)}}
}
