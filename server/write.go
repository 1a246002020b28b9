package server

import (
	"cmp"
	"net/http"
	"slices"
	"time"
)

// A client that does not read its response holds a connection, a goroutine and the response. Each piece of a
// response therefore has a write deadline; streams have their own, see package sse.
const (
	// writeTimeout is how long one write of a response may take.
	writeTimeout = 30 * time.Second
	// writeSize is how much of a response is written at a time, so that a slow client that reads has time for each
	// piece.
	writeSize = 64 << 10
)

// boundedWriter writes a response in pieces, each with a deadline.
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
		_ = w.rc.SetWriteDeadline(time.Now().Add(w.timeout)) // a test's recorder does not support it
		m, err := w.ResponseWriter.Write(piece)
		n += m
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
