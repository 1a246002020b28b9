package skillsync

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// Only the skills of plugins are copied; the report names each refused part.
func TestMarketplace(t *testing.T) {
	t.Parallel()
	other := newUpstream(t)
	theirs := other.commit(map[string]string{"tools/sql/SKILL.md": text("sql", "Select."), "tools/sql/q.sql": "SELECT 1", "plugin.json": `{"name":"db","skills":["./tools/"]}`})
	u := newUpstream(t)
	market := `{"name":"m","owner":{"name":"x"},"plugins":[
		{"name":"docs","source":"./plugins/docs","version":"1.0.0"},
		{"name":"listed","source":"./","skills":["./extra/xlsx"],"strict":false},
		{"name":"local","source":{"source":"local","path":"./plugins/local"},"policy":{"installation":"allowed"}},
		{"name":"db","source":{"source":"url","url":"` + other.url() + `","ref":"main"}},
		{"name":"none","source":"./plugins/none"}]}`
	u.commit(map[string]string{
		".claude-plugin/marketplace.json":          market,
		"plugins/docs/.claude-plugin/plugin.json":  `{"name":"docs","hooks":{"PreToolUse":[]},"mcpServers":{}}`,
		"plugins/docs/skills/pdf/SKILL.md":         text("pdf", "Read."),
		"plugins/docs/commands/run.md":             "Run it.",
		"plugins/docs/hooks/hooks.json":            "{}",
		"extra/xlsx/SKILL.md":                      text("xlsx", "Calculate."),
		"plugins/local/.codex-plugin/plugin.json":  `{"name":"local","skills":"./my-skills/"}`,
		"plugins/local/my-skills/csv/SKILL.md":     text("csv", "Split."),
		"plugins/local/my-skills/csv/scripts/a.py": "print(1)",
		"plugins/none/agents/a.md":                 "An agent.",
	})
	name := declare(t, "- marketplace: "+u.url()+"\n")
	r := synced(t, name, false)
	want := map[string]string{"pdf/SKILL.md": text("pdf", "Read."), "xlsx/SKILL.md": text("xlsx", "Calculate."), "csv/SKILL.md": text("csv", "Split."),
		"csv/scripts/a.py": "print(1)", "sql/SKILL.md": text("sql", "Select."), "sql/q.sql": "SELECT 1"}
	if got := files(t, name); !maps.Equal(got, want) {
		t.Errorf("the folder has %q", slices.Sorted(maps.Keys(got)))
	}
	notes := []string{"plugin docs: hooks refused: only skills are taken", "plugin docs: commands refused: only skills are taken",
		"plugin docs: mcpServers refused: only skills are taken", "plugin none: agents refused: only skills are taken"}
	if !slices.Equal(r.Notes, notes) {
		t.Errorf("the notes are %q", r.Notes)
	}
	other.commit(map[string]string{"tools/sql/q.sql": "SELECT 2"})
	remove(t, strings.TrimSuffix(name, "skills.yaml")+"baked/sql")
	synced(t, name, false)
	if l, err := readLock(name); err != nil || l.Sources[0].pinned(other.url(), "main") != theirs || !maps.Equal(files(t, name), want) {
		t.Errorf("a plugin's repository is not pinned: %+v, %v", l.Sources, err)
	}
	some := declare(t, "- marketplace: "+u.url()+"\n  plugins: [docs]\n")
	if r := synced(t, some, false); !slices.Equal(r.Skills, []string{"pdf"}) {
		t.Errorf("a selection has %q", r.Skills)
	}
}

func TestHostileMarketplaces(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ plugin, want string }{
		"traversal":      {`{"name":"p","source":"../../etc"}`, `plugin p: source: "../../etc" is not a path within the plugin`},
		"absolute":       {`{"name":"p","source":"/etc"}`, `"/etc" is not a path`},
		"inner":          {`{"name":"p","source":"./","skills":["./../../x"]}`, `skills: "../../x" is not a path`},
		"no folder":      {`{"name":"p","source":"./nothing"}`, "source: no folder nothing"},
		"no skill":       {`{"name":"p","source":"./","skills":["./nothing"]}`, "skills: no folder nothing"},
		"file":           {`{"name":"p","source":{"source":"url","url":"file:///etc"}}`, "source.url: must begin with https://"},
		"no tls":         {`{"name":"p","source":{"source":"url","url":"ssh://internal/x"}}`, "source.url: must begin with https://"},
		"command":        {`{"name":"p","source":{"source":"git","url":"ext::sh -c x"}}`, "source.url: must "},
		"owner":          {`{"name":"p","source":{"source":"github","repo":"x"}}`, `source.repo: "x" is not owner/name`},
		"npm":            {`{"name":"p","source":{"source":"npm","package":"x"}}`, `source.source: "npm" is not supported`},
		"no name":        {`{"source":"./"}`, "plugins[0]: must be an object with a name"},
		"skills":         {`{"name":"p","source":"./","skills":3}`, "skills: must be a path or a list of paths"},
		"source":         {`{"name":"p","source":3}`, "source: must be a path or an object"},
		"no skill there": {`{"name":"p","source":"./"}`, "no skills were found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t)
			u.commit(map[string]string{"marketplace.json": `{"plugins":[` + test.plugin + `]}`})
			address := u.url()
			if name == "file" {
				address = u.serve()
			}
			if _, err := Sync(t.Context(), declare(t, "- marketplace: "+address+"\n"), false); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
	u := newUpstream(t)
	u.commit(map[string]string{"marketplace.json": `{"plugins":[{"name":"p","source":"./"}]}`})
	if _, err := Sync(t.Context(), declare(t, "- marketplace: "+u.url()+"\n  plugins: [q]\n"), false); err == nil || !strings.Contains(err.Error(), `no plugin "q"; there are: p`) {
		t.Errorf("an unknown plugin: %v", err)
	}
}
