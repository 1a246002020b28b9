package sqlitestore

import (
	"context"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// plan returns what SQLite will do for a statement.
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

// Every statement that runs often finds its rows by an index: none reads a whole table.
func TestStatementsUseIndexes(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	for _, test := range []struct {
		text, uses string
		args       int
	}{
		{sqlSession, "sessions_id", 1},
		{sqlSessionKey, "sessions_id", 1},
		{sqlUpdateHead, "INTEGER PRIMARY KEY", 20},
		{sqlHappened, "checkpoints_step", 3},
		{sqlHappened, "runs_id", 3},
		{sqlMessages, "PRIMARY KEY (session=? AND number>?)", 3},
		{sqlStateChain, "PRIMARY KEY (session=? AND position<?)", 2},
		{sqlStateSizes, "PRIMARY KEY (session=? AND position<?)", 2},
		{sqlRun, "runs_id", 2},
		{sqlRuns, "PRIMARY KEY (session=? AND turn>?)", 3},
		{sqlRunsNewest, "PRIMARY KEY (session=? AND turn<?)", 3},
		{sqlCheckpoint, "checkpoints_id", 2},
		{sqlCheckpoints, "PRIMARY KEY (session=? AND number>?)", 3},
		{sqlCheckpointsNewest, "PRIMARY KEY (session=? AND number<?)", 3},
		{sqlDropStateBefore, "PRIMARY KEY (session=? AND position<?)", 2},
		{sqlStaged, "staged_key", 1},
		{sqlStagedOfStep, "staged_key", 2},
		{sqlDropStaged, "staged_key", 1},
		{sqlRenew, "sessions_id", 3},
		{sqlDue, "heads_active", 2},
		{sqlStops, "heads_stopped", 0},
		{sqlAdvanceLog, "logs_name", 3},
		{sqlEvents, "PRIMARY KEY (log=? AND sequence>?)", 3},
		{sqlTrimEvents, "PRIMARY KEY (log=? AND sequence<?)", 2},
	} {
		args := make([]any, test.args)
		plan := s.plan(t, test.text, args...)
		if !strings.Contains(plan, test.uses) {
			t.Errorf("%s\ndoes not use %s:\n%s", test.text, test.uses, plan)
		}
		for line := range strings.Lines(plan) {
			if strings.HasPrefix(line, "SCAN") && !strings.Contains(line, "heads_stopped") && !strings.Contains(line, "CONSTANT ROW") {
				t.Errorf("%s\nreads everything:\n%s", test.text, plan)
			}
		}
	}
}

// A page of sessions is read in order from an index, without looking at more sessions than it holds.
func TestListUsesIndexes(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	for uses, q := range map[string]store.SessionQuery{
		"sessions_created": {},
		"sessions_user":    {UserID: "user"},
		"sessions_agent":   {Agent: "support"},
		"sessions_root":    {RootID: "root"},
		"sessions_parent":  {RootsOnly: true, Statuses: []cairn.SessionStatus{cairn.SessionPaused}, Cursor: "1.session"},
	} {
		text, args, err := listStatement(&q)
		if err != nil {
			t.Fatal(err)
		}
		plan := s.plan(t, text, args...)
		if !strings.Contains(plan, uses) || strings.Contains(plan, "TEMP B-TREE FOR ORDER BY") {
			t.Errorf("%+v does not use %s:\n%s", q, uses, plan)
		}
	}
}
