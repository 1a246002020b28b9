// Package shop is the small shop behind the demo: a dozen orders in an SQLite file that can be looked up, sent to
// another address and refunded. Each change takes an idempotency key and happens once per key. A process that dies
// before it reports a change can therefore make the change again.
package shop

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"github.com/cairn-agents/cairn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// schema creates the tables and the dozen orders.
//
//go:embed shop.sql
var schema string

// applicationID marks the file as a shop; in ASCII it reads "shop".
const applicationID = 0x73686f70

// busyTimeout is how long a change waits for other processes.
const busyTimeout = 10 * time.Second

// Shop is an open shop. It is safe for concurrent use, and any number of processes may share its file.
type Shop struct {
	db  *sql.DB
	now func() time.Time
}

// Open opens the shop in the file at path and creates its orders if the file is empty. now is the clock for the
// times of changes; nil means time.Now. For a file with other content the error is ErrSchema, and the file is not
// changed.
func Open(ctx context.Context, path string, now func() time.Time) (*Shop, error) {
	if path == "" {
		return nil, cairn.Invalid("path", "is empty")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, cairn.Invalid("path", "%v", err)
	}
	if now == nil {
		now = time.Now
	}
	source := url.URL{Scheme: "file", Path: filepath.ToSlash(abs), RawQuery: url.Values{
		"_txlock": {"immediate"},
		"_pragma": {fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()), "foreign_keys(1)"},
	}.Encode()}
	db, err := sql.Open("sqlite", source.String())
	if err != nil {
		return nil, cairn.Errorf(cairn.ErrUnavailable, "open shop %s: %w", path, err)
	}
	db.SetMaxOpenConns(1)
	s := &Shop{db: db, now: now}
	if err := s.furnish(ctx, path); err != nil {
		db.Close()
		return nil, err
	}
	return s, nil
}

// furnish creates the tables and orders in an empty file.
func (s *Shop) furnish(ctx context.Context, path string) error {
	err := s.change(ctx, "open shop "+path, func(tx *sql.Tx) error {
		var id, objects int
		if err := tx.QueryRowContext(ctx, "SELECT application_id, (SELECT count(*) FROM sqlite_schema) FROM pragma_application_id").Scan(&id, &objects); err != nil {
			return err
		}
		switch {
		case id == applicationID:
			return nil
		case id != 0 || objects > 0:
			return cairn.Errorf(cairn.ErrSchema, "%s is not a shop: the database belongs to something else", path)
		}
		_, err := tx.ExecContext(ctx, schema+fmt.Sprintf("PRAGMA application_id = %d;", applicationID))
		return err
	})
	if err == nil {
		err = storage("open shop "+path, s.useWAL(ctx))
	}
	return err
}

// useWAL makes the file use a write-ahead log, so that a process that is stopped while it reads keeps no other from
// writing. SQLite fails to change the mode at once, whatever the busy timeout, while another process uses the file.
func (s *Shop) useWAL(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, busyTimeout)
	defer cancel()
	for {
		_, err := s.db.ExecContext(ctx, "PRAGMA journal_mode = WAL")
		var failed *sqlite.Error
		if !errors.As(err, &failed) || failed.Code()&0xff != sqlite3.SQLITE_BUSY {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
}

// change runs do in a transaction. An error that is no *cairn.Error is reported as ErrUnavailable.
func (s *Shop) change(ctx context.Context, what string, do func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err == nil {
		defer tx.Rollback() // does nothing after Commit
		if err = do(tx); err == nil {
			err = tx.Commit()
		}
	}
	return storage(what, err)
}

func storage(what string, err error) error {
	var known *cairn.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	return cairn.Errorf(cairn.ErrUnavailable, "%s: %w", what, err)
}

// Close closes the file.
func (s *Shop) Close() error { return storage("close shop", s.db.Close()) }
