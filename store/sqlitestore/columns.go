package sqlitestore

import (
	sqldriver "database/sql/driver"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
)

// columns reads the values of one row from left to right. The first value that is not as expected sets err to a
// ErrCorrupt error; later values are zero.
type columns struct {
	values []sqldriver.Value
	at     int
	err    error
}

func (c *columns) next() sqldriver.Value {
	if c.err != nil || c.at >= len(c.values) {
		return nil
	}
	c.at++
	return c.values[c.at-1]
}

func (c *columns) corrupt(format string, args ...any) {
	if c.err == nil {
		c.err = cairn.Errorf(cairn.ErrCorrupt, format, args...)
	}
}

func (c *columns) int64() int64 {
	n, ok := c.next().(int64)
	if !ok {
		c.corrupt("stored data: column %d is not an integer", c.at)
	}
	return n
}

func (c *columns) int() int { return int(c.int64()) }

func (c *columns) text() string {
	s, ok := c.next().(string)
	if !ok {
		c.corrupt("stored data: column %d is not text", c.at)
	}
	return s
}

// bytes returns a value that the caller owns.
func (c *columns) bytes() []byte {
	b, ok := c.next().([]byte)
	if !ok {
		c.corrupt("stored data: column %d is not a blob", c.at)
	}
	return b
}

func (c *columns) time() time.Time { return fromMicros(c.int64()) }

// fromMicros returns a time from its stored form.
func fromMicros(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

// json decodes a column into v. what names the value in the error.
func (c *columns) json(what string, v any) { c.decode(what, c.text(), v) }

func (c *columns) decode(what, text string, v any) {
	if c.err == nil {
		c.err = backend.DecodeJSON(what, text, v)
	}
}

// micros returns a time as it is stored.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// ceilMicros returns the first stored time that is not before t.
func ceilMicros(t time.Time) int64 {
	n := t.UnixMicro()
	if time.UnixMicro(n).Before(t) {
		n++
	}
	return n
}

// stored returns a time as it is after it was stored and read again.
func stored(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// size returns the number of bytes of the row's texts and blobs.
func (c *columns) size() (n int) {
	for _, v := range c.values {
		switch v := v.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		}
	}
	return n
}
