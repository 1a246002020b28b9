//go:build !demo

package main

import (
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/sqlitestore"
	"github.com/cairn-agents/cairn/workspace"
)

// The command lists, reads and restores the files of a session's workspace, without its agent and its directory.
func TestWorkspaceCommand(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	st, err := sqlitestore.Open(b.env["CAIRN_DB"], &sqlitestore.Options{Now: b.now})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	ws, err := workspace.New(st, workspace.Memory(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	write := func(id, path, content string) scripted.Step {
		return scripted.Call("workspace_write", map[string]string{"path": path, "content": content}).ID(id)
	}
	a := &cairn.Agent{Name: "clerk", Workspace: ws, Model: scripted.New(write("c1", "notes.txt", "one"), write("c2", "notes.txt", "two"), write("c3", "odd\x1b[31m", ""), scripted.Text("Done."))}
	eng, err := engine.New(st, []*cairn.Agent{a}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(t.Context())
	run, err := eng.Execute(t.Context(), "s", "clerk", cairn.Text("Write."))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"s", "TYPE  BYTES  PATH\nfile  3      notes.txt\nfile  0      odd [31m\n"},
		{"s notes.txt", "two"},
		{"s notes.txt --snapshot c1", "one"},
		{"s --restore c1", "Restored the workspace of session s to snapshot c1.\n"},
		{"s notes.txt", "one"},
		{"s --prefix no --json", "{\n  \"items\": [\n    {\n      \"path\": \"notes.txt\",\n      \"type\": \"file\",\n      \"size\": 3,\n"},
	} {
		if got := b.want(t, "", append([]string{"sessions", "workspace"}, strings.Fields(c.args)...)...); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", c.args, got, c.want)
		}
	}
	if got := b.want(t, "", "sessions", "workspace", "s", "--snapshots"); !strings.Contains(got, "c1        3        workspace_write") || strings.Count(got, "\n") != 5 || !strings.Contains(got, "restoration") {
		t.Errorf("the snapshots are\n%s", got)
	}
	if _, stderr, code := b.run("", "sessions", "workspace", "s", "none"); code == 0 || !strings.Contains(stderr, `file "none" not found`) {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
