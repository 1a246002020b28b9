package redisstore

import (
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
)

// micros returns a time as it is stored, in microseconds; the zero time is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

// stamped splits a text that has a time before its JSON; the time is zero if it has none.
func stamped(text string) (at time.Time, data string, ok bool) {
	n := 0
	for n < len(text) && text[n] >= '0' && text[n] <= '9' {
		n++
	}
	if n == 0 {
		return time.Time{}, text, true
	}
	stamp, err := strconv.ParseInt(text[:n], 10, 64)
	return fromMicros(stamp), text[n:], err == nil
}

// dated splits a record, which has a time before its JSON.
func dated(what, text string) (at time.Time, data string, err error) {
	at, data, ok := stamped(text)
	if !ok || at.IsZero() {
		return at, "", cairn.Errorf(cairn.ErrCorrupt, "stored %s has no time", what)
	}
	return at, data, nil
}

// stored returns a time as it is kept: in UTC, with microseconds.
func stored(t time.Time) time.Time { return fromMicros(micros(t)) }
