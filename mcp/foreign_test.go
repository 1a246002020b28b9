package mcp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/mcp"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// TestForeignTools has a server with schemas and names of the kinds that real servers have. Each tool is offered, can
// be called, and is checked as far as its schema can be.
func TestForeignTools(t *testing.T) {
	t.Parallel()
	s := sdk.NewServer(&sdk.Implementation{Name: "x", Version: "1"}, nil)
	for name, schema := range map[string]string{
		"any":                      `{"type":"object","properties":{"a":{"type":"string"}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`,
		"empty":                    `{"type":"object"}`,
		"look":                     `{"type":"object","properties":{"a":{"type":"string","pattern":"^(?!x)a"}}}`,
		"tuple":                    `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"type":"array","items":[{"type":"string"}]}}}`,
		"bound":                    `{"type":"object","properties":{"a":{"type":"number","minimum":0,"exclusiveMinimum":true}}}`,
		"tree":                     `{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}}}}}`,
		"null":                     `{"type":"object","properties":{"a":{"type":"string","pattern":"[^\u0000]"}}}`,
		"a.b.c":                    `{"type":"object"}`,
		"repos/go":                 `{"type":"object"}`,
		strings.Repeat("long", 30): `{"type":"object"}`,
	} {
		s.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(schema)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "ran"}}}, nil
		})
	}
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	t.Cleanup(web.Close)
	set, err := mcp.URL("x", web.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { set.Close() })
	var offered []cairn.ToolSpec
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{{Name: "a", Toolsets: []cairn.Toolset{set}, Model: scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
		if offered != nil {
			return scripted.Text("done")
		}
		offered = r.Tools
		return scripted.Reply(scripted.Call("x_any", map[string]string{"a": "x"}), scripted.Call("x_any", map[string]string{}), scripted.Call("x_look", map[string]string{"a": "x"}),
			scripted.Call("x_bound", map[string]int{"a": 0}), scripted.Call("x_tree", map[string]any{"n": map[string]any{"next": 1}}))
	})}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close(context.Background()) })
	run, err := eng.Execute(t.Context(), "s", "a", cairn.Text("go"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(offered) < 10 {
		t.Errorf("%d tools are offered, want those of the server", len(offered))
	}
	list, err := eng.Messages(t.Context(), "s", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	var results []*cairn.ToolResult
	for i := range list {
		results = append(results, list[i].ToolResults()...)
	}
	for i, bad := range []bool{false, true, false, true, true} {
		if results[i].IsError != bad {
			t.Errorf("call %d came to %s", i, results[i].Output)
		}
	}
}

// TestExcludedToolLeavesOldSessions has a session that has seen a tool which the operator then excludes, with a server
// that answers, that answers late, and that is away.
func TestExcludedToolLeavesOldSessions(t *testing.T) {
	t.Parallel()
	for name, delay := range map[string]time.Duration{"at once": 0, "late": 300 * time.Millisecond, "never": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testExcludedTool(t, delay)
		})
	}
}

// testExcludedTool delays the server's answers from the second turn on; it closes the server if delay is negative.
func testExcludedTool(t *testing.T, delay time.Duration) {
	s := sdk.NewServer(&sdk.Implementation{Name: "x", Version: "1"}, nil)
	for _, name := range []string{"keep", "drop"} {
		s.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{}, nil
		})
	}
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
	var wait atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = testclock.Pause(r.Context(), time.Duration(wait.Load()))
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	st := memstore.New(nil)
	allowed := &mcp.Options{Allow: []string{"keep"}}
	for i, c := range []struct {
		opts *mcp.Options
		has  bool
		note string
	}{{nil, true, "x_drop"}, {allowed, false, "x_drop is no longer available"}, {allowed, false, ""}} {
		set, err := mcp.URL("x", web.URL, c.opts)
		if err != nil {
			t.Fatal(err)
		}
		var names, said string
		eng, err := engine.New(st, []*cairn.Agent{{Name: "a", Toolsets: []cairn.Toolset{set}, Model: scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
			for _, t := range r.Tools {
				names += t.Name + " "
			}
			for j := range r.Messages {
				said += r.Messages[j].Text() + "\n"
			}
			return scripted.Text("done")
		})}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		run, err := eng.Execute(t.Context(), "s", "a", cairn.Text("go"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(names, "x_drop") != c.has || !strings.Contains(names, "x_keep") || !strings.Contains(said, c.note) {
			t.Errorf("turn %d has the tools %s and is told\n%s", i, names, said)
		}
		if n := strings.Count(said, "x_drop is not available"); n > 1 {
			t.Errorf("turn %d is told %d times", i, n)
		}
		if err := eng.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		set.Close()
		if wait.Store(int64(delay)); delay < 0 {
			web.Close()
		}
	}
}
