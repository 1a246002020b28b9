package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// checkPaging reads a list of the numbers 1 … n in pages of every size, both ways, and with bad cursors.
func checkPaging[T any](t *testing.T, n int, read func(driver.PageQuery) (driver.Page[T], error), number func(T) int64) {
	t.Helper()
	var up []int64
	for i := range n {
		up = append(up, int64(i+1))
	}
	down := slices.Clone(up)
	slices.Reverse(down)
	for limit := 0; limit <= n+1; limit++ {
		for _, newest := range []bool{false, true} {
			want := up
			if newest {
				want = down
			}
			what := fmt.Sprintf("pages of %d, newest first: %v", limit, newest)
			count := 0
			got := pages(t, what, func(cursor string) (driver.Page[T], error) {
				page, err := read(driver.PageQuery{Cursor: cursor, Limit: limit, Newest: newest})
				if limit > 0 && len(page.Items) > limit {
					t.Fatalf("%s: a page has %d items", what, len(page.Items))
				}
				if count++; err == nil && len(page.Items) == 0 {
					t.Fatalf("%s: page %d is empty, so the one before was the last and had a cursor", what, count)
				}
				return page, err
			})
			same(t, what, numbers(got, number), want)
		}
	}
	for _, cursor := range badCursors {
		_, err := read(driver.PageQuery{Cursor: cursor})
		wantError(t, err, cairn.ErrInvalid, fmt.Sprintf("cursor %q", cursor))
	}
}

var badCursors = []string{"no cursor", "!", "\x00", "1 OR 1=1", "9999999999999999999999999"}

func numbers[T any](list []T, number func(T) int64) []int64 {
	var all []int64
	for _, item := range list {
		all = append(all, number(item))
	}
	return all
}

// checkPagingWhileWriting adds two items before each page. Oldest first, all are listed; newest first, those that
// existed at the beginning are. None is listed twice.
func checkPagingWhileWriting[T any](t *testing.T, write func(), read func(driver.PageQuery) (driver.Page[T], error), number func(T) int64) {
	t.Helper()
	var got []int64
	cursor := ""
	for range 4 {
		write()
		page, err := read(driver.PageQuery{Cursor: cursor, Limit: 1})
		if err != nil || len(page.Items) != 1 || page.Next == "" {
			t.Fatalf("oldest first: page %+v, %v", page, err)
		}
		got, cursor = append(got, number(page.Items[0])), page.Next
	}
	page, err := read(driver.PageQuery{Cursor: cursor})
	if err != nil || page.Next != "" {
		t.Fatalf("oldest first: last page %+v, %v", page, err)
	}
	same(t, "oldest first, while writing", append(got, numbers(page.Items, number)...), []int64{1, 2, 3, 4, 5, 6, 7, 8})

	got, cursor = nil, ""
	for more := true; more; more = cursor != "" {
		page, err := read(driver.PageQuery{Cursor: cursor, Limit: 3, Newest: true})
		if err != nil {
			t.Fatal(err)
		}
		got, cursor = append(got, numbers(page.Items, number)...), page.Next
		write()
	}
	same(t, "newest first, while writing", got, []int64{8, 7, 6, 5, 4, 3, 2, 1})
}

func items(texts ...string) []json.RawMessage {
	var list []json.RawMessage
	for _, text := range texts {
		list = append(list, json.RawMessage(text))
	}
	return list
}
