package sqlitestore

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// plan returns SQLite's query plan for a statement.
func (s *Store) plan(t *testing.T, text string, args ...any) string {
	t.Helper()
	var lines []string
	err := s.readers.read(t.Context(), func(c *conn) error {
		return c.search(context.Background(), "EXPLAIN QUERY PLAN "+text, func(cols *columns) bool {
			cols.at = 3
			lines = append(lines, cols.text())
			return true
		}, args...)
	})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return strings.Join(lines, "\n")
}

// Every frequent statement finds its rows by an index: none scans a whole table.
func TestStatementsUseIndexes(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	for _, test := range []struct {
		text, uses string
		args       int
	}{
		{sqlSession, "sessions_id", 1},
		{sqlSessionKey, "sessions_id", 1},
		{sqlUpdateHead, "INTEGER PRIMARY KEY", 25},
		{sqlUpdateHead, "sessions_id", 25},
		{sqlHappened, "checkpoints_step", 3},
		{sqlHappened, "runs_id", 3},
		{sqlMessages, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)", 3},
		{sqlStateChain, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)", 2},
		{sqlStateSizes, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)", 2},
		{sqlRun, "runs_id", 2},
		{sqlRuns, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)", 3},
		{sqlRunsNewest, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)", 3},
		{sqlCheckpoint, "checkpoints_id", 2},
		{sqlCheckpoints, "PRIMARY KEY (session=? AND number>?)", 3},
		{sqlCheckpointsNewest, "PRIMARY KEY (session=? AND number<?)", 3},
		{sqlDropStateBefore, "state USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)", 2},
		{sqlStaged, "staged_key", 1},
		{sqlStagedOfStep, "staged_key", 2},
		{sqlDropStaged, "staged_key", 1},
		{sqlRenew, "sessions_id", 4},
		{sqlCrashed, "heads_active", 5},
		{sqlWaiting, "heads_due", 5},
		{sqlStops, "heads_stopped", 0},
		{sqlUpdateWait, "INTEGER PRIMARY KEY", 3},
		{sqlCallSeen, "calls_id", 2},
		{sqlCallsOfStep, "calls_step (session=? AND step_id=?)", 2},
		{sqlUpdateCall, "INTEGER PRIMARY KEY", 13},
		{sqlUnassign, "assignments_call", 1},
		{sqlQueue, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)", 1},
		{sqlQueued, "queue_id", 1},
		{sqlDequeue, "queue_id", 2},
		{sqlCache, "cache_key (session=?)", 1},
		{sqlDropCache, "cache_key (session=? AND key=?)", 2},
		{sqlPlace, "logs_name", 3},
		{sqlPlace, "PRIMARY KEY (log=? AND session=?)", 3},
		{sqlPlace, "PRIMARY KEY (log=? AND session=? AND writer=?)", 3},
		{sqlForgetBatches, "PRIMARY KEY (log=? AND session=?)", 2},
		{sqlEvents, "SEARCH e USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)", 2},
		{sqlEvents, "SEARCH b USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)", 2},
		{sqlUnswept, "logs_sweep ((sweep_at,name)>(?,?) AND sweep_at<?)", 4},
		{sqlSwept, "logs_name", 4},
		{sqlTrimEvents, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)", 3},
		{sqlDropEvents, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)", 1},
		{sqlCopyMessages, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)", 3},
		{sqlDropMessagesFrom, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)", 2},
		{sqlDropStateAfter, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)", 2},
		{sqlStates, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)", 3},
		{sqlFirstState, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)", 1},
		{sqlEnqueue, "SEARCH queue USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)", 3},
		{sqlTree, "sessions_root (root_id=?)", 1},
		{sqlPostpone, "INTEGER PRIMARY KEY", 2},
		{sqlStale, "sessions_sweep (sweep_at>? AND sweep_at<?)", 4},
		{sqlRemoved, "removed_roots (removed_at>? AND removed_at<?)", 4},
		{sqlHide[0], "sessions_root (root_id=?)", 1},
		{sqlHide[1], "sessions_root (root_id=?)", 1},
		{sqlHide[2], "(root_id=?)", 1},
		{sqlHide[3], "assignments_call", 1},
		{sqlHide[4], "assignments_call", 1},
		{sqlHide[5], "(root_id=?)", 1},
		{sqlHide[6], "sessions_root (root_id=?)", 1},
		{sqlHide[7], "sessions_root (root_id=?)", 1},
		{sqlGone, "removed_id", 1},
		{sqlOverdue, "sessions_id", 1},
		{sqlRestore[0], "removed_sessions_key", 1},
		{sqlRestore[1], "removed_heads_session", 1},
		{sqlRestore[2], "removed_calls_session", 1},
		{sqlRestore[3], "removed_assignments_root", 1},
		{sqlRestore[8], "removed_tree (tree=?)", 1},
		{sqlForgetDropped, "logs_dropped", 1},
		{sqlRecord, "records_key (namespace=? AND key=?)", 2},
		{sqlRecords, "records_key (namespace=? AND key>? AND key<?)", 6},
		{sqlRecordsByIndex, "records_position (namespace=? AND (position,key)>(?,?)", 6},
		{sqlNamespaces, "records_key (namespace>?)", 2},
		{sqlDeleteRecord, "records_key (namespace=? AND key=?)", 2},
		{sqlSweepRecords, "records_expiry (expires_at>? AND expires_at<?)", 1},
		{sqlNextPurge, "removed_tree (tree=?)", 1},
		{sqlPurgeCheckpoints, "PRIMARY KEY (session=? AND number=?)", 2},
		{sqlPurge[0], "INTEGER PRIMARY KEY (rowid>? AND rowid<?)", 2},
		{sqlPurge[1], "INTEGER PRIMARY KEY (rowid>? AND rowid<?)", 2},
		{sqlPurge[2], "INTEGER PRIMARY KEY (rowid>? AND rowid<?)", 2},
		{sqlPurge[3], "staged_key (session=?)", 2},
		{sqlPurge[4], "removed_calls_session (session=?)", 2},
		{sqlPurge[5], "INTEGER PRIMARY KEY (rowid>? AND rowid<?)", 2},
		{sqlPurge[6], "cache_key (session=?)", 2},
	} {
		args := make([]any, test.args)
		plan := s.plan(t, test.text, args...)
		if !strings.Contains(plan, test.uses) {
			t.Errorf("%s\ndoes not use %s:\n%s", test.text, test.uses, plan)
		}
		for line := range strings.Lines(plan) {
			if strings.HasPrefix(line, "SCAN") && !strings.Contains(line, "heads_stopped") && !strings.Contains(line, "CONSTANT ROW") && !strings.Contains(line, "SCAN namespaces") {
				t.Errorf("%s\nreads everything:\n%s", test.text, plan)
			}
		}
	}
}

// A list that is read as a whole comes in order from an index, except for sessions that are due at the same moment.
func TestStatementsDoNotSort(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	for _, text := range []string{sqlMessages, sqlWaiting, sqlCallsOfStep, sqlQueue, sqlCache, sqlStale, sqlRemoved, sqlNextPurge} {
		if plan := s.plan(t, text, make([]any, strings.Count(text, "?"))...); strings.Contains(plan, "TEMP B-TREE FOR ORDER BY") ||
			strings.Contains(plan, "TEMP B-TREE") && text != sqlWaiting {
			t.Errorf("%s\nsorts:\n%s", text, plan)
		}
	}
}

// A step of a session without pending work runs no statement for pending work.
func TestStepStatements(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	steps := newStepper(t, s, "session", nil)
	steps.step()
	var texts []string
	s.intercept(t, func(text string) error {
		texts = append(texts, text)
		return nil
	})
	steps.step()
	want := []string{sqlBegin, sqlUpdateHead, sqlInsertMessage, sqlInsertMessage, sqlInsertUsage, sqlInsertCheckpoint, sqlDropStaged, sqlCommit}
	if !slices.Equal(texts, want) {
		t.Errorf("a step runs\n%s", strings.Join(texts, "\n"))
	}
}

// A page of sessions is read in order from an index: of several that would serve, the one with the fewest sessions.
func TestListUsesIndexes(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	current, archived := new(false), new(true)
	for _, c := range []struct {
		uses string
		q    driver.SessionQuery
	}{
		{"sessions_created", driver.SessionQuery{}},
		{"sessions_parent (parent_id=?", driver.SessionQuery{RootsOnly: true, Statuses: []cairn.SessionStatus{cairn.SessionPaused}}},
		{"sessions_parent (parent_id=?", driver.SessionQuery{Archived: archived}},
		{"sessions_agent (agent=?", driver.SessionQuery{Agent: "support"}},
		{"sessions_agent (agent=?", driver.SessionQuery{Agent: "support", RootsOnly: true}},
		{"sessions_user (user_id=?", driver.SessionQuery{UserID: "user"}},
		{"sessions_user (user_id=?", driver.SessionQuery{UserID: "user", RootsOnly: true}},
		{"sessions_user (user_id=?", driver.SessionQuery{UserID: "user", Agent: "support", RootsOnly: true}},
		{"sessions_current (user_id=?", driver.SessionQuery{UserID: "user", Archived: current}},
		{"sessions_current (user_id=?", driver.SessionQuery{UserID: "user", Agent: "support", RootsOnly: true, Archived: current}},
		{"sessions_archived (user_id=?", driver.SessionQuery{UserID: "user", RootsOnly: true, Archived: archived}},
		{"sessions_tenant (<expr>=?", driver.SessionQuery{Tenant: new("acme")}},
		{"sessions_tenant (<expr>=?", driver.SessionQuery{Tenant: new("acme"), Agent: "support", RootsOnly: true, Archived: current}},
		{"sessions_tenant (<expr>=?", driver.SessionQuery{Tenant: new(""), RootsOnly: true}},
		{"sessions_agent (agent=?", driver.SessionQuery{Tenant: new(""), Agent: "support", RootsOnly: true}},
		{"sessions_current (user_id=?", driver.SessionQuery{Tenant: new("acme"), UserID: "acme::user", Archived: current}},
		{"sessions_root (root_id=?", driver.SessionQuery{RootID: "root"}},
		{"sessions_root (root_id=?", driver.SessionQuery{RootID: "root", UserID: "user", Archived: current}},
		{"sessions_parent (parent_id=?", driver.SessionQuery{ParentID: "parent", UserID: "user"}},
		{"sessions_thread (thread_id=?", driver.SessionQuery{ThreadID: "thread"}},
		{"sessions_thread (thread_id=?", driver.SessionQuery{ThreadID: "thread", UserID: "user", Agent: "support", Archived: current}},
	} {
		for _, c.q.Cursor = range []string{"", "1.session"} {
			text, args, err := listStatement(&c.q)
			if err != nil {
				t.Fatal(err)
			}
			plan := s.plan(t, text, args...)
			if !strings.Contains(plan, c.uses) || strings.Contains(plan, "TEMP B-TREE FOR ORDER BY") {
				t.Errorf("%+v does not use %s:\n%s", c.q, c.uses, plan)
			}
		}
	}
}

// The removed sessions of a root or of a thread are found by an index.
func TestListOfRemovedUsesIndexes(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	for uses, q := range map[string]driver.SessionQuery{
		"removed_sessions_root (root_id=?":     {RootID: "root", RootsOnly: true},
		"removed_sessions_thread (thread_id=?": {ThreadID: "thread"},
	} {
		q.Removed = []driver.Removal{driver.Expired}
		text, args, err := listStatement(&q)
		if err != nil {
			t.Fatal(err)
		}
		if plan := s.plan(t, text, args...); !strings.Contains(plan, uses) {
			t.Errorf("%+v does not use %s:\n%s", q, uses, plan)
		}
	}
}

// A page of calls is read in order from indexes, and reads no more calls than it holds. An index serves every inbox
// query for open calls.
func TestCallsUseIndexes(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	for _, test := range []struct {
		uses string
		q    driver.CallQuery
	}{
		{"calls_created", driver.CallQuery{}},
		{"calls_created", driver.CallQuery{Statuses: []cairn.CallStatus{cairn.CallOpen, cairn.CallAnswered}}},
		{"calls_open", driver.CallQuery{}},
		{"calls_open", driver.CallQuery{Kind: cairn.CallApproval}},
		{"calls_open_tenant (<expr>=?", driver.CallQuery{Tenant: new("acme")}},
		{"calls_open_tenant (<expr>=?", driver.CallQuery{Tenant: new("acme"), Reviewer: "acme::ann"}},
		{"calls_open_user (user_id=?", driver.CallQuery{UserID: "user"}},
		{"calls_open_user (user_id=?", driver.CallQuery{Tenant: new("acme"), UserID: "acme::user"}},
		{"calls_open_tenant (<expr>=?", driver.CallQuery{Tenant: new("acme"), Agent: "support", Tool: "refund"}},
		{"calls_open_agent (agent=?", driver.CallQuery{Tenant: new(""), Agent: "support"}},
		{"calls_claimed (claimed_by=?", driver.CallQuery{Tenant: new("acme"), Claimed: "acme::ann"}},
		{"calls_open_agent (agent=?", driver.CallQuery{Agent: "support"}},
		{"calls_open_tool (tool=?", driver.CallQuery{Tool: "refund"}},
		{"calls_open_root (root_id=?", driver.CallQuery{RootID: "root"}},
		{"calls_id (root_id=? AND id=?", driver.CallQuery{RootID: "root", ID: "call"}},
		{"calls_step (session=? AND step_id=?", driver.CallQuery{SessionID: "session", StepID: "step"}},
		{"calls_open_free", driver.CallQuery{Reviewer: "ann"}},
		{"a USING PRIMARY KEY (reviewer=?", driver.CallQuery{Reviewer: "ann"}},
		{"calls_open_tool (tool=?", driver.CallQuery{Reviewer: "ann", Tool: "refund"}},
		{"calls_open_user (user_id=?", driver.CallQuery{Reviewer: "ann", UserID: "user"}},
		{"calls_claimed (claimed_by=?", driver.CallQuery{Claimed: "ann"}},
		{"calls_unsettled", driver.CallQuery{Kind: cairn.CallEffect, Statuses: []cairn.CallStatus{cairn.CallOpen, cairn.CallAnswered, cairn.CallDropped}}},
	} {
		q := test.q
		if q.Statuses == nil && test.uses != "calls_created" {
			q.Statuses = []cairn.CallStatus{cairn.CallOpen}
		}
		for _, cursor := range []string{"", "1.4.rootcall"} {
			q.Cursor = cursor
			text, args, err := callStatement(&q, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			plan := s.plan(t, text, args...)
			if !strings.Contains(plan, test.uses) || strings.Contains(plan, "TEMP B-TREE") {
				t.Errorf("%+v does not use %s:\n%s", q, test.uses, plan)
			}
		}
	}
}

// A statement that adds a session or a log keeps no copies of the pages that it changes, as one with RETURNING does.
func TestInsertsCopyNoPages(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	for _, text := range []string{sqlInsertSession, sqlInsertHead, sqlInsertLog, sqlImportLog} {
		err := s.readers.read(t.Context(), func(c *conn) error {
			var opcodes []string
			err := c.query(t.Context(), "EXPLAIN "+text, func(cols *columns) bool {
				cols.next()
				opcodes = append(opcodes, cols.text())
				return true
			}, make([]any, strings.Count(text, "?"))...)
			if !slices.Contains(opcodes, "MakeRecord") || slices.Contains(opcodes, "OpenEphemeral") {
				t.Errorf("%s\nis %v", text, opcodes)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}
