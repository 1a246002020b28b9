package traces

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// feed is the place of an exporter in a store's usage rows.
type feed struct {
	position
	// done are the rows after the cursor whose steps were exported.
	done map[string]bool
}

const (
	// pageRows is the number of rows in a page. Rows of the last page are read again in each interval.
	pageRows = 200
	// settled is the age from which on a row has no row before it that is still to become visible.
	settled = 5 * time.Second
)

// rowKey identifies a row.
func rowKey(r *cairn.UsageRow) string {
	return fmt.Sprintf("%d %d %s %s", r.At.UnixNano(), r.Step, r.RunID, r.SessionID)
}

// pass exports what the rows after the cursor name.
func (x *Exporter) pass(ctx context.Context, now time.Time) error {
	before := x.feed.Cursor
	b := x.batch(ctx)
	whole := true // everything up to here is exported, and old enough
	cursor := before
	var passed []cairn.UsageRow
	for at := x.feed.Cursor; ; {
		page, err := x.eng.UsageRows(ctx, store.PageQuery{Cursor: at, Limit: pageRows})
		if err != nil {
			return err
		}
		late, err := x.trees(ctx, b, page.Items)
		if err != nil {
			return err
		}
		newest := page.Items[max(len(page.Items)-1, 0):]
		whole = whole && !late && len(newest) == 1 && now.Sub(newest[0].At) > settled
		if at = page.Next; at == "" {
			break
		}
		if whole {
			cursor, passed = at, append(passed, page.Items...)
		}
	}
	if err := b.send(ctx); err != nil {
		return err
	}
	if cursor == before {
		return nil
	}
	x.feed.pass(cursor, passed)
	_, err := x.records.Put(ctx, store.RecordWrite{Namespace: driver.TraceRecords, Key: cursorKey, Value: encode(x.feed.position), Seen: store.AnyVersion})
	return err
}

// pass moves the cursor, and drops the rows that are before it from now on.
func (f *feed) pass(cursor string, rows []cairn.UsageRow) {
	f.Cursor = cursor
	for i := range rows {
		delete(f.done, rowKey(&rows[i]))
	}
}

// trees exports the trees of the rows that are not done. It reports whether some events are not on their log yet.
func (x *Exporter) trees(ctx context.Context, b *batch, rows []cairn.UsageRow) (late bool, err error) {
	sessions := map[string]map[string]bool{} // of each root
	var roots []string
	for i := range rows {
		r := &rows[i]
		if r.RootID == "" || r.At.Before(x.feed.Since) || x.feed.done[rowKey(r)] {
			continue
		}
		if sessions[r.RootID] == nil {
			sessions[r.RootID] = map[string]bool{}
			roots = append(roots, r.RootID)
		}
		sessions[r.RootID][r.SessionID] = true
	}
	behind := map[string]bool{}
	for _, root := range roots {
		ready, err := x.tree(ctx, b, root, sessions[root])
		if err != nil {
			return false, err
		}
		behind[root] = !ready
		late = late || !ready
	}
	for i := range rows {
		if r := &rows[i]; sessions[r.RootID] != nil && !behind[r.RootID] {
			b.rows = append(b.rows, rowKey(r))
		}
	}
	return late, nil
}

// tree adds the spans of a tree to a batch. It reports false if some of its sessions have events that are not on the log.
func (x *Exporter) tree(ctx context.Context, b *batch, root string, sessions map[string]bool) (ready bool, err error) {
	ready = true
	var row *cairn.Session
	for id := range sessions {
		if id == root {
			continue
		}
		s, err := x.eng.Session(ctx, id)
		if err == nil && s.Outbox != nil {
			ready = false
		} else if err != nil && !errors.Is(err, cairn.ErrNotFound) {
			return false, err
		}
	}
	if row, err = x.eng.Session(ctx, root); err != nil {
		if errors.Is(err, cairn.ErrNotFound) { // deleted, with what was not exported
			return true, nil
		}
		return false, err
	}
	return ready && row.Outbox == nil, b.tree(ctx, row)
}
