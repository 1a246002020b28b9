// Package sse writes streams of server-sent events. Frames are encoded by the caller.
package sse

import (
	"context"
	"errors"
	"iter"
	"net"
	"net/http"
	"time"
)

// Options tune a stream. The zero value means the defaults.
type Options struct {
	// KeepAlive is how long a stream may be silent before a comment is sent, so that no proxy takes the connection
	// for dead; 0 means 15 seconds.
	KeepAlive time.Duration
	// WriteTimeout is how long one write may take before the client counts as stalled and is disconnected; 0 means
	// 30 seconds.
	WriteTimeout time.Duration
	// Header is added to the stream's own.
	Header http.Header
}

// ErrCut reports that a stream ended before its last frame. A handler that gets it must not return normally, since
// that would end the response as if it were complete: see Cut.
var ErrCut = errors.New("the stream was cut")

const (
	keepAlive    = 15 * time.Second
	writeTimeout = 30 * time.Second
	// ahead is how many frames may be pending for the client. Pending frames are sent with one flush.
	ahead = 16
)

// frame is what the reader of frames hands to the writer.
type frame struct {
	data []byte
	err  error
}

// Write sends frames to the client of r as they come, until the last one, and comments in between. One goroutine reads
// frames, until it ends or its context does. Write returns nil if frames ended without an error. Otherwise
// errors.Is reports ErrCut for its error, and the other cause is an error of frames, of the client's connection, or
// of ctx.
func Write(ctx context.Context, w http.ResponseWriter, r *http.Request, frames func(context.Context) iter.Seq2[[]byte, error], o Options) error {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform") // proxies must not hold frames back to compress or cache them
	h.Set("X-Accel-Buffering", "no")
	for name, values := range o.Header {
		h[name] = values
	}
	c := client{w: w, rc: http.NewResponseController(w), timeout: o.WriteTimeout, disarm: func() {}}
	if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok && unframed(r) {
		c.disarm = armed(conn)
	}
	w.WriteHeader(http.StatusOK)
	if c.timeout == 0 {
		c.timeout = writeTimeout
	}
	if err := c.flush(); err != nil {
		return errors.Join(ErrCut, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	list := make(chan frame, ahead)
	done := make(chan struct{})
	defer func() { cancel(); <-done }()
	go func() {
		defer close(done)
		defer close(list)
		for data, err := range frames(ctx) {
			select {
			case list <- frame{data, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return c.send(ctx, list, o.KeepAlive)
}

// client is the receiver of a stream.
type client struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
	disarm  func() // the connection no longer has to be reset
}

func (c *client) send(ctx context.Context, list <-chan frame, every time.Duration) error {
	if every == 0 {
		every = keepAlive
	}
	silence := time.NewTimer(every)
	defer silence.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return errors.Join(ErrCut, ctx.Err())
		case <-silence.C:
			err = c.write([]byte(": keep-alive\n\n"))
		case f, more := <-list:
			if !more && ctx.Err() != nil {
				return errors.Join(ErrCut, ctx.Err())
			}
			if !more {
				return c.close()
			}
			if f.err != nil {
				return errors.Join(ErrCut, f.err, c.flush())
			}
			err = c.write(f.data)
		}
		if err == nil && len(list) == 0 {
			err = c.flush()
		}
		if err != nil {
			return errors.Join(ErrCut, err)
		}
		silence.Reset(every)
	}
}

func (c *client) close() error {
	err := c.flush()
	if err == nil {
		err = c.setDeadline(time.Time{})
	}
	if err != nil {
		return errors.Join(ErrCut, err)
	}
	c.disarm()
	return nil
}

func (c *client) write(data []byte) error {
	if err := c.deadline(); err != nil {
		return err
	}
	_, err := c.w.Write(data)
	return err
}

func (c *client) flush() error {
	if err := c.deadline(); err != nil {
		return err
	}
	return c.rc.Flush()
}

// deadline gives the client time for one more write. It replaces the server's own deadline, which is for whole
// responses.
func (c *client) deadline() error { return c.setDeadline(time.Now().Add(c.timeout)) }

func (c *client) setDeadline(at time.Time) error {
	err := c.rc.SetWriteDeadline(at)
	if errors.Is(err, http.ErrNotSupported) { // a test's recorder
		return nil
	}
	return err
}

// Append appends a frame of server-sent events. data must be one line; an empty id or name is left out.
func Append(to []byte, id, name string, data []byte) []byte {
	if id != "" {
		to = append(append(append(to, "id: "...), id...), '\n')
	}
	if name != "" {
		to = append(append(append(to, "event: "...), name...), '\n')
	}
	to = append(append(to, "data: "...), data...)
	return append(to, "\n\n"...)
}
