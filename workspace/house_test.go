package workspace_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
	"github.com/cairn-agents/cairn/workspace"
)

// house is a process with an agent that has a workspace.
type house struct {
	t   *testing.T
	st  driver.Store
	ws  *workspace.Workspace
	eng *engine.Engine
}

// newHouse starts a process. The model obeys: each line of a message is a call, "tool {arguments}" without the prefix of
// the tools; lines in the form "&tool {arguments}" belong to the same reply as the line before.
func newHouse(t *testing.T, st driver.Store, p workspace.Provider, opts *workspace.Options, change ...func(*cairn.Agent, *engine.Options)) *house {
	t.Helper()
	ws, err := workspace.New(st, p, opts)
	if err != nil {
		t.Fatal(err)
	}
	a := &cairn.Agent{Name: "bot", Workspace: ws, MaxSteps: 50, Model: scripted.Func(obey)}
	o := &engine.Options{WorkInterval: 10 * time.Second}
	for _, c := range change {
		c(a, o)
	}
	eng, err := engine.New(st, []*cairn.Agent{a}, o)
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t, st, ws, eng}
	t.Cleanup(func() {
		_ = eng.Close(context.Background())
		_ = ws.Close()
	})
	return h
}

func obey(_ context.Context, req *cairn.Request) scripted.Step {
	var lines []string
	done := 0
	for i := range req.Messages {
		m := &req.Messages[i]
		if m.Role == cairn.RoleUser && !m.Hidden {
			lines, done = strings.Split(m.Text(), "\n"), 0
		}
		done += len(m.ToolUses())
	}
	var calls []scripted.Step
	for _, line := range lines[min(done, len(lines)):] {
		same := strings.HasPrefix(line, "&")
		name, args, ok := strings.Cut(strings.TrimPrefix(line, "&"), " {")
		if !ok || len(calls) > 0 && !same {
			break
		}
		calls = append(calls, scripted.Call("workspace_"+name, json.RawMessage("{"+args)).ID("call_"+ids.Short()))
	}
	if len(calls) == 0 {
		return scripted.Text("Done.")
	}
	return scripted.Reply(calls...)
}

// do has the model make calls in one turn, and returns their results as the model reads them.
func (h *house) do(session string, calls ...string) []string {
	h.t.Helper()
	run, err := h.eng.Execute(h.t.Context(), session, "bot", cairn.Text(strings.Join(calls, "\n")))
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := run.Wait(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	list := h.results(session)
	return list[len(list)-len(calls):]
}

// results returns the results of all calls of a session.
func (h *house) results(session string) (list []string) {
	h.t.Helper()
	for m, err := range h.eng.AllMessages(h.t.Context(), session) {
		if err != nil {
			h.t.Fatal(err)
		}
		for _, r := range m.ToolResults() {
			text := string(r.Output)
			var s string
			if json.Unmarshal(r.Output, &s) == nil {
				text = s
			}
			list = append(list, text)
		}
	}
	return list
}

// call returns a line for do.
func call(tool string, args map[string]any) string {
	raw, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return tool + " " + string(raw)
}

func sh(command string) string { return call("shell", map[string]any{"command": command}) }

func write(path, content string) string {
	return call("write", map[string]any{"path": path, "content": content})
}

func read(path string) string { return call("read", map[string]any{"path": path}) }

// base returns a directory that any user can enter.
func base(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "workspace-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "base")
}

// providers are the providers of this package by name, each with directories of its own.
func providers(t *testing.T) map[string]func(*testing.T) workspace.Provider {
	return map[string]func(*testing.T) workspace.Provider{
		"memory": func(*testing.T) workspace.Provider { return workspace.Memory() },
		"dir": func(t *testing.T) workspace.Provider {
			p, err := workspace.Dir(base(t))
			if err != nil {
				t.Fatal(err)
			}
			return p
		},
		"bubblewrap": func(t *testing.T) workspace.Provider { return wrap(t, nil) },
	}
}

func wrap(t *testing.T, opts *workspace.BubblewrapOptions) workspace.Provider {
	t.Helper()
	p, err := workspace.Bubblewrap(base(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func newStore() *memstore.Store { return memstore.New(nil) }

func expect(t *testing.T, what, got string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			t.Errorf("%s: %q does not contain %q", what, got, part)
		}
	}
}
