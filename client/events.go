package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
)

// EventsOptions select the events to read. The zero value means all events of the session, past and future.
type EventsOptions struct {
	// RunID restricts the events to one run of the session and the sub-agents that it consults. The stream ends when
	// the run ends.
	RunID string
	// After is the position after which the events begin; the zero value is the beginning of the log.
	After cairn.Cursor
	// Types restricts the events to the given types; empty means all.
	Types []cairn.EventType
}

// Events yields the events of a session. A broken connection is re-established after the last event, with whichever
// process the address leads to; each event is yielded once. The loop ends with the run, if one is named, or when the
// session is deleted. A response that ends before the event that says so is a broken connection too: a proxy may end it
// when the server behind it has died. The loop ends early with one error: ctx's own, ErrTrimmed if the log no longer
// reaches back to the cursor, ErrNotFound, ErrAuth, or ErrUnavailable after Options.Patience without a server whose
// stream stays open.
func (c *Client) Events(ctx context.Context, session string, opts *EventsOptions) iter.Seq2[cairn.Event, error] {
	var o EventsOptions
	if opts != nil {
		o = *opts
	}
	wanted := o.Types
	if len(wanted) > 0 { // the end of the stream is recognized by these
		o.Types = append(slices.Clone(wanted), cairn.EventRunEnd, cairn.EventSessionDeleted)
	}
	return func(yield func(cairn.Event, error) bool) {
		var wait pauses
		reached := time.Now()
		for {
			left, opened := false, time.Time{}
			over, err := c.stream(ctx, session, o, func(ev *cairn.Event) bool {
				if opened.IsZero() { // the stream begins
					opened = time.Now()
					return true
				}
				if wait, reached = (pauses{}), time.Now(); ev == nil {
					return true
				}
				o.After = ev.Cursor()
				left = (len(wanted) == 0 || slices.Contains(wanted, ev.Type)) && !yield(*ev, nil)
				return !left
			})
			if !opened.IsZero() && time.Since(opened) > longestPause { // silent, but open for a while
				wait, reached = pauses{}, time.Now()
			}
			switch {
			case left, over:
				return
			case ctx.Err() != nil:
				yield(cairn.Event{}, ctx.Err())
				return
			case !passing(err) || time.Since(reached) > c.opts.Patience:
				yield(cairn.Event{}, err)
				return
			}
			if err := wait.sleep(ctx, err); err != nil {
				yield(cairn.Event{}, err)
				return
			}
		}
	}
}

// stream reads one connection. It calls take with each event, and with nil when the stream begins and for each
// comment. If take returns false, stream returns a nil error. over reports that no more events follow: the last one
// ended the run or deleted the session.
func (c *Client) stream(ctx context.Context, session string, o EventsOptions, take func(*cairn.Event) bool) (over bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := c.eventsRequest(ctx, session, o)
	if err != nil {
		return false, err
	}
	quiet := time.AfterFunc(silence, cancel) // applies until the headers arrive, and between two lines
	defer quiet.Stop()
	res, err := c.opts.HTTP.Do(req)
	if err != nil {
		return false, broken(req, err)
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusNoContent:
		return true, nil
	case res.StatusCode != http.StatusOK:
		raw, err := io.ReadAll(io.LimitReader(res.Body, c.opts.MaxBody))
		if err != nil {
			return false, broken(req, err)
		}
		return false, refusal(req, res, raw)
	}
	if !take(nil) {
		return false, nil
	}
	err = frames(res.Body, c.opts.MaxBody, func() { quiet.Reset(silence) }, func(id string, data []byte) (bool, error) {
		if data == nil {
			return take(nil), nil
		}
		var ev cairn.Event
		if err := json.Unmarshal(data, &ev); err != nil {
			return false, cairn.Errorf(cairn.ErrInternal, "%s: decode event: %w", what(req), err)
		}
		cursor, err := cairn.ParseCursor(id)
		if err != nil {
			return false, cairn.Errorf(cairn.ErrInternal, "%s: invalid event id: %w", what(req), err)
		}
		ev.Incarnation = cursor.Incarnation
		over = ev.Type == cairn.EventSessionDeleted || o.RunID != "" && ev.Ends(o.RunID)
		return take(&ev), nil
	})
	switch {
	case err == nil:
		return false, nil
	case errors.Is(err, io.EOF) && over:
		return true, nil
	case errors.As(err, new(*cairn.Error)):
		return false, err
	}
	return false, broken(req, err)
}

// eventsRequest returns the request for the events of a session after a cursor.
func (c *Client) eventsRequest(ctx context.Context, session string, o EventsOptions) (*http.Request, error) {
	query := url.Values{"session_id": {session}}
	set(query, "run_id", o.RunID)
	for _, t := range o.Types {
		query.Add("type", string(t))
	}
	req, err := c.request(ctx, "GET", "/sse", query, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	if o.After != (cairn.Cursor{}) {
		req.Header.Set("Last-Event-ID", o.After.String())
	}
	return req, nil
}

// broken returns the error for a stream that broke off before its end.
func broken(req *http.Request, err error) error {
	if errors.Is(err, io.EOF) {
		err = errors.New("missing last event")
	}
	if outer := (*url.Error)(nil); errors.As(err, &outer) {
		err = outer.Err
	}
	return cairn.Errorf(cairn.ErrUnavailable, "%s: the stream ended unexpectedly: %w", what(req), err)
}

// frames reads server-sent events. It calls take with the id and the data of each, and with nil data for a comment.
// If take returns false, the error is nil. The error is io.EOF at the end of the response.
func frames(body io.Reader, most int64, alive func(), take func(id string, data []byte) (bool, error)) error {
	r := bufio.NewReaderSize(body, 32<<10)
	var id string
	var data []byte
	for {
		line, err := readLine(r, most)
		if err != nil {
			return err
		}
		alive()
		more := true
		switch {
		case len(line) == 0 && data != nil:
			more, err = take(id, data)
			data = nil
		case len(line) == 0:
		case line[0] == ':':
			more, err = take("", nil)
		default:
			name, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch string(name) {
			case "id":
				id = string(value)
			case "data":
				if data != nil {
					data = append(data, '\n')
				}
				if data = append(data, value...); data == nil {
					data = []byte{}
				}
				if int64(len(data)) > most {
					return tooLong(most)
				}
			}
		}
		if err != nil || !more {
			return err
		}
	}
}

// readLine reads a line and returns it without its line ending.
func readLine(r *bufio.Reader, most int64) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if err == nil && line == nil {
			return bytes.TrimRight(part, "\r\n"), nil
		}
		if line = append(line, part...); int64(len(line)) > most {
			return nil, tooLong(most)
		}
		switch {
		case err == nil:
			return bytes.TrimRight(line, "\r\n"), nil
		case errors.Is(err, io.EOF) && len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

func tooLong(most int64) error {
	return cairn.Errorf(cairn.ErrTooLarge, "event is too large (max %d bytes)", most)
}
