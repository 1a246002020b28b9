package mcp_test

import (
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/mcp"
)

// Tools of a server are effectful if the agent's author says so: a result and an error are outcomes, a server that breaks
// off leaves none.
func TestEffectfulTools(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tool  string
		input any
		opts  mcp.Options
		state cairn.EffectState
	}{
		"a result":             {"echo", text{"hello"}, mcp.Options{Effectful: []string{"e*"}}, cairn.EffectConfirmed},
		"a large result":       {"echo", text{"hello"}, mcp.Options{Effectful: []string{"*"}, MaxResult: 3}, cairn.EffectConfirmed},
		"not cached":           {"look", text{"a"}, mcp.Options{Effectful: []string{"*"}, Cache: &cairn.CachePolicy{}}, cairn.EffectConfirmed},
		"an error":             {"fail", none{}, mcp.Options{Effectful: []string{"*"}}, cairn.EffectFailed},
		"a server that breaks": {"die", none{}, mcp.Options{Effectful: []string{"*"}}, cairn.EffectUnknown},
		"another tool":         {"echo", text{"hello"}, mcp.Options{Effectful: []string{"pid"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.opts.NoPrefix = true
			k := newTalk(t, []cairn.Toolset{command(t, "server", t.TempDir(), c.opts)}, asks(c.tool, c.input))
			res := k.turn("go")
			page, err := k.eng.Effects(t.Context(), engine.EffectQuery{})
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case c.state == "" && len(page.Items) == 0:
			case len(page.Items) != 1 || page.Items[0].Effect.State != c.state:
				t.Errorf("the ledger has %+v", page.Items)
			case (res.Suspended != nil) != (c.state == cairn.EffectUnknown):
				t.Errorf("the turn is %s", res.Status)
			}
		})
	}
	if _, err := mcp.URL("x", "http://localhost", &mcp.Options{Effectful: []string{"["}}); cairn.AsError(err).Field != "effectful" {
		t.Errorf("a bad pattern: %v", err)
	}
}
