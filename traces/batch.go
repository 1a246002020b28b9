package traces

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// batch has spans of several trees that are exported together, and what is recorded then.
type batch struct {
	x     *Exporter
	w     *writer
	trees map[string]*kept
	rows  []string
}

// kept is a tree and the record that it was read from.
type kept struct {
	tree
	version int64
	was     int64 // the recorded position
}

const (
	// pageEvents is the number of events that are read at once.
	pageEvents = 1000
	// maxSpans is the number of spans that are sent at once.
	maxSpans = 512
	// recordTTL is for how long the position in a log is kept after the last export of the tree.
	recordTTL = 30 * 24 * time.Hour
)

func (x *Exporter) batch(ctx context.Context) *batch {
	b := &batch{x: x, w: &writer{opts: &x.opts, resource: x.opts.Resource}, trees: map[string]*kept{}}
	if x.opts.Content != nil {
		b.w.said = x.opts.Content.said(ctx, x.eng)
	}
	return b
}

// tree adds the spans of a tree's events since its last export.
func (b *batch) tree(ctx context.Context, row *cairn.Session) error {
	key := driver.TraceKey(row.Log())
	k := b.trees[key]
	if k == nil {
		var err error
		if k, err = b.x.read(ctx, key, row); err != nil {
			return err
		}
		b.trees[key] = k
	}
	b.w.root = row
	f := fold{&k.tree, b.w}
	for {
		events, err := b.x.eng.History(ctx, row.ID, cairn.Cursor{Incarnation: row.Incarnation, Sequence: k.At}, pageEvents)
		var trimmed *store.TrimmedError
		switch {
		case errors.As(err, &trimmed):
			k.At, k.Sessions = max(trimmed.First-1, k.At+1), nil // the log has nothing of what was open
			continue
		case errors.Is(err, cairn.ErrNotFound): // deleted meanwhile
			delete(b.trees, key)
			return nil
		case err != nil:
			return err
		}
		for i := range events {
			f.read(&events[i])
		}
		if len(b.w.spans) >= maxSpans {
			if err := b.send(ctx); err != nil {
				return err
			}
			b.trees[key] = k
		}
		if len(events) < pageEvents {
			return nil
		}
	}
}

// read returns what is recorded of a tree. A tree without a record begins at the beginning of its log or, if it is older
// than what is exported, at its root's latest run.
func (x *Exporter) read(ctx context.Context, key string, row *cairn.Session) (*kept, error) {
	k := &kept{}
	r, err := x.records.Get(ctx, driver.TraceRecords, key)
	switch {
	case err == nil:
		if err := json.Unmarshal(r.Value, &k.tree); err != nil {
			return nil, cairn.Errorf(cairn.ErrCorrupt, "traces: record of session %q: %w", row.ID, err)
		}
		k.version, k.was = r.Version, k.At
		return k, nil
	case !errors.Is(err, cairn.ErrNotFound):
		return nil, err
	}
	if row.CreatedAt.Before(x.feed.Since) {
		runs, err := x.eng.Runs(ctx, row.ID, store.PageQuery{Newest: true, Limit: 1})
		if err != nil {
			return nil, err
		}
		for i := range runs.Items {
			k.At = runs.Items[i].StartSequence
		}
	}
	return k, nil
}

// send exports the spans, and records then how far the trees were exported. A tree that another process has exported
// meanwhile keeps that record: the spans were the same.
func (b *batch) send(ctx context.Context) error {
	for spans := b.w.spans; len(spans) > 0; {
		n := min(len(spans), maxSpans)
		if err := b.x.to.ExportSpans(ctx, spans[:n]); err != nil {
			return err
		}
		spans = spans[n:]
	}
	b.w.spans = b.w.spans[:0]
	for key, k := range b.trees {
		if k.At == k.was && k.version != 0 {
			continue
		}
		value := encode(&k.tree)
		if len(value) > driver.MaxRecordBytes {
			value = encode(&tree{At: k.At}) // what is open is lost
			k.Sessions = nil
		}
		r, err := b.x.records.Put(ctx, store.RecordWrite{Namespace: driver.TraceRecords, Key: key, Value: value, Seen: k.version, TTL: recordTTL})
		switch {
		case errors.Is(err, cairn.ErrStale):
		case err != nil:
			return err
		default:
			k.version, k.was = r.Version, k.At
		}
	}
	clear(b.trees)
	for _, row := range b.rows {
		b.x.feed.done[row] = true
	}
	b.rows = nil
	return nil
}
