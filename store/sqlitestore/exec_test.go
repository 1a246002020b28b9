package sqlitestore

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host/hosttest"
	"github.com/cairn-agents/cairn/store/driver"
)

// Rows written by tools exist once for each committed step, on every host.
func TestStatements(t *testing.T) {
	t.Parallel()
	hosttest.RunStatements(t, onFile(emptyFile(t)), func(tb testing.TB, st driver.Store) hosttest.Table {
		db := ownTables(tb, st.(*Store), "CREATE TABLE refunds (key TEXT PRIMARY KEY, n INTEGER)")
		return hosttest.Table{
			Insert: func(call *cairn.Call, key string, n int) error {
				return Exec(call, "INSERT INTO refunds VALUES (?, ?)", key, n)
			},
			Rows: func() (map[string]int, error) {
				rows, err := db.Query("SELECT key, n FROM refunds")
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

// ownTables creates a user's tables in a store's file, and returns the user's handle on it.
func ownTables(tb testing.TB, s *Store, make string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("sqlite", s.path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { db.Close() })
	if _, err := db.Exec(make); err != nil {
		tb.Fatal(err)
	}
	return db
}

// inserting returns a commit of a session's next version with statements.
func inserting(row *cairn.Session, list ...driver.Statement) *driver.Commit {
	for i := range list {
		list[i].Dialect, list[i].Tool = dialect, "pay"
	}
	return &driver.Commit{Guard: driver.Guard{Version: row.Version}, Statements: list, Messages: []cairn.Message{cairn.User(cairn.TextPart("x"))}}
}

func newSession(t *testing.T, s *Store, id string) *cairn.Session {
	t.Helper()
	row, err := driver.Create(t.Context(), s, &cairn.Session{ID: id, Agent: "bot"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// Arguments keep their types.
func TestStatementArguments(t *testing.T) {
	t.Parallel()
	s := openAt(t, filepath.Join(t.TempDir(), "cairn.db"), nil)
	db := ownTables(t, s, "CREATE TABLE own (a, b, c, d, e, f, g)")
	at := time.Date(2030, 5, 1, 10, 30, 0, 250e6, time.FixedZone("", 2*3600))
	row := newSession(t, s, "s")
	c := inserting(row, driver.Statement{SQL: "INSERT INTO own VALUES (?, ?, ?, ?, ?, ?, ?);  -- done",
		Args: driver.Args{"O'Neil; --", int64(1) << 60, 1.5, true, nil, []byte{0, 255}, at.UTC()}})
	if _, err := s.Commit(t.Context(), "s", c); err != nil {
		t.Fatal(err)
	}
	var got, when string
	err := db.QueryRow(`SELECT a||'|'||b||'|'||c||'|'||d||'|'||(e IS NULL)||'|'||hex(f), strftime('%Y %H:%M:%f', g) FROM own`).Scan(&got, &when)
	if want := "O'Neil; --|1152921504606846976|1.5|1|1|00FF"; err != nil || got != want || when != "2030 08:30:00.250" {
		t.Errorf("the row is %q at %q, %v, want %q", got, when, err, want)
	}
}

// Invalid statements are refused before anything is written.
func TestStatementsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := openAt(t, filepath.Join(t.TempDir(), "cairn.db"), nil)
	row := newSession(t, s, "s")
	for _, text := range []string{
		"", "COMMIT", "  /* x */ -- y\n begin", "PRAGMA synchronous = OFF", "ATTACH 'x' AS y", "DROP TABLE sessions", "VACUUM",
		"SELECT 1; COMMIT", "SELECT ';' ; ; SELECT 2", "SELECT 1 /* ; */ ; x", `SELECT "a;b"; ROLLBACK`, "SELECT 'a", "SELECT 'it''s'; x",
		"SELECT 1\x00", "INSERT INTO t VALUES ('" + strings.Repeat("x", driver.MaxStatement) + "')",
	} {
		if _, err := s.Commit(t.Context(), "s", inserting(row, driver.Statement{SQL: text})); !errors.Is(err, cairn.ErrInvalid) && !errors.Is(err, cairn.ErrTooLarge) {
			t.Errorf("%.40q: error %v", text, err)
		}
	}
	for _, text := range []string{"SELECT 1", "select ';', \"a;\" ; -- ;", "/* ; */ WITH x AS (SELECT '--') SELECT * FROM x /* open", "SELECT [a;b] FROM (SELECT 1 AS [a;b]);"} {
		c := inserting(row, driver.Statement{SQL: text})
		var err error
		if row, err = s.Commit(t.Context(), "s", c); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	}
}

// A statement that fails or takes too long fails only its own commit. Other commits to the file wait, and are written.
func TestStatementsThatFail(t *testing.T) {
	t.Parallel()
	s := openAt(t, filepath.Join(t.TempDir(), "cairn.db"), &Options{ExecTimeout: 200 * time.Millisecond, Synchronous: Normal})
	db := ownTables(t, s, "CREATE TABLE own (n INTEGER CHECK (n > 0)); CREATE UNIQUE INDEX once ON own (n)")
	for i, text := range []string{
		"INSERT INTO own VALUES (0)", "INSERT INTO own SELECT 7 UNION ALL SELECT 7", "INSERT OR ROLLBACK INTO own VALUES (0)", "INSERT INTO nowhere VALUES (1)", "INSERT INTO own VALUES (?)",
		"INSERT INTO own WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n WHERE x < 0",
	} {
		row := newSession(t, s, fmt.Sprint("s", i))
		done := make(chan error)
		go func() {
			_, err := s.Commit(t.Context(), row.ID, inserting(row, driver.Statement{SQL: "INSERT INTO own VALUES (100)"}, driver.Statement{SQL: text}))
			done <- err
		}()
		others := make(chan error)
		for n := range 8 {
			go func() {
				_, err := driver.Create(t.Context(), s, &cairn.Session{ID: fmt.Sprint("other", i, "-", n), Agent: "bot"}, nil)
				others <- err
			}()
		}
		for range 8 {
			if err := <-others; err != nil {
				t.Errorf("%s: another session: %v", text, err)
			}
		}
		if err := <-done; !driver.IsStatementFailed(err) || !strings.Contains(err.Error(), `tool "pay"`) {
			t.Errorf("%s: error %v", text, err)
		}
		if after, err := driver.Load(t.Context(), s, row.ID); err != nil || after.Version != row.Version || after.MessageCount != 0 {
			t.Errorf("%s: the session is %+v, %v", text, after, err)
		}
	}
	var n int
	if err := db.QueryRow("SELECT count(*) FROM own").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows, %v", n, err)
	}
}
