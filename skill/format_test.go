package skill_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/skill"
)

// A skill that is formatted reads as it was, and its front matter says the same as a JSON object.
func TestFormatOfASkill(t *testing.T) {
	t.Parallel()
	for _, want := range []skill.Skill{
		{Info: skill.Info{Name: "tone", Description: "How to write: short."}, Body: "Write short sentences."},
		{Info: skill.Info{Name: "tone", Description: "- yes # no 'quotes' \"too\" {a: b}", License: "MIT: all", Compatibility: "1.0", Metadata: map[string]string{"since": "2026-01-02", "a: b": "true"},
			AllowedTools: []string{"git_*", "b"}}, Body: "---\nA rule above.\n---\nAnd below."},
	} {
		raw, err := skill.Format(&want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := skill.Parse(want.Name, raw)
		if err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%s reads as %+v, %v, want %+v", raw, got, err, want)
		}
		front, err := skill.FrontMatter(raw)
		if err != nil || skill.CheckFrontMatter(raw, front) != nil || !strings.Contains(string(front), `"name":"tone"`) {
			t.Errorf("the front matter is %s, %v", front, err)
		}
	}
	for _, wrong := range []string{"no front matter", "---\na: [\n---\n", "---\na: &x 1\nb: *x\n---\n"} {
		if front, err := skill.FrontMatter([]byte(wrong)); err == nil {
			t.Errorf("%q: %s", wrong, front)
		}
	}
}
