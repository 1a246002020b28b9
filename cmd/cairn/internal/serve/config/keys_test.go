package config

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of keys into docs/SERVE.md")

// The table of keys in docs/SERVE.md matches the code.
func TestKeysAreDocumented(t *testing.T) {
	t.Parallel()
	const file, from, to = "../../../../../docs/SERVE.md", "| Key | Default | What it says |\n| --- | --- | --- |\n", "\n## "
	table := from
	for _, k := range Keys() {
		usual := ""
		if k.Default != "" {
			usual = "`" + k.Default + "`"
		}
		table += fmt.Sprintf("| `%s` | %s | %s |\n", k.Path, usual, k.Doc)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(raw), from)
	_, after, ended := strings.Cut(rest, to)
	if !found || !ended {
		t.Fatal("there is no table of keys")
	}
	want := before + table + to + after
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(raw) != want {
		t.Error("docs/SERVE.md differs from the code: go test ./cmd/cairn/internal/serve/config -run Keys -update")
	}
}
