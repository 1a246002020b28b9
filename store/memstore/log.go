package memstore

import (
	"context"
	"iter"
	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/tail"
	"github.com/cairn-agents/cairn/store"
)

// Log is a store.Log in memory. It is safe for concurrent use.
type Log struct {
	max int
	hub tail.Hub

	mu     sync.RWMutex
	closed bool
	logs   map[string]*events
}

// events is one log: what is left of it, and the sequence of the last event there ever was.
type events struct {
	list   []cairn.Event
	last   int64
	fence  int64            // the highest token seen of the session that the log is named after
	fences map[string]int64 // of the others, by session
}

// seen returns the highest token that a log has seen of a session.
func (e *events) seen(log, session string) int64 {
	if session == log {
		return e.fence
	}
	return e.fences[session]
}

func (e *events) see(log, session string, token int64) {
	switch {
	case session == log:
		e.fence = token
	case e.fences == nil:
		e.fences = map[string]int64{session: token}
	default:
		e.fences[session] = token
	}
}

func newLog(max int) *Log {
	if max <= 0 {
		max = store.DefaultMaxEvent
	}
	return &Log{max: max, logs: map[string]*events{}}
}

func (l *Log) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.hub.WakeAll()
}

func (l *Log) check(ctx context.Context) error {
	if l.closed {
		return cairn.Errorf(cairn.CodeClosed, "the event log is closed")
	}
	return ctx.Err()
}

// MaxEvent implements store.Log.
func (l *Log) MaxEvent() int { return l.max }

// Append implements store.Log.
func (l *Log) Append(ctx context.Context, log string, expect int64, list ...cairn.Event) (int64, error) {
	return l.append(ctx, log, list, func(e *events) error {
		if expect != store.AnySequence && expect != e.last {
			return changed(log, expect, e.last)
		}
		return nil
	})
}

// AppendFenced implements store.Fencer.
func (l *Log) AppendFenced(ctx context.Context, log string, expect int64, session string, token int64, list ...cairn.Event) (int64, error) {
	return l.append(ctx, log, list, func(e *events) error {
		if seen := e.seen(log, session); token < seen {
			return store.Fenced(log, session, token, seen)
		}
		if expect != store.AnySequence && expect != e.last {
			return changed(log, expect, e.last)
		}
		e.see(log, session, token)
		l.logs[log] = e // a fence is kept though there are no events yet
		return nil
	})
}

// append adds events to a log that admits them.
func (l *Log) append(ctx context.Context, log string, list []cairn.Event, admit func(*events) error) (int64, error) {
	for i := range list {
		if err := store.CheckEvent(&list[i], l.max); err != nil {
			return 0, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(ctx); err != nil {
		return 0, err
	}
	e := l.logs[log]
	if e == nil {
		e = &events{}
	}
	if err := admit(e); err != nil {
		return 0, err
	}
	if len(list) > 0 {
		l.logs[log] = e
		l.add(log, e, list)
	}
	return e.last, nil
}

func changed(log string, expect, last int64) error {
	return cairn.Errorf(cairn.CodeStale, "log %q has changed: expected sequence %d, now %d", log, expect, last)
}

// add appends events to a log. The caller holds the lock, so that batches are published in order.
func (l *Log) add(log string, e *events, list []cairn.Event) {
	n := len(e.list)
	if n == 0 {
		e.list = make([]cairn.Event, 0, max(20, len(list)))
	}
	e.list = append(e.list, list...)
	for i := n; i < len(e.list); i++ {
		e.last++
		e.list[i].Sequence = e.last
	}
	l.hub.Publish(log, e.list[n:])
}

// Read implements store.Log.
func (l *Log) Read(ctx context.Context, log string, after int64, limit int) ([]cairn.Event, error) {
	if limit <= 0 {
		limit = 1000
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if err := l.check(ctx); err != nil {
		return nil, err
	}
	e := l.logs[log]
	if e == nil || after >= e.last {
		return nil, nil
	}
	first := e.last - int64(len(e.list)) + 1
	after = max(after, 0)
	if after+1 < first {
		return nil, store.Trimmed(log, after, first)
	}
	from := int(after + 1 - first)
	to := min(from+limit, len(e.list))
	return e.list[from:to:to], nil
}

// Follow implements store.Log.
func (l *Log) Follow(ctx context.Context, log string, after int64) iter.Seq2[cairn.Event, error] {
	return l.hub.Follow(ctx, log, after, l.Read)
}

// Bounds implements store.Log.
func (l *Log) Bounds(ctx context.Context, log string) (first, last int64, err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if err := l.check(ctx); err != nil {
		return 0, 0, err
	}
	e := l.logs[log]
	if e == nil {
		return 1, 0, nil
	}
	return e.last - int64(len(e.list)) + 1, e.last, nil
}

// Trim implements store.Log.
func (l *Log) Trim(ctx context.Context, log string, before int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(ctx); err != nil {
		return err
	}
	e := l.logs[log]
	if e == nil {
		return nil
	}
	first := e.last - int64(len(e.list)) + 1
	if n := min(before-first, int64(len(e.list))); n > 0 {
		e.list = append([]cairn.Event(nil), e.list[n:]...)
	}
	return nil
}

// Drop implements store.Log.
func (l *Log) Drop(ctx context.Context, log string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(ctx); err != nil {
		return err
	}
	l.drop(log)
	return nil
}

// drop removes a log. The caller holds the lock.
func (l *Log) drop(log string) {
	delete(l.logs, log)
	l.hub.Drop(log)
}
