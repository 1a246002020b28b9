// Package tail fans out the newest events of logs to the followers in one process. It keeps one copy of the recent
// events per log, however many readers there are. A writer never waits for a reader.
package tail

import (
	"context"
	"iter"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cairn-agents/cairn"
)

// window is the number of recent events kept of a followed log. A reader that is further behind reads from the store.
const window = 128

// maxLooks is the number of shared store reads kept for followers that have not yet woken.
const maxLooks = 8

// readBatch is the number of events that a follower reads from the store per call.
const readBatch = 512

// maxReads is the number of followers of one process that read from the store concurrently. The others queue, so that
// many new readers leave connections for writers.
var maxReads = max(4, 2*runtime.GOMAXPROCS(0))

// Read fetches at most limit events after a sequence, like driver.Log.Read.
type Read func(ctx context.Context, log string, after int64, limit int) ([]cairn.Event, error)

// Hub connects its followers with a process's writers, and with whatever detects other processes' writes. The zero
// value is ready to use. A Hub is safe for concurrent use.
type Hub struct {
	mu        sync.Mutex
	tails     map[string]*tail
	followers atomic.Int64
	reads     chan struct{} // holds one entry per read under way
}

// tail is one followed log.
type tail struct {
	followers int
	events    []cairn.Event   // contiguous; only ever appended to or replaced, so that readers may hold slices of it
	wakes     int64           // counts Wake calls: the store may have more than events
	version   int64           // counts all changes
	looks     map[int64]*look // store reads since the last change, by the sequence they start after
	changed   chan struct{}   // closed at the next change
	signal    chan struct{}   // asks the waker to close changed
	done      chan struct{}   // closed when the last follower leaves
}

// look is a read of the store, shared by all followers that need the same events.
type look struct {
	done  chan struct{} // closed once there is a result
	batch []cairn.Event
	err   error
}

// Following reports whether there are any followers.
func (h *Hub) Following() bool { return h.followers.Load() > 0 }

// Follows reports whether a log has followers.
func (h *Hub) Follows(log string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tails[log] != nil
}

// Append publishes events that were just appended to a log; last is the sequence of the last of them. It reports false,
// and does nothing, if the process follows no log.
func (h *Hub) Append(log string, last int64, events []cairn.Event) (published bool) {
	if len(events) == 0 || !h.Following() {
		return false
	}
	list := slices.Clone(events) // the caller's events keep their sequences
	for i := range list {
		list[i].Sequence = last - int64(len(list)) + 1 + int64(i)
	}
	h.Publish(log, list)
	return true
}

// Publish hands events that were just appended to a log, with their sequences, to the log's followers. It never blocks.
func (h *Hub) Publish(log string, events []cairn.Event) {
	if len(events) == 0 || !h.Following() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.tails[log]
	if t == nil {
		return
	}
	last := int64(-1)
	if n := len(t.events); n > 0 {
		last = t.events[n-1].Sequence
	}
	switch first := events[0].Sequence; {
	case first == last+1 && len(t.events) < 2*window:
		t.events = append(t.events, events...)
	case first == last+1:
		t.events = append(append(make([]cairn.Event, 0, 3*window), t.events[len(t.events)-window:]...), events...)
	case first > last:
		t.events = append([]cairn.Event(nil), events...)
	default:
		t.wakes++ // late: followers without it read it from the store
	}
	t.poke()
}

// Wake notifies the followers of a log that it may have more events than were published here.
func (h *Hub) Wake(log string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.tails[log]; t != nil {
		t.wakes++
		t.poke()
	}
}

// Drop notifies the followers of a log that it was dropped. It forgets the log's published events, so that followers of
// a new log with that name do not get them.
func (h *Hub) Drop(log string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.tails[log]; t != nil {
		t.events = nil
		t.wakes++
		t.poke()
	}
}

// WakeAll wakes the followers of every log.
func (h *Hub) WakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.tails {
		t.wakes++
		t.poke()
	}
}

// Logs returns the followed logs.
func (h *Hub) Logs() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := make([]string, 0, len(h.tails))
	for log := range h.tails {
		list = append(list, log)
	}
	return list
}

// poke notifies the followers of a change. The caller holds the lock.
func (t *tail) poke() {
	t.version++
	clear(t.looks)
	select {
	case t.signal <- struct{}{}:
	default: // the waker has not handled the previous change yet; it will see this one too
	}
}

func (h *Hub) join(log string) *tail {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.tails[log]
	if t == nil {
		t = &tail{looks: map[int64]*look{}, changed: make(chan struct{}), signal: make(chan struct{}, 1), done: make(chan struct{})}
		if h.tails == nil {
			h.tails, h.reads = map[string]*tail{}, make(chan struct{}, maxReads)
		}
		h.tails[log] = t
		go h.waker(t)
	}
	t.followers++
	h.followers.Add(1)
	return t
}

func (h *Hub) leave(log string, t *tail) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t.followers--
	h.followers.Add(-1)
	if t.followers == 0 {
		delete(h.tails, log)
		close(t.done)
	}
}

// waker wakes the followers of one log, so that writers do not pay for their number. It ends with the last follower.
func (h *Hub) waker(t *tail) {
	for {
		select {
		case <-t.done:
			return
		case <-t.signal:
			h.mu.Lock()
			old := t.changed
			t.changed = make(chan struct{})
			h.mu.Unlock()
			close(old)
		}
	}
}

// Follow yields every event of a log after a sequence: first history from read, then published events, with read
// filling any gap. It ends without an error when ctx is done, or with the first error of read.
func (h *Hub) Follow(ctx context.Context, log string, after int64, read Read) iter.Seq2[cairn.Event, error] {
	return func(yield func(cairn.Event, error) bool) {
		t := h.join(log)
		defer h.leave(log, t)
		seen := int64(-1) // the number of wakes at the last read that returned nothing
		for first := true; ctx.Err() == nil; first = false {
			h.mu.Lock()
			changed, wakes, version, recent := t.changed, t.wakes, t.version, t.events
			h.mu.Unlock()

			batch, covered := cut(recent, after)
			if len(batch) == 0 && (!covered || seen != wakes) {
				var err error
				if first { // another follower's read may predate this follower
					batch, err = h.read(ctx, log, after, read)
				} else {
					batch, err = h.share(ctx, t, version, log, after, read)
				}
				if err != nil {
					if ctx.Err() == nil {
						Fail(yield, err)
					}
					return
				}
				if len(batch) == 0 {
					seen, covered = wakes, true
				}
			}
			if len(batch) > 0 {
				if !deliver(ctx, batch, yield) {
					return
				}
				after = batch[len(batch)-1].Sequence
				continue
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	}
}

// deliver yields events. It reports false if the follower ends.
//
// This and Fail are functions of their own because a follower mostly waits, in many goroutines, and each copy of an
// event on the stack of a waiting one costs 600 bytes.
//
//go:noinline
func deliver(ctx context.Context, batch []cairn.Event, yield func(cairn.Event, error) bool) bool {
	for i := range batch {
		if ctx.Err() != nil || !yield(batch[i], nil) {
			return false
		}
	}
	return true
}

// Fail yields an error.
//
//go:noinline
func Fail(yield func(cairn.Event, error) bool, err error) { yield(cairn.Event{}, err) }

// read reads from the store, once a slot is free.
func (h *Hub) read(ctx context.Context, log string, after int64, read Read) ([]cairn.Event, error) {
	select {
	case h.reads <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-h.reads }()
	return read(ctx, log, after, readBatch)
}

// share reads from the store, unless another follower has read the same events since the last known change.
func (h *Hub) share(ctx context.Context, t *tail, version int64, log string, after int64, read Read) ([]cairn.Event, error) {
	h.mu.Lock()
	l := t.looks[after]
	if l == nil {
		l = &look{done: make(chan struct{})}
		if t.version == version {
			if len(t.looks) == maxLooks {
				clear(t.looks)
			}
			t.looks[after] = l
		}
		h.mu.Unlock()
		l.batch, l.err = h.read(ctx, log, after, read)
		close(l.done)
		return l.batch, l.err
	}
	h.mu.Unlock()
	select {
	case <-l.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if l.err != nil { // possibly just because the other follower's context ended
		return h.read(ctx, log, after, read)
	}
	return l.batch, nil
}

// cut returns the events after a sequence. covered reports whether they follow it without a gap.
func cut(events []cairn.Event, after int64) (rest []cairn.Event, covered bool) {
	if len(events) == 0 || events[0].Sequence > after+1 {
		return nil, false
	}
	i := after + 1 - events[0].Sequence
	if i >= int64(len(events)) {
		return nil, true
	}
	return events[i:], true
}
