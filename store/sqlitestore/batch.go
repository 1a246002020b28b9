package sqlitestore

import (
	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
)

const (
	sqlInsertBatch = `INSERT INTO events (place, data) VALUES (?1, ?2)`
	sqlGrowBatch   = `UPDATE events SET data = ?2 WHERE place = ?1`
)

const (
	// maxBatchSize is the size in bytes at which the rest of an append goes into another batch, so that a reader in the
	// middle of a large append does not decode all of it.
	maxBatchSize = 32 << 10
	// smallBatch is the size in bytes up to which later appends grow a batch, so that streamed text does not cost a row
	// for a few words. Four such rows fill a page.
	smallBatch = 980
	// mostTails bounds the number of logs whose last batch is cached.
	mostTails = 64
)

// encodeBatches encodes events into the batches that they are stored in.
func encodeBatches(events []cairn.Event) (list []*backend.Events, err error) {
	var b *backend.Events
	for i := range events {
		if b == nil || b.Size() >= maxBatchSize {
			b = &backend.Events{}
			list = append(list, b)
		}
		if err := b.Add(&events[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// insertBatches stores batches, the first of which begins with the sequence first. It returns the sequence of the last
// batch's first event.
func insertBatches(c *conn, log, first int64, list []*backend.Events) (int64, error) {
	at := first
	for _, b := range list {
		at = first
		if _, err := placeOf(log, first+int64(b.Count())-1); err != nil {
			return 0, err
		}
		place, err := placeOf(log, first)
		if err != nil {
			return 0, err
		}
		if _, err := c.exec(sqlInsertBatch, place, b.Bytes()); err != nil {
			return 0, err
		}
		first += int64(b.Count())
	}
	return at, nil
}

// tailBatch is the last batch of a log as this process wrote it, if it is small.
type tailBatch struct {
	log   int64 // the log's key
	first int64 // the sequence of its first event
	batch *backend.Events
}

// grow returns the tail with events added to it; nil if it would no longer be small.
func (t *tailBatch) grow(events []cairn.Event) (*tailBatch, error) {
	size := t.batch.Size()
	for i := range events {
		size += len(events[i].Text) + len(events[i].Data) // references to earlier events are rare
	}
	if size > smallBatch {
		return nil, nil
	}
	b := t.batch.Clone()
	for i := range events {
		if err := b.Add(&events[i]); err != nil {
			return nil, err
		}
	}
	if b.Size() > smallBatch {
		return nil, nil
	}
	return &tailBatch{t.log, t.first, b}, nil
}

// endsAt reports whether the tail is the last batch of a log whose last sequence is last.
func (t *tailBatch) endsAt(log, last int64) bool {
	return t.log == log && t.first+int64(t.batch.Count())-1 == last
}

// tails are the last batches of the logs that this process has appended to. An outdated tail is detected by the log's
// last sequence.
type tails struct {
	mu   sync.Mutex
	list map[string]*tailBatch
}

func (ts *tails) get(log string) *tailBatch {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.list[log]
}

// put caches a tail if it is small; nil removes it.
func (ts *tails) put(log string, t *tailBatch) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t == nil || t.batch.Size() >= smallBatch {
		delete(ts.list, log)
		return
	}
	if ts.list == nil {
		ts.list = map[string]*tailBatch{}
	}
	if _, there := ts.list[log]; !there && len(ts.list) >= mostTails {
		for other := range ts.list { // any one
			delete(ts.list, other)
			break
		}
	}
	ts.list[log] = t
}
