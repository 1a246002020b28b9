package sqlitestore

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// errClosed is the error of every call after Close.
var errClosed = cairn.Errorf(cairn.ErrClosed, "the store is closed")

// resultCode returns SQLite's primary result code of err, or 0 if err does not come from SQLite.
func resultCode(err error) int {
	if err == nil {
		return lib.SQLITE_OK
	}
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return lib.SQLITE_OK
}

// busy reports whether another process holds the lock that a statement needed.
func busy(err error) bool { return resultCode(err) == lib.SQLITE_BUSY }

// constraint reports whether a row was refused because of an existing row with the same key, except for a tool's
// statement.
func constraint(err error) bool {
	return resultCode(err) == lib.SQLITE_CONSTRAINT && !driver.IsStatementFailed(err)
}

// readOnly reports whether a statement had to write and was not allowed to.
func readOnly(err error) bool { return resultCode(err) == lib.SQLITE_READONLY }

// fault gives an error from SQLite a code and says what was being done. Errors that have a code already, and those of
// contexts, pass unchanged.
func fault(doing string, err error) error {
	if err == nil {
		return nil
	}
	var known *cairn.Error
	var late *backend.Overdue
	switch {
	case errors.As(err, &known), errors.As(err, &late), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	switch resultCode(err) {
	case lib.SQLITE_FULL:
		return cairn.Errorf(cairn.ErrUnavailable, "%s: the disk is full: %w", doing, err)
	case lib.SQLITE_IOERR:
		return cairn.Errorf(cairn.ErrUnavailable, "%s: disk I/O error: %w", doing, err)
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		return cairn.Errorf(cairn.ErrUnavailable, "%s: another process keeps the database locked: %w", doing, err)
	case lib.SQLITE_READONLY, lib.SQLITE_PERM:
		return cairn.Errorf(cairn.ErrUnavailable, "%s: the database is read-only: %w", doing, err)
	case lib.SQLITE_CANTOPEN, lib.SQLITE_NOMEM, lib.SQLITE_PROTOCOL:
		return cairn.Errorf(cairn.ErrUnavailable, "%s: %w", doing, err)
	case lib.SQLITE_CORRUPT:
		return cairn.Errorf(cairn.ErrCorrupt, "%s: the database file is damaged: %w", doing, err)
	case lib.SQLITE_NOTADB:
		return cairn.Errorf(cairn.ErrSchema, "%s: not an SQLite database: %w", doing, err)
	case lib.SQLITE_TOOBIG:
		return cairn.Errorf(cairn.ErrTooLarge, "%s: value is too large for a database row: %w", doing, err)
	}
	return cairn.Errorf(cairn.ErrInternal, "%s: %w", doing, err)
}
