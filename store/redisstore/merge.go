package redisstore

import (
	"context"

	"github.com/cairn-agents/cairn/store/driver"
)

// merged is a list that is spread over the buckets. Each bucket has a part, in the list's order.
type merged[T any] struct {
	compare func(a, b *T) int
	// first reads the beginning of every part, more the items of one part after an item. A part that returns fewer than
	// n items is at its end.
	first func(n int) ([][]*T, error)
	more  func(part int, after *T, n int) ([]*T, error)

	parts [][]*T
	ended []bool
	begun bool
}

// next returns the next item, or nil at the end. n is how many items of a part are read at once.
func (m *merged[T]) next(n int) (*T, error) {
	if !m.begun {
		var err error
		if m.parts, err = m.first(n); err != nil {
			return nil, err
		}
		m.begun, m.ended = true, make([]bool, len(m.parts))
		for i := range m.parts {
			m.ended[i] = len(m.parts[i]) < n
		}
	}
	best := -1
	for i, part := range m.parts {
		if len(part) > 0 && (best < 0 || m.compare(part[0], m.parts[best][0]) < 0) {
			best = i
		}
	}
	if best < 0 {
		return nil, nil
	}
	item := m.parts[best][0]
	if m.parts[best] = m.parts[best][1:]; len(m.parts[best]) == 0 && !m.ended[best] {
		list, err := m.more(best, item, n)
		if err != nil {
			return nil, err
		}
		m.parts[best], m.ended[best] = list, len(list) < n
	}
	return item, nil
}

// scanBatch is the minimum number of rows to read at once where some may not be selected.
const scanBatch = 64

// readParts runs a listing script on every bucket, or only on that of root if it is not empty. The other parts are
// empty then.
func readParts[T any](ctx context.Context, d *database, root string, sc *script, read func(reply) ([]*T, error), args ...any) ([][]*T, error) {
	parts := make([][]*T, len(d.buckets))
	if root != "" {
		home := d.bucketOf(root)
		r, err := d.run(ctx, sc, home, args...)
		if err == nil {
			parts[home], err = read(r)
		}
		return parts, err
	}
	replies, err := d.runAll(ctx, sc, args...)
	if err != nil {
		return nil, err
	}
	for i, r := range replies {
		if parts[i], err = read(r); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// readMerged reads one page of a list. selects reports whether an item belongs to the page, and whether no later item
// does.
func readMerged[T any](list *merged[T], size, batch int, selects func(*T) (yes, over bool), cursor func(*T) string) (page driver.Page[T], err error) {
	for {
		item, err := list.next(batch)
		if err != nil {
			return driver.Page[T]{}, err
		}
		if item == nil {
			return page, nil
		}
		switch yes, over := selects(item); {
		case over:
			return page, nil
		case !yes:
		case len(page.Items) == size:
			page.Next = cursor(&page.Items[size-1])
			return page, nil
		default:
			page.Items = append(page.Items, *item)
		}
	}
}
