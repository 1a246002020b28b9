package pgstore

import (
	"context"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
)

// ownColumns and headColumns are the columns of a session's row in the order in which record reads them; the last one
// is the server's time.
const (
	ownColumns = `
	s.key, s.id, s.agent, s.user_id, s.tags, s.metadata, s.expires_at, s.ttl, s.trace_parent, s.parent_id, s.root_id, s.incarnation,
	s.kind, s.name, s.secret, s.created_at, s.title, s.opening, s.opening_at, s.thread_id,
	s.archived_at`

	headColumns = `
	h.status, h.version, h.run_id, h.suspended_step, h.lease_token, h.lease_until, h.lease_ttl, h.next_deadline, h.stop_run, h.stop,
	h.log_sequence, h.updated_at, h.data, statement_timestamp()`

	sessionColumns = ownColumns + `,` + headColumns
)

const (
	// By sessions_id.
	sqlSession = `
		SELECT` + sessionColumns + `, coalesce(r.sweep_at <= statement_timestamp(), FALSE)
		FROM {schema}.sessions s JOIN {schema}.heads h ON h.session = s.key LEFT JOIN {schema}.sessions r ON r.id = s.root_id
		WHERE s.id = $1`

	// By sessions_id and the key of heads. Later statements see what the previous writer has committed, and no other
	// writer changes the session until the transaction ends.
	sqlLockSession = `
		SELECT h.session
		FROM {schema}.sessions s JOIN {schema}.heads h ON h.session = s.key
		WHERE s.id = $1
		FOR UPDATE OF h`
)

// storedRow is a session's row with what else the store keeps of the session.
type storedRow struct {
	key         int64
	session     *cairn.Session
	checkpoints int64 // number ever written
	stop        stop
	over        bool // whether its root may have expired
}

// stop is a stop request as it is stored.
type stop struct {
	run  string // empty for none
	data string
}

// headData is the rest of a head: a session's row without the fields that have a column of their own.
type headData struct {
	*cairn.Session
	Owner       string `json:"lease_owner,omitempty"`
	Checkpoints int64  `json:"checkpoints"`

	// These shadow the row's fields of the same names.
	ID            struct{} `json:"id,omitzero"`
	Tenant        struct{} `json:"tenant,omitzero"`
	Agent         struct{} `json:"agent,omitzero"`
	Status        struct{} `json:"status,omitzero"`
	UserID        struct{} `json:"user_id,omitzero"`
	Title         struct{} `json:"title,omitzero"`
	Opening       struct{} `json:"opening,omitzero"`
	OpeningAt     struct{} `json:"opening_at,omitzero"`
	Tags          struct{} `json:"tags,omitzero"`
	Metadata      struct{} `json:"metadata,omitzero"`
	ExpiresAt     struct{} `json:"expires_at,omitzero"`
	ArchivedAt    struct{} `json:"archived_at,omitzero"`
	TTL           struct{} `json:"ttl,omitzero"`
	TraceParent   struct{} `json:"trace_parent,omitzero"`
	ThreadID      struct{} `json:"thread_id,omitzero"`
	ParentID      struct{} `json:"parent_id,omitzero"`
	RootID        struct{} `json:"root_id,omitzero"`
	Incarnation   struct{} `json:"incarnation,omitzero"`
	Kind          struct{} `json:"kind,omitzero"`
	Name          struct{} `json:"name,omitzero"`
	Version       struct{} `json:"version,omitzero"`
	RunID         struct{} `json:"run_id,omitzero"`
	SuspendedStep struct{} `json:"suspended_step,omitzero"`
	NextDeadline  struct{} `json:"next_deadline,omitzero"`
	LogSequence   struct{} `json:"log_sequence,omitzero"`
	Lease         struct{} `json:"lease,omitzero"`
	CreatedAt     struct{} `json:"created_at,omitzero"`
	UpdatedAt     struct{} `json:"updated_at,omitzero"`
}

// encodeHead returns the data of a head.
func encodeHead(row *cairn.Session, checkpoints int64) (string, error) {
	return backend.EncodeJSON("session", &headData{Session: row, Owner: row.Lease.Owner, Checkpoints: checkpoints})
}

// read reads a row of sessionColumns and the columns after them.
func (r *storedRow) read(rows pgx.Rows, more ...any) error {
	var own ownRow
	var status, data string
	var until, deadline *time.Time
	s := &cairn.Session{}
	r.session = s
	into := append(own.columns(&r.key, s), &status, &s.Version, &s.RunID, &s.SuspendedStep, &s.Lease.Token, &until, (*time.Duration)(&s.Lease.TTL), &deadline,
		&r.stop.run, &r.stop.data, &s.LogSequence, &s.UpdatedAt, &data, &s.AsOf)
	if err := rows.Scan(append(into, more...)...); err != nil {
		return err
	}
	head := headData{Session: s}
	if err := backend.DecodeJSON("session", data, &head); err != nil {
		return err
	}
	r.checkpoints = head.Checkpoints
	s.Status, s.UpdatedAt, s.AsOf = cairn.SessionStatus(status), s.UpdatedAt.UTC(), s.AsOf.UTC()
	s.Lease.Owner, s.Lease.Until, s.NextDeadline = head.Owner, instant(until), instant(deadline)
	dateOutbox(s)
	return own.finish(s)
}

// dateOutbox gives events of an outbox that were stored without a time that of their commit, which is the last one: a
// later commit stores the times with the row that it has read.
func dateOutbox(s *cairn.Session) {
	if s.Outbox == nil {
		return
	}
	for i := range s.Outbox.Events {
		if ev := &s.Outbox.Events[i]; ev.Time.IsZero() {
			ev.Time = s.UpdatedAt
		}
	}
}

// remember caches a session that was read.
func (d *database) remember(r *storedRow) {
	k := &knownSession{r.key, backend.CopyRow(r.session), r.checkpoints}
	d.known.Put(k.row, k)
}

// ownRow holds those of a session's own columns that have another form in the database.
type ownRow struct {
	metadata []byte
	expires  *time.Time
	archived *time.Time
	ttl      *time.Duration
}

// columns returns the destinations of ownColumns.
func (o *ownRow) columns(key *int64, s *cairn.Session) []any {
	return []any{key, &s.ID, &s.Agent, &s.UserID, &s.Tags, &o.metadata, &o.expires, &o.ttl, &s.TraceParent, &s.ParentID,
		&s.RootID, &s.Incarnation, &s.Kind, &s.Name, &s.Secret, &s.CreatedAt, &s.Title, &s.Opening, &s.OpeningAt, &s.ThreadID, &o.archived}
}

// finish converts what was read from ownColumns.
func (o *ownRow) finish(s *cairn.Session) error {
	s.Tenant, _ = cairn.SplitTenant(s.ID)
	s.CreatedAt, s.ExpiresAt, s.ArchivedAt = s.CreatedAt.UTC(), instant(o.expires), instant(o.archived)
	if o.ttl != nil {
		s.TTL = cairn.Duration(*o.ttl)
	}
	if len(s.Tags) == 0 {
		s.Tags = nil
	}
	return decodeMetadata(o.metadata, &s.Metadata)
}

// words returns the words by which a session is found.
func words(s *cairn.Session) []string { return append([]string{}, driver.SearchWords(s)...) }

// find returns a session's record. The error is ErrNotFound if the session does not exist, and Overdue if it may have
// expired.
func (c *conn) find(ctx context.Context, id string) (*storedRow, error) {
	var r *storedRow
	err := c.query(ctx, sqlSession, func(rows pgx.Rows) error {
		r = &storedRow{}
		return r.read(rows, &r.over)
	}, id)
	if err != nil {
		return nil, err
	}
	return r, c.checkUsable(ctx, id, r)
}

// checkUsable returns why a session that was looked up cannot be used, or nil.
func (c *conn) checkUsable(ctx context.Context, id string, r *storedRow) error {
	switch {
	case r == nil:
		return c.gone(ctx, id)
	case r.over && !r.session.Running(r.session.AsOf):
		return &backend.Overdue{Roots: []string{r.session.RootID}}
	}
	return nil
}

// lock is find in a transaction. Until the transaction ends, no other writer changes the session.
func (c *conn) lock(ctx context.Context, id string) (*storedRow, error) {
	if _, err := c.exec(ctx, sqlLockSession, id); err != nil {
		return nil, err
	}
	return c.find(ctx, id)
}

// decode decodes a stored stop request; nil for none.
func (s stop) decode() (*cairn.Stop, error) {
	if s.run == "" {
		return nil, nil
	}
	out := &cairn.Stop{}
	return out, backend.DecodeJSON("stop request", s.data, out)
}
