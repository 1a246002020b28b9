package sqlitestore

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// dialect names the database in statements of tools.
const dialect = "SQLite"

// Exec records a statement with a tool's call. It is executed in the transaction of the step's commit: once if the step
// is committed, however often processes die, and not at all if it is not. The tool must run on an engine whose store is
// in this file, else the error is ErrInvalid; nothing is sent to the database yet.
//
// A call that ends in an error executes none of its statements. If a statement fails, or the statements of a step
// together take longer than [Options].ExecTimeout, the step is discarded and its run fails with ErrStatement, which
// names the tool; Retry repeats the step. A statement that changes no row does not fail. Foreign keys are not enforced.
//
// A file has one writer at a time: while a statement runs, every other session of the file waits for its commit.
//
// The statement is one INSERT, REPLACE, UPDATE, DELETE, SELECT or WITH, with ? or ?1, ?2, … for the arguments. With its
// arguments it has at most [driver.MaxStatement] bytes; a call may record [driver.MaxStatements]. Arguments are nil,
// booleans, integers, finite floats, strings, []byte, time.Time and values that database/sql/driver converts to these.
// A time is stored as text that SQLite's functions read, in UTC: 2030-05-01 08:30:00.25+00:00.
func Exec(call *cairn.Call, sql string, args ...any) error {
	if err := oneCommand(sql); err != nil {
		return err
	}
	return driver.Exec(call, dialect, sql, args...)
}

// Dialect implements driver.Execer.
func (s *Store) Dialect() string { return dialect }

// timeFormat is how an argument that is a time is stored.
const timeFormat = "2006-01-02 15:04:05.999999999-07:00"

// execute executes the statements of tools in the commit's transaction.
func (w *write) execute(c *conn, list []driver.Statement) error {
	if len(list) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), w.s.opts.ExecTimeout)
	defer cancel()
	for i := range list {
		args := make([]sqldriver.NamedValue, len(list[i].Args))
		for n, arg := range list[i].Args {
			if at, is := arg.(time.Time); is {
				arg = at.Format(timeFormat)
			}
			args[n] = sqldriver.NamedValue{Ordinal: n + 1, Value: arg}
		}
		_, err := c.raw.ExecContext(ctx, list[i].SQL, args)
		switch {
		case err == nil:
			continue
		case ctx.Err() != nil:
			err = fmt.Errorf("the step's statements timed out after %s: %w", w.s.opts.ExecTimeout, err)
		case away(err):
			return err
		}
		return driver.StatementFailed(&list[i], err)
	}
	return nil
}

// errSeveral is the error for a text of more than one statement.
var errSeveral = cairn.Invalid("sql", "must be a single statement")

// oneCommand returns an error if a text has more than one statement, which is anything but blanks and comments after a
// semicolon. The driver would execute all of them.
func oneCommand(sql string) error {
	ended := false
	for sql != "" {
		var rest string
		closed := true
		switch c := sql[0]; {
		case c == '\'' || c == '"' || c == '`': // doubled within, it ends one string and begins the next
			_, rest, closed = strings.Cut(sql[1:], string(c))
		case c == '[':
			_, rest, closed = strings.Cut(sql, "]")
		case strings.HasPrefix(sql, "--"):
			_, sql, _ = strings.Cut(sql, "\n")
			continue
		case strings.HasPrefix(sql, "/*"):
			_, sql, _ = strings.Cut(sql[2:], "*/")
			continue
		case strings.ContainsRune(" \t\r\n\f", rune(c)):
			sql = sql[1:]
			continue
		case c == ';':
			ended = true
			sql = sql[1:]
			continue
		default:
			rest = sql[1:]
		}
		switch {
		case ended:
			return errSeveral
		case !closed:
			return cairn.Invalid("sql", "has an unclosed quote")
		}
		sql = rest
	}
	return nil
}

// away reports whether storage failed, rather than a statement.
func away(err error) bool { return errors.Is(fault("", err), cairn.ErrUnavailable) }
