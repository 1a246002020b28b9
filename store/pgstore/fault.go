package pgstore

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5/pgconn"
)

// errClosed is the error of every call after Close.
var errClosed = cairn.Errorf(cairn.ErrClosed, "the store is closed")

// These SQLSTATE codes are handled in a special way.
const (
	stateUnique       = "23505"
	stateNotNull      = "23502"
	stateTwice        = "21000" // ON CONFLICT met a row written by the same statement
	stateReadOnly     = "25006"
	stateSerialize    = "40001"
	stateDeadlock     = "40P01"
	stateNoDatabase   = "3D000"
	stateNoSchema     = "3F000"
	stateNoTable      = "42P01"
	stateTableThere   = "42P07"
	stateNoPrivilege  = "42501"
	stateCanceled     = "57014"
	stateNoCharacter  = "22021"
	stateNoEscape     = "22P05"
	stateTooManyConns = "53300"
	stateTooLarge     = "54000"
	statePrepared     = "42P05" // a prepared statement of that name already exists
	stateNotPrepared  = "26000"
)

// state returns the SQLSTATE of an error that the server reported, or an empty string.
func state(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// contradicted reports whether a row was refused because of existing rows, except by a statement of a tool. The outcome
// of the commit must then be looked up.
func contradicted(err error) bool {
	if driver.IsStatementFailed(err) {
		return false
	}
	switch state(err) {
	case stateUnique, stateNotNull, stateTwice:
		return true
	}
	return false
}

// lost reports whether the connection ended before the server's answer arrived.
func lost(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if code := state(err); code != "" {
		return strings.HasPrefix(code, "57P") || strings.HasPrefix(code, "08") // the server shuts down or lost the connection
	}
	var network net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.As(err, &network) || strings.Contains(err.Error(), "conn closed")
}

// undone reports whether an operation failed temporarily and was certainly not applied: it never reached the server, or
// the server rolled it back.
func undone(err error) bool {
	var connecting *pgconn.ConnectError
	switch code := state(err); {
	case errors.As(err, &connecting):
		return code == "" || strings.HasPrefix(code, "57P") || code == stateTooManyConns
	case code == stateSerialize, code == stateDeadlock, code == stateReadOnly:
		return true
	case code != "":
		return false
	}
	return pgconn.SafeToRetry(err)
}

// fault gives an error from the database a code and says what was being done. It returns errors that already have a
// code, and those of contexts, unchanged.
func fault(doing string, err error) error {
	if err == nil {
		return nil
	}
	var known *cairn.Error
	var late *backend.Overdue
	switch {
	case errors.As(err, &known), errors.As(err, &late), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case strings.HasSuffix(err.Error(), "closed pool"):
		return errClosed
	}
	code := state(err)
	err = oneLine{err}
	switch code {
	case stateReadOnly:
		return cairn.Errorf(cairn.ErrUnavailable, "%s: the server is a read-only replica: %w", doing, err)
	case stateTooManyConns:
		return cairn.Errorf(cairn.ErrUnavailable, "%s: too many connections to the server: %w", doing, err)
	case stateNoDatabase:
		return cairn.Errorf(cairn.ErrInvalid, "%s: database not found: %w", doing, err)
	case stateNoSchema, stateNoTable:
		return cairn.Errorf(cairn.ErrSchema, "%s: tables not found; migrate first: %w", doing, err)
	case stateNoPrivilege:
		return cairn.Errorf(cairn.ErrInvalid, "%s: permission denied for the database account: %w", doing, err)
	case stateNoCharacter, stateNoEscape:
		return cairn.Errorf(cairn.ErrInvalid, "%s: text has a character that the database cannot store: %w", doing, err)
	case statePrepared, stateNotPrepared:
		return cairn.Errorf(cairn.ErrInvalid, "%s: connections are pooled by transaction, as by PgBouncer: set "+
			"Options.SimpleProtocol, or default_query_exec_mode=simple_protocol in the URL: %w", doing, err)
	case stateTooLarge:
		return cairn.Errorf(cairn.ErrTooLarge, "%s: value is too large for a database row: %w", doing, err)
	}
	var connecting *pgconn.ConnectError
	switch {
	case strings.HasPrefix(code, "28"):
		return cairn.Errorf(cairn.ErrInvalid, "%s: the server rejected the database account: %w", doing, err)
	case strings.HasPrefix(code, "53"), strings.HasPrefix(code, "58"):
		return cairn.Errorf(cairn.ErrUnavailable, "%s: the server is out of resources: %w", doing, err)
	case code == "" && errors.As(err, &connecting):
		return cairn.Errorf(cairn.ErrUnavailable, "%s: cannot reach the server: %w", doing, err)
	case code == stateSerialize, code == stateDeadlock, lost(err), undone(err), strings.HasPrefix(code, "57"):
		return cairn.Errorf(cairn.ErrUnavailable, "%s: %w", doing, err)
	case strings.HasPrefix(code, "XX"):
		return cairn.Errorf(cairn.ErrCorrupt, "%s: the database is damaged: %w", doing, err)
	}
	return cairn.Errorf(cairn.ErrInternal, "%s: %w", doing, err)
}

// oneLine is an error that puts its message on one line. The message of several attempts to connect has more lines.
type oneLine struct{ error }

func (e oneLine) Error() string { return strings.Join(strings.Fields(e.error.Error()), " ") }

func (e oneLine) Unwrap() error { return e.error }
