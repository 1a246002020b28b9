package sqlitestore

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

// sessionColumns are the columns of a session's row, as readSession reads them.
var sessionColumns = nameless(`
	s.key, s.id, s.agent, s.user_id, s.tags, s.metadata, s.expires_at, s.ttl, s.trace_parent, s.parent_id,
	s.root_id, s.incarnation, s.kind, s.name, s.secret, s.created_at, s.title, s.opening, s.opening_at, s.depth, s.thread_id, s.archived_at,
	CASE s.root_id WHEN s.id THEN s.sweep_at ELSE (SELECT CAST(total(r.sweep_at) AS INTEGER) FROM sessions r WHERE r.id = s.root_id) END, h.status, h.version, h.epoch, h.message_count, h.run_id, h.turn, h.step, h.recoveries,
	h.checkpoint_id, h.checkpoints, h.log_sequence, h.lease_owner, h.lease_token, h.lease_until, h.lease_ttl,
	h.state_position, h.keyframe_bytes, h.change_bytes, h.usage, h.run_usage, h.stop, h.updated_at, h.wait`)

// nameless rewrites the columns of a result so that the driver does no needless work. Each time a statement runs, the
// driver makes strings of the names and declared types of its columns. An expression has no declared type, and a name
// of one letter needs no new string.
func nameless(columns string) string {
	list := strings.Split(columns, ",")
	for i, column := range list {
		list[i] = " +" + strings.TrimSpace(column) + " AS c"
	}
	return strings.Join(list, ",")
}

var sqlSession = `SELECT` + sessionColumns + `
	FROM sessions s JOIN heads h ON h.session = s.key
	WHERE s.id = ?1`

const (
	sqlSessionKey = `
		SELECT s.key, CASE s.root_id WHEN s.id THEN s.sweep_at ELSE (SELECT CAST(total(r.sweep_at) AS INTEGER) FROM sessions r WHERE r.id = s.root_id) END,
			s.root_id
		FROM sessions s WHERE s.id = ?1`

	sqlInsertSession = `
		INSERT INTO sessions (id, agent, user_id, tags, metadata, expires_at, ttl, sweep_at, trace_parent, parent_id, root_id,
			name, secret, created_at, incarnation, kind, title, opening, opening_at, words, depth, thread_id, archived_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23)`

	sqlInsertHead = `
		INSERT INTO heads (session, version, epoch, message_count, run_id, turn, step, recoveries, checkpoint_id,
			checkpoints, log_sequence, lease_owner, lease_token, lease_until, state_position, keyframe_bytes,
			change_bytes, usage, run_usage, updated_at, lease_ttl, status, stop, agent)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23,
			coalesce((SELECT agent FROM sessions WHERE id = ?24), ?25))`

	// Only if the session has not changed, and is held or has not expired. The columns that an index covers are left
	// out, so that most commits write no index of this table.
	sqlUpdateHead = `
		UPDATE heads
		SET version = ?2, epoch = ?3, message_count = ?4, run_id = ?5, turn = ?6, step = ?7, recoveries = ?8,
			checkpoint_id = ?9, checkpoints = ?10, log_sequence = ?11, lease_owner = ?12, lease_token = ?13,
			lease_until = coalesce(?14, lease_until), state_position = ?15, keyframe_bytes = ?16, change_bytes = ?17,
			usage = ?18, run_usage = ?19, updated_at = ?20, lease_ttl = coalesce(?21, lease_ttl)
		WHERE session = ?1 AND version = ?22 AND lease_token = ?23 AND (status = 'active' AND lease_until > ?24
			AND (lease_ttl = 0 OR lease_until <= ?24 + 2 * lease_ttl)
			OR NOT EXISTS (SELECT 1 FROM sessions WHERE id = ?25 AND sweep_at BETWEEN 1 AND ?24))`

	// The end of a run deletes the stop request for it.
	sqlUpdateStatus = `
		UPDATE heads
		SET status = ?2, stop = CASE WHEN ?3 <> '' AND stop <> '' AND stop ->> '$.run_id' = ?3 THEN '' ELSE stop END
		WHERE session = ?1`

	sqlUpdateWait = `UPDATE heads SET wait = ?2, due_at = ?3 WHERE session = ?1`

	sqlUpdateContext = `
		UPDATE sessions
		SET user_id = ?2, tags = ?3, metadata = ?4, expires_at = ?5, sweep_at = ?6, title = ?7, opening = ?8, opening_at = ?9, words = ?10,
			archived_at = ?11
		WHERE key = ?1`
)

// storedRow is a session's row with what else the store keeps with it.
type storedRow struct {
	key         int64
	session     *cairn.Session
	sweep       int64 // when its root may expire; 0 for never
	checkpoints int64 // number ever written
	stop        string
	wait        wait
}

// wait is what few commits change, in stored form: what a session waits for, the stop of that wait, what its log may
// lack, where its summary and its taints are, and where it was branched from. The zero value means none of these.
type wait struct {
	Step     string `json:"step,omitempty"`
	Open     int    `json:"open,omitempty"`
	Deadline int64  `json:"deadline,omitempty"`
	Queued   int    `json:"queued,omitempty"`
	// Outbox is the JSON of the session's outbox.
	Outbox  string             `json:"outbox,omitempty"`
	Summary cairn.SummaryPlace `json:"summary,omitzero"`
	Trust   string             `json:"trust,omitempty"`  // the JSON of the row's TrustAt
	Ending  string             `json:"ending,omitempty"` // the JSON of the stop
	Branch  string             `json:"branch,omitempty"` // the JSON of where the session was branched from
	Due     int64              `json:"due,omitempty"`    // the column due_at
}

// readSession reads sessionColumns.
func readSession(c *columns) *storedRow {
	s := &cairn.Session{}
	r := &storedRow{session: s}
	r.key = c.int64()
	s.ID, s.Agent, s.UserID = c.text(), c.text(), c.text()
	s.Tenant, _ = cairn.SplitTenant(s.ID)
	if tags := c.text(); tags != "[]" {
		c.decode("tags", tags, &s.Tags)
	}
	if metadata := c.text(); metadata != "{}" {
		c.decode("metadata", metadata, &s.Metadata)
	}
	s.ExpiresAt, s.TTL = c.time(), cairn.Duration(c.int64())*cairn.Duration(time.Microsecond)
	s.TraceParent, s.ParentID, s.RootID = c.text(), c.text(), c.text()
	s.Incarnation, s.Kind, s.Name, s.Secret, s.CreatedAt = c.text(), cairn.ChildKind(c.text()), c.text(), c.text(), c.time()
	s.Title, s.Opening, s.OpeningAt, s.Depth, s.ThreadID, s.ArchivedAt = c.text(), c.text(), c.int(), c.int(), c.text(), c.time()
	r.sweep = c.int64()

	s.Status = cairn.SessionStatus(c.text())
	s.Version, s.Epoch, s.MessageCount = c.int64(), c.int64(), c.int()
	s.RunID, s.Turn, s.Step, s.Recoveries = c.text(), c.int(), c.int(), c.int()
	s.CheckpointID, r.checkpoints, s.LogSequence = c.text(), c.int64(), c.int64()
	s.Lease = cairn.Lease{Owner: c.text(), Token: c.int64(), Until: c.time(), TTL: cairn.Duration(time.Duration(c.int64()) * time.Microsecond)}
	s.State = cairn.StatePosition{Position: c.int64(), KeyframeBytes: c.int64(), ChangeBytes: c.int64()}
	readUsage(c, &s.Usage)
	readUsage(c, &s.RunUsage)
	r.stop = c.text()
	s.UpdatedAt = c.time()
	r.wait = readWait(c, s)
	return r
}

// readWait reads the wait of a session and sets it on its row.
func readWait(c *columns, s *cairn.Session) wait {
	text := c.text()
	if text == "" {
		return wait{}
	}
	var w wait
	c.decode("wait", text, &w)
	s.SuspendedStep, s.OpenCalls, s.NextDeadline, s.Queued = w.Step, w.Open, fromMicros(w.Deadline), w.Queued
	s.Summary = w.Summary
	if w.Trust != "" {
		c.decode("trust", w.Trust, &s.TrustAt)
		plan.SetTrust(s, s.TrustAt)
	}
	if w.Ending != "" {
		c.decode("ending", w.Ending, &s.Ending)
	}
	if w.Branch != "" {
		c.decode("branch", w.Branch, &s.Branch)
	}
	if w.Outbox != "" {
		c.decode("outbox", w.Outbox, &s.Outbox)
	}
	return w
}

func readUsage(c *columns, u *cairn.Usage) {
	if text := c.text(); text != "{}" {
		c.decode("usage", text, u)
	}
}

// find returns a session's record. The error is ErrNotFound if there is none, and backend.Overdue if it may have
// expired.
func find(c *conn, id string) (*storedRow, error) {
	r, err := findAny(c, id)
	if err == nil {
		err = c.overdueAt(r.session, r.session.RootID, r.sweep)
	}
	return r, err
}

// findAny is find for a session that may have expired.
func findAny(c *conn, id string) (r *storedRow, err error) {
	found, err := c.row(sqlSession, func(cols *columns) { r = readSession(cols) }, id)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, gone(c, id)
	}
	r.session.AsOf = stored(c.clock())
	return r, nil
}

// findKey returns the key of a session. The error is ErrNotFound if there is none, and backend.Overdue if it may have
// expired.
func findKey(c *conn, id string) (key int64, err error) {
	var sweep int64
	var root string
	found, err := c.row(sqlSessionKey, func(cols *columns) { key, sweep, root = cols.int64(), cols.int64(), cols.text() }, id)
	switch {
	case err != nil:
		return 0, err
	case !found:
		return 0, gone(c, id)
	}
	return key, c.overdueAt(nil, root, sweep)
}

// waits copies the row's wait and outbox to the record. due is the time from which the session is due for them.
func (r *storedRow) waits(due int64) {
	s := r.session
	r.wait = wait{Step: s.SuspendedStep, Open: s.OpenCalls, Deadline: micros(s.NextDeadline), Queued: s.Queued, Summary: s.Summary, Due: due}
	if s.TrustAt != nil {
		raw, _ := json.Marshal(s.TrustAt)
		r.wait.Trust = string(raw)
	}
	if s.Ending != nil {
		raw, _ := json.Marshal(s.Ending)
		r.wait.Ending = string(raw)
	}
	if s.Branch != nil {
		raw, _ := json.Marshal(s.Branch)
		r.wait.Branch = string(raw)
	}
	if s.Outbox != nil {
		raw, _ := json.Marshal(s.Outbox)
		r.wait.Outbox = string(raw)
	}
}

// insert writes a new session.
func (r *storedRow) insert(c *conn) error {
	s := r.session
	tags, metadata, err := encodeContext(s)
	if err != nil {
		return err
	}
	r.key, err = c.insert(sqlInsertSession, s.ID, s.Agent, s.UserID, tags, metadata, micros(s.ExpiresAt),
		time.Duration(s.TTL).Microseconds(), r.sweep, s.TraceParent, s.ParentID, s.RootID, s.Name, s.Secret, micros(s.CreatedAt),
		s.Incarnation, string(s.Kind), s.Title, s.Opening, s.OpeningAt, wordsOf(s), s.Depth, s.ThreadID, micros(s.ArchivedAt))
	if err != nil {
		return err
	}
	head, err := r.head(false)
	if err != nil {
		return err
	}
	if _, err = c.exec(sqlInsertHead, append(head, string(s.Status), r.stop, s.RootID, s.Agent)...); err != nil {
		return err
	}
	return r.updateWait(c, wait{})
}

// update writes what a delta changes in a session's row. done is false, and nothing is written, if the session is no
// longer as before says or may have expired.
func (r *storedRow) update(c *conn, d *plan.Delta, before *storedRow, now time.Time) (done bool, err error) {
	head, err := r.head(d.LeaseUntil.Kept)
	if err != nil {
		return false, err
	}
	s := r.session
	n, err := c.exec(sqlUpdateHead, append(head, d.Version, d.Token, micros(now), s.RootID)...)
	if n == 0 || err != nil {
		return false, err
	}
	if s.Status != before.session.Status || d.DropStop != "" {
		if _, err := c.exec(sqlUpdateStatus, r.key, string(s.Status), d.DropStop); err != nil {
			return false, err
		}
	}
	if err := r.updateWait(c, before.wait); err != nil {
		return false, err
	}
	if !d.Context {
		return true, nil
	}
	tags, metadata, err := encodeContext(s)
	if err != nil {
		return false, err
	}
	_, err = c.exec(sqlUpdateContext, r.key, s.UserID, tags, metadata, micros(s.ExpiresAt), micros(d.SweepAt.On(now, time.Time{})),
		s.Title, s.Opening, s.OpeningAt, wordsOf(s), micros(s.ArchivedAt))
	return err == nil, err
}

// updateWait writes the wait of the session's head if it has changed.
func (r *storedRow) updateWait(c *conn, before wait) error {
	if r.wait == before {
		return nil
	}
	text := ""
	if r.wait != (wait{}) {
		var err error
		if text, err = backend.EncodeJSON("wait", r.wait); err != nil {
			return err
		}
	}
	_, err := c.exec(sqlUpdateWait, r.key, text, r.wait.Due)
	return err
}

// head returns the first arguments of sqlInsertHead and sqlUpdateHead. If kept is true, the stored end and TTL of
// the lease do not change.
func (r *storedRow) head(kept bool) ([]any, error) {
	s := r.session
	usage, err := backend.EncodeJSON("usage", s.Usage)
	if err != nil {
		return nil, err
	}
	runUsage, err := backend.EncodeJSON("usage", s.RunUsage)
	if err != nil {
		return nil, err
	}
	var until, ttl any
	if !kept {
		until, ttl = micros(s.Lease.Until), time.Duration(s.Lease.TTL).Microseconds()
	}
	return append(make([]any, 0, 25), // room for the four more that both add
		r.key, s.Version, s.Epoch, s.MessageCount, s.RunID, s.Turn, s.Step, s.Recoveries, s.CheckpointID,
		r.checkpoints, s.LogSequence, s.Lease.Owner, s.Lease.Token, until, s.State.Position,
		s.State.KeyframeBytes, s.State.ChangeBytes, usage, runUsage, micros(s.UpdatedAt), ttl), nil
}

// wordsOf returns the words by which a session is found, each preceded by a space.
func wordsOf(s *cairn.Session) string {
	words := driver.SearchWords(s)
	if len(words) == 0 {
		return ""
	}
	return " " + strings.Join(words, " ")
}

func encodeContext(s *cairn.Session) (tags, metadata string, err error) {
	tags, metadata = "[]", "{}"
	if len(s.Tags) > 0 {
		if tags, err = backend.EncodeJSON("tags", s.Tags); err != nil {
			return "", "", err
		}
	}
	if len(s.Metadata) > 0 {
		metadata, err = backend.EncodeJSON("metadata", s.Metadata)
	}
	return tags, metadata, err
}

// decodeStop decodes a stored stop request; nil for an empty text.
func decodeStop(text string) (*cairn.Stop, error) {
	if text == "" {
		return nil, nil
	}
	stop := &cairn.Stop{}
	if err := backend.DecodeJSON("stop request", text, stop); err != nil {
		return nil, err
	}
	return stop, nil
}
