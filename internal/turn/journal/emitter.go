package journal

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/clock"
	"github.com/cairn-agents/cairn/internal/turn/retry"
	"github.com/cairn-agents/cairn/store/driver"
)

// Emitter writes the events of one run to its log. Events within one coalescing window, including the window that opens
// with the emitter, are written together, and adjacent deltas are merged into one event. The first text of a step, shown
// or thought, is never held back.
//
// Appends run in the background, one at a time, and a batch grows while the previous one is being appended. So a slow
// log does not slow down a model's stream, unless more than maxHeld bytes are buffered. Without a coalescing window each
// event is written before Event returns. Errors in the background are those of the next Flush, which sends the failed
// batch again.
type Emitter struct {
	ctx context.Context // the run's values; it is never cancelled
	g   *Log
	log string
	ids eventIDs

	writer driver.Writer // its Batch is the number of the last batch; changed only by the holder of flushing

	mu        sync.Mutex
	flushing  bool               // held during an append, so that batches keep their order
	idle      chan struct{}      // if set, it is closed once flushing is free
	writing   bool               // writeDue runs
	due       bool               // writeDue writes once more
	cancel    context.CancelFunc // of the appends of writeDue; nil before the first
	back      context.Context    // their context
	held      int                // approximate size of the buffer in bytes
	own       *buffers           // source of buffer and spare; nil once closed
	buffer    []cairn.Event
	batch     []cairn.Event // taken from the buffer, not known to be on the log; writer.Batch is its number
	spare     []cairn.Event // the buffer of the previous flush, for reuse
	timer     *time.Timer   // nil until first needed
	armed     bool
	early     bool // a flush followed the setting of the timer, which therefore fires too early
	lastFlush time.Time
	clock     clock.Clock    // sets the events' times
	urgent    bool           // the next text is the first of its step
	last      int64          // the log's last sequence, as far as known
	owed      *cairn.Session // if set, a row with an outbox that is not known to be on the log
	// otherWriters tracks other writers of the same step; nil if there can be none.
	otherWriters *otherWriters
}

// buffers are the two that an emitter alternates between. They are pooled across runs, since events are large and runs
// short.
type buffers [2][]cairn.Event

var bufferPool = sync.Pool{New: func() any {
	return &buffers{make([]cairn.Event, 0, 16), make([]cairn.Event, 0, 16)}
}}

// Emitter returns an emitter for a run of a session. last is the log's last sequence, as far as known. The caller
// closes it.
func (g *Log) Emitter(ctx context.Context, row *cairn.Session, runID string, last int64) *Emitter {
	own := bufferPool.Get().(*buffers)
	now := g.Now()
	e := &Emitter{ctx: context.WithoutCancel(ctx), g: g, own: own, buffer: own[0], spare: own[1], log: row.Log(), last: last,
		ids: eventIDs{row.ID, runID, row.Agent}, lastFlush: now, clock: clock.Of(row, now),
		writer: driver.Writer{Session: row.ID, Token: row.Lease.Token, ID: g.newWriter()}}
	e.owes(row)
	return e
}

// Event adds an event, which is written within the coalescing window.
func (e *Emitter) Event(ev cairn.Event) {
	now := e.g.Now()
	e.ids.put(&ev)
	ev.Time = e.clock.At(now)
	e.mu.Lock()
	if e.otherWriters != nil && e.otherWriters.has(&ev) {
		e.mu.Unlock()
		return
	}
	e.add(&ev)
	first := e.urgent && (ev.Type == cairn.EventTextDelta || ev.Type == cairn.EventThinking)
	if first {
		e.urgent = false
	} else if ev.Type == cairn.EventStepStart {
		e.urgent = true
	}
	e.added(now, first)
}

// added has the buffer written: at once, or at the end of the coalescing window. The caller holds the lock, which added
// releases.
func (e *Emitter) added(now time.Time, atOnce bool) {
	flush := atOnce || now.Sub(e.lastFlush) >= e.g.Coalesce
	wait := flush && e.g.Coalesce <= 0 || e.held >= maxHeld
	switch {
	case wait:
	case flush:
		if start, ctx := e.schedule(now); start {
			go e.writeDue(ctx)
		}
	case !e.armed:
		e.arm(now)
	}
	e.mu.Unlock()
	if wait {
		_ = e.Flush(e.ctx) // on failure, the flush before the next commit retries and reports the error
	}
}

// schedule makes a write due, which opens a window of its own. It reports whether the caller has to start writeDue, and
// with which context. The caller holds the lock.
func (e *Emitter) schedule(now time.Time) (start bool, ctx context.Context) {
	start = !e.writing
	e.due, e.writing, e.lastFlush, e.early = true, true, now, true
	if e.cancel == nil {
		e.back, e.cancel = context.WithCancel(e.ctx)
	}
	return start, e.back
}

// writeDue writes what is buffered, and once more if that is due by then.
func (e *Emitter) writeDue(ctx context.Context) {
	for {
		e.mu.Lock()
		e.writing = e.due && len(e.buffer)+len(e.batch) > 0
		e.due = false
		again := e.writing
		e.mu.Unlock()
		if !again {
			return
		}
		_ = e.Flush(ctx) // as in added
	}
}

// Handed are the events that an emitter has buffered and that a commit takes with it. Until Done or Back the emitter
// writes nothing.
type Handed struct {
	e      *Emitter
	events []cairn.Event
	held   int // their approximate size
	count  int // without the marks of the commit
}

// Hand gives what is buffered to a commit. What may be on the log already, since its append failed, is written first.
// Where commits do not append events, or where others write events of the step, everything is written and the commit
// has only its own.
func (e *Emitter) Hand(ctx context.Context) (*Handed, error) {
	if !e.g.Own || e.otherWriters != nil {
		return &Handed{e: e}, e.Flush(ctx)
	}
	if err := e.begin(ctx); err != nil {
		return nil, err
	}
	if err := e.send(ctx, e.readOtherWriters); err != nil {
		e.end()
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	h := &Handed{e: e, events: e.g.Storable(e.buffer), held: e.held}
	h.count = len(h.events)
	e.buffer, e.spare, e.held = e.spare, nil, 0
	return h, nil
}

// With returns the events of the commit: those that were handed over, and the marks of what it writes, in place of those
// that earlier calls have added.
func (h *Handed) With(marks ...cairn.Event) []cairn.Event {
	h.events = h.events[:h.count]
	return h.And(marks...)
}

// And adds further marks and returns the events of the commit.
func (h *Handed) And(marks ...cairn.Event) []cairn.Event {
	n := len(h.events)
	h.events = append(h.events, marks...)
	h.events = append(h.events[:n], h.e.g.marks(&h.e.ids, h.events[n:])...)
	return h.events
}

// Done says that the commit is in the store, which left the log at the row's position. A coalescing window opens.
func (h *Handed) Done(row *cairn.Session) {
	h.e.owes(row)
	now := h.e.g.Now()
	h.e.mu.Lock()
	h.e.lastFlush, h.e.early = now, true
	if h.e.g.Own {
		h.e.last = row.LogSequence
	}
	h.e.mu.Unlock()
	h.release(h.events[:0])
}

// Back gives the events back: the commit was refused, or nobody knows what became of it and another process will decide.
func (h *Handed) Back() {
	h.e.mu.Lock()
	own := append(h.events[:h.count], h.e.buffer...)
	h.e.buffer, h.events = own, h.e.buffer
	h.e.held += h.held
	h.e.mu.Unlock()
	h.release(h.events[:0])
}

// release lets the emitter write again, and gives it a buffer for reuse.
func (h *Handed) release(used []cairn.Event) {
	if h.e.otherWriters != nil || !h.e.g.Own {
		return
	}
	clear(used[:cap(used)])
	h.e.mu.Lock()
	if h.e.own != nil {
		h.e.spare = used
	}
	h.e.mu.Unlock()
	h.e.end()
}

// put completes an event that happens at now, and adds it.
func (e *Emitter) put(ev cairn.Event, now time.Time) {
	e.ids.put(&ev)
	ev.Time = e.clock.At(now)
	e.add(&ev)
}

// arm sets the timer to the end of the coalescing window.
func (e *Emitter) arm(now time.Time) {
	e.armed, e.early = true, false
	wait := e.g.Coalesce - now.Sub(e.lastFlush)
	if e.timer == nil {
		e.timer = time.AfterFunc(wait, e.ring)
	} else {
		e.timer.Reset(wait)
	}
}

// ring writes what was held back. A flush does not touch the timer, because most flushes are followed by another before
// it fires. When it fires early, ring sets it again, to the end of the window that the flush opened.
func (e *Emitter) ring() {
	now := e.g.Now()
	e.mu.Lock()
	due, start := e.armed && !e.early, false
	var ctx context.Context
	e.armed = false
	if due {
		start, ctx = e.schedule(now)
	} else if e.early && len(e.buffer) > 0 {
		e.arm(now)
	}
	e.mu.Unlock()
	if start {
		e.writeDue(ctx)
	}
}

func delta(t cairn.EventType) bool {
	return t == cairn.EventTextDelta || t == cairn.EventThinking || t == cairn.EventToolArgDelta
}

// maxHeld is how many bytes are buffered at most, approximately and except for the event that reaches the limit. At the
// limit the caller of Event waits for an append.
const maxHeld = 1 << 20

// eventSize is about what an event takes in memory beside its text and JSON.
const eventSize = 512

// maxMerged is the size up to which deltas are merged, since each merge copies the text so far.
const maxMerged = 32 << 10

// add appends an event to the buffer. It merges a delta into the previous one of the same text, and splits a delta that
// is too large for the log.
func (e *Emitter) add(ev *cairn.Event) {
	limit := e.g.limit()
	e.held += len(ev.Text) + payload(ev)
	if !delta(ev.Type) {
		e.held += eventSize
		if mayNotFit(ev, limit) {
			e.buffer = append(e.buffer, fit(*ev, limit)...)
		} else {
			e.buffer = append(e.buffer, *ev)
		}
		return
	}
	if n := len(e.buffer); n > 0 {
		prev := &e.buffer[n-1]
		if prev.Type == ev.Type && prev.CallID == ev.CallID && prev.Step == ev.Step && len(prev.Text)+len(ev.Text) <= min(limit, maxMerged) {
			prev.Text += ev.Text
			return
		}
	}
	e.held += eventSize
	for len(ev.Text) > limit {
		e.held += eventSize
		cut := limit
		for cut > limit-utf8.UTFMax && !utf8.RuneStart(ev.Text[cut]) {
			cut--
		}
		part := *ev
		part.Text, ev.Text = ev.Text[:cut], ev.Text[cut:]
		e.buffer = append(e.buffer, part)
	}
	e.buffer = append(e.buffer, *ev)
}

// Flush writes what is buffered. A batch whose append failed is sent first and unchanged, since it may be on the log
// already.
func (e *Emitter) Flush(ctx context.Context) error {
	if err := e.begin(ctx); err != nil {
		return err
	}
	defer e.end()
	for {
		all := e.take(e.g.Now()) // now that it is its turn: a window opens with the append
		if err := e.send(ctx, e.readOtherWriters); err != nil || all {
			return err
		}
	}
}

// begin waits until no append is under way and takes its place.
func (e *Emitter) begin(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.flushing {
		if e.idle == nil {
			e.idle = make(chan struct{})
		}
		idle := e.idle
		e.mu.Unlock()
		select {
		case <-idle:
		case <-ctx.Done():
		}
		e.mu.Lock()
		if err := context.Cause(ctx); err != nil && e.flushing {
			return err
		}
	}
	e.flushing = true
	return nil
}

// end allows the next append to begin.
func (e *Emitter) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.flushing = false
	if e.idle != nil {
		close(e.idle)
		e.idle = nil
	}
}

// take moves what is buffered to the batch to be sent. It reports false if an earlier batch is still unsent.
func (e *Emitter) take(now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lastFlush, e.early = now, true
	if len(e.batch) > 0 {
		return false
	}
	if len(e.buffer) > 0 {
		e.batch, e.buffer, e.spare, e.held = e.buffer, e.spare, nil, 0
		e.writer.Batch++
	}
	return true
}

// send appends the batch, if there is one. On failure the batch stays, so nothing is lost while the run can continue.
// stale handles an append that another writer's append preceded.
func (e *Emitter) send(ctx context.Context, stale func(context.Context) error) error {
	for {
		batch, err := e.unsent()
		if err != nil || len(batch) == 0 {
			return err
		}
		var last int64
		err = retry.Storage(ctx, e.g.Logger, func() (err error) {
			if err := e.settle(ctx); err != nil {
				return err
			}
			last, err = e.g.AppendAs(ctx, e.log, e.expects(), e.writer, batch...)
			return err
		})
		if e.otherWriters != nil && errors.Is(err, cairn.ErrStale) {
			if err = stale(ctx); err == nil {
				continue
			}
		}
		if (errors.Is(err, cairn.ErrInvalid) || errors.Is(err, cairn.ErrTooLarge)) && e.dropUnstorable(batch) {
			continue
		}
		if err == nil {
			e.sent(batch, last)
		}
		return err
	}
}

// dropUnstorable removes from a rejected batch, none of which is on the log, the events that the log cannot keep. It
// reports whether there were any.
func (e *Emitter) dropUnstorable(batch []cairn.Event) bool {
	left := e.g.Storable(slices.Clone(batch))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.batch = left
	return len(left) < len(batch)
}

// unsent returns the unsent batch, or why the effect must be abandoned.
func (e *Emitter) unsent() ([]cairn.Event, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.otherWriters != nil && e.otherWriters.lost != nil {
		return nil, e.otherWriters.lost
	}
	return e.batch, nil
}

// sent drops a batch that is on the log, which has its own copy.
func (e *Emitter) sent(batch []cairn.Event, last int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = last
	clear(batch)
	e.batch, e.spare = nil, batch[:0]
}

// Position returns the log's last sequence, as far as the run knows.
func (e *Emitter) Position() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last
}

// Close stops the timer and cancels an append in the background. Buffered events are lost.
func (e *Emitter) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cancel != nil {
		e.cancel()
	}
	if e.armed {
		e.timer.Stop()
		e.armed, e.early = false, false
	}
	if e.own != nil && e.spare != nil { // otherwise a flush in progress still uses one of them
		clear(e.buffer)
		*e.own = buffers{e.buffer[:0], e.spare[:0]}
		bufferPool.Put(e.own)
	}
	e.own, e.due, e.held = nil, false, 0
	e.buffer, e.batch, e.spare = nil, nil, nil
}

// At sets the log's last sequence after other writers have appended to it.
func (e *Emitter) At(last int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = last
}

// Attempt returns the name of the attempt that the emitter belongs to. No other attempt at an effect has the same name.
func (e *Emitter) Attempt() string {
	if e.otherWriters != nil {
		return e.otherWriters.name
	}
	return e.writer.ID
}

// Check returns why the log would reject an event, with room left for what the log sets.
func (e *Emitter) Check(ev cairn.Event) error {
	e.ids.put(&ev)
	return driver.CheckEvent(&ev, e.g.MaxEvent()-room)
}
