package effects

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/limits"
	"github.com/cairn-agents/cairn/store"
)

// emitter writes the events of one run to its log. Events that come within a short time of each other are written
// together, those at its beginning too, and neighbouring deltas become one event; the first delta of a step is never held back.
type emitter struct {
	ctx context.Context // the run's values; it is never cancelled
	fx  *Effects
	log string
	ids eventIDs

	flushing sync.Mutex   // held while appending, so that batches keep their order
	writer   store.Writer // with the number of the last batch

	mu        sync.Mutex
	own       *buffers // where buffer and spare came from; nil once closed
	buffer    []cairn.Event
	batch     []cairn.Event // taken from the buffer and not known to be in the log; its number is the writer's
	spare     []cairn.Event // the buffer of the flush before, to be used again
	timer     *time.Timer   // nil until it is first needed
	armed     bool
	early     bool // there was a flush after the timer was set: it rings too early
	lastFlush time.Time
	clock     clock // tells events their times
	urgent    bool  // the next delta is the first of its step
	last      int64 // the log's last sequence as far as known
	// rivals are those who may write of the same step; nil if there can be none.
	rivals *rivals
}

// eventIDs are what every event of a run has in common.
type eventIDs struct{ session, run, agent string }

func (i *eventIDs) put(ev *cairn.Event) { ev.SessionID, ev.RunID, ev.Agent = i.session, i.run, i.agent }

// buffers are the two that an emitter takes turns with. They are kept between runs, since events are large and runs
// short.
type buffers [2][]cairn.Event

var bufferPool = sync.Pool{New: func() any {
	return &buffers{make([]cairn.Event, 0, 16), make([]cairn.Event, 0, 16)}
}}

func (fx *Effects) newEmitter(ctx context.Context, row *cairn.Session, runID string, last int64) *emitter {
	own := bufferPool.Get().(*buffers)
	return &emitter{ctx: context.WithoutCancel(ctx), fx: fx, own: own, buffer: own[0], spare: own[1], log: row.Log(), last: last,
		ids: eventIDs{row.ID, runID, row.Agent}, lastFlush: fx.Now(), clock: fx.clockOf(row),
		writer: store.Writer{Session: row.ID, Token: row.Lease.Token, ID: fx.newWriter()}}
}

// newWriter returns a name for a writer that no other one has.
func (fx *Effects) newWriter() string {
	var room [64]byte
	return string(strconv.AppendInt(append(room[:0], fx.writer...), fx.writers.Add(1), 36))
}

// append writes events of a session to its log, unless the lease has been lost and the log can tell.
func (fx *Effects) append(ctx context.Context, log string, expect int64, w store.Writer, events ...cairn.Event) (int64, error) {
	if f, ok := fx.Log.(store.Fencer); ok {
		return f.AppendFenced(ctx, log, expect, w, events...)
	}
	if len(events) == 0 {
		return 0, nil
	}
	return fx.Log.Append(ctx, log, expect, events...)
}

// event hands an event over. It is written within the coalescing window.
func (e *emitter) event(ev cairn.Event) {
	now := e.fx.Now()
	e.ids.put(&ev)
	ev.Time = e.clock.at(now)
	e.mu.Lock()
	if e.rivals != nil && e.rivals.has(&ev) {
		e.mu.Unlock()
		return
	}
	e.add(&ev)
	isDelta := delta(ev.Type)
	flush := now.Sub(e.lastFlush) >= e.fx.Coalesce || (isDelta && e.urgent)
	if isDelta {
		e.urgent = false
	} else if ev.Type == cairn.EventStepStart {
		e.urgent = true
	}
	if !flush && !e.armed {
		e.arm(now)
	}
	e.mu.Unlock()
	if flush {
		_ = e.write(e.ctx, now) // after a failure the flush before the next commit tries again, and reports
	}
}

// arm sets the timer to the end of the coalescing window.
func (e *emitter) arm(now time.Time) {
	e.armed, e.early = true, false
	wait := e.fx.Coalesce - now.Sub(e.lastFlush)
	if e.timer == nil {
		e.timer = time.AfterFunc(wait, e.ring)
	} else {
		e.timer.Reset(wait)
	}
}

// ring writes what was held back. A flush leaves the timer as it is, because most are followed by another before it
// rings; then it is set once more, to the window that the flush opened.
func (e *emitter) ring() {
	e.mu.Lock()
	due := e.armed && !e.early
	e.armed = false
	if e.early && len(e.buffer) > 0 {
		e.arm(e.fx.Now())
	}
	e.mu.Unlock()
	if due {
		_ = e.flush(e.ctx)
	}
}

func delta(t cairn.EventType) bool {
	return t == cairn.EventTextDelta || t == cairn.EventThinking || t == cairn.EventToolArgDelta
}

// add puts an event into the buffer, joined with the one before where both are deltas of the same text, and split
// where it is too large for the log.
func (e *emitter) add(ev *cairn.Event) {
	limit := e.fx.eventLimit()
	if !delta(ev.Type) {
		if len(ev.Data) > limit || len(ev.Patch) > 0 || ev.Error != nil || ev.Usage != nil && len(ev.Usage.Custom) > 0 {
			e.buffer = append(e.buffer, fit(*ev, limit)...)
		} else {
			e.buffer = append(e.buffer, *ev)
		}
		return
	}
	if n := len(e.buffer); n > 0 {
		prev := &e.buffer[n-1]
		if prev.Type == ev.Type && prev.CallID == ev.CallID && prev.Step == ev.Step && len(prev.Text)+len(ev.Text) <= limit {
			prev.Text += ev.Text
			return
		}
	}
	for len(ev.Text) > limit {
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

// eventLimit returns how many bytes of text or JSON an event can carry beside its ids, even if every byte is escaped.
func (fx *Effects) eventLimit() int { return fx.Log.MaxEvent()/6 - 640 }

// fit makes an event small enough for the log: a large patch becomes several, any other large payload is cut and marked.
func fit(ev cairn.Event, limit int) []cairn.Event {
	if len(ev.Patch) > 0 {
		return fitPatch(ev, limit)
	}
	if len(ev.Data) > limit && ev.Type != cairn.EventCustom { // a tool was told if its event is too large
		ev.Data, ev.Truncated = truncate(ev.Data, limit), true
	}
	ev.Error = storable(ev.Error)
	if ev.Error != nil && len(ev.Error.Message) > limit/2 {
		short := *ev.Error
		short.Message, short.Details, short.Cause = limits.Cut(short.Message, limit/2), nil, nil
		ev.Error, ev.Truncated = &short, true
	}
	if ev.Usage != nil && customBytes(ev.Usage) > limit/2 {
		short := *ev.Usage
		short.Custom = nil
		ev.Usage, ev.Truncated = &short, true
	}
	return []cairn.Event{ev}
}

func customBytes(u *cairn.Usage) (n int) {
	for name := range u.Custom {
		n += len(name) + 32
	}
	return n
}

func fitPatch(ev cairn.Event, limit int) []cairn.Event {
	var list []cairn.Event
	size, from := 0, 0
	flush := func(to int) {
		if to > from {
			part := ev
			part.Patch = ev.Patch[from:to]
			list = append(list, part)
		}
		size, from = 0, to
	}
	for i, op := range ev.Patch {
		n := len(op.Path) + len(op.Value) + 64
		if size+n > limit {
			flush(i)
		}
		if n > limit { // a reader that meets this reads the state from the store
			part := ev
			part.Patch, part.Truncated, part.Name = nil, true, limits.Cut(op.Path, limit)
			list = append(list, part)
			from = i + 1
			continue
		}
		size += n
	}
	flush(len(ev.Patch))
	return list
}

// truncate returns the beginning of a JSON value as a JSON string of at most about limit bytes.
func truncate(raw json.RawMessage, limit int) json.RawMessage {
	text := string(raw)
	var s string
	if json.Unmarshal(raw, &s) == nil {
		text = s
	}
	short, _ := json.Marshal(limits.Cut(text, limit/6)) // a string always encodes
	return short
}

// flush writes what is buffered.
func (e *emitter) flush(ctx context.Context) error { return e.write(ctx, e.fx.Now()) }

// write writes what is buffered. A batch that could not be written before comes first, as it was, since it may be there.
func (e *emitter) write(ctx context.Context, now time.Time) error {
	e.flushing.Lock()
	defer e.flushing.Unlock()
	for {
		all := e.take(now)
		if err := e.send(ctx); err != nil || all {
			return err
		}
	}
}

// take makes what is buffered the batch to be sent, and reports whether it could: there may be an earlier batch.
func (e *emitter) take(now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lastFlush, e.early = now, true
	if len(e.batch) > 0 {
		return false
	}
	if len(e.buffer) > 0 {
		e.batch, e.buffer, e.spare = e.buffer, e.spare, nil
		e.writer.Batch++
	}
	return true
}

// send appends the batch, if there is one. If that fails the batch stays: nothing is lost as long as the run can go on.
func (e *emitter) send(ctx context.Context) error {
	for {
		batch, err := e.unsent()
		if err != nil || len(batch) == 0 {
			return err
		}
		var last int64
		err = e.fx.persist(ctx, func() (err error) {
			last, err = e.fx.append(ctx, e.log, e.expects(), e.writer, batch...)
			return err
		})
		if e.rivals != nil && errors.Is(err, cairn.ErrStale) {
			if err = e.heed(ctx); err == nil {
				continue
			}
		}
		if unkeepable(err) && e.sift(batch) {
			continue
		}
		if err == nil {
			e.sent(batch, last)
		}
		return err
	}
}

// sift takes out of a batch that the log refuses, of which it has nothing, the events that it cannot keep, and reports
// whether there were any: rather a hole in the log than a run that cannot go on.
func (e *emitter) sift(batch []cairn.Event) bool {
	left := slices.DeleteFunc(slices.Clone(batch), func(ev cairn.Event) bool {
		err := store.CheckEvent(&ev, e.fx.Log.MaxEvent()-64)
		if err != nil {
			e.fx.Logger.Error("an event was left out, since the log cannot keep it", "session", ev.SessionID, "run", ev.RunID, "type", ev.Type, "error", err)
		}
		return err != nil
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.batch = left
	return len(left) < len(batch)
}

// unsent returns the batch, or why the effect has to give up.
func (e *emitter) unsent() ([]cairn.Event, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.rivals != nil && e.rivals.lost != nil {
		return nil, e.rivals.lost
	}
	return e.batch, nil
}

// sent lets go of a batch that is in the log, which has its own copy.
func (e *emitter) sent(batch []cairn.Event, last int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = last
	clear(batch)
	e.batch, e.spare = nil, batch[:0]
}

// position returns the log's last sequence as far as the run knows.
func (e *emitter) position() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last
}

// close stops the timer. What is still buffered is lost.
func (e *emitter) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.armed {
		e.timer.Stop()
		e.armed, e.early = false, false
	}
	if e.own != nil && e.spare != nil { // else a flush is under way with one of them
		clear(e.buffer)
		*e.own = buffers{e.buffer[:0], e.spare[:0]}
		bufferPool.Put(e.own)
	}
	e.own = nil
	e.buffer, e.batch, e.spare = nil, nil, nil
}
