package pgstore

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
	"github.com/jackc/pgx/v5"
)

// sqlFill makes 5,000 sessions of which few are active, due, stale or to be stopped, with 40,000 calls of which few are
// open, and a log of 10,000 events. The last session has a long history. As many sessions are removed and not purged.
const sqlFill = `
	INSERT INTO {schema}.sessions (id, sweep_at, agent, user_id, tags, metadata, trace_parent, parent_id, root_id, incarnation, kind, name, secret, created_at)
	SELECT 'session-' || n, CASE n % 10 WHEN 0 THEN now() - n * interval '1 second' END, 'agent-' || n % 50, 'user-' || n % 100, '{}', '{}', '', CASE n % 20 WHEN 0 THEN 'session-1' ELSE '' END,
		'session-' || n % 100, '', '', '', '', now() - n * interval '1 second'
	FROM generate_series(1, 5000) n;
	INSERT INTO {schema}.heads (session, version, lease_token, updated_at, lease_until, due_at, agent, status, run_id, suspended_step,
		due, stop_run, data)
	SELECT key, 1, 0, now(), now(), CASE key % 100 WHEN 2 THEN now() - key * interval '1 second' END, agent,
		CASE key % 100 WHEN 1 THEN 'active' ELSE 'completed' END, '', '', '', CASE key % 500 WHEN 3 THEN 'run' ELSE '' END,
		'{"checkpoint_id":"' || repeat('c', 300) || '"}'
	FROM {schema}.sessions;
	INSERT INTO {schema}.calls (root_id, id, session, version, created_at, updated_at, claimed_until, claimed_by, step_id, user_id, agent, tool, kind,
		status, reviewers, data)
	SELECT 'session-' || n % 1000, 'call-' || n, 1 + n % 5000, 1, now() - n * interval '1 second', now(),
		CASE n % 40 WHEN 1 THEN now() + interval '1 hour' END, CASE n % 40 WHEN 1 THEN 'ann' ELSE '' END,
		'step-' || n, 'user-' || n % 100, 'agent-' || n % 50, 'tool-' || n % 10, 'approval', CASE n % 10 WHEN 1 THEN 'open' ELSE 'settled' END,
		CASE WHEN n % 20 = 1 THEN '["bob"]' ELSE '[]' END::jsonb, '{}'
	FROM generate_series(1, 40000) n;
	INSERT INTO {schema}.assignments (reviewer, created_at, root_id, id)
	SELECT CASE WHEN session % 40 = 1 THEN 'bob' ELSE 'eve' END, created_at, root_id, id FROM {schema}.calls WHERE status = 'open';
	INSERT INTO {schema}.logs (name, first, last, sweep_at)
	SELECT 'log-' || n, 1, 10000, now() + CASE n % 100 WHEN 1 THEN -n ELSE n END * interval '1 second' FROM generate_series(1, 2000) n;
	INSERT INTO {schema}.events (log, last, data) SELECT 1 + n % 10, n, '' FROM generate_series(1, 10000) n;
	INSERT INTO {schema}.messages (session, number, turn, created_at, data) SELECT 1 + n % 10, n, n, now(), '{}' FROM generate_series(1, 10000) n;
	INSERT INTO {schema}.state (session, position, keyframe, data) SELECT 1 + n % 10, n, n % 100 < 10, '{}' FROM generate_series(1, 10000) n;
	INSERT INTO {schema}.checkpoints (session, number, turn, step, message_count, state_position, log_sequence, created_at, id, step_id,
		id_key, step_key)
	SELECT 1 + n % 10, n, n, 1, n, n, n, now(), 'cp-' || n, 'step-' || n, n, n FROM generate_series(1, 10000) n;
	INSERT INTO {schema}.runs (session, turn, id, started_at, start_sequence, first_message, before_checkpoint, before_position, text_at, data)
	SELECT 1 + n % 10, n, 'run-' || n, now(), 0, 0, '', 0, n + 1, '{}' FROM generate_series(1, 10000) n;
	INSERT INTO {schema}.staged (session, step_id, key, data) SELECT n, 'step', 'key', '{}' FROM generate_series(1, 5000) n;
	INSERT INTO {schema}.queue (session, id, data) SELECT n, 'turn', '[]' FROM generate_series(1, 5000) n;
	INSERT INTO {schema}.cache (session, key, data) SELECT n, 'key', '{}' FROM generate_series(1, 5000) n;
	INSERT INTO {schema}.removed (key, tree, root, id, root_id, incarnation, reason, removed_at, data)
	SELECT 10000 + n, 10000 + n - n % 10, n % 10 = 0, 'gone-' || n, '', '', 'deleted', now() - n * interval '1 second', '{}' FROM generate_series(1, 5000) n;
	INSERT INTO {schema}.removed_calls (session, data) SELECT 10000 + n % 5000, '{}' FROM generate_series(1, 20000) n;
	INSERT INTO {schema}.records (namespace, key, position, created_at, updated_at, expires_at, value)
	SELECT 'ns-' || n % 10, 'key-' || n, 'position-' || n % 1000, now(), now(), CASE n % 100 WHEN 1 THEN now() - n * interval '1 second' END, '{}'
	FROM generate_series(1, 20000) n;
	INSERT INTO {schema}.memory_scopes (version, updated_at, due_at, kind, name)
	SELECT n, now(), CASE n % 100 WHEN 1 THEN now() END, CASE n % 2 WHEN 0 THEN 'session' ELSE 'user' END, 'gone-' || n FROM generate_series(1, 5000) n;
	INSERT INTO {schema}.memory_entries (scope, key, value)
	SELECT 1 + n % 1000, 'key-' || n, 'value' FROM generate_series(1, 50000) n;
	INSERT INTO {schema}.blobs (unnamed_at, size, tenant, hash, data)
	SELECT CASE n % 100 WHEN 1 THEN now() - n * interval '1 second' END, 1, 'tenant-' || n % 10, 'hash-' || n, '' FROM generate_series(1, 50000) n;
	INSERT INTO {schema}.blob_owners (root, incarnation) SELECT 'gone-' || n, '' FROM generate_series(1, 5000) n;
	INSERT INTO {schema}.blob_names (owner, blob) SELECT 1 + n % 1000, n FROM generate_series(1, 50000) n WHERE n % 100 <> 1;
	ANALYZE {schema}.blobs, {schema}.blob_owners, {schema}.blob_names, {schema}.memory_scopes, {schema}.memory_entries, {schema}.records, {schema}.removed, {schema}.removed_calls, {schema}.sessions, {schema}.heads, {schema}.calls, {schema}.assignments, {schema}.logs, {schema}.events, {schema}.messages,
		{schema}.state, {schema}.checkpoints, {schema}.runs, {schema}.staged, {schema}.queue, {schema}.cache`

func openFilled(t *testing.T) *Store {
	t.Helper()
	s := openNew(t)
	if err := execAt(t, testenv.FastPostgres(t), s.texts.of(sqlFill)); err != nil {
		t.Fatal(err)
	}
	return s
}

// plan returns what the server does for a statement.
func (s *Store) plan(t *testing.T, text string, args ...any) string {
	t.Helper()
	rows, err := s.pool.Query(t.Context(), "EXPLAIN (COSTS OFF) "+s.texts.of(text), append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return strings.Join(lines, "\n")
}

// wantIndexes checks that a plan uses indexes and reads no table from end to end.
func wantIndexes(t *testing.T, what, plan string, names ...string) {
	t.Helper()
	for _, name := range names {
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(plan) {
			t.Errorf("%s does not use %s:\n%s", what, name, plan)
		}
	}
	if strings.Contains(plan, "Seq Scan on") {
		t.Errorf("%s reads a whole table:\n%s", what, plan)
	}
}

func TestStatementsUseTheirIndexes(t *testing.T) {
	t.Parallel()
	s := openFilled(t)
	due := []any{[]string{"agent-2"}, time.Now().Add(-time.Hour), "", 10}
	for name, c := range map[string]struct {
		text string
		args []any
		uses []string
	}{
		"session": {sqlSession, []any{"session-7"}, []string{"sessions_id", "heads_pkey"}},
		"lock":    {sqlLockSession, []any{"session-7"}, []string{"sessions_id", "heads_pkey"}},
		"look":    {sqlLook, []any{"session-7", "run", 7, "run", []string{"call-7"}}, []string{"sessions_id", "heads_pkey", "runs_id", "checkpoints_step", "queue_(id|pkey)", "calls_pkey"}},
		"read memories": {sqlReadMemories, []any{"user", "gone-7", []string{"key-1", "a"}, []string{"key-2", "z"}, []int64{0, 10}, []bool{false, true}},
			[]string{"memory_scopes_pkey", "memory_entries_pkey"}},
		"write memories": {sqlWriteMemories, []any{"user", "gone-7", 7, nil, []string{"key-1"}, []string{"key-2"}, [][]byte{{1}}},
			[]string{"memory_scopes_pkey", "memory_entries_pkey"}},
		"drop memories":     {sqlDropMemories, []any{7}, []string{"memory_entries_pkey"}},
		"memory scopes":     {sqlMemoryScopes, []any{"user", "gone-7", "", 10}, []string{"memory_scopes_pkey"}},
		"memory scopes due": {sqlMemoryScopesDue, []any{"", "", "", 10}, []string{"memory_scopes_due"}},
		"put blobs":         {sqlPutBlobs, []any{"tenant-7", []string{"hash-7"}, [][]byte{{1}}}, nil},
		"lock blobs":        {sqlLockBlobs, []any{"tenant-7", []string{"hash-7"}}, []string{"blobs_pkey"}},
		"name blobs":        {sqlNameBlobs, []any{7, "tenant-7", []string{"hash-7"}}, []string{"blobs_pkey"}},
		"keep blobs":        {sqlKeepBlobs, []any{[]int64{7, 8}}, []string{"blobs_(key_key|unnamed)"}},
		"get blobs":         {sqlGetBlobs, []any{"gone-7", "", []string{"hash-7"}, "tenant-7"}, []string{"blob_owners_pkey", "blobs_pkey", "blob_names_(pkey|blob)"}},
		"unname blobs":      {sqlUnnameBlobs, []any{7, []int64{7, 8}}, []string{"blob_names_(pkey|blob)", "blobs_key_key"}},
		"drop an owner":     {sqlDropBlobOwner, []any{7}, []string{"blob_owners_key_key", "blob_names_pkey"}},
		"list blobs":        {sqlListBlobs, []any{"gone-7", "", 7, 10}, []string{"blob_owners_pkey", "blob_names_pkey", "blobs_key_key"}},
		"owners of blobs":   {sqlBlobOwners, []any{"gone-7", "", 10}, []string{"blob_owners_pkey"}},
		"unnamed blobs":     {sqlUnnamedBlobs, []any{1000, 100}, []string{"blobs_unnamed"}},
		"sweep blobs":       {sqlSweepBlobs, []any{[]int64{7, 8}}, []string{"blobs_key_key", "blob_names_blob"}},
		"messages":          {sqlMessages, []any{"session-7", 100, 10}, []string{"messages_pkey", "runs_pkey"}},
		"recent messages":   {sqlRecentMessages, []any{"session-7", 100, 10}, []string{"messages_pkey", "heads_pkey", "runs_pkey"}},
		"state":             {sqlState, []any{"session-7"}, []string{"state_pkey"}},
		"state of then":     {sqlStateAtCheckpoint, []any{"session-7", 7}, []string{"checkpoints_id", "state_pkey"}},
		"run":               {sqlRun, []any{"session-7", "run-7"}, []string{"runs_id", "messages_pkey"}},
		"runs to keep":      {sqlRunsSaid, []any{7, 9000}, []string{"runs_pkey", "messages_pkey"}},
		"runs":              {sqlRuns, []any{"session-7", 50, 10}, []string{"runs_pkey", "messages_pkey"}},
		"newest runs":       {sqlRunsNewest, []any{"session-7", 9000, 10}, []string{"runs_pkey", "messages_pkey"}},
		"checkpoint":        {sqlCheckpoint, []any{"session-7", 7}, []string{"checkpoints_id"}},
		"checkpoints":       {sqlCheckpoints, []any{"session-7", 50, 10}, []string{"checkpoints_pkey"}},
		"prune":             {sqlPrune, []any{7, 10}, []string{"checkpoints_pkey", "state_pkey"}},
		"rewind":            {sqlCut, []any{7, 9000, 9000, 9000}, []string{"messages_pkey", "state_pkey", "checkpoints_pkey"}},
		"delete":            {sqlDelete, []any{7}, []string{"messages_pkey", "state_pkey", "runs_pkey", "staged_key", "calls_step", "assignments_call", "queue_(id|pkey)", "cache_pkey"}},
		"stage":             {sqlStage, []any{"session-7", 1, []string{"s"}, []string{"k"}, []string{"1"}}, []string{"sessions_id", "heads_pkey"}},
		"staged":            {sqlStaged, []any{"session-7"}, []string{"staged_key"}},
		"staged of a step":  {sqlStagedOfStep, []any{"session-7", "step"}, []string{"staged_key"}},
		"renew":             {sqlRenew, []any{"session-7", 1, time.Hour}, []string{"sessions_id", "heads_pkey"}},
		"stop":              {sqlRequestStop, []any{"session-7", "run", "{}", true}, []string{"sessions_id"}},
		"stops":             {sqlStops, nil, []string{"heads_stopped"}},
		"crashed":           {dueStatement(sqlAgents, sqlCrashed), due, []string{"heads_active"}},
		"waiting":           {dueStatement(sqlAgents, sqlWaiting), due, []string{"heads_due"}},
		"calls of a step":   {sqlCallsOfStep, []any{"session-7"}, []string{"calls_step"}},
		"calls seen":        {sqlCallsSeen, []any{"session-7", []string{"call-7"}}, []string{"calls_pkey"}},
		"queue":             {sqlQueue, []any{"session-7"}, []string{"queue_(id|pkey)"}},
		"cache":             {sqlCache, []any{"session-7"}, []string{"cache_pkey"}},
		"append":            {sqlAppend, []any{"log-7", 1, -1, []byte{1}, false}, []string{"logs_name"}},
		"fenced append":     {sqlAppendFenced, []any{"log-7", 1, -1, []byte{1}, false, "session", 1, "writer", 1}, []string{"logs_name"}},
		"events":            {sqlEvents, []any{"log-7", 100, 10}, []string{"logs_name", "events_pkey"}},
		"trim":              {sqlTrim, []any{"log-7", 100, 1000}, []string{"logs_name", "events_pkey"}},
		"swept":             {sqlSwept, []any{"log-7", 100, time.Hour}, []string{"logs_name"}},
		"drop":              {sqlDropLog, []any{"log-7", time.Hour}, []string{"logs_dropped", "events_pkey"}},
		"lasts":             {sqlLasts, []any{[]string{"log-7", "log-8"}}, []string{"logs_name"}},
		"where to branch":   {sqlPositionBefore, []any{7, 100}, []string{"checkpoints_pkey", "state_pkey"}},
		"lock a tree":       {sqlLockTree, []any{"session-7"}, []string{"sessions_root", "heads_pkey"}},
		"tree":              {sqlTree, []any{"session-7"}, []string{"sessions_root", "heads_pkey"}},
		"hide":              {sqlHide, []any{"session-7", 7, []int64{7, 107}, "deleted", time.Now(), "incarnation"}, []string{"sessions_pkey", "heads_pkey", "calls_step", "assignments_call"}},
		"find":              {sqlFind, []any{"session-7"}, []string{"sessions_id"}},
		"overdue":           {sqlOverdue, []any{[]string{"session-7"}}, []string{"sessions_(id|sweep)"}},
		"gone":              {sqlGone, []any{"session-7"}, []string{"removed_id"}},
		"lock removed":      {sqlLockRemoved, []any{10010}, []string{"removed_tree"}},
		"free names":        {sqlFreeNames, []any{10010}, []string{"removed_tree", "sessions_id"}},
		"unhide":            {sqlUnhide, []any{10010}, []string{"removed_tree", "removed_calls_session"}},
		"postpone":          {sqlPostpone, []any{7, time.Now()}, []string{"sessions_pkey"}},
		"purge":             {sqlPurge, []any{10010, 1000}, []string{"removed_tree", "messages_pkey", "state_pkey", "runs_(id|pkey)", "checkpoints_(id|pkey|step)", "staged_key", "queue_(id|pkey)", "cache_pkey", "removed_calls_session", "removed_pkey"}},
		"record":            {sqlRecord, []any{"ns-7", "key-7"}, []string{"records_pkey"}},
		"put a record":      {sqlPutRecord, []any{"ns-7", "key-7", "position-7", "1", 0, 0}, []string{"records_expiry"}},
		"replace a record":  {sqlReplaceRecord, []any{"ns-7", "key-7", "position-7", "1", 0, 7}, []string{"records_expiry", "records_pkey"}},
		"delete a record":   {sqlDeleteRecord, []any{"ns-7", "key-7", 7}, []string{"records_pkey"}},
		"copying a session": {sqlCopyMessages, []any{"session-7", 8, 100}, []string{"sessions_id", "messages_pkey"}},
	} {
		t.Run(name, func(t *testing.T) { wantIndexes(t, name, s.plan(t, c.text, c.args...), c.uses...) })
	}
}

// TestSummaryBoundsWhatIsRead has one session with nearly all messages and runs, which the server knows: it still reads
// those from the summary on by their keys.
func TestSummaryBoundsWhatIsRead(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	err := execAt(t, testenv.FastPostgres(t), s.texts.of(`
		INSERT INTO {schema}.sessions (id, agent, user_id, tags, metadata, trace_parent, parent_id, root_id, incarnation, kind, name, secret, created_at)
		SELECT 'session-' || n, 'bot', '', '{}', '{}', '', '', 'session-' || n, '', '', '', '', now() FROM generate_series(1, 2) n;
		INSERT INTO {schema}.heads (session, version, lease_token, updated_at, agent, status, run_id, suspended_step, due, stop_run, data)
		SELECT key, 1, 0, now(), 'bot', 'completed', '', '', '', '', '{"summary":{"at":4990,"from":4980}}' FROM {schema}.sessions;
		INSERT INTO {schema}.messages (session, number, turn, created_at, data)
		SELECT key, n, n / 4, now(), json_build_object('text', repeat('word ', 100)) FROM {schema}.sessions, generate_series(1, 5000) n WHERE n < 50 OR id = 'session-1';
		INSERT INTO {schema}.runs (session, turn, id, started_at, start_sequence, first_message, before_checkpoint, before_position, data)
		SELECT key, n, id || '-run-' || n, now(), 0, 0, '', 0, '{}' FROM {schema}.sessions, generate_series(1, 1250) n WHERE n < 12 OR id = 'session-1';
		ANALYZE {schema}.sessions, {schema}.heads, {schema}.messages, {schema}.runs`))
	if err != nil {
		t.Fatal(err)
	}
	plan := s.plan(t, sqlRecentMessages, "session-1", 0, 100_000)
	if !regexp.MustCompile(`Index Cond: .*number >= `).MatchString(plan) || regexp.MustCompile(`Seq Scan on (messages|runs)`).MatchString(plan) {
		t.Errorf("the summary is no bound of the index:\n%s", plan)
	}
}

func TestCommitsUseTheirIndexes(t *testing.T) {
	t.Parallel()
	s := openFilled(t)
	c := &driver.Commit{Create: &cairn.Session{Agent: "support"}, Messages: stepMessages("run"), State: &driver.StateChange{},
		Checkpoint: &cairn.Checkpoint{}, StartRun: &cairn.Run{ID: "run"}, DropStaged: true,
		Calls: []driver.CallWrite{{Call: openCall("1")}}, Enqueue: &driver.QueuedTurn{ID: "turn"},
		Cache: []driver.CacheEntry{{Key: "a"}}, CacheDrop: []string{"b"}, Events: []cairn.Event{{Type: cairn.EventCustom}}}
	w := must(s.prepare("session-7", c))
	w.d = must(plan.Work(c, &plan.Seen{ID: "session-7"}, nil))
	w.d.EndRun, w.d.Dequeue, w.key = c.StartRun, []string{"turn"}, 7
	w.left = &knownSession{key: 7, row: w.d.Row}
	kept := []string{"heads_pkey", "sessions_id", "staged_key"}
	for name, c := range map[string]struct {
		of   *forms
		uses []string
	}{
		"step":             {commitStep, kept},
		"state":            {commitState, kept},
		"run":              {commitRun, append(kept, "runs_id")},
		"all there is":     {commitAll, append(kept, "runs_id", "queue_(id|pkey)", "cache_pkey", "calls_pkey", "assignments_call", "sessions_pkey")},
		"several sessions": {joinedForms(w), append(kept, "runs_id")},
		"a new session":    {createAll, []string{"sessions_id", "cache_pkey", "assignments_call"}},
		"after statements": {&forms{logged: appendLast}, []string{"heads_pkey", "checkpoints_pkey", "runs_pkey"}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.of.plain != nil {
				wantIndexes(t, name, s.plan(t, c.of.plain.text, c.of.plain.values(w)...), c.uses...)
			}
			wantIndexes(t, name+" with events", s.plan(t, c.of.logged.text, c.of.logged.values(w)...), append(c.uses, "logs_name")...)
		})
	}
}

// joinedForms are joined and joinedLogged with the rows of one step.
func joinedForms(w *write) *forms {
	var columns joinedColumns
	columns.add(w)
	of := func(text string) *statement {
		s := &statement{text: text}
		for _, v := range columns.values() {
			s.args = append(s.args, func(*write) any { return v })
		}
		return s
	}
	f := &forms{logged: of(joinedLogged)}
	columns.events.session = nil
	f.plain = of(joined)
	return f
}

// TestListsUseTheirIndexes looks at each filter that has an index: the page is read from it in order, without sorting.
func TestListsUseTheirIndexes(t *testing.T) {
	t.Parallel()
	s := openFilled(t)
	cursor := driver.SessionCursor(&cairn.Session{ID: "session-7", CreatedAt: time.Now()})
	for index, q := range map[string]driver.SessionQuery{
		"sessions_created": {},
		"sessions_user":    {UserID: "user-7"},
		"sessions_agent":   {Agent: "agent-7"},
		"sessions_parent":  {ParentID: "session-1"},
		"sessions_root":    {RootID: "session-7"},
		"sessions_thread":  {ThreadID: "session-7"},
	} {
		for _, q.Cursor = range []string{"", cursor} {
			q.Limit = 10
			text, args, err := listStatement(&q)
			if err != nil {
				t.Fatal(err)
			}
			wantOrder(t, fmt.Sprintf("%+v", q), s.plan(t, text, args...), index)
		}
	}
}

// TestListOfAUserSkipsArchived has a user with thousands of archived sessions and a few others: each list reads its own
// sessions only.
func TestListOfAUserSkipsArchived(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	err := execAt(t, testenv.FastPostgres(t), s.texts.of(`
		INSERT INTO {schema}.sessions (id, archived_at, agent, user_id, tags, metadata, trace_parent, parent_id, root_id, incarnation, kind, name, secret, created_at)
		SELECT 'session-' || n, CASE WHEN n < 5000 AND n % 100 > 0 THEN now() END, 'bot', 'user-' || n % 2, '{}', '{}', '', '', 'session-' || n, '', '', '', '', now() - n * interval '1 second'
		FROM generate_series(1, 6000) n;
		INSERT INTO {schema}.heads (session, version, lease_token, updated_at, agent, status, run_id, suspended_step, due, stop_run, data)
		SELECT key, 1, 0, now(), 'bot', 'completed', '', '', '', '', '{}' FROM {schema}.sessions;
		ANALYZE {schema}.sessions, {schema}.heads`))
	if err != nil {
		t.Fatal(err)
	}
	cursor := driver.SessionCursor(&cairn.Session{ID: "session-7", CreatedAt: time.Now()})
	for index, q := range map[string]driver.SessionQuery{
		"sessions_current":  {UserID: "user-0", RootsOnly: true, Archived: new(false)},
		"sessions_archived": {UserID: "user-0", RootsOnly: true, Archived: new(true)},
	} {
		for _, q.Cursor = range []string{"", cursor} {
			q.Limit = 10
			text, args, err := listStatement(&q)
			if err != nil {
				t.Fatal(err)
			}
			wantOrder(t, fmt.Sprintf("%+v", q), s.plan(t, text, args...), index)
		}
	}
}

// TestListsOfTenantUseTheirIndexes has fifty tenants: a list reads the sessions, or the open calls, of its own only.
func TestListsOfTenantUseTheirIndexes(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	err := execAt(t, testenv.FastPostgres(t), s.texts.of(`
		INSERT INTO {schema}.sessions (id, agent, user_id, tags, metadata, trace_parent, parent_id, root_id, incarnation, kind, name, secret, created_at)
		SELECT 't' || n % 50 || '::s' || n, 'bot', '', '{}', '{}', '', '', 't' || n % 50 || '::s' || n, '', '', '', '', now() - n * interval '1 second'
		FROM generate_series(1, 6000) n;
		INSERT INTO {schema}.heads (session, version, lease_token, updated_at, agent, status, run_id, suspended_step, due, stop_run, data)
		SELECT key, 1, 0, now(), 'bot', 'completed', '', '', '', '', '{}' FROM {schema}.sessions;
		INSERT INTO {schema}.calls (root_id, id, session, version, created_at, updated_at, claimed_by, step_id, user_id, agent, tool, kind, status, reviewers, data)
		SELECT id, 'call', key, 1, created_at, now(), '', 'step', '', 'bot', 'refund', 'approval', 'open', '[]', '{}' FROM {schema}.sessions;
		ANALYZE {schema}.sessions, {schema}.heads, {schema}.calls`))
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []driver.SessionQuery{
		{Tenant: new("t7")}, {Tenant: new("t7"), Agent: "bot", RootsOnly: true, Archived: new(false)},
		{Tenant: new("t7"), Cursor: driver.SessionCursor(&cairn.Session{ID: "t7::s7", CreatedAt: time.Now()})},
	} {
		q.Limit = 10
		text, args, err := listStatement(&q)
		if err != nil {
			t.Fatal(err)
		}
		wantOrder(t, fmt.Sprintf("%+v", q), s.plan(t, text, args...), "sessions_tenant")
	}
	q := driver.CallQuery{Tenant: new("t7"), Statuses: []cairn.CallStatus{cairn.CallOpen}, Limit: 10}
	text, args, err := callStatement(&q)
	if err != nil {
		t.Fatal(err)
	}
	wantIndexes(t, "open calls of a tenant", s.plan(t, text, args...), "calls_open_tenant")
}

// TestSweepListsUseTheirIndexes reads the pages of a sweep from their indexes in order, without sorting.
func TestSweepListsUseTheirIndexes(t *testing.T) {
	t.Parallel()
	s := openFilled(t)
	for _, cursor := range []string{"", driver.SweepCursor(time.Now().Add(-time.Hour), "7")} {
		q := driver.PageQuery{Cursor: cursor, Limit: 10}
		text, args, err := staleStatement(q)
		if err != nil {
			t.Fatal(err)
		}
		wantOrder(t, "stale sessions", s.plan(t, text, args...), "sessions_sweep")
		if text, args, err = removedStatement(time.Minute, q); err != nil {
			t.Fatal(err)
		}
		wantOrder(t, "removed sessions", s.plan(t, text, args...), "removed_roots")
		if text, args, err = unsweptStatement(time.Minute, q); err != nil {
			t.Fatal(err)
		}
		wantOrder(t, "logs to sweep", s.plan(t, text, args...), "logs_sweep")
	}
}

func TestRecordListsUseTheirIndexes(t *testing.T) {
	t.Parallel()
	s := openFilled(t)
	wantOrder(t, "by key", s.plan(t, sqlRecords, "ns-7", "key-", "key-7", "key-\U0010ffff", 10), "records_pkey")
	wantIndexes(t, "namespaces", s.plan(t, sqlNamespaces, "ns-7", 10), "records_pkey")
	wantOrder(t, "by index", s.plan(t, sqlRecordsByIndex, "ns-7", "position-", "key-7", "position-\U0010ffff", 10), "records_position")
}

func TestCallListsUseTheirIndexes(t *testing.T) {
	t.Parallel()
	s := openFilled(t)
	cursor := driver.CallCursor(&cairn.PendingCall{CallRef: cairn.CallRef{RootID: "session-7", ID: "call-7"}, CreatedAt: time.Now().Add(-time.Hour)})
	open, unsettled := []cairn.CallStatus{cairn.CallOpen}, []cairn.CallStatus{cairn.CallOpen, cairn.CallAnswered, cairn.CallDropped}
	for _, c := range []struct {
		q    driver.CallQuery
		uses []string
		many bool // more than it would be cheaper to sort
	}{
		{driver.CallQuery{}, []string{"calls_created"}, true},
		{driver.CallQuery{RootID: "session-7", ID: "call-7"}, []string{"calls_pkey"}, false},
		{driver.CallQuery{Statuses: open}, []string{"calls_open"}, true},
		{driver.CallQuery{Statuses: open, UserID: "user-11"}, []string{"calls_open_user"}, false},
		{driver.CallQuery{Statuses: open, Agent: "agent-11"}, []string{"calls_open_agent"}, false},
		{driver.CallQuery{Statuses: open, Tool: "tool-1"}, []string{"calls_open_tool"}, false},
		{driver.CallQuery{Statuses: open, RootID: "session-11"}, []string{"calls_open_root"}, false},
		{driver.CallQuery{Statuses: open, Reviewer: "bob"}, []string{"calls_open_free", "assignments_pkey"}, false},
		{driver.CallQuery{Claimed: "ann"}, []string{"calls_claimed"}, false},
		{driver.CallQuery{Kind: cairn.CallEffect, Statuses: unsettled}, []string{"calls_unsettled"}, false},
		{driver.CallQuery{SessionID: "session-7", StepID: "step-7"}, []string{"calls_step"}, false},
	} {
		for _, c.q.Cursor = range []string{"", cursor} {
			c.q.Limit = 5
			text, args, err := callStatement(&c.q)
			if err != nil {
				t.Fatal(err)
			}
			plan := s.plan(t, text, args...)
			wantIndexes(t, fmt.Sprintf("%+v", c.q), plan, c.uses...)
			if c.many {
				wantOrder(t, fmt.Sprintf("%+v", c.q), plan)
			}
		}
	}
}

// wantOrder checks that a plan reads indexes in the order of the list.
func wantOrder(t *testing.T, what, plan string, names ...string) {
	t.Helper()
	wantIndexes(t, what, plan, names...)
	if slices.Contains(strings.Fields(plan), "Sort") {
		t.Errorf("%s sorts:\n%s", what, plan)
	}
}

// TestStepsAreHot commits steps and asks the server how many of them wrote an index of the session's head: only those
// that begin or end a run do.
func TestStepsAreHot(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	st := newStepper(t, s, "session", nil)
	const runs = 20
	for range runs * stepsPerRun {
		if err := st.step(); err != nil {
			t.Fatal(err)
		}
	}
	s.Close() // backends report the statistics of their writes when they end at the latest
	var hot, all int64
	for all < runs*stepsPerRun {
		c := must(pgx.Connect(t.Context(), testenv.FastPostgres(t)))
		err := c.QueryRow(t.Context(), s.texts.of("SELECT n_tup_hot_upd, n_tup_upd FROM pg_stat_user_tables WHERE relid = '{schema}.heads'::regclass")).Scan(&hot, &all)
		c.Close(t.Context())
		if err != nil {
			t.Fatal(err)
		}
	}
	if want := int64(runs * (stepsPerRun - 2)); hot < want*9/10 {
		t.Errorf("%d of %d updates were hot, want about %d", hot, all, want)
	}
}
