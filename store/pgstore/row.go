package pgstore

import (
	"context"
	"encoding/json"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/jackc/pgx/v5"
)

// ownColumns and headColumns are the columns of a session's row, as record reads them; the last one is the server's time.
const (
	ownColumns = `
	s.key, s.id, s.agent, s.user_id, s.tags, s.metadata, s.expires_at, s.ttl, s.trace_parent, s.parent_id, s.root_id, s.incarnation,
	s.name, s.secret, s.created_at, s.context`

	headColumns = `
	h.context, h.status, h.version, h.epoch, h.message_count, h.run_id, h.turn, h.step, h.recoveries, h.checkpoint_id,
	h.checkpoints, h.log_sequence, h.lease_owner, h.lease_token, h.lease_until, h.state_position, h.keyframe_bytes,
	h.change_bytes, h.usage, h.run_usage, h.usage_custom, h.run_usage_custom, h.stop_run, h.stop, h.updated_at,
	h.suspended_step, h.open_calls, h.next_deadline, h.queued, statement_timestamp()`

	sessionColumns = ownColumns + `,` + headColumns
)

const (
	// By sessions_id.
	sqlSession = `
		SELECT` + sessionColumns + `, coalesce(r.sweep_at <= statement_timestamp(), FALSE)
		FROM {schema}.sessions s JOIN {schema}.heads h ON h.session = s.key LEFT JOIN {schema}.sessions r ON r.id = s.root_id
		WHERE s.id = $1`

	// The latest version of the row, whoever writes it now, and nobody else's until the transaction ends.
	sqlLockSession = sqlSession + ` FOR UPDATE OF h`
)

// record is a session's row with what the store keeps beside it.
type record struct {
	owner
	session     *cairn.Session
	checkpoints int64 // how many were ever written
	stop        stop
	over        bool // its root may have expired

	raw rawRow
}

// rawRow is what of a head has another form in the database.
type rawRow struct {
	context                     int64
	status                      string
	usage, runUsage             []int64
	usageCustom, runUsageCustom []byte
	leaseUntil, deadline        *time.Time
}

// stop is a stop request as it is stored.
type stop struct {
	run  string // empty for none
	data string
}

// read reads a row of sessionColumns and more.
func (r *record) read(rows pgx.Rows, more ...any) error {
	var own ownRow
	r.session = &cairn.Session{}
	if err := rows.Scan(append(append(own.columns(&r.owner, r.session), r.columns()...), more...)...); err != nil {
		return err
	}
	if err := own.finish(r.session); err != nil {
		return err
	}
	return r.finish()
}

// mixed reports whether the user context is of another version than the rest: it was changed while the row was waited for.
func (r *record) mixed() bool { return r.context != r.raw.context }

// columns returns where headColumns are read to.
func (r *record) columns() []any {
	s, raw := r.session, &r.raw
	return []any{&raw.context, &raw.status, &s.Version, &s.Epoch, &s.MessageCount, &s.RunID, &s.Turn, &s.Step, &s.Recoveries,
		&s.CheckpointID, &r.checkpoints, &s.LogSequence, &s.Lease.Owner, &s.Lease.Token, &raw.leaseUntil, &s.State.Position,
		&s.State.KeyframeBytes, &s.State.ChangeBytes, &raw.usage, &raw.runUsage, &raw.usageCustom, &raw.runUsageCustom,
		&r.stop.run, &r.stop.data, &s.UpdatedAt, &s.SuspendedStep, &s.OpenCalls, &raw.deadline, &s.Queued, &s.AsOf}
}

// finish gives what was read from headColumns its form.
func (r *record) finish() (err error) {
	s, raw := r.session, &r.raw
	s.Status, s.UpdatedAt, s.AsOf = cairn.SessionStatus(raw.status), s.UpdatedAt.UTC(), s.AsOf.UTC()
	s.Lease.Until, s.NextDeadline = instant(raw.leaseUntil), instant(raw.deadline)
	if s.Usage, err = readUsage(raw.usage, raw.usageCustom); err != nil {
		return err
	}
	s.RunUsage, err = readUsage(raw.runUsage, raw.runUsageCustom)
	return err
}

// ownRow is what of a session's own columns has another form in the database.
type ownRow struct {
	metadata []byte
	expires  *time.Time
	ttl      *time.Duration
}

// columns returns where ownColumns are read to.
func (o *ownRow) columns(owner *owner, s *cairn.Session) []any {
	return []any{&owner.key, &s.ID, &s.Agent, &s.UserID, &s.Tags, &o.metadata, &o.expires, &o.ttl, &s.TraceParent, &s.ParentID,
		&s.RootID, &s.Incarnation, &s.Name, &s.Secret, &s.CreatedAt, &owner.context}
}

// finish gives what was read from ownColumns its form.
func (o *ownRow) finish(s *cairn.Session) error {
	s.CreatedAt, s.ExpiresAt = s.CreatedAt.UTC(), instant(o.expires)
	if o.ttl != nil {
		s.TTL = *o.ttl
	}
	if len(s.Tags) == 0 {
		s.Tags = nil
	}
	return decodeMap("metadata", o.metadata, &s.Metadata)
}

// decodeMap reads a JSON object; an empty one is nil.
func decodeMap[V any](what string, raw []byte, into *map[string]V) error {
	if len(raw) <= len("{}") {
		return nil
	}
	return decode(what, string(raw), into)
}

// find returns a session's record; the error is ErrNotFound if there is none, and overdue if it may have expired.
func (c *conn) find(ctx context.Context, id string) (*record, error) {
	return c.findBy(ctx, sqlSession, id)
}

func (c *conn) findBy(ctx context.Context, text, id string) (*record, error) {
	for {
		var r *record
		err := c.query(ctx, text, func(rows pgx.Rows) error {
			r = &record{}
			return r.read(rows, &r.over)
		}, id)
		switch {
		case err != nil:
			return nil, err
		case r == nil:
			return nil, c.gone(ctx, id)
		case r.over && !r.session.Running(r.session.AsOf):
			return nil, &overdue{[]string{r.session.RootID}}
		case !r.mixed():
			return r, nil
		}
	}
}

// usageCounts are how many counts a usage has.
const usageCounts = 10

// counts are the counts of a usage in the order in which they are stored.
func counts(u *cairn.Usage) [usageCounts]*int64 {
	return [usageCounts]*int64{&u.InputTokens, &u.OutputTokens, &u.ReasoningTokens, &u.CachedTokens, &u.CacheWriteTokens,
		&u.ModelCalls, &u.ToolCalls, &u.ToolErrors, &u.ToolCacheHits, &u.SubAgentRuns}
}

func usageList(u *cairn.Usage) []int64 {
	list := make([]int64, usageCounts)
	for i, n := range counts(u) {
		list[i] = *n
	}
	return list
}

// usageCustom is the JSON of what tools recorded, nil for nothing.
func usageCustom(u *cairn.Usage) (*string, error) {
	if len(u.Custom) == 0 {
		return nil, nil
	}
	text, err := encode("usage", u.Custom)
	return &text, err
}

func readUsage(list []int64, custom []byte) (u cairn.Usage, err error) {
	for i, n := range counts(&u) {
		if i < len(list) { // a later version may count more
			*n = list[i]
		}
	}
	return u, decodeMap("usage", custom, &u.Custom)
}

// decode reads a stop request as it is stored.
func (s stop) decode() (*cairn.Stop, error) {
	if s.run == "" {
		return nil, nil
	}
	out := &cairn.Stop{}
	return out, decode("stop request", s.data, out)
}

// timestamp is a time as it is stored: null for none.
func timestamp(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Microsecond)
	return &t
}

// ceiling is the first stored time that is not before t.
func ceiling(t time.Time) time.Time {
	if down := t.Truncate(time.Microsecond); down.Before(t) {
		return down.Add(time.Microsecond).UTC()
	}
	return t.UTC()
}

// instant is a time as it was stored.
func instant(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// encode is v as it is stored. v is a value of our own types.
func encode(what string, v any) (string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return "", cairn.Errorf(cairn.CodeInvalid, "%s does not encode: %w", what, err)
	}
	return string(raw), nil
}

func decode(what, text string, into any) error {
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return cairn.Errorf(cairn.CodeCorrupt, "stored %s does not decode: %w", what, err)
	}
	return nil
}
