package pgstore

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
	"github.com/jackc/pgx/v5"
)

const (
	// By the key of state.
	sqlFirstState = `SELECT min(position) FROM {schema}.state WHERE session = $1`

	// By the key of state.
	sqlStates = `
		SELECT keyframe, data FROM {schema}.state
		WHERE session = $1 AND position >= $2
		ORDER BY position
		LIMIT $3`

	// By the key of heads.
	sqlDueAt = `SELECT due_at FROM {schema}.heads WHERE session = $1`

	sqlImportSession = `
		INSERT INTO {schema}.sessions (id, agent, user_id, tags, metadata, expires_at, trace_parent, parent_id, root_id, name,
			secret, created_at, ttl, sweep_at, incarnation, kind, title, opening, opening_at, words, thread_id, archived_at)
		VALUES ($1, $2, $3, $4::text[], $5::jsonb, $6::timestamptz, $7, $8, $9, $10, $11, $12::timestamptz, $13::interval,
			CASE $9 WHEN $1 THEN least($6::timestamptz, $14::timestamptz + $13::interval) END, $15, $16, $17, $18, $19, array_to_tsvector($20::text[]), $21, $22::timestamptz)
		ON CONFLICT (id) DO NOTHING
		RETURNING key`

	sqlImportHead = `
		INSERT INTO {schema}.heads (session, version, lease_token, updated_at, lease_until, next_deadline, due_at, status, run_id,
			suspended_step, due, stop_run, stop, data, agent, lease_ttl, log_sequence)
		VALUES ($1, $2, $3, $4::timestamptz, $5::timestamptz, $6::timestamptz, $7::timestamptz, $8, $9, $10, $11, $12, $13, $14,
			coalesce((SELECT agent FROM {schema}.sessions WHERE id = $15), $16), $17::interval, $18)`

	sqlImportState = `INSERT INTO {schema}.state (session, position, keyframe, data) VALUES ($1, $2, $3, $4)`

	sqlImportMessage = `
		INSERT INTO {schema}.messages (session, number, created_at, run, data) VALUES ($1, $2, $3::timestamptz, $4, $5)`

	sqlImportRun = `
		INSERT INTO {schema}.runs (session, turn, id, started_at, ended_at, start_sequence, first_message, before_checkpoint,
			before_position, data, text_at)
		VALUES ($1, $2, $3, $4::timestamptz, $5::timestamptz, $6, $7, $8, $9, $10, $11)`

	sqlImportCheckpoint = `
		INSERT INTO {schema}.checkpoints (session, number, turn, step, message_count, state_position, log_sequence, created_at,
			id, step_id, run, parent, id_key, step_key)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8::timestamptz, $9, $10, $11, $12, $13, $14)`

	sqlImportCall = `
		INSERT INTO {schema}.calls (root_id, id, session, version, created_at, updated_at, deadline, claimed_until, claimed_by,
			step_id, user_id, agent, tool, kind, status, reviewers, data)
		VALUES ($1, $2, $3, $4, $5::timestamptz, $6::timestamptz, $7::timestamptz, $8::timestamptz, $9, $10, $11, $12, $13, $14,
			$15, $16::jsonb, $17)`

	sqlImportAssignment = `
		INSERT INTO {schema}.assignments (reviewer, created_at, root_id, id) VALUES ($1, $2::timestamptz, $3, $4)
		ON CONFLICT DO NOTHING`

	sqlImportTurn = `INSERT INTO {schema}.queue (session, id, data) VALUES ($1, $2, $3)`

	sqlImportStaged = `INSERT INTO {schema}.staged (session, step_id, key, data) VALUES ($1, $2, $3, $4)`

	sqlImportCached = `INSERT INTO {schema}.cache (session, key, data) VALUES ($1, $2, $3)`

	// sqlImportLog reuses a log of that name that has no events yet.
	sqlImportLog = `
		INSERT INTO {schema}.logs AS l (name, first, last) VALUES ($1, $2, $3)
		ON CONFLICT (name) DO UPDATE SET first = excluded.first, last = excluded.last, fences = '{}', batches = '{}',
			dropped_at = NULL
		WHERE l.last = 0
		RETURNING key`

	// By the key of logs.
	sqlImportFence = `UPDATE {schema}.logs SET fences = fences || jsonb_build_object($2::text, $3::bigint) WHERE key = $1`

	sqlImportEvents = `INSERT INTO {schema}.events (log, last, data) VALUES ($1, $2, $3)`
)

// Inside implements driver.Importer.
func (s *Store) Inside(ctx context.Context, id string, from int64, limit int) (*driver.Inside, error) {
	var in *driver.Inside
	err := s.try(ctx, "look into a session", reads, func(ctx context.Context, c *conn) error {
		r, err := c.find(ctx, id)
		if err != nil {
			return err
		}
		in = &driver.Inside{Checkpoints: r.checkpoints}
		if in.Stop, err = r.stop.decode(); err != nil {
			return err
		}
		var due *time.Time
		if _, err := c.row(ctx, sqlDueAt, []any{&due}, r.key); err != nil {
			return err
		}
		in.DueSince = instant(due)
		if _, err := c.row(ctx, sqlFirstState, []any{&in.FirstState}, r.key); err != nil {
			return err
		}
		return c.query(ctx, sqlStates, func(rows pgx.Rows) error {
			change, err := readChange(rows)
			in.States = append(in.States, change)
			return err
		}, r.key, from, max(limit, 0))
	})
	if err != nil {
		return nil, err
	}
	return in, nil
}

// readChange reads whether a state is a keyframe and its data, and the columns before those.
func readChange(rows pgx.Rows, before ...any) (change driver.StateChange, err error) {
	var keyframe bool
	var data string
	if err := rows.Scan(append(before, &keyframe, &data)...); err != nil {
		return change, err
	}
	if keyframe {
		change.Keyframe = json.RawMessage(data)
		return change, nil
	}
	return change, backend.DecodeJSON("state change", data, &change.Ops)
}

// Import implements driver.Importer. It is one transaction. Only writers that create a session with one of the ids wait
// for it.
func (s *Store) Import(ctx context.Context, root string, parts iter.Seq2[*driver.Part, error]) error {
	var log notice
	err := s.try(ctx, "import", once, func(patient context.Context, c *conn) error {
		return c.transact(patient, func(c *conn) error {
			m := importing{c: c}
			defer func() { log = m.notice }()
			for part, err := range driver.CheckImport(root, s.opts.MaxEvent, parts) {
				if err == nil {
					err = ctx.Err()
				}
				if err == nil {
					err = m.add(patient, part)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err == nil && log.count > 0 {
		s.listener.hub.Wake(log.log)
		s.notifier.wrote(log.log, log.last, log.count)
	}
	return err
}

// importing is the state of an import of a tree.
type importing struct {
	c      *conn
	log    int64  // key of its event log
	notice notice // of the log's events

	// Of the current session.
	key        int64
	position   int64  // of the next state change
	message    int    // number of the next message
	checkpoint string // last one added
	texts      plan.Texts

	batch pgx.Batch
	err   error // of a statement of the batch that must not be sent
}

// queue adds a statement to the part's batch.
func (m *importing) queue(text string, args ...any) {
	if m.err == nil {
		m.err = m.c.check(text)
	}
	m.batch.Queue(m.c.db.texts.of(text), args...)
}

func (m *importing) add(ctx context.Context, p *driver.Part) error {
	if p.Session != nil {
		if err := m.begin(ctx, p.Session); err != nil {
			return err
		}
	}
	m.batch = pgx.Batch{}
	for _, add := range []func(*driver.Part) error{m.history, m.records, m.calls, m.waits, m.events} {
		if err := add(p); err != nil {
			return err
		}
	}
	if m.err != nil || m.batch.Len() == 0 {
		return m.err
	}
	return m.c.q.SendBatch(ctx, &m.batch).Close()
}

// begin adds the row of a session.
func (m *importing) begin(ctx context.Context, p *driver.SessionPart) error {
	row := &p.Row
	data, err := encodeHead(row, p.Inside.Checkpoints)
	if err != nil {
		return err
	}
	var request stop
	if p.Inside.Stop != nil {
		request.run = p.Inside.Stop.RunID
		if request.data, err = backend.EncodeJSON("stop request", p.Inside.Stop); err != nil {
			return err
		}
	}
	made, err := m.c.row(ctx, sqlImportSession, []any{&m.key}, row.ID, row.Agent, row.UserID, append([]string{}, row.Tags...),
		metadataText(row.Metadata), timestamp(row.ExpiresAt), row.TraceParent, row.ParentID, row.RootID, row.Name, p.Secret,
		timestamp(row.CreatedAt), orNull(time.Duration(row.TTL), row.TTL > 0), timestamp(row.UpdatedAt), row.Incarnation, string(row.Kind),
		row.Title, row.Opening, row.OpeningAt, words(row), row.ThreadID, timestamp(row.ArchivedAt))
	if err != nil {
		return err
	}
	if !made {
		return m.exists(ctx, row.ID)
	}
	_, err = m.c.exec(ctx, sqlImportHead, m.key, row.Version, row.Lease.Token, timestamp(row.UpdatedAt), timestamp(row.Lease.Until),
		timestamp(row.NextDeadline), timestamp(p.Inside.DueSince), string(row.Status), row.RunID, row.SuspendedStep,
		string(driver.DueKindOf(row)), request.run, request.data, data, row.RootID, row.Agent, time.Duration(row.Lease.TTL), row.LogSequence)
	if err != nil {
		return err
	}
	m.position, m.message, m.checkpoint, m.texts = p.Inside.FirstState, 0, "", plan.Texts{}
	if p.Log != nil {
		if err := m.beginLog(ctx, row.Log(), p.Log); err != nil {
			return err
		}
	}
	if row.Lease.Token == 0 {
		return nil
	}
	_, err = m.c.exec(ctx, sqlImportFence, m.log, row.ID, row.Lease.Token)
	return err
}

func (m *importing) exists(ctx context.Context, id string) error {
	there, err := m.c.find(ctx, id)
	if err != nil {
		return err
	}
	return driver.Conflict(cairn.ErrExists, there.session, "session %q already exists", id)
}

// beginLog creates the tree's event log.
func (m *importing) beginLog(ctx context.Context, name string, extent *driver.LogExtent) error {
	made, err := m.c.row(ctx, sqlImportLog, []any{&m.log}, name, extent.First, extent.Last)
	if err != nil {
		return err
	}
	if !made {
		return driver.LogExists(name)
	}
	m.notice = notice{log: name, last: extent.Last, count: extent.Last - extent.First + 1}
	return nil
}

func (m *importing) history(p *driver.Part) error {
	for i := range p.States {
		data, err := encodeChange(&p.States[i])
		if err != nil {
			return err
		}
		m.queue(sqlImportState, m.key, m.position, p.States[i].Keyframe != nil, data)
		m.position++
	}
	for i := range p.Messages {
		data, err := encodeMessage(&p.Messages[i])
		if err != nil {
			return err
		}
		m.queue(sqlImportMessage, m.key, int64(m.message), timestamp(p.Messages[i].CreatedAt), runOf(&p.Messages[i]), data)
		m.texts.Add(&p.Messages[i])
		m.message++
	}
	return nil
}

func (m *importing) records(p *driver.Part) error {
	for i := range p.Runs {
		run := &p.Runs[i]
		textAt := m.texts.At(run)
		data, err := encodeRun(run, textAt)
		if err != nil {
			return err
		}
		m.queue(sqlImportRun, m.key, int64(run.Turn), run.ID, timestamp(run.StartedAt), timestamp(run.EndedAt), run.StartSequence,
			int64(run.FirstMessage), run.Before.CheckpointID, run.Before.StatePosition, data, int64(textAt))
	}
	for i := range p.Checkpoints {
		cp := &p.Checkpoints[i]
		m.queue(sqlImportCheckpoint, m.key, cp.Number, int64(cp.Turn), int64(cp.Step), int64(cp.MessageCount), cp.StatePosition,
			cp.LogSequence, timestamp(cp.CreatedAt), cp.ID, cp.StepID, cp.RunID, orNull(cp.ParentID, cp.ParentID != m.checkpoint),
			keyOf(cp.ID), orNull(keyOf(cp.StepID), cp.StepID != ""))
		m.checkpoint = cp.ID
	}
	return nil
}

func (m *importing) calls(p *driver.Part) error {
	var columns callColumns
	writes := make([]driver.CallWrite, len(p.Calls))
	for i := range p.Calls {
		writes[i].Call = p.Calls[i]
	}
	if err := columns.fill(writes); err != nil {
		return err
	}
	for i := range p.Calls {
		call := &p.Calls[i]
		created := timestamp(call.CreatedAt)
		m.queue(sqlImportCall, call.RootID, call.ID, m.key, call.Version, created, timestamp(call.UpdatedAt), columns.deadline[i],
			columns.claimedUntil[i], call.ClaimedBy, call.StepID, call.UserID, call.Agent, call.Tool, columns.kind[i],
			columns.status[i], columns.reviewers[i], columns.data[i])
		if call.Status != cairn.CallOpen {
			continue
		}
		for _, reviewer := range call.Reviewers {
			m.queue(sqlImportAssignment, reviewer, created, call.RootID, call.ID)
		}
	}
	return nil
}

func (m *importing) waits(p *driver.Part) error {
	for i := range p.Queue {
		data, err := backend.EncodeJSON("queued turn", &p.Queue[i])
		if err != nil {
			return err
		}
		m.queue(sqlImportTurn, m.key, p.Queue[i].ID, data)
	}
	for i := range p.Staged {
		m.queue(sqlImportStaged, m.key, p.Staged[i].StepID, p.Staged[i].Key, string(p.Staged[i].Data))
	}
	for i := range p.Cache {
		data, err := backend.EncodeJSON("cached result", &p.Cache[i])
		if err != nil {
			return err
		}
		m.queue(sqlImportCached, m.key, p.Cache[i].Key, data)
	}
	return nil
}

func (m *importing) events(p *driver.Part) error {
	if len(p.Events) == 0 {
		return nil
	}
	data, err := backend.EncodeEvents(p.Events)
	if err != nil {
		return err
	}
	m.queue(sqlImportEvents, m.log, p.Events[len(p.Events)-1].Sequence, data)
	return nil
}
