// Package shared has the clients of one process that follow one log share encoded frames.
package shared

import (
	"cmp"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
)

// The frames that are kept of each log: those of its newest events. A client that is further behind, or is shown an
// event in yet another way, encodes its own.
const (
	maxEvents   = 64
	maxBytes    = 256 << 10
	maxContents = 8 // of one event
)

// Logs keeps the newest frames of the logs that several clients follow. The zero value is ready to use. It is safe for
// concurrent use.
type Logs struct {
	mu   sync.Mutex
	logs map[string]*Log
}

// Log keeps the newest frames of one log. It is safe for concurrent use.
type Log struct {
	mu      sync.Mutex
	readers int
	events  []event // by sequence
	bytes   int     // of all frames
}

// event has the frames of one event.
type event struct {
	sequence int64
	time     time.Time
	frames   []*frame
}

// frame is what a content of an event encodes to.
type frame struct {
	content []any
	size    int // of data, once the log counts it
	once    sync.Once
	data    []byte
	err     error
}

// Join returns the frames of a log, for a client that follows it until it calls leave.
func (s *Logs) Join(log string) (l *Log, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l = s.logs[log]
	if l == nil {
		if s.logs == nil {
			s.logs = map[string]*Log{}
		}
		l = &Log{}
		s.logs[log] = l
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readers++
	return l, func() { s.leave(log, l) }
}

// Readers returns the number of clients that follow logs.
func (s *Logs) Readers() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.logs {
		l.mu.Lock()
		n += l.readers
		l.mu.Unlock()
	}
	return n
}

func (s *Logs) leave(log string, l *Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readers--; l.readers < 2 {
		l.events, l.bytes = nil, 0
	}
	if l.readers == 0 {
		delete(s.logs, log)
	}
}

// Frame returns what content encodes to, a part of ev or all of it. Clients whose contents of the same event are equal
// get the same bytes, which must not be changed; encode is then called once. It must be a function of its arguments.
// Frame does not keep content itself, but its items.
func (l *Log) Frame(ev *cairn.Event, content []any, encode func(*cairn.Event, []any) ([]byte, error)) ([]byte, error) {
	f := l.find(ev, content)
	if f == nil {
		return encode(ev, content)
	}
	f.once.Do(func() {
		f.data, f.err = encode(ev, f.content)
		l.grow(ev.Sequence, f)
	})
	return f.data, f.err
}

// find returns the frame of a content of an event, or nil if that is not kept.
func (l *Log) find(ev *cairn.Event, content []any) *frame {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readers < 2 {
		return nil
	}
	i, found := slices.BinarySearchFunc(l.events, ev.Sequence, event.compare)
	if !found {
		if i == 0 && len(l.events) == maxEvents {
			return nil
		}
		if len(l.events) == maxEvents {
			l.drop()
			i--
		}
		l.events = slices.Insert(l.events, i, event{sequence: ev.Sequence, time: ev.Time})
	}
	e := &l.events[i]
	if !e.time.Equal(ev.Time) { // a tree that was erased was imported again, with another log
		return nil
	}
	for _, f := range e.frames {
		if equal(f.content, content) {
			return f
		}
	}
	if len(e.frames) == maxContents {
		return nil
	}
	f := &frame{content: slices.Clone(content)}
	e.frames = append(e.frames, f)
	return f
}

func (e event) compare(sequence int64) int { return cmp.Compare(e.sequence, sequence) }

// grow counts the bytes of a frame, and drops the oldest events that are too many.
func (l *Log) grow(sequence int64, f *frame) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, found := slices.BinarySearchFunc(l.events, sequence, event.compare)
	if !found || !slices.Contains(l.events[i].frames, f) { // dropped in the meantime
		return
	}
	f.size = len(f.data)
	for l.bytes += f.size; l.bytes > maxBytes && len(l.events) > 0; {
		l.drop()
	}
}

// drop forgets the oldest event.
func (l *Log) drop() {
	for _, f := range l.events[0].frames {
		l.bytes -= f.size
	}
	l.events = slices.Delete(l.events, 0, 1)
}

// equal reports whether two contents are equal.
func equal(a, b []any) bool {
	return slices.EqualFunc(a, b, func(x, y any) bool {
		return reflect.TypeOf(x) == reflect.TypeOf(y) && (reflect.TypeOf(x).Comparable() && x == y || reflect.DeepEqual(x, y))
	})
}
