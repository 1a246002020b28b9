package driver_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/cairn-agents/cairn/store/driver"
)

// All reads a page only when the previous one is used up, and ends with the error of a page that cannot be read.
func TestAll(t *testing.T) {
	failed := errors.New("failed")
	pages := map[string]driver.Page[int]{"": {Items: []int{1, 2}, Next: "a"}, "a": {Next: "b"}, "b": {Items: []int{3}}, "c": {Items: []int{4}, Next: "d"}}
	for name, c := range map[string]struct {
		from string
		stop int
		want string
		read []string
	}{
		"the whole":           {"", 0, "[1 2 3] <nil>", []string{"", "a", "b"}},
		"as far as is wanted": {"", 2, "[1 2] <nil>", []string{""}},
		"an error":            {"c", 0, "[4] failed", []string{"", "d"}},
	} {
		t.Run(name, func(t *testing.T) {
			var read []string
			var got []int
			var end error
			for n, err := range driver.All(func(cursor string) (driver.Page[int], error) {
				read = append(read, cursor)
				if cursor == "" {
					cursor = c.from
				}
				page, ok := pages[cursor]
				if !ok {
					return page, failed
				}
				return page, nil
			}) {
				if err != nil {
					end = err
					continue
				}
				if got = append(got, *n); *n == c.stop {
					break
				}
			}
			if fmt.Sprint(got, end) != c.want || !slices.Equal(read, c.read) {
				t.Errorf("it yields %v, %v after the pages %q", got, end, read)
			}
		})
	}
}
