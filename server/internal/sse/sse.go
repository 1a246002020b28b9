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
var ErrCut = errors.New("stream interrupted")

const (
	keepAlive    = 15 * time.Second
	writeTimeout = 30 * time.Second
	// ahead is how many frames may be pending for the client while earlier ones are written. Those that are pending are
	// sent with one flush.
	ahead = 16
)

// Write sends frames to the client of r as they come, until the last one, and comments in between. Frames are not
// changed, so several clients may be sent the same bytes. Write returns nil if frames ended without an error. Otherwise
// errors.Is reports ErrCut for its error, and the other cause is an error of frames, of the client's connection, or of
// ctx.
func Write(ctx context.Context, w http.ResponseWriter, r *http.Request, frames func(context.Context) iter.Seq2[[]byte, error], o Options) error {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform") // proxies must not hold frames back to compress or cache them
	h.Set("X-Accel-Buffering", "no")
	for name, values := range o.Header {
		h[name] = values
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := newClient(w, cancel, &o)
	if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok && unframed(r) {
		c.disarm = armed(conn)
	}
	w.WriteHeader(http.StatusOK)
	if err := c.flush(); err != nil {
		return errors.Join(ErrCut, err)
	}
	c.begin()
	defer c.stop(ctx) // also if frames panics
	var failed error
	for data, err := range frames(ctx) {
		if failed = err; err != nil || !c.hand(data) {
			break
		}
	}
	c.stop(ctx)
	return c.finish(ctx, failed)
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
