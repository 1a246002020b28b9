package pgstore

import (
	"encoding/json"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/plan"
	"github.com/jackc/pgx/v5"
)

// from returns how long after the server's time a time is that the server fills in; nil for any other time.
func from(t plan.Time) *time.Duration { return orNull(t.In, t.Open) }

// leaseTTL returns the TTL that a delta gives to the lease, or null if it keeps the stored one.
func leaseTTL(d *plan.Delta) *time.Duration {
	return orNull(time.Duration(d.Row.Lease.TTL), !d.LeaseUntil.Kept)
}

// orNull returns v, or null if is is false.
func orNull[T any](v T, is bool) *T {
	if !is {
		return nil
	}
	return &v
}

// metadataText returns the JSON of metadata in its canonical form, which always encodes.
func metadataText(m cairn.Metadata) string {
	if len(m) == 0 {
		return "{}"
	}
	raw, _ := json.Marshal(m)
	return string(raw)
}

// decodeMetadata reads a session's metadata; an empty object becomes nil.
func decodeMetadata(raw []byte, into *cairn.Metadata) error {
	if len(raw) <= len("{}") {
		return nil
	}
	return backend.DecodeJSON("metadata", string(raw), into)
}

// timestamp returns a time as it is stored; null for the zero time.
func timestamp(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Microsecond)
	return &t
}

// ceiling returns the first time at the stored precision that is not before t.
func ceiling(t time.Time) time.Time {
	if down := t.Truncate(time.Microsecond); down.Before(t) {
		return down.Add(time.Microsecond).UTC()
	}
	return t.UTC()
}

// instant returns a stored time in UTC; the zero time for null.
func instant(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// readJSON decodes the last column of a row into a value, and scans the columns before it into before.
func readJSON(rows pgx.Rows, what string, v any, before ...any) error {
	var text string
	if err := rows.Scan(append(before, &text)...); err != nil {
		return err
	}
	return backend.DecodeJSON(what, text, v)
}

// kept returns a time as a column of the database would keep it.
func kept(t time.Time) time.Time { return instant(timestamp(t)) }
