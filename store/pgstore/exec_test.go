package pgstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host/hosttest"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
)

// Rows of tools are there once for each committed step, on every host.
func TestStatements(t *testing.T) {
	t.Parallel()
	hosttest.RunStatements(t, onServer, func(tb testing.TB, st driver.Store) hosttest.Table {
		s := st.(*Store)
		refunds := ownTable(tb, s, "(key text PRIMARY KEY, n int)")
		return hosttest.Table{
			Insert: func(call *cairn.Call, key string, n int) error {
				return Exec(call, "INSERT INTO "+refunds+" VALUES ($1, $2)", key, n)
			},
			Rows: func() (map[string]int, error) {
				rows, err := s.pool.Query(tb.Context(), "SELECT key, n FROM "+refunds)
				if err != nil {
					return nil, err
				}
				defer rows.Close()
				found := map[string]int{}
				for rows.Next() {
					var key string
					var n int
					if err := rows.Scan(&key, &n); err != nil {
						return nil, err
					}
					found[key] = n
				}
				return found, rows.Err()
			},
		}
	})
}

// ownTable makes a table of the user's in a store's database and returns its name.
func ownTable(tb testing.TB, s *Store, columns string) string {
	tb.Helper()
	name := newSchema() + ".own"
	make := fmt.Sprintf("CREATE SCHEMA %s; CREATE TABLE %s %s", strings.TrimSuffix(name, ".own"), name, columns)
	if _, err := s.pool.Exec(tb.Context(), make); err != nil {
		tb.Fatal(err)
	}
	return name
}

// executing returns a step's commit with statements.
func (s *stepper) executing(list ...driver.Statement) *driver.Commit {
	for i := range list {
		list[i].Dialect, list[i].Tool = dialect, "pay"
	}
	c := s.next()
	c.Statements = list
	return c
}

// Arguments arrive as what they are, also over a pooler.
func TestStatementArguments(t *testing.T) {
	t.Parallel()
	direct := openNew(t)
	pooled := openAt(t, startPooler(t, testenv.FastPostgres(t), true).url(), &Options{Schema: direct.opts.Schema, SimpleProtocol: true})
	own := ownTable(t, direct, "(a text, b bigint, c numeric, d boolean, e int, f bytea, g timestamptz, h uuid, i jsonb)")
	at := time.Date(2030, 5, 1, 10, 30, 0, 250e6, time.UTC)
	for i, s := range []*Store{direct, pooled} {
		st := newStepper(t, s, fmt.Sprint("s", i), nil)
		for range 2 { // on a row that is read, and on one that is known
			c := st.executing(driver.Statement{SQL: "INSERT INTO " + own + " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING a;",
				Args: driver.Args{"O'Neil; --", int64(1) << 60, 1.5, true, nil, []byte{0, 255}, at, "6ba7b810-9dad-11d1-80b4-00c04fd430c8", []byte(`{"a":1}`)}})
			row, err := s.Commit(t.Context(), st.row.ID, c)
			if err != nil {
				t.Fatal(err)
			}
			if again := must(s.Commit(t.Context(), st.row.ID, c)); again.Version != row.Version {
				t.Errorf("the same step again: version %d, want %d", again.Version, row.Version)
			}
			st.row, st.n = row, st.n+1
		}
		wantSteps(t, s, st.row.ID, 2)
	}
	var n int
	err := direct.pool.QueryRow(t.Context(), "SELECT count(*) FROM "+own+` WHERE a = 'O''Neil; --' AND b = 1::bigint << 60 AND c = 1.5 AND d
		AND e IS NULL AND f = '\x00ff' AND g = '2030-05-01 10:30:00.25Z' AND h::text LIKE '6ba7%' AND i->>'a' = '1'`).Scan(&n)
	if err != nil || n != 4 {
		t.Errorf("%d rows, %v, want 4", n, err)
	}
}

// What a statement may not be is refused before the database sees it; several commands in one the server refuses.
func TestStatementsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	st := newStepper(t, s, "s", nil)
	for _, text := range []string{"", "COMMIT", "/* x */ ROLLBACK", "-- x\nbegin", "SET ROLE postgres", "DROP TABLE x", "DO $$ BEGIN END $$", "(SELECT 1)", "SELECT 'a\x00'"} {
		if _, err := s.Commit(t.Context(), "s", st.executing(driver.Statement{SQL: text})); !errors.Is(err, cairn.ErrInvalid) {
			t.Errorf("%q: error %v", text, err)
		}
	}
	if _, err := s.Commit(t.Context(), "s", st.executing(driver.Statement{SQL: "SELECT 1; COMMIT"})); !driver.IsStatementFailed(err) {
		t.Errorf("two commands: error %v", err)
	}
	wantSteps(t, s, "s", 0)
}

// A statement that fails costs its own step alone, and nothing of that step is written.
func TestStatementsThatFail(t *testing.T) {
	t.Parallel()
	s := openAt(t, testenv.FastPostgres(t), &Options{Schema: newSchema(), ExecTimeout: 500 * time.Millisecond})
	own := ownTable(t, s, "(n int PRIMARY KEY CHECK (n > 0), due int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
	for i, text := range []string{
		"INSERT INTO " + own + " VALUES (0)", "INSERT INTO " + own + " VALUES (7), (7)", "INSERT INTO " + own + " VALUES ($1)", "INSERT INTO nowhere VALUES (1)",
		"INSERT INTO " + own + " VALUES (8, 1), (9, 1)", // fails at the end of the transaction
		"SELECT pg_sleep(60)", "SELECT 1/0",
	} {
		st := newStepper(t, s, fmt.Sprint("s", i), nil)
		for round := range 2 {
			_, err := s.Commit(t.Context(), st.row.ID, st.executing(driver.Statement{SQL: "INSERT INTO " + own + " VALUES (100)"}, driver.Statement{SQL: text}))
			if !driver.IsStatementFailed(err) || !strings.Contains(err.Error(), `tool "pay`) {
				t.Errorf("%s: error %v", text, err)
			}
			wantSteps(t, s, st.row.ID, round)
			if err := st.step(); err != nil {
				t.Errorf("%s: a step afterwards: %v", text, err)
			}
		}
	}
	var n int
	if err := s.pool.QueryRow(t.Context(), "SELECT count(*) FROM "+own).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows, %v", n, err)
	}
}

// A statement that takes long holds up no step of other sessions, whether they go alone or joined.
func TestStatementsThatTakeLong(t *testing.T) {
	t.Parallel()
	s := openAt(t, testenv.FastPostgres(t), &Options{Schema: newSchema(), ExecTimeout: time.Minute})
	holder, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const lock = 8271 // no other test takes it
	if _, err := holder.Exec(t.Context(), "SELECT pg_advisory_xact_lock($1)", lock); err != nil {
		t.Fatal(err)
	}
	slow := newStepper(t, s, "slow", nil)
	ended := make(chan error, 1)
	go func() {
		_, err := s.Commit(t.Context(), "slow", slow.executing(driver.Statement{SQL: "SELECT pg_advisory_xact_lock($1)", Args: driver.Args{int64(lock)}}))
		ended <- err
	}()
	var list []*stepper
	for i := range 20 {
		list = append(list, newStepper(t, s, fmt.Sprint("session-", i), nil))
	}
	g := gather(t, s)
	for _, st := range list {
		g.group.Go(func() {
			for range stepsPerRun {
				if err := st.step(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	g.queued(len(list))
	if g.release() == 0 {
		t.Error("no steps went together")
	}
	select {
	case err := <-ended:
		t.Fatalf("the slow step ended before its lock was free: %v", err)
	default:
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the slow step: %v", err)
	}
	wantSteps(t, s, "slow", 1)
}
