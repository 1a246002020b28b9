package sse

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// client is the receiver of a stream. The goroutine that reads the stream's frames hands them over. Another one writes
// them; it exists only while there are any, so a silent stream has one goroutine.
type client struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	cancel  context.CancelFunc // ends the stream's frames
	disarm  func()             // the connection no longer has to be reset
	every   time.Duration      // the silence before a comment
	timeout time.Duration      // of one write
	due     time.Time          // deadline of the connection; used by the writer only

	mu      sync.Mutex
	changed sync.Cond // a writer has written, or ended
	pending [][]byte  // frames to be written
	spare   [][]byte  // the list that becomes pending when that is taken
	writing bool      // a writer is at work; only that one uses w
	ended   bool      // no more writers may begin
	err     error     // of a write
	last    time.Time // when the stream began, or last had a frame
	silence *time.Timer
}

func newClient(w http.ResponseWriter, cancel context.CancelFunc, o *Options) *client {
	c := &client{w: w, rc: http.NewResponseController(w), cancel: cancel, disarm: func() {}, every: o.KeepAlive, timeout: o.WriteTimeout}
	c.changed.L = &c.mu
	if c.every == 0 {
		c.every = keepAlive
	}
	if c.timeout == 0 {
		c.timeout = writeTimeout
	}
	return c
}

// begin starts to watch for silence.
func (c *client) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = time.Now()
	c.silence = time.AfterFunc(c.every, c.silent)
}

// hand hands a frame over. It waits while the client is behind, and reports false if the client can be written no more.
func (c *client) hand(data []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.pending) >= ahead && c.err == nil {
		c.changed.Wait()
	}
	if c.err != nil {
		return false
	}
	c.pending = append(c.pending, data)
	if !c.writing {
		c.writing = true
		go c.drain()
	}
	return true
}

// silent sends a comment if the stream has been silent.
func (c *client) silent() {
	c.mu.Lock()
	if c.ended || c.err != nil {
		c.mu.Unlock()
		return
	}
	passed := time.Since(c.last)
	if c.writing || passed < c.every {
		c.silence.Reset(max(c.every-passed, c.every/16))
		c.mu.Unlock()
		return
	}
	c.pending, c.writing = append(c.pending, comment), true
	c.silence.Reset(c.every)
	c.mu.Unlock()
	c.drain()
}

var comment = []byte(": keep-alive\n\n")

// drain writes the pending frames, and what is handed over in the meantime, with one flush for those that come together.
func (c *client) drain() {
	var err error
	c.mu.Lock()
	defer c.mu.Unlock()
	for flushed := true; err == nil && (len(c.pending) > 0 || !flushed); {
		list := c.pending
		c.pending, c.spare = c.spare, nil
		c.mu.Unlock()
		if flushed = len(list) == 0; flushed {
			err = c.flush()
		}
		for _, data := range list {
			if err = c.write(data); err != nil {
				break
			}
		}
		clear(list)
		c.mu.Lock()
		c.last, c.spare = time.Now(), list[:0]
		c.changed.Broadcast()
	}
	if c.writing, c.err = false, err; err != nil {
		c.pending = nil
		c.cancel()
	}
	c.changed.Broadcast()
}

// stop returns once nothing is written anymore: when what is pending has been, or at once if ctx is done.
func (c *client) stop(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	c.silence.Stop()
	if ctx.Err() != nil {
		c.pending = nil
	}
	for c.writing {
		c.changed.Wait()
	}
}

// finish returns the outcome of a stream that was stopped. failed is the error of its frames.
func (c *client) finish(ctx context.Context, failed error) error {
	switch {
	case c.err != nil:
		return errors.Join(ErrCut, c.err)
	case failed != nil:
		return errors.Join(ErrCut, failed)
	case ctx.Err() != nil:
		return errors.Join(ErrCut, ctx.Err())
	}
	if err := c.setDeadline(time.Time{}); err != nil {
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
// responses. To set one costs more than to encode a word, so those of frames that follow each other closely are one.
func (c *client) deadline() error {
	now, slack := time.Now(), c.timeout/16
	if c.due.Sub(now) >= c.timeout {
		return nil
	}
	c.due = now.Add(c.timeout + slack)
	return c.setDeadline(c.due)
}

func (c *client) setDeadline(at time.Time) error {
	err := c.rc.SetWriteDeadline(at)
	if errors.Is(err, http.ErrNotSupported) { // a test's recorder
		return nil
	}
	return err
}
