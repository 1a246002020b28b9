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
