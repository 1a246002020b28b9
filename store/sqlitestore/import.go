package sqlitestore

import (
	"context"
	"encoding/json"
	"errors"
	"iter"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

const (
	sqlStates = `
		SELECT keyframe, data FROM state
		WHERE ` + fromNumber + `
		ORDER BY place LIMIT ?3`

	sqlFirstState = `SELECT min(place) & 0x7fffffff FROM state WHERE ` + ofOwner

	sqlImportLog = `INSERT INTO logs (name, first, last) VALUES (?1, ?2, ?3)`
)

// Inside implements driver.Importer.
func (s *Store) Inside(ctx context.Context, id string, from int64, limit int) (*driver.Inside, error) {
	in := &driver.Inside{}
	err := s.readers.view(ctx, func(c *conn) error {
		r, err := find(c, id)
		if err != nil {
			return err
		}
		in.Checkpoints, in.DueSince = r.checkpoints, fromMicros(r.wait.Due)
		if in.Stop, err = decodeStop(r.stop); err != nil {
			return err
		}
		if _, err := c.row(sqlFirstState, func(cols *columns) { in.FirstState = cols.int64() }, r.key); err != nil {
			return err
		}
		return c.query(ctx, sqlStates, func(cols *columns) bool {
			in.States = append(in.States, readChange(cols))
			return true
		}, r.key, from, max(limit, 0))
	})
	if err != nil {
		return nil, err
	}
	return in, nil
}

func readChange(c *columns) (change driver.StateChange) {
	if c.int64() != 0 {
		change.Keyframe = json.RawMessage(c.text())
	} else {
		c.json("state change", &change.Ops)
	}
	return change
}

// Import implements driver.Importer. It is one transaction, which lasts until the last part has arrived. Other writers
// wait.
func (s *Store) Import(ctx context.Context, root string, parts iter.Seq2[*driver.Part, error]) error {
	err := s.looking(ctx, func() error {
		m := &importing{}
		return s.writer.do(&job{
			ctx:     ctx,
			durable: true,
			run:     func(c *conn) error { return s.importTree(ctx, c, m, root, parts) },
			after:   func() { s.hub.Wake(m.name) },
		})
	})
	return fault("import", err)
}

func (s *Store) importTree(ctx context.Context, c *conn, m *importing, root string, parts iter.Seq2[*driver.Part, error]) error {
	*m = importing{c: c}
	for part, err := range driver.CheckImport(root, s.opts.MaxEvent, parts) {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = m.add(part)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// importing is a tree that is being imported.
type importing struct {
	c    *conn
	log  int64  // the key of its event log
	name string // of the log

	// The session that is being imported.
	key      int64
	position int64 // of the next state
	message  int   // the number of the next message
	texts    plan.Texts
}

func (m *importing) add(p *driver.Part) error {
	if p.Session != nil {
		if err := m.begin(p.Session); err != nil {
			return err
		}
	}
	for i := range p.States {
		piece, err := plan.PieceOf(m.position, &p.States[i])
		if err != nil {
			return err
		}
		if err := insertState(m.c, m.key, piece); err != nil {
			return err
		}
		m.position++
	}
	for i := range p.Messages {
		text, err := messageText(&p.Messages[i])
		if err != nil {
			return err
		}
		if err := insertMessage(m.c, m.key, m.message, &p.Messages[i], text); err != nil {
			return err
		}
		m.texts.Add(&p.Messages[i])
		m.message++
	}
	for i := range p.Runs {
		if err := insertRun(m.c, m.key, &p.Runs[i], m.texts.At(&p.Runs[i])); err != nil {
			return err
		}
	}
	for i := range p.Checkpoints {
		if err := insertCheckpoint(m.c, m.key, &p.Checkpoints[i]); err != nil {
			return err
		}
	}
	if err := m.waits(p); err != nil {
		return err
	}
	return m.events(p.Events)
}

// begin adds the row of a session.
func (m *importing) begin(p *driver.SessionPart) error {
	there, err := find(m.c, p.Row.ID)
	if err == nil {
		return driver.Conflict(cairn.ErrExists, there.session, "session %q already exists", p.Row.ID)
	}
	if !errors.Is(err, cairn.ErrNotFound) || driver.IsGone(err) {
		return err
	}
	row := p.Row
	row.Secret = p.Secret
	r := &storedRow{session: &row, checkpoints: p.Inside.Checkpoints}
	if p.Inside.Stop != nil {
		if r.stop, err = backend.EncodeJSON("stop request", p.Inside.Stop); err != nil {
			return err
		}
	}
	r.sweep = micros(driver.SweepAt(row.UpdatedAt, &row))
	r.waits(micros(p.Inside.DueSince))
	if err := r.insert(m.c); err != nil {
		return err
	}
	m.key, m.position, m.message, m.texts = r.key, p.Inside.FirstState, 0, plan.Texts{}
	if p.Log != nil {
		if err := m.beginLog(row.Log(), p.Log); err != nil {
			return err
		}
	}
	if row.Lease.Token == 0 {
		return nil
	}
	_, err = m.c.exec(sqlRaiseFence, m.log, row.ID, row.Lease.Token)
	return err
}

// beginLog adds the log, unless a log of that name has events.
func (m *importing) beginLog(name string, extent *driver.LogExtent) error {
	log, _, last, err := findLog(m.c, name)
	switch {
	case err != nil && !errors.Is(err, cairn.ErrDeleted):
		return err
	case last > 0:
		return driver.LogExists(name)
	case log != 0: // it has only fencing tokens, or was dropped
		if err := dropFences(m.c, log); err != nil {
			return err
		}
		if _, err := m.c.exec(sqlForgetLog, log); err != nil {
			return err
		}
	}
	m.name = name
	m.log, err = m.c.insert(sqlImportLog, name, extent.First, extent.Last)
	return err
}

// waits adds the pending calls, queue, staged pieces and cache.
func (m *importing) waits(p *driver.Part) error {
	for i := range p.Calls {
		var row callRow
		if err := row.fill(&p.Calls[i]); err != nil {
			return err
		}
		if err := row.write(m.c, m.key); err != nil {
			return err
		}
	}
	for i := range p.Queue {
		data, err := backend.EncodeJSON("queued turn", &p.Queue[i])
		if err != nil {
			return err
		}
		if _, err := m.c.exec(sqlEnqueue, m.key, p.Queue[i].ID, data); err != nil {
			return err
		}
	}
	for i := range p.Staged {
		if _, err := m.c.exec(sqlStage, m.key, p.Staged[i].StepID, p.Staged[i].Key, string(p.Staged[i].Data)); err != nil {
			return err
		}
	}
	for i := range p.Cache {
		data, err := backend.EncodeJSON("cached result", &p.Cache[i])
		if err != nil {
			return err
		}
		if _, err := m.c.exec(sqlPutCache, m.key, p.Cache[i].Key, data); err != nil {
			return err
		}
	}
	return nil
}

func (m *importing) events(list []cairn.Event) error {
	if len(list) == 0 {
		return nil
	}
	batches, err := encodeBatches(list)
	if err != nil {
		return err
	}
	_, err = insertBatches(m.c, m.log, list[0].Sequence, batches)
	return err
}
