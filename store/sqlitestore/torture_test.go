package sqlitestore_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/torture"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

func init() { torture.Victim(openTortured) }

// withBooks is a store whose tools add rows to a table in its file.
type withBooks struct {
	*sqlitestore.Store
	own *sql.DB
}

func openTortured(dir string) (driver.Store, error) {
	path := filepath.Join(dir, "cairn.db")
	s, err := sqlitestore.Open(path, nil)
	if err != nil {
		return nil, err
	}
	own, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(60000)")
	if err == nil {
		_, err = own.Exec("CREATE TABLE IF NOT EXISTS books (number INTEGER PRIMARY KEY, session TEXT, call TEXT, n INTEGER)")
	}
	return withBooks{s, own}, err
}

func (s withBooks) Close() error {
	s.own.Close()
	return s.Store.Close()
}

// Enter implements torture.Books.
func (s withBooks) Enter(call *cairn.Call, n int) error {
	return sqlitestore.Exec(call, "INSERT INTO books (session, call, n) VALUES (?, ?, ?)", call.SessionID, call.ID, n)
}

// Entered implements torture.Books.
func (s withBooks) Entered(ctx context.Context, session string) (calls []string, numbers []int, err error) {
	rows, err := s.own.QueryContext(ctx, "SELECT call, n FROM books WHERE session = ? ORDER BY number", session)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var call string
		var n int
		if err := rows.Scan(&call, &n); err != nil {
			return nil, nil, err
		}
		calls, numbers = append(calls, call), append(numbers, n)
	}
	return calls, numbers, rows.Err()
}

func TestTorture(t *testing.T) { torture.Run(t, openTortured) }

func TestTortureOfALogElsewhere(t *testing.T) { torture.RunElsewhere(t, openTortured) }

func TestTortureWithDefaults(t *testing.T) {
	torture.NeedsSoak(t)
	torture.RunDefaults(t, openTortured)
}
