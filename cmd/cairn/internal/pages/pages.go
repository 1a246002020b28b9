// Package pages reads lists of an engine to their end, page by page. Only the current page is held in memory.
package pages

import (
	"iter"

	"github.com/cairn-agents/cairn/store"
)

// All yields the items of a list, page by page.
func All[T any](page func(cursor string) (store.Page[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for cursor := ""; ; {
			p, err := page(cursor)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range p.Items {
				if !yield(item, nil) {
					return
				}
			}
			if cursor = p.Next; cursor == "" {
				return
			}
		}
	}
}

// largest is the largest page that is read at once.
const largest = 1000

// Limited yields at most n items of a list from a cursor on; 0 is no limit. Then it sets next to the cursor of those that
// follow, if there are any. A page may have fewer items than its limit.
func Limited[T any](n int, cursor string, next *string, page func(cursor string, limit int) (store.Page[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for left := n; ; {
			limit := largest
			if n > 0 {
				limit = min(left, largest)
			}
			p, err := page(cursor, limit)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range p.Items {
				if !yield(item, nil) {
					return
				}
			}
			cursor, left = p.Next, left-len(p.Items)
			if cursor == "" || n > 0 && left == 0 {
				*next = cursor
				return
			}
		}
	}
}

// First yields at most n items; 0 is no limit. If there are more, it calls more with the last one that it yields.
func First[T any](items iter.Seq2[T, error], n int, more func(last T)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		given := 0
		var last T
		for item, err := range items {
			if err == nil && n > 0 && given == n {
				more(last)
				return
			}
			if !yield(item, err) {
				return
			}
			given, last = given+1, item
		}
	}
}

// Of yields the given items.
func Of[T any](all ...T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range all {
			if !yield(item, nil) {
				return
			}
		}
	}
}
