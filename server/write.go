package server

import (
	"cmp"
	"net/http"
	"slices"
	"time"
)

// A client that does not read its answer holds a connection, a goroutine and the answer. So each piece of an answer has a time
// in which it is to be written; a stream has its own, see package sse.
const (
	// writeTimeout is how long one write of an answer may take.
	writeTimeout = 30 * time.Second
	// writeSize is how much of an answer is written at a time: a slow client that reads has time for each.
	writeSize = 64 << 10
)

// boundedWriter writes an answer in pieces, each with a deadline.
type boundedWriter struct {
	http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
}

func (c *request) bounded() *boundedWriter {
	return &boundedWriter{ResponseWriter: c.w, rc: http.NewResponseController(c.w), timeout: cmp.Or(max(c.h.opts.WriteTimeout, 0), writeTimeout)}
}

func (w *boundedWriter) Write(b []byte) (n int, err error) {
	for piece := range slices.Chunk(b, writeSize) {
		_ = w.rc.SetWriteDeadline(time.Now().Add(w.timeout)) // which a test that records what is written does not have
		m, err := w.ResponseWriter.Write(piece)
		n += m
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
