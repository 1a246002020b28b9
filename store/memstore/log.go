package memstore

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/tail"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

// Log is a driver.Log in memory. It is safe for concurrent use.
type Log struct {
	max int
	hub tail.Hub

	mu      sync.RWMutex
	closed  bool
	logs    map[string]*events
	dropped map[string]time.Time // to the time of the drop
	now     func() time.Time
}

// events is one log: its remaining events and the sequence of the last event ever appended.
type events struct {
	chunks  [][]cairn.Event // in order, none empty; only appended to, so that readers may hold slices of them
	count   int             // of the events in chunks
	last    int64
	sweepAt time.Time         // when it is due for a sweep; zero before its first event
	session string            // the first to write under a token; usually the only one
	fence   fence             // of that session
	fences  map[string]*fence // of the other sessions
}

// fence is the highest token that a log has seen for a session, with the last batch of each writer under that token.
type fence struct {
	token   int64
	batches []batch
}

// batch is the last batch of a writer. last is the sequence at which it ended.
type batch struct {
	writer       string
	number, last int64
}

// fenceOf returns the fence of a session and adds it if it does not exist.
func (e *events) fenceOf(session string) *fence {
	if e.session == "" {
		e.session = session
	}
	if session == e.session {
		return &e.fence
	}
	f := e.fences[session]
	if f == nil {
		f = &fence{}
		if e.fences == nil {
			e.fences = map[string]*fence{}
		}
		e.fences[session] = f
	}
	return f
}

// batch returns the last batch of a writer and adds an empty one if there is none.
func (f *fence) batch(writer string) *batch {
	for i := range f.batches {
		if f.batches[i].writer == writer {
			return &f.batches[i]
		}
	}
	f.batches = append(f.batches, batch{writer: writer})
	return &f.batches[len(f.batches)-1]
}

// see records a writer's token and, if the batch is numbered, the writer's batch, which ended at the sequence last.
func (f *fence) see(w *driver.Writer, numbered bool, last int64) {
	if w.Token > f.token {
		f.token, f.batches = w.Token, f.batches[:0]
	}
	if numbered {
		b := f.batch(w.ID)
		b.number, b.last = w.Batch, last
	}
}

func newLog(max int, now func() time.Time) *Log {
	if max <= 0 {
		max = driver.DefaultMaxEvent
	}
	return &Log{max: max, logs: map[string]*events{}, dropped: map[string]time.Time{}, now: now}
}

func (l *Log) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.hub.WakeAll()
}

func (l *Log) check(ctx context.Context) error {
	if l.closed {
		return cairn.Errorf(cairn.ErrClosed, "the event log is closed")
	}
	return ctx.Err()
}

// checkLog returns the error of check, or the error for a log that was dropped.
func (l *Log) checkLog(ctx context.Context, log string) error {
	if err := l.check(ctx); err != nil {
		return err
	}
	if _, dropped := l.dropped[log]; dropped {
		return driver.Dropped(log)
	}
	return nil
}

// Self implements driver.Log.
func (l *Log) Self() driver.Log { return l }

// MaxEvent implements driver.Log.
func (l *Log) MaxEvent() int { return l.max }

// Append implements driver.Log.
func (l *Log) Append(ctx context.Context, log string, expect int64, list ...cairn.Event) (int64, error) {
	return l.append(ctx, log, expect, nil, list)
}

// AppendFenced implements driver.Fencer.
func (l *Log) AppendFenced(ctx context.Context, log string, expect int64, w driver.Writer, list ...cairn.Event) (int64, error) {
	return l.append(ctx, log, expect, &w, list)
}

// append adds events to a log. Without a writer the append is not fenced.
func (l *Log) append(ctx context.Context, log string, expect int64, w *driver.Writer, list []cairn.Event) (int64, error) {
	for i := range list {
		if err := driver.CheckEvent(&list[i], l.max); err != nil {
			return 0, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.checkLog(ctx, log); err != nil {
		return 0, err
	}
	e := l.logs[log]
	if e == nil {
		e = &events{}
	}
	numbered := w != nil && w.Batch > 0 && len(list) > 0
	if w != nil {
		f := e.fenceOf(w.Session)
		if w.Token < f.token {
			return 0, driver.Fenced(log, *w, f.token)
		}
		if numbered && w.Token == f.token {
			if b := f.batch(w.ID); w.Batch <= b.number {
				return b.last, nil
			}
		}
	}
	if expect != driver.AnySequence && expect != e.last {
		return 0, driver.LogChanged(log, expect, e.last)
	}
	if len(list) > 0 {
		l.add(log, e, list, nil)
	}
	if w != nil {
		e.fenceOf(w.Session).see(w, numbered, e.last)
	}
	if w != nil || len(list) > 0 { // keep the fence even before the first event
		l.logs[log] = e
	}
	return e.last, nil
}

// publish calls apply, which applies a delta to its session, and appends the delta's events. It does neither if the log
// was dropped.
func (l *Log) publish(ctx context.Context, d *plan.Delta, apply func() *cairn.Session) (*cairn.Session, error) {
	if len(d.Events) == 0 {
		return apply(), nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	log := d.Row.Log()
	if err := l.checkLog(ctx, log); err != nil {
		return nil, err
	}
	e := l.logs[log]
	if e == nil {
		e = &events{}
		l.logs[log] = e
	}
	d.Logged(e.last)
	row := apply() // after which the time of the events is known
	l.add(log, e, d.Events, d.Finish)
	if d.Fence {
		e.fenceOf(row.ID).see(&driver.Writer{Token: row.Lease.Token}, false, e.last)
	}
	return row, nil
}

// add appends events to a log, and calls finish, unless it is nil, with the log's copy of each. The caller holds the
// lock, so that they are published in order.
func (l *Log) add(log string, e *events, list []cairn.Event, finish func(*cairn.Event)) {
	for len(list) > 0 {
		added := e.fill(list)
		list = list[len(added):]
		for i := range added {
			if finish != nil {
				finish(&added[i])
			}
		}
		l.hub.Publish(log, added)
	}
	if now := l.clock(); e.sweepAt.IsZero() || now.Before(e.sweepAt) {
		e.sweepAt = now
	}
}

// fill appends as many events of a list as the last chunk has room for, and returns them with their sequences. If that
// is full it begins a chunk with room for as many events as there are, so that a log that is not read grows without
// copies.
func (e *events) fill(list []cairn.Event) []cairn.Event {
	last := len(e.chunks) - 1
	if last < 0 || len(e.chunks[last]) == cap(e.chunks[last]) {
		e.chunks = append(e.chunks, make([]cairn.Event, 0, max(len(list), e.count)))
		last++
	}
	chunk := e.chunks[last]
	n := len(chunk)
	chunk = append(chunk, list[:min(len(list), cap(chunk)-n)]...)
	for i := n; i < len(chunk); i++ {
		e.last++
		chunk[i].Sequence = e.last
	}
	e.chunks[last], e.count = chunk, e.count+len(chunk)-n
	return chunk[n:]
}

// first returns the sequence of the oldest remaining event; last+1 if there is none.
func (e *events) first() int64 { return e.last - int64(e.count) + 1 }

// at returns the index of the chunk that holds a sequence, which is from first to last.
func (e *events) at(sequence int64) int {
	i, _ := slices.BinarySearchFunc(e.chunks, sequence, func(chunk []cairn.Event, sequence int64) int {
		return cmp.Compare(chunk[len(chunk)-1].Sequence, sequence)
	})
	return i
}

// read returns n events from a sequence on, all of which exist. It returns nil if they are in several chunks.
func (e *events) read(from int64, n int) []cairn.Event {
	chunk := e.chunks[e.at(from)]
	rest := chunk[from-chunk[0].Sequence:]
	if len(rest) < n {
		return nil
	}
	return rest[:n:n]
}

// merge puts all events into one chunk, with room for as many more: so few reads find several chunks, however often
// events are read between appends.
func (e *events) merge() {
	whole := make([]cairn.Event, 0, 2*e.count)
	for _, chunk := range e.chunks {
		whole = append(whole, chunk...)
	}
	e.chunks = [][]cairn.Event{whole}
}

// trim removes the events before a sequence.
func (e *events) trim(before int64) {
	switch first := e.first(); {
	case before <= first:
		return
	case before > e.last:
		e.chunks, e.count = nil, 0
		return
	}
	i := e.at(before)
	e.chunks = slices.Clone(e.chunks[i:])
	e.chunks[0] = slices.Clone(e.chunks[0][before-e.chunks[0][0].Sequence:])
	e.count = int(e.last - before + 1)
}

// clock returns the time in UTC, truncated to microseconds.
func (l *Log) clock() time.Time { return l.now().UTC().Truncate(time.Microsecond) }

// Read implements driver.Log.
func (l *Log) Read(ctx context.Context, log string, after int64, limit int) ([]cairn.Event, error) {
	if limit <= 0 {
		limit = 1000
	}
	l.mu.RLock()
	list, more, err := l.read(ctx, log, after, limit)
	l.mu.RUnlock()
	if err != nil || !more || list != nil {
		return list, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.logs[log]; e != nil {
		e.merge()
	}
	list, _, err = l.read(ctx, log, after, limit)
	return list, err
}

// read returns the events of a page. more reports whether there are any; if the list is nil then, they are in several
// chunks. The caller holds the lock.
func (l *Log) read(ctx context.Context, log string, after int64, limit int) (list []cairn.Event, more bool, err error) {
	if err := l.checkLog(ctx, log); err != nil {
		return nil, false, err
	}
	e := l.logs[log]
	if e == nil || after >= e.last {
		return nil, false, nil
	}
	after = max(after, 0)
	if first := e.first(); after+1 < first {
		return nil, false, driver.Trimmed(log, after, first)
	}
	return e.read(after+1, int(min(int64(limit), e.last-after))), true, nil
}

// Follow implements driver.Log.
func (l *Log) Follow(ctx context.Context, log string, after int64) iter.Seq2[cairn.Event, error] {
	return l.hub.Follow(ctx, log, after, l.Read)
}

// Bounds implements driver.Log.
func (l *Log) Bounds(ctx context.Context, log string) (first, last int64, err error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if err := l.checkLog(ctx, log); err != nil {
		return 0, 0, err
	}
	e := l.logs[log]
	if e == nil {
		return 1, 0, nil
	}
	return e.first(), e.last, nil
}

// Trim implements driver.Log.
func (l *Log) Trim(ctx context.Context, log string, before int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(ctx); err != nil {
		return err
	}
	if e := l.logs[log]; e != nil {
		e.trim(before)
	}
	return nil
}

// Unswept implements driver.LogSweeper.
func (l *Log) Unswept(ctx context.Context, age time.Duration, q driver.PageQuery) (driver.Page[string], error) {
	var page driver.Page[string]
	at, name, err := driver.ParseSweepCursor(q.Cursor)
	if err != nil {
		return page, err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if err := l.check(ctx); err != nil {
		return page, err
	}
	till := l.clock().Add(-age)
	var found []string
	compare := func(log string, at time.Time, name string) int {
		return cmp.Or(l.logs[log].sweepAt.Compare(at), strings.Compare(log, name))
	}
	for log, e := range l.logs {
		if !e.sweepAt.IsZero() && !till.Before(e.sweepAt) && (name == "" || compare(log, at, name) > 0) {
			found = append(found, log)
		}
	}
	slices.SortFunc(found, func(a, b string) int { return compare(a, l.logs[b].sweepAt, b) })
	if n := q.Size(); len(found) > n {
		found = found[:n]
		page.Next = driver.SweepCursor(l.logs[found[n-1]].sweepAt, found[n-1])
	}
	page.Items = found
	return page, nil
}

// Swept implements driver.LogSweeper.
func (l *Log) Swept(ctx context.Context, log string, last int64, next time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(ctx); err != nil {
		return err
	}
	e := l.logs[log]
	if e == nil || e.sweepAt.IsZero() {
		return nil
	}
	e.sweepAt = l.clock()
	if e.last == last {
		e.sweepAt = e.sweepAt.Add(next)
	}
	return nil
}

// Drop implements driver.Log.
func (l *Log) Drop(ctx context.Context, log string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.check(ctx); err != nil {
		return err
	}
	now := l.now()
	if len(l.dropped)%256 == 255 {
		maps.DeleteFunc(l.dropped, func(_ string, at time.Time) bool { return now.Sub(at) > driver.DroppedFor })
	}
	delete(l.logs, log)
	l.dropped[log] = now
	l.hub.Drop(log)
	return nil
}
