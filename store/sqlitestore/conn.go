package sqlitestore

import (
	"context"
	sqldriver "database/sql/driver"
	"fmt"
	"io"
	"slices"
	"time"

	"modernc.org/sqlite"
)

// conn is one connection with its prepared statements. It uses the driver without database/sql, whose pool, locks and
// conversions cost a commit more than its statements do. Only one goroutine uses it at a time.
type conn struct {
	raw   driverConn
	stmts map[string]driverStmt
	// searches is the number of stmts that search prepared.
	searches int
	args     []sqldriver.NamedValue
	cols     *columns // memory for one row, nil while a query uses it
	// clock is the store's clock.
	clock func() time.Time
	// wrote says that a statement has changed rows since wrote was last set to false.
	wrote bool
	// seen is what the files looked like when a connection that takes no locks was opened; nil for any other.
	seen *stamp
	// intercept, if a test sets it, is called before each prepared statement. Its error becomes the statement's.
	intercept func(text string) error
}

// maxSearches is how many of the statements that are built for a call are kept prepared for each connection.
const maxSearches = 32

// driverConn is the interface of the driver's connections.
type driverConn interface {
	sqldriver.Conn
	sqldriver.ExecerContext
	sqldriver.QueryerContext
}

// driverStmt is the interface of the driver's prepared statements.
type driverStmt interface {
	sqldriver.Stmt
	sqldriver.StmtExecContext
	sqldriver.StmtQueryContext
}

// connect opens a connection and runs statements that set it up.
func connect(dsn string, setup ...string) (*conn, error) {
	connector, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	raw, err := connector.Connect(context.Background())
	if err != nil {
		return nil, err
	}
	dc, ok := raw.(driverConn)
	if !ok {
		raw.Close()
		return nil, fmt.Errorf("driver type %T does not run statements", raw)
	}
	c := &conn{raw: dc, stmts: map[string]driverStmt{}, clock: time.Now}
	for _, text := range setup {
		if err := c.run(text); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

func (c *conn) close() error {
	for _, s := range c.stmts {
		s.Close()
	}
	return c.raw.Close()
}

// run executes one or more statements that are not worth preparing.
func (c *conn) run(text string) error {
	_, err := c.raw.ExecContext(context.Background(), text, nil)
	return err
}

// stmt returns the prepared form of a statement that is about to run.
func (c *conn) stmt(text string) (driverStmt, error) {
	if c.intercept != nil {
		if err := c.intercept(text); err != nil {
			return nil, err
		}
	}
	if s, ok := c.stmts[text]; ok {
		return s, nil
	}
	s, err := c.raw.Prepare(text)
	if err != nil {
		return nil, err
	}
	ds, ok := s.(driverStmt)
	if !ok {
		s.Close()
		return nil, fmt.Errorf("driver type %T does not support contexts", s)
	}
	c.stmts[text] = ds
	return ds, nil
}

// bind returns args in the driver's form, which is valid until the next call.
func (c *conn) bind(args []any) []sqldriver.NamedValue {
	for len(c.args) < len(args) {
		c.args = append(c.args, sqldriver.NamedValue{Ordinal: len(c.args) + 1})
	}
	for i, a := range args {
		if n, ok := a.(int); ok {
			a = int64(n)
		}
		c.args[i].Value = a
	}
	return c.args[:len(args)]
}

// exec runs a prepared statement and returns how many rows it changed. It is never interrupted: a transaction is
// written or rolled back as a whole.
func (c *conn) exec(text string, args ...any) (int64, error) {
	res, err := c.change(text, args)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// insert is exec for a statement that adds one row, and returns the row's key. RETURNING costs more: SQLite then copies
// each page that the statement changes, the table's and those of its indexes.
func (c *conn) insert(text string, args ...any) (key int64, err error) {
	res, err := c.change(text, args)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

func (c *conn) change(text string, args []any) (sqldriver.Result, error) {
	s, err := c.stmt(text)
	if err != nil {
		return nil, err
	}
	res, err := s.ExecContext(context.Background(), c.bind(args))
	if err != nil {
		return nil, err
	}
	n, err := res.RowsAffected()
	c.wrote = c.wrote || n > 0
	return res, err
}

// query runs a prepared statement and calls each for every row until it returns false. It checks ctx before each row.
func (c *conn) query(ctx context.Context, text string, each func(*columns) bool, args ...any) error {
	s, err := c.stmt(text)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(context.Background(), c.bind(args))
	if err != nil {
		return err
	}
	return c.scan(ctx, rows, each)
}

// search is query for a statement that is built for one call and may read many rows, so ctx interrupts it. The first
// maxSearches statements stay prepared: to parse one costs more than to read the few rows of a tree.
func (c *conn) search(ctx context.Context, text string, each func(*columns) bool, args ...any) error {
	query := c.raw.QueryContext
	if _, prepared := c.stmts[text]; prepared || c.searches < maxSearches {
		s, err := c.stmt(text)
		if err != nil {
			return err
		}
		if !prepared {
			c.searches++
		}
		query = func(ctx context.Context, _ string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
			return s.QueryContext(ctx, args)
		}
	}
	rows, err := query(ctx, text, c.bind(args))
	if err != nil {
		return err
	}
	return c.scan(ctx, rows, each)
}

func (c *conn) scan(ctx context.Context, rows sqldriver.Rows, each func(*columns) bool) error {
	defer rows.Close()
	cols := c.cols
	if c.cols = nil; cols == nil { // a query within another one's row, or the first one
		cols = &columns{}
	}
	n := len(rows.Columns())
	*cols = columns{values: slices.Grow(cols.values[:0], n)[:n]}
	defer func() {
		clear(cols.values)
		c.cols = cols
	}()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		switch err := rows.Next(cols.values); err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
		cols.at = 0
		more := each(cols)
		if cols.err != nil || !more {
			return cols.err
		}
	}
}

// row runs a prepared statement and calls read for its first row. found is false if there is none.
func (c *conn) row(text string, read func(*columns), args ...any) (found bool, err error) {
	err = c.query(context.Background(), text, func(cols *columns) bool {
		found = true
		read(cols)
		return false
	}, args...)
	return found, err
}
