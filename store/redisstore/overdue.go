package redisstore

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn/store/driver"
)

var scriptOver = keyed("over", "look for what has expired", reads)

// lookAt removes the expired trees among those that a list's items belong to. It reports whether any tree may have
// expired: the caller must list again then. An item whose root is empty cannot expire.
func lookAt[T any](ctx context.Context, d *database, list []T, root func(*T) string) (again bool, err error) {
	roots := map[int][]any{}
	seen := map[string]bool{}
	for i := range list {
		if id := root(&list[i]); id != "" && !seen[id] {
			seen[id] = true
			roots[d.bucketOf(id)] = append(roots[d.bucketOf(id)], id)
		}
	}
	for bucket, ids := range roots {
		for part := range slices.Chunk(ids, 1000) {
			r, err := d.run(ctx, scriptOver, bucket, part...)
			if err != nil {
				return false, err
			}
			for _, id := range r.list(1) {
				again = true
				if err := d.look(ctx, plain(id)); err != nil {
					return false, err
				}
			}
		}
	}
	return again, nil
}

var scriptOverdue = keyed("overdue", "list trees to sweep", frees)

// overdue is an item that overdue.lua lists: its name, its time and further fields.
type overdue struct {
	name   string
	at     time.Time
	fields reply
}

// overdues returns a page of the items of an index that became due at least age ago, longest overdue first. Each has
// fields of the hash that letter and the item's name identify.
func (d *database) overdues(ctx context.Context, index string, q driver.PageQuery, age time.Duration, letter string, fields ...any) (driver.Page[overdue], error) {
	at, name, err := driver.ParseSweepCursor(q.Cursor)
	if err != nil {
		return driver.Page[overdue]{}, err
	}
	from := "-inf"
	if name != "" {
		from = strconv.FormatInt(at.UnixMicro(), 10)
	}
	args := func(from any, name string, n int) []any {
		return append([]any{index, from, name, n, age.Microseconds(), letter}, fields...)
	}
	list := merged[overdue]{
		compare: func(a, b *overdue) int { return cmp.Or(a.at.Compare(b.at), strings.Compare(a.name, b.name)) },
		first: func(n int) ([][]*overdue, error) {
			return readParts(ctx, d, "", scriptOverdue, readOverdue, args(from, name, n)...)
		},
		more: func(part int, after *overdue, n int) ([]*overdue, error) {
			r, err := d.run(ctx, scriptOverdue, part, args(after.at.UnixMicro(), after.name, n)...)
			if err != nil {
				return nil, err
			}
			return readOverdue(r)
		},
	}
	all := func(*overdue) (yes, over bool) { return true, false }
	return readMerged(&list, q.Size(), q.Size()+1, all, func(o *overdue) string { return driver.SweepCursor(o.at, o.name) })
}

func readOverdue(r reply) ([]*overdue, error) {
	var list []*overdue
	for _, item := range r.list(1) {
		parts, _ := item.([]any)
		o := &overdue{name: reply(parts).text(0), fields: reply(parts).list(2)}
		at, err := strconv.ParseInt(reply(parts).text(1), 10, 64)
		if err != nil {
			return nil, unknown(scriptOverdue, r)
		}
		o.at = fromMicros(at)
		list = append(list, o)
	}
	return list, nil
}
