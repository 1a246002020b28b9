package sqlitestore

import (
	"fmt"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// sqlSuspended makes suspended sessions, each with an open call that is assigned to a reviewer of its own or to none.
// No deadline has passed.
var sqlSuspended = []string{
	`INSERT INTO sessions (id, agent, user_id, tags, metadata, expires_at, trace_parent, parent_id, root_id, secret, created_at,
			name, ttl, sweep_at, incarnation, kind, title, opening, opening_at, words)
		SELECT 'session-' || value, 'support', 'user-' || value, '[]', '{}', 0, '', '', 'session-' || value, 'secret', value,
			'', 0, 0, 'first', '', '', '', 0, ''
		FROM generate`,
	`INSERT INTO heads (session, status, version, epoch, message_count, run_id, turn, step, recoveries, checkpoint_id,
			checkpoints, log_sequence, lease_owner, lease_token, lease_until, state_position, keyframe_bytes, change_bytes,
			usage, run_usage, stop, updated_at, wait, due_at, agent)
		SELECT key, 'paused', 1, 0, 0, 'run', 1, 1, 0, '', 0, 0, '', 1, 0, 0, 2, 0, '{}', '{}', '', 1,
			json_object('step', 'step', 'open', 1, 'deadline', 1 << 60, 'due', 1 << 60), 1 << 60, agent
		FROM sessions`,
	`INSERT INTO calls (session, root_id, id, step_id, user_id, agent, tool, kind, status, assigned, claimed_by, claimed_until,
			deadline, created_at, version, data)
		SELECT key, id, 'call', 'step', user_id, agent, 'refund', 'approval', 'open', key % 2, '', 0, 1 << 60, key, 1,
			json_object('id', 'call', 'root_id', id)
		FROM sessions`,
	`INSERT INTO assignments (reviewer, created_at, root_id, id, call)
		SELECT 'reviewer-' || key, created_at, root_id, id, key FROM calls WHERE assigned = 1`,
}

// suspended opens a store with n suspended sessions.
func suspended(tb testing.TB, n int) *Store {
	tb.Helper()
	s := openNew(tb)
	err := s.writer.write(tb.Context(), false, func(c *conn) error {
		numbers := fmt.Sprintf(`CREATE TEMP TABLE generate AS
			WITH RECURSIVE n (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < %d) SELECT value FROM n`, n)
		for _, text := range append([]string{numbers}, sqlSuspended...) {
			if err := c.run(text); err != nil {
				return err
			}
		}
		c.wrote = true
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// BenchmarkInbox compares the queries of people and workers with 100,000 suspended sessions and with 10: they must not
// take longer.
func BenchmarkInbox(b *testing.B) {
	many, few := suspended(b, 100_000), suspended(b, 10)
	for _, ask := range []struct {
		name string
		do   func(*Store) error
	}{
		{"page", func(s *Store) error { return page(b, s, driver.CallQuery{}) }},
		{"user", func(s *Store) error { return page(b, s, driver.CallQuery{UserID: "user-7"}) }},
		{"reviewer", func(s *Store) error { return page(b, s, driver.CallQuery{Reviewer: "reviewer-7"}) }},
		{"call", func(s *Store) error {
			_, err := driver.FindCall(b.Context(), s, "session-7", "call")
			return err
		}},
		{"due", func(s *Store) error {
			_, err := s.Due(b.Context(), driver.DueQuery{Limit: 10})
			return err
		}},
	} {
		b.Run(ask.name, func(b *testing.B) {
			run := func(s *Store) func() {
				return func() {
					if err := ask.do(s); err != nil {
						b.Fatal(err)
					}
				}
			}
			compare(b, run(many), run(few))
		})
	}
}

// page reads the first five open calls of a query.
func page(b *testing.B, s *Store, q driver.CallQuery) error {
	q.Statuses, q.Limit = []cairn.CallStatus{cairn.CallOpen}, 5
	_, err := s.Calls(b.Context(), q)
	return err
}

// Only open calls are in the lists of their reviewers, each once, whatever happened to it before.
func TestAssignments(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	must(driver.Create(t.Context(), s, &cairn.Session{ID: "session", Agent: "support"}, nil))
	write := func(seen int64, status cairn.CallStatus, reviewers ...string) {
		t.Helper()
		call := cairn.PendingCall{CallRef: cairn.CallRef{ID: "call", Reviewers: reviewers}, Status: status}
		must(s.Commit(t.Context(), "session", &driver.Commit{Calls: []driver.CallWrite{{Call: call, Seen: seen}}}))
	}
	want := func(n int64) {
		t.Helper()
		if got := s.sum(t, `SELECT count(*) FROM assignments`); got != n {
			t.Errorf("%d assignments, want %d", got, n)
		}
	}
	write(0, cairn.CallOpen, "ann", "bob", "ann")
	want(2)
	write(1, cairn.CallOpen, "bob", "eve", "kim")
	want(3)
	write(2, cairn.CallAnswered, "bob", "eve", "kim")
	want(0)
	write(3, cairn.CallOpen, "ann")
	want(1)
	if err := s.Delete(t.Context(), "session"); err != nil {
		t.Fatal(err)
	}
	want(0)
}
