package pgstore

import (
	"context"
	"strconv"
	"strings"

	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5"
)

// filter collects the conditions of a query with their arguments.
type filter struct {
	where []string
	args  []any
}

// arg adds an argument and returns its placeholder.
func (f *filter) arg(v any) string {
	f.args = append(f.args, v)
	return "$" + strconv.Itoa(len(f.args))
}

// add adds a condition; each ? in it takes one argument.
func (f *filter) add(condition string, args ...any) {
	for _, v := range args {
		condition = strings.Replace(condition, "?", f.arg(v), 1)
	}
	f.where = append(f.where, condition)
}

// addText adds a condition on one text if it is not empty.
func (f *filter) addText(condition, value string) {
	if value != "" {
		f.add(condition, value)
	}
}

// page returns a statement for the rows that meet the conditions, in order. It reads one page and one more row, which
// shows that there is another page.
func (f *filter) page(from, order string, size int) string {
	if len(f.where) > 0 {
		from += "\n\tWHERE " + strings.Join(f.where, " AND ")
	}
	return from + "\n\tORDER BY " + order + "\n\tLIMIT " + f.arg(size+1)
}

// asTexts converts values of a string type to strings.
func asTexts[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}

// readPage reads a page from a statement that returns one more item if there is another page.
func readPage[T any](ctx context.Context, d *database, doing, text string, args []any, size int,
	read func(pgx.Rows) (T, error), cursor, root func(*T) string) (driver.Page[T], error) {
	return readPageBy(ctx, d, doing, size, read, cursor, root, func(ctx context.Context, c *conn, each func(pgx.Rows) error) error {
		return c.query(ctx, text, each, args...)
	})
}

// readPageBy is readPage for rows that query provides. If root is not nil it returns the root that an item belongs to,
// and items of expired roots are not on the page.
func readPageBy[T any](ctx context.Context, d *database, doing string, size int, read func(pgx.Rows) (T, error), cursor, root func(*T) string,
	query func(context.Context, *conn, func(pgx.Rows) error) error) (driver.Page[T], error) {
	var page driver.Page[T]
	err := d.try(ctx, doing, reads, func(ctx context.Context, c *conn) error {
		page = driver.Page[T]{}
		err := query(ctx, c, func(rows pgx.Rows) error {
			if len(page.Items) == size {
				page.Next = cursor(&page.Items[size-1])
				return nil
			}
			item, err := read(rows)
			if err == nil {
				page.Items = append(page.Items, item)
			}
			return err
		})
		if err == nil && root != nil {
			err = overdueOf(ctx, c, page.Items, root)
		}
		return err
	})
	if err != nil {
		return driver.Page[T]{}, err
	}
	return page, nil
}
