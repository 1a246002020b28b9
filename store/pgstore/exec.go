package pgstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
)

// dialect is the name of the database in statements of tools.
const dialect = "PostgreSQL"

// Exec records a statement with a tool's call. It is executed in the transaction of the step's commit: once if the step
// is committed, however often processes die, and not at all if it is not. The tool must run on an engine whose store is
// in this database, otherwise the error is ErrInvalid. Exec itself sends nothing to the database.
//
// A call that ends in an error executes none of its statements. If a statement fails, or the statements of a step
// together take longer than [Options].ExecTimeout, the step is discarded and its run fails with ErrStatement, which
// names the tool; Retry repeats the step. A statement that changes no row does not fail.
//
// The statement is one INSERT, UPDATE, DELETE, MERGE, SELECT, WITH or CALL, with $1, $2, … for the arguments, of at
// most [driver.MaxStatement] bytes including them. A call may record [driver.MaxStatements]. The statement runs under
// the store's database account, search_path and connection. Arguments are nil, booleans, integers, finite floats,
// strings, []byte, time.Time and values that database/sql/driver converts to these.
func Exec(call *cairn.Call, sql string, args ...any) error {
	return driver.Exec(call, dialect, sql, args...)
}

const (
	// sqlExecTimeout bounds each later statement of the transaction, in milliseconds.
	sqlExecTimeout = `SELECT set_config('statement_timeout', $1, TRUE)`
	// sqlCheckDeferred makes constraints that are deferred to the end of the transaction fail here.
	sqlCheckDeferred = `SET CONSTRAINTS ALL IMMEDIATE`
)

// execute executes the statements of tools in the commit's transaction.
func (c *conn) execute(ctx context.Context, list []driver.Statement) error {
	if len(list) == 0 {
		return nil
	}
	ends := time.Now().Add(c.db.opts.ExecTimeout)
	var tools []string
	for i := range list {
		left := max(time.Until(ends).Milliseconds(), 1)
		if _, err := c.exec(ctx, sqlExecTimeout, fmt.Sprint(left)); err != nil {
			return err
		}
		// In this mode the server prepares the statement for this execution only, and accepts a single command. Exec
		// would use another mode for a statement without arguments.
		rows, err := c.q.Query(ctx, list[i].SQL, append([]any{pgx.QueryExecModeDescribeExec}, list[i].Args...)...)
		if err == nil {
			err = drain(rows, func(pgx.Rows) error { return nil })
		}
		if err != nil {
			return c.db.refused(ctx, &list[i], err)
		}
		tools = append(tools, list[i].Tool)
	}
	if _, err := c.exec(ctx, sqlCheckDeferred); err != nil {
		return c.db.refused(ctx, &driver.Statement{Dialect: dialect, Tool: strings.Join(tools, ", ")}, err)
	}
	return nil
}

// refused returns the error of a statement that failed, unless the connection or the server is at fault.
func (d *database) refused(ctx context.Context, st *driver.Statement, err error) error {
	code := state(err)
	switch {
	case ctx.Err() != nil, lost(err), strings.HasPrefix(code, "53"), strings.HasPrefix(code, "58"):
		return err
	case code == stateCanceled:
		err = fmt.Errorf("the step's statements timed out after %s: %w", d.opts.ExecTimeout, err)
	}
	return driver.StatementFailed(st, oneLine{err})
}
