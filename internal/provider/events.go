package provider

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/cairn-agents/cairn"
)

// MaxEvent is the maximum size in bytes of a line and of an event of a stream, and of a complete reply that a
// server sends instead of a stream.
const MaxEvent = 32 << 20

var errEventTooLarge = fmt.Errorf("event is too large (max %d MiB)", MaxEvent>>20)

// Events reads server-sent events as the HTML standard defines them, section 9.2.6: lines end with CR, LF or CRLF, a
// byte order mark may begin the stream, and comments and fields other than event and data are skipped. It departs
// from the standard in two points, for servers and gateways that write events less carefully. The last event may lack
// its blank line, if its data is complete JSON. An object with an error that is no field of an event counts as an
// event of kind "error".
type Events struct {
	lines *bufio.Scanner
	begun bool
	cr    bool   // the previous line ended with CR, and an LF belongs to it
	data  []byte // of the event that is read
	stray []byte // lines that are no fields
}

// NewEvents returns a reader of the events in r.
func NewEvents(r io.Reader) *Events {
	e := &Events{lines: bufio.NewScanner(r)}
	e.lines.Buffer(nil, MaxEvent)
	e.lines.Split(e.line)
	return e
}

// line is the split function of the lines. It does not wait for the byte after a CR.
func (e *Events) line(data []byte, atEOF bool) (advance int, token []byte, err error) {
	from := 0
	if e.cr && len(data) > 0 && data[0] == '\n' {
		from = 1
	}
	i := bytes.IndexAny(data[from:], "\r\n")
	switch {
	case i >= 0:
		i += from
		e.cr = data[i] == '\r'
		return i + 1, data[from:i:i], nil
	case atEOF: // a line that is not ended is no field
		e.strayed(data[from:])
		return len(data), nil, nil
	}
	return 0, nil, nil
}

// Next returns the next event that has data, and its kind if it was named. The data is valid until the following
// call. The error is io.EOF once the stream has ended.
func (e *Events) Next() (kind string, data []byte, err error) {
	e.data = e.data[:0]
	for e.lines.Scan() {
		line := e.lines.Bytes()
		if !e.begun {
			e.begun, line = true, bytes.TrimPrefix(line, []byte("\xEF\xBB\xBF"))
		}
		if len(line) == 0 {
			if len(bytes.TrimSpace(e.data)) > 0 {
				return kind, e.data[:len(e.data)-1], nil
			}
			e.data = e.data[:0]
			if said := e.reported(); said != nil {
				return "error", said, nil
			}
			kind = ""
			continue
		}
		if kind, err = e.field(line, kind); err != nil {
			return "", nil, err
		}
	}
	switch err := e.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return "", nil, errEventTooLarge
	case err != nil:
		return "", nil, err
	case len(e.data) > 0 && json.Valid(e.data):
		return kind, e.data[:len(e.data)-1], nil
	}
	if said := e.reported(); said != nil {
		return "error", said, nil
	}
	return "", nil, io.EOF
}

// field adds a line to the event. It returns the event's kind.
func (e *Events) field(line []byte, kind string) (string, error) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		return string(value), nil
	case "data":
		if len(e.data)+len(value) >= MaxEvent {
			return "", errEventTooLarge
		}
		e.data = append(append(e.data, value...), '\n')
	default:
		e.strayed(line)
	}
	return kind, nil
}

// strayed keeps a line that is no field if it can be part of an object or array.
func (e *Events) strayed(line []byte) {
	line = bytes.TrimSpace(line)
	if len(e.stray) > 0 || bytes.HasPrefix(line, []byte("{")) || bytes.HasPrefix(line, []byte("[")) {
		e.stray = append(append(e.stray, line...), '\n')
		e.stray = e.stray[:min(len(e.stray), maxErrorBody)]
	}
}

// reported returns the error among the lines that are no fields, nil if there is none.
func (e *Events) reported() []byte {
	said := bytes.TrimSpace(e.stray)
	e.stray = nil
	if _, ok := reported(said); !ok {
		return nil
	}
	return said
}

// Reader reads the events of one reply. It has the rules for a reply's end that all adapters share.
type Reader struct {
	Failures
	Watch *Idle
	// Event processes an event.
	Event func(kind string, data []byte) error
	// Complete reports whether the reply is complete, and Ended whether nothing else can follow.
	Complete, Ended func() bool
	// Settled reports whether only the end of a complete reply is missing; nil if that is not known before it.
	Settled func() bool
}

// Read feeds the events of a response to the reply until it has ended. After a complete reply only the rest of the
// stream is missing, such as its usage: a server has [Grace] for each further event. It may then keep the connection
// open, or break it off.
func (r *Reader) Read(res *http.Response) error {
	events := NewEvents(res.Body)
	for !r.Ended() {
		kind, data, err := events.Next()
		switch {
		case err != nil && r.Complete():
			return nil
		case err == io.EOF:
			return r.Errorf(cairn.ErrModel, "the stream ended before the reply was complete")
		case err != nil:
			return r.Broken(err)
		}
		if err := r.Event(kind, data); err != nil {
			return err
		}
		switch {
		case !r.Complete():
		case r.Settled != nil && r.Settled():
			r.Watch.Expect(closing)
		default:
			r.Watch.Expect(Grace)
		}
	}
	return nil
}
