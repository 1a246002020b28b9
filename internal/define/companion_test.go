package define_test

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
)

// The guide's table has a row for each companion tool, which names the tool's arguments and nothing else in code.
func TestGuideNamesTheArgumentsOfCompanionTools(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/GUIDE.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(guide)) {
		if cells := strings.Split(line, "|"); len(cells) == 5 {
			rows[strings.Trim(cells[1], " `")] = cells[2]
		}
	}
	boss := &cairn.Agent{Name: "boss", Companions: []cairn.Companion{{Agent: &cairn.Agent{Name: "helper"}}}}
	code := regexp.MustCompile("`([^`]*)`")
	for _, tool := range define.CompanionTools(boss) {
		row, ok := rows[tool.Name()]
		if !ok {
			t.Errorf("docs/GUIDE.md has no row for %s", tool.Name())
		}
		var named []string
		for _, m := range code.FindAllStringSubmatch(row, -1) {
			named = append(named, m[1])
		}
		var schema struct{ Properties map[string]any }
		if err := json.Unmarshal(define.Of(&tool).Spec().Schema, &schema); err != nil {
			t.Fatal(err)
		}
		if want := slices.Sorted(maps.Keys(schema.Properties)); !slices.Equal(slices.Sorted(slices.Values(named)), want) {
			t.Errorf("docs/GUIDE.md: %s is said to have the arguments %q, but has %q", tool.Name(), named, want)
		}
	}
}
