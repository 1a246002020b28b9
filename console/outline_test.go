package console_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/internal/testenv"
)

// A reader of a conversation of 10,500 messages holds a few hundred of them at a time, each in its turn.
func TestOutlineHoldsFewMessages(t *testing.T) {
	t.Parallel()
	var scripts []string
	for _, name := range []string{"web/outline.js", "web/transcript.js"} {
		script, err := filepath.Abs(name)
		if err != nil {
			t.Fatal(err)
		}
		scripts = append(scripts, script)
	}
	if out := strings.TrimSpace(string(testenv.Node(t, "testdata/outline.mjs", scripts...))); out != "[]" {
		t.Errorf("it is wrong that %s", out)
	}
}
