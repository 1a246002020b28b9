package pgstore

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
	"github.com/jackc/pgx/v5"
)

// sqlCrowd makes %d sessions in trees of 20, each with a run, two messages and a checkpoint. One in five has an open
// call. However many there are, a hundred were left active, a hundred are due and a hundred may have expired.
const sqlCrowd = `
	INSERT INTO {schema}.sessions (id, sweep_at, agent, user_id, tags, metadata, trace_parent, parent_id, root_id, incarnation,
		kind, name, secret, created_at)
	SELECT 'session-' || n, CASE WHEN n <= 100 THEN now() - interval '1 day' END, 'agent-' || n %% 50, 'user-' || n / 20 %% 1000,
		ARRAY['tag-' || n %% 10], jsonb_build_object('team', (n %% 10)::text), '', CASE n %% 20 WHEN 0 THEN '' ELSE 'session-' || n - n %% 20 END,
		'session-' || n - n %% 20, '', '', '', '', now() - interval '1 hour' + n * interval '1 millisecond'
	FROM generate_series(1, %[1]d) n;
	INSERT INTO {schema}.heads (session, version, lease_token, updated_at, lease_until, due_at, agent, status, run_id,
		suspended_step, due, data)
	SELECT key, 1, 0, now(), now() - interval '1 minute', CASE WHEN key BETWEEN 101 AND 200 THEN now() - key * interval '1 second' END,
		CASE WHEN key <= 200 THEN 'late' ELSE agent END, CASE WHEN key <= 100 THEN 'active' ELSE 'completed' END, 'run', '', '', '{}'
	FROM {schema}.sessions;
	INSERT INTO {schema}.calls (root_id, id, session, version, created_at, updated_at, claimed_by, step_id, user_id, agent, tool,
		kind, status, reviewers, data)
	SELECT 'session-' || n - n %% 20, 'call-' || n, n, 1, now(), now(), '', 'step', 'user-' || n / 20 %% 1000, 'agent-' || n %% 50,
		'tool-' || n %% 7, 'approval', 'open', CASE n %% 10 WHEN 0 THEN '["ann"]' ELSE '[]' END::jsonb, '{}'
	FROM generate_series(5, %[1]d, 5) n;
	INSERT INTO {schema}.assignments (reviewer, created_at, root_id, id)
	SELECT 'ann', created_at, root_id, id FROM {schema}.calls WHERE reviewers <> '[]';
	INSERT INTO {schema}.messages (session, number, turn, created_at, data)
	SELECT n, i, 1, now(), '{"id":"/1","role":"user","text":"hello"}' FROM generate_series(1, %[1]d) n, generate_series(0, 1) i;
	INSERT INTO {schema}.state (session, position, keyframe, data) SELECT n, 0, TRUE, '{}' FROM generate_series(1, %[1]d) n;
	INSERT INTO {schema}.runs (session, turn, id, started_at, start_sequence, first_message, before_checkpoint, before_position, data)
	SELECT n, 1, 'run', now(), 0, 0, '', 0, '{}' FROM generate_series(1, %[1]d) n;
	INSERT INTO {schema}.checkpoints (session, number, turn, step, message_count, state_position, log_sequence, created_at, id,
		step_id, id_key, step_key)
	SELECT n, 1, 1, 1, 2, 0, 0, now(), 'cp', 'step', 1, 1 FROM generate_series(1, %[1]d) n;
	INSERT INTO {schema}.removed (key, tree, root, id, root_id, incarnation, reason, removed_at, data)
	SELECT -n, -n, TRUE, 'gone-' || n, '', '', 'deleted', now() - n * interval '1 second', '{}' FROM generate_series(1, %[1]d / 10) n;
	ANALYZE {schema}.sessions, {schema}.heads, {schema}.calls, {schema}.assignments, {schema}.messages, {schema}.state,
		{schema}.runs, {schema}.checkpoints, {schema}.removed`

func openCrowd(t *testing.T, sessions int) *Store {
	t.Helper()
	s := openNew(t)
	if err := execAt(t, testenv.FastPostgres(t), fmt.Sprintf(s.texts.of(sqlCrowd), sessions)); err != nil {
		t.Fatal(err)
	}
	return s
}

// query is a statement with its arguments.
type query struct {
	text string
	args []any
}

// crowdQueries are queries over all sessions, and operations on one of them.
func crowdQueries(t *testing.T, s *Store) map[string]query {
	t.Helper()
	out := map[string]query{}
	add := func(name, text string, args []any, err error) {
		if err != nil {
			t.Fatal(err)
		}
		out[name] = query{text, args}
	}
	now := time.Now()
	for name, q := range map[string]driver.SessionQuery{
		"list": {}, "list of a user": {UserID: "user-7"}, "list of an agent": {Agent: "agent-7"},
		"list of a parent": {ParentID: "session-500"}, "list of a tree": {RootID: "session-500"}, "list of roots": {RootsOnly: true},
		"list of a user's chats": {UserID: "user-7", RootsOnly: true, Archived: new(false)},
		"list by status":         {Statuses: []cairn.SessionStatus{cairn.SessionCompleted}}, "list by tag": {Tags: []string{"tag-3"}},
		"list by metadata":             {Metadata: cairn.Metadata{"team": "3"}},
		"list by search":               {Search: "lamp"},
		"list of those made before":    {CreatedBefore: now},
		"list of those made after":     {CreatedAfter: now.Add(-24 * time.Hour)},
		"list of those changed before": {UpdatedBefore: now.Add(time.Hour)},
		"list of those changed after":  {UpdatedAfter: now.Add(-24 * time.Hour)},
	} {
		q.Limit = 10
		text, args, err := listStatement(&q)
		add(name, text, args, err)
	}
	open := []cairn.CallStatus{cairn.CallOpen}
	for name, q := range map[string]driver.CallQuery{
		"inbox": {Statuses: open}, "inbox of a reviewer": {Statuses: open, Reviewer: "ann"},
		"inbox of a tool": {Statuses: open, Tool: "tool-3"}, "inbox of a user": {Statuses: open, UserID: "user-7"},
		"inbox of an agent": {Statuses: open, Agent: "agent-0"}, "inbox of a tree": {Statuses: open, RootID: "session-500"},
	} {
		q.Limit = 10
		text, args, err := callStatement(&q)
		add(name, text, args, err)
	}
	page := driver.PageQuery{Limit: 10}
	text, args, err := staleStatement(page)
	add("stale", text, args, err)
	text, args, err = removedStatement(0, page)
	add("removed", text, args, err)
	due := []any{[]string{"late"}, time.Time{}, "", 10}
	add("crashed", dueStatement(sqlAgents, sqlCrashed), due, nil)
	add("waiting", dueStatement(sqlAgents, sqlWaiting), due, nil)
	add("read", sqlSession, []any{"session-777"}, nil)
	add("messages", sqlMessages, []any{"session-777", 0, 10}, nil)
	add("recent messages", sqlRecentMessages, []any{"session-777", 0, 10}, nil)
	add("checkpoint", sqlCheckpoint, []any{"session-777", 1}, nil)
	add("look", sqlLook, []any{"session-777", "run", 1, "run", []string{}}, nil)
	add("lock a tree", sqlLockTree, []any{"session-500"}, nil)
	add("purge", sqlPurge, []any{-7, 1000}, nil)
	for name, c := range crowdCommits() {
		w := must(s.prepare("session-777", c))
		w.d, w.key = must(planOf(c)), 777
		if err := w.encodeDelta(); err != nil {
			t.Fatal(err)
		}
		add(name, w.statement().text, w.statement().values(w), nil)
	}
	return out
}

// blocks returns how many pages of tables and indexes the server looks at for a statement, which is then taken back.
func (s *Store) blocks(t *testing.T, q query) int {
	t.Helper()
	tx := must(s.pool.Begin(t.Context()))
	defer tx.Rollback(t.Context())
	var raw []byte
	err := tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+s.texts.of(q.text),
		append([]any{pgx.QueryExecModeSimpleProtocol}, q.args...)...).Scan(&raw)
	if err != nil {
		t.Fatalf("%s: %v", q.text, err)
	}
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal(raw, &plans); err != nil {
		t.Fatal(err)
	}
	return plans[0].Plan.Hit + plans[0].Plan.Read
}

// TestCallsCostNoMoreInACrowd counts the pages that the server looks at among 1,000 sessions and among 30,000. There
// may be one more for each index that a statement goes down, and half as many more in all. The soak measures times.
func TestCallsCostNoMoreInACrowd(t *testing.T) {
	t.Parallel()
	few, many := openCrowd(t, 1000), openCrowd(t, 30_000)
	const indexes = 12 // that a statement goes down at most
	queries := crowdQueries(t, few)
	for _, name := range slices.Sorted(maps.Keys(queries)) {
		a, b := few.blocks(t, queries[name]), many.blocks(t, queries[name])
		t.Logf("%-28s %4d %4d", name, a, b)
		if b > a*3/2+indexes {
			t.Errorf("%s looks at %d pages among 30,000 sessions, %d among 1,000:\n%s", name, b, a,
				many.plan(t, queries[name].text, queries[name].args...))
		}
	}
}

// crowdCommits are the commits of a turn.
func crowdCommits() map[string]*driver.Commit {
	return map[string]*driver.Commit{
		"begin": {StartRun: &cairn.Run{ID: "run-2", Status: cairn.RunRunning}, Status: cairn.SessionActive, Messages: stepMessages("run-2"),
			Lease: driver.LeaseChange{Action: driver.LeaseTake, Owner: "worker", TTL: time.Hour}},
		"step": {Messages: stepMessages("run-2"), DropStaged: true, Checkpoint: &cairn.Checkpoint{ID: "cp-2", RunID: "run-2", StepID: "step-2"},
			Lease: driver.LeaseChange{Action: driver.LeaseRenew, TTL: time.Hour}},
		"end": {Messages: stepMessages("run-2"), DropStaged: true, EndRun: &cairn.Run{ID: "run", Status: cairn.RunCompleted},
			Status: cairn.SessionCompleted, Checkpoint: &cairn.Checkpoint{ID: "cp-2", RunID: "run-2", StepID: "step-2"},
			Lease: driver.LeaseChange{Action: driver.LeaseRelease}},
	}
}

// planOf plans a commit on the row of a session of the crowd.
func planOf(c *driver.Commit) (*plan.Delta, error) {
	row := &cairn.Session{ID: "session-777", RootID: "session-760", Version: 1, MessageCount: 2, RunID: "run", Turn: 1, AsOf: time.Now()}
	return plan.Work(c, &plan.Seen{ID: row.ID, Row: row, Checkpoints: 1}, nil)
}
