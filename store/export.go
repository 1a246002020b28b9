package store

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"reflect"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// Export yields a session tree with its event log and the blobs of its workspaces and artifacts in parts of bounded
// size, which [Import] reads, also as JSON in a later version. Messages, states, runs, checkpoints, calls and events come
// in pages, blobs up to 16 MiB at once; a session's row, queue, staged pieces and cache are held whole. The error is
// ErrStale if the tree has changed during the export, and ErrInvalid for a session that is not a root. Two stores with
// the same tree yield the same parts, except for the order of blobs.
func Export(ctx context.Context, st Importer, root string) iter.Seq2[*Part, error] {
	return export(ctx, st, root, true)
}

// export is Export with or without blobs.
func export(ctx context.Context, st Importer, root string, files bool) iter.Seq2[*Part, error] {
	return func(yield func(*Part, error) bool) {
		x := exporter{ctx: ctx, st: st, root: root, yield: yield}
		if p, ok := driver.As[BlobProvider](st); ok && files {
			x.blobs = p.Blobs()
		}
		if err := x.tree(); err != nil && !errors.Is(err, errEnough) {
			yield(nil, err)
		}
	}
}

// errEnough ends an export whose consumer has stopped.
var errEnough = errors.New("enough")

type exporter struct {
	ctx   context.Context // of one call
	st    Importer
	root  string
	log   string // its name
	blobs Blobs  // nil if they are left out
	yield func(*Part, error) bool
	// admit, if set, is called before the first part and may refuse the tree.
	admit func(rows []cairn.Session, log *driver.LogExtent) error
}

func (x *exporter) give(p *Part) error {
	if !x.yield(p, nil) {
		return errEnough
	}
	return nil
}

func (x *exporter) tree() error {
	rows, err := driver.Tree(x.ctx, x.st, x.root)
	if err != nil {
		return err
	}
	x.log = rows[0].Log()
	extent, err := x.extent()
	if err != nil {
		return err
	}
	if x.admit != nil {
		if err := x.admit(rows, extent); err != nil {
			return err
		}
	}
	owner := driver.OwnerOfBlobs(&rows[0])
	count, err := x.countBlobs(owner)
	if err != nil {
		return err
	}
	for i := range rows {
		head := &driver.SessionPart{}
		if i == 0 {
			head.Log, head.BlobCount = extent, count
		}
		if err := x.session(&rows[i], head); err != nil {
			return err
		}
	}
	for after := extent.First - 1; after < extent.Last; {
		events, err := x.st.EventLog().Read(x.ctx, x.log, after, int(min(driver.ExportPage, extent.Last-after)))
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return x.changed()
		}
		after = events[len(events)-1].Sequence
		if err := x.give(&Part{Events: events}); err != nil {
			return err
		}
	}
	if count > 0 {
		if err := x.files(owner, count); err != nil {
			return err
		}
	}
	return x.unchanged(rows, extent)
}

func (x *exporter) extent() (*driver.LogExtent, error) {
	first, last, err := x.st.EventLog().Bounds(x.ctx, x.log)
	return &driver.LogExtent{First: first, Last: last}, err
}

// unchanged checks that the tree has not changed since the export began.
func (x *exporter) unchanged(rows []cairn.Session, extent *driver.LogExtent) error {
	now, err := driver.Tree(x.ctx, x.st, x.root)
	if err != nil {
		return err
	}
	last, err := x.extent()
	if err != nil {
		return err
	}
	for i := range now {
		if i < len(rows) {
			now[i].AsOf = rows[i].AsOf
		}
	}
	if !reflect.DeepEqual(now, rows) || *last != *extent {
		return x.changed()
	}
	return nil
}

func (x *exporter) changed() error {
	return cairn.Errorf(cairn.ErrStale, "session %q has changed while it was read", x.root)
}

// session yields everything of one session. head has what only a root has.
func (x *exporter) session(row *cairn.Session, head *driver.SessionPart) error {
	id := row.ID
	inside, err := x.st.Inside(x.ctx, id, 0, driver.ExportStates)
	if err != nil {
		return err
	}
	head.Row, head.Secret, head.Inside = *row, row.Secret, *inside
	head.Inside.States = nil
	if err := x.give(&Part{Session: head}); err != nil {
		return err
	}
	for from := inside.FirstState; len(inside.States) > 0; {
		if err := x.give(&Part{States: inside.States}); err != nil {
			return err
		}
		if from += int64(len(inside.States)); from > row.State.Position {
			break
		}
		if inside, err = x.st.Inside(x.ctx, id, from, driver.ExportStates); err != nil {
			return err
		}
	}
	for from := 0; from < row.MessageCount; {
		messages, err := driver.Messages(x.ctx, x.st, id, from, driver.ExportPage)
		if err != nil {
			return err
		}
		if len(messages) == 0 {
			return x.changed()
		}
		from += len(messages)
		if err := x.give(&Part{Messages: messages}); err != nil {
			return err
		}
	}
	if err := exportPages(x, func(cursor string) (Page[cairn.Run], error) {
		return x.st.Runs(x.ctx, id, PageQuery{Cursor: cursor, Limit: driver.ExportPage})
	}, func(p *Part, list []cairn.Run) { p.Runs = list }); err != nil {
		return err
	}
	if err := exportPages(x, func(cursor string) (Page[cairn.Checkpoint], error) {
		return x.st.Checkpoints(x.ctx, id, PageQuery{Cursor: cursor, Limit: driver.ExportPage})
	}, func(p *Part, list []cairn.Checkpoint) { p.Checkpoints = list }); err != nil {
		return err
	}
	if err := exportPages(x, func(cursor string) (Page[cairn.PendingCall], error) {
		return x.st.Calls(x.ctx, CallQuery{RootID: row.RootID, SessionID: id, Cursor: cursor, Limit: driver.ExportPage})
	}, func(p *Part, list []cairn.PendingCall) { p.Calls = list }); err != nil {
		return err
	}
	return x.small(id)
}

// small yields the lists that are read whole.
func (x *exporter) small(id string) error {
	snap, err := x.st.Read(x.ctx, id, driver.Want{Queue: true, Staged: true, Cache: true})
	if err != nil {
		return err
	}
	if len(snap.Queue)+len(snap.Staged)+len(snap.Cache) == 0 {
		return nil
	}
	return x.give(&Part{Queue: snap.Queue, Staged: snap.Staged, Cache: snap.Cache})
}

// exportPages yields a list page by page.
func exportPages[T any](x *exporter, read func(cursor string) (Page[T], error), put func(*Part, []T)) error {
	for cursor := ""; ; {
		page, err := read(cursor)
		if err != nil {
			return err
		}
		if len(page.Items) > 0 {
			p := &Part{}
			put(p, page.Items)
			if err := x.give(p); err != nil {
				return err
			}
		}
		if cursor = page.Next; cursor == "" {
			return nil
		}
	}
}

// encode returns a part in the form in which parts are compared: times as stores keep them, and TTLs only if ttl is
// set, since only Sweepers keep them.
func encode(p *Part, ttl bool) ([]byte, error) {
	own := *p
	if own.Session != nil {
		head := *own.Session
		row := &head.Row
		if !ttl {
			row.TTL = 0
		}
		row.ExpiresAt, row.NextDeadline, row.Lease.Until = kept(row.ExpiresAt), kept(row.NextDeadline), kept(row.Lease.Until)
		if len(row.Tags) == 0 {
			row.Tags = nil
		}
		if head.Inside.Stop != nil {
			stop := *head.Inside.Stop
			stop.At = kept(stop.At)
			head.Inside.Stop = &stop
		}
		head.Inside.DueSince = kept(head.Inside.DueSince)
		own.Session = &head
	}
	own.Calls = slices.Clone(own.Calls)
	for i := range own.Calls {
		call := &own.Calls[i]
		call.Deadline, call.ClaimedUntil = kept(call.Deadline), kept(call.ClaimedUntil)
	}
	return json.Marshal(own)
}
