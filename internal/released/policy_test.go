package released

import (
	"strings"
	"testing"

	"github.com/cairn-agents/cairn/store/driver"
)

func TestReleasedMigrationsStay(t *testing.T) {
	t.Parallel()
	schema := func(fingerprints ...string) (list []driver.Migration) {
		for i, f := range fingerprints {
			list = append(list, driver.Migration{Version: i + 1, Name: "tables", Fingerprint: f})
		}
		return list
	}
	for name, c := range map[string]struct {
		released, known []driver.Migration
		says            string
	}{
		"the same":               {schema("a", "b"), schema("a", "b"), ""},
		"one added":              {schema("a", "b"), schema("a", "b", "c"), ""},
		"the first changed":      {schema("a", "b"), schema("x", "b"), "migration 1 (tables) is not the one that v0.1.0 has released (fingerprint x, was a): put that back, and make the change in a migration 3"},
		"the last changed":       {schema("a", "b"), schema("a", "x"), "migration 2 (tables) is not"},
		"changed, and one added": {schema("a"), schema("x", "c"), "migration 1 (tables) is not"},
		"the last gone":          {schema("a", "b"), schema("a"), "migration 2 (tables), which v0.1.0 has released, is gone"},
		"no fingerprints":        {[]driver.Migration{{Version: 6}}, []driver.Migration{{Version: 7}}, ""},
	} {
		err := Unchanged("v0.1.0", c.released, c.known)
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}
