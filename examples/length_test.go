// Package examples_test holds the examples to a page: an API that needs more lines is too large.
package examples_test

import (
	"bytes"
	"os"
	"testing"
)

func TestExamplesArePagesLong(t *testing.T) {
	t.Parallel()
	for file, most := range map[string]int{
		"advance/main.go":         100,
		"approval/main.go":        65,
		"budget/main.go":          55,
		"companion/main.go":       60,
		"cost/main.go":            70,
		"effect/main.go":          75,
		"embed/main.go":           100,
		"first/main.go":           80,
		"guard/main.go":           70,
		"mcp/main.go":             80,
		"nested/main.go":          80,
		"output/main.go":          60,
		"proxy/main.go":           90,
		"shutdown/main.go":        80,
		"remote/main.go":          70,
		"sse/main.go":             65,
		"support/support_test.go": 25,
		"timetravel/main.go":      100,
		"workers/main.go":         65,
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte("\n")); n > most {
			t.Errorf("%s has %d lines, more than %d", file, n, most)
		}
	}
}
