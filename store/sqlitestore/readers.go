package sqlitestore

import (
	"context"
	"sync"
)

// The statements around a read of several parts, which must see one point in time.
const (
	sqlBeginRead = `BEGIN`
	sqlEndRead   = `COMMIT`
)

// readers is a pool of read-only connections. They see the last commit and do not wait for writers.
type readers struct {
	open func() (*conn, error)
	// idle holds every connection that is not in use; nil stands for one that has not been opened.
	idle   chan *conn
	closed chan struct{}
	once   sync.Once
	// watch is checked after each read.
	watch *watch
	// looking runs a read, and repeats it if it found sessions that may have expired.
	looking func(ctx context.Context, do func() error) error
}

func newReaders(n int, open func() (*conn, error)) *readers {
	r := &readers{open: open, idle: make(chan *conn, n), closed: make(chan struct{})}
	for range n {
		r.idle <- nil
	}
	return r
}

// read calls fn with a connection, possibly several times.
func (r *readers) read(ctx context.Context, fn func(*conn) error) error {
	return r.looking(ctx, func() error { return r.lend(ctx, fn) })
}

// lend calls fn with a connection. It repeats that with another one if the files have changed under a connection that
// takes no locks.
func (r *readers) lend(ctx context.Context, fn func(*conn) error) error {
	for {
		if again, err := r.lendOnce(ctx, fn); !again {
			return err
		}
	}
}

func (r *readers) lendOnce(ctx context.Context, fn func(*conn) error) (again bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	select {
	case <-r.closed:
		return false, errClosed
	default:
	}
	var c *conn
	select {
	case c = <-r.idle:
	default:
		select {
		case c = <-r.idle:
		case <-r.closed:
			return false, errClosed
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	defer func() { r.idle <- c }()
	discard := func() {
		c.close()
		c = nil
	}
	if c != nil && c.seen != nil && c.seen.changed() {
		discard()
	}
	if c == nil {
		opened, err := r.open()
		if lost := r.watch.check(); err != nil && lost != nil {
			return false, lost
		}
		if err != nil {
			return false, fault("open a read connection", err)
		}
		c = opened
	}
	err = fn(c)
	check := r.watch.checkDatabase
	if err != nil {
		check = r.watch.check // a read that meets a log or an index that was taken away fails with whatever SQLite found
	}
	if lost := check(); lost != nil {
		return false, lost
	}
	if c.seen != nil && c.seen.changed() {
		discard()
		return true, nil
	}
	return false, fault("read", err)
}

// view is read with a consistent view of one point in time.
func (r *readers) view(ctx context.Context, fn func(*conn) error) error {
	return r.read(ctx, func(c *conn) error {
		if _, err := c.exec(sqlBeginRead); err != nil {
			return err
		}
		defer c.exec(sqlEndRead)
		return fn(c)
	})
}

// close waits for the reads under way and closes the connections.
func (r *readers) close() (err error) {
	r.once.Do(func() {
		close(r.closed)
		for range cap(r.idle) {
			if c := <-r.idle; c != nil {
				if e := c.close(); e != nil {
					err = e
				}
			}
		}
	})
	return err
}
