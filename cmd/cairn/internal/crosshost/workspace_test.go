package crosshost_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host/hosttest"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/dostore"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/sqlitestore"
	"github.com/cairn-agents/cairn/workspace"
)

// filer returns an agent whose calls change files, two of them in one reply. Each machine has directories of its own.
func filer(t *testing.T, st driver.Store, base, machine string) *cairn.Agent {
	t.Helper()
	p, err := workspace.Bubblewrap(filepath.Join(base, machine), nil)
	if err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.New(st, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close() })
	write := func(id, path, content string) scripted.Step {
		return scripted.Call("workspace_write", map[string]string{"path": path, "content": content}).ID(id)
	}
	shell := func(id, command string) scripted.Step {
		return scripted.Call("workspace_shell", map[string]string{"command": command}).ID(id)
	}
	a := agent("bot", []scripted.Step{
		scripted.Reply(write("c1", "a", "1"), shell("c2", "cat a && echo 2 > b"), asks("c3", "refund", "42")),
		shell("c4", "cat a b && rm a"),
		scripted.Text("Done."),
		shell("c5", "ls && cat b"),
		scripted.Text("Bye."),
	}, refund())
	a.Workspace = ws
	return a
}

// The files of a session follow it from host to host, each on another machine, through a suspension.
func TestFilesFollowTheSessionAcrossHosts(t *testing.T) {
	t.Parallel()
	all := hosts(t)
	for i, first := range all {
		second := all[(i+1)%len(all)]
		t.Run(fmt.Sprintf("%s to %s", first.Name, second.Name), func(t *testing.T) {
			t.Parallel()
			st, err := sqlitestore.Open(filepath.Join(t.TempDir(), "cairn.db"), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { st.Close() })
			filesFollow(t, st, first, second)
		})
	}
	t.Run("in Durable Objects", func(t *testing.T) {
		t.Parallel()
		url := "do+insecure://" + testenv.Worker(t) + "/files-" + ids.Short()
		st, err := dostore.Open(t.Context(), url, &dostore.Options{Secret: testenv.WorkerSecret})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { st.Close() })
		filesFollow(t, st, all[0], all[1])
	})
}

func filesFollow(t *testing.T, st driver.Store, first, second hosttest.Host) {
	t.Helper()
	base, err := os.MkdirTemp("", "files-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	opts := &engine.Options{LeaseTTL: 10 * time.Second}
	ctx := t.Context()
	one := first.Start(t, st, []*cairn.Agent{filer(t, st, base, "1")}, opts)
	run, err := one.Execute(ctx, "s", "bot", cairn.Text("Begin."))
	if err != nil {
		t.Fatal(err)
	}
	if res, err := run.Wait(ctx); err != nil || res.Status != cairn.RunSuspended {
		t.Fatal(res, err)
	}
	answer(t, st)
	two := second.Start(t, st, []*cairn.Agent{filer(t, st, base, "2")}, opts)
	if run, err = two.Resume(ctx, "s"); err != nil {
		t.Fatal(err)
	}
	if res, err := run.Wait(ctx); err != nil || res.Text != "Done." {
		t.Fatal(res, err)
	}
	three := first.Start(t, st, []*cairn.Agent{filer(t, st, base, "3")}, opts)
	if run, err = three.Execute(ctx, "s", "bot", cairn.Text("Show.")); err != nil {
		t.Fatal(err)
	}
	if res, err := run.Wait(ctx); err != nil || res.Text != "Bye." {
		t.Fatal(res, err)
	}
	var got []string
	for m, err := range three.AllMessages(ctx, "s") {
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range m.ToolResults() {
			text, _, _ := strings.Cut(strings.Trim(string(r.Output), `"`), `\n[`)
			got = append(got, r.Tool+": "+text)
		}
	}
	want := `workspace_write: Wrote a, 1 bytes.; workspace_shell: 1; refund: refund 42; workspace_shell: 12; workspace_shell: b\n2`
	if strings.Join(got, "; ") != want {
		t.Errorf("the results are %q, want %q", got, want)
	}
}
