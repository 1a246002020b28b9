package openaichat

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxEvent is the maximum size in bytes of a line and of an event of a stream, and of a complete reply that a
// server sends instead of a stream.
const maxEvent = 32 << 20

var errEventTooLarge = fmt.Errorf("an event is larger than %d MiB", maxEvent>>20)

// events reads server-sent events. Comments and fields other than event and data are skipped.
type events struct {
	lines *bufio.Scanner // accepts CRLF as the end of a line too
	data  []byte
}

func newEvents(r io.Reader) *events {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxEvent)
	return &events{lines: lines}
}

// next returns the next event that has data. The data is valid until the following call. The error is io.EOF once
// the stream has ended; an event without a terminating blank line is dropped.
func (e *events) next() (kind string, data []byte, err error) {
	e.data = e.data[:0]
	for e.lines.Scan() {
		line := e.lines.Bytes()
		if len(line) == 0 {
			if len(e.data) > 0 {
				return kind, e.data, nil
			}
			kind = ""
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			kind = string(value)
		case "data":
			if len(e.data)+len(value) >= maxEvent {
				return "", nil, errEventTooLarge
			}
			e.data = append(append(e.data, value...), '\n')
		}
	}
	switch err := e.lines.Err(); {
	case err == nil:
		return "", nil, io.EOF
	case errors.Is(err, bufio.ErrTooLong):
		return "", nil, errEventTooLarge
	default:
		return "", nil, err
	}
}
