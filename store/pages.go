package store

import "iter"

// All yields the items of a list, page after page. next reads the page at a cursor, which is empty for the first page. A
// page that cannot be read ends the list with its error and a nil item. Items are yielded by reference into their page,
// which nothing else uses. Each page is one read, so a list that changes meanwhile is not one from a single point in time.
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
