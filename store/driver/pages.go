package driver

import (
	"iter"

	"github.com/cairn-agents/cairn"
)

// All yields the items of a list, page after page. next reads the page at a cursor; the first page has an empty cursor.
// If a page cannot be read, the list ends with its error and a nil item. Items are yielded by reference into their
// page, which is not used for anything else. Each page is one read, so a list that changes in the meantime is not from
// a single point in time.
func All[T any](next func(cursor string) (Page[T], error)) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for cursor := ""; ; {
			page, err := next(cursor)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page.Items {
				if !yield(&page.Items[i], nil) {
					return
				}
			}
			if cursor = page.Next; cursor == "" {
				return
			}
		}
	}
}

// PageQuery asks for one page of a list.
type PageQuery struct {
	// Cursor is the Next of the previous page; empty for the first page.
	Cursor string
	// Limit is the page's size; 0 means 100, more than 1000 means 1000.
	Limit int
	// Newest lists the newest first.
	Newest bool
}

// Size returns the effective page size.
func (q PageQuery) Size() int { return PageSize(q.Limit) }

// PageSize returns the effective size for a requested limit.
func PageSize(limit int) int {
	switch {
	case limit <= 0:
		return 100
	case limit > 1000:
		return 1000
	}
	return limit
}

// Page is one page of a list.
type Page[T any] = cairn.Page[T]
