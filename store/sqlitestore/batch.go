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
	// maxBatchSize is the size in bytes from which on what else an append brings is another batch: so a reader in the
	// middle of a large append does not decode all of it.
	maxBatchSize = 32 << 10
	// smallBatch is the size in bytes up to which a batch grows by what the next append brings, so that text which is
	// streamed does not cost a row for a few words. Four such rows fill a page.
	smallBatch = 980
	// mostTails bounds the logs whose last batch is remembered.
	mostTails = 64
)

// encodeBatches returns events as the batches that they are stored in.
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

// insertBatches stores batches, of which the first begins with the sequence first, and returns the sequence of the last
// one's first event.
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

// tailBatch is the last batch of a log as this process has written it, if it is small.
type tailBatch struct {
	log   int64 // the log's key
	first int64 // the sequence of its first event
	batch *backend.Events
}

// grow returns the tail with events added to it; nil if it would not be small any more.
func (t *tailBatch) grow(events []cairn.Event) (*tailBatch, error) {
	size := t.batch.Size()
	for i := range events {
		size += len(events[i].Text) + len(events[i].Data) // a reference to what is there already is rare
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

// endsAt reports whether the tail is the last batch of a log that ends with a sequence.
func (t *tailBatch) endsAt(log, last int64) bool {
	return t.log == log && t.first+int64(t.batch.Count())-1 == last
}

// tails are the last batches of the logs that this process has appended to. A tail that is out of date is found by the
// log's last sequence.
type tails struct {
	mu   sync.Mutex
	list map[string]*tailBatch
}

func (ts *tails) get(log string) *tailBatch {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.list[log]
}

// put remembers a tail if it is small; nil is none.
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
