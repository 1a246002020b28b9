package pages

import (
	"slices"
	"testing"

	"github.com/cairn-agents/cairn/store"
)

// A list is read to its limit, also in pages that have fewer items than they might, and says where it continues.
func TestLimited(t *testing.T) {
	t.Parallel()
	items, cursors := []int{1, 2, 3, 5, 8, 13, 21}, "abcdefg"
	for _, c := range []struct {
		limit    int
		from     string
		want     []int
		next     string
		requests []int
	}{
		{limit: 0, want: items, requests: []int{1000, 1000, 1000, 1000}},
		{limit: 3, want: items[:3], next: "c", requests: []int{3, 1}},
		{limit: 3, from: "c", want: items[3:6], next: "f", requests: []int{3, 1}},
		{limit: 7, want: items, requests: []int{7, 5, 3, 1}},
		{limit: 2000, from: "f", want: items[6:], requests: []int{1000}},
	} {
		next := ""
		var got, requests []int
		for item, err := range Limited(c.limit, c.from, &next, func(cursor string, limit int) (p store.Page[int], err error) {
			requests = append(requests, limit)
			from := 0
			if cursor != "" {
				from = int(cursor[0]-'a') + 1
			}
			to := min(from+min(limit, 2), len(items))
			if p.Items = items[from:to]; to < len(items) {
				p.Next = cursors[to-1 : to]
			}
			return p, nil
		}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, item)
		}
		if !slices.Equal(got, c.want) || next != c.next || !slices.Equal(requests, c.requests) {
			t.Errorf("%d from %q: %v with next %q in pages of %v, want %v, %q, %v", c.limit, c.from, got, next, requests, c.want, c.next, c.requests)
		}
	}
}
