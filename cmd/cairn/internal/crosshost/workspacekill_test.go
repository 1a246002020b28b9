package crosshost_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/sqlitestore"
	"github.com/cairn-agents/cairn/workspace"
)

// mortal is a process's connection to a store. Once it is dead, no call about a session gets through.
type mortal struct {
	*sqlitestore.Store
	dead atomic.Bool
}

func (m *mortal) gone() error {
	if m.dead.Load() {
		return cairn.Errorf(cairn.ErrUnavailable, "the process is dead")
	}
	return nil
}

func (m *mortal) Commit(ctx context.Context, id string, c *driver.Commit) (*cairn.Session, error) {
	if err := m.gone(); err != nil {
		return nil, err
	}
	return m.Store.Commit(ctx, id, c)
}

func (m *mortal) Read(ctx context.Context, id string, want driver.Want) (*driver.Contents, error) {
	if err := m.gone(); err != nil {
		return nil, err
	}
	return m.Store.Read(ctx, id, want)
}

func (m *mortal) Stage(ctx context.Context, id string, token int64, facts ...driver.Staged) error {
	if err := m.gone(); err != nil {
		return err
	}
	return m.Store.Stage(ctx, id, token, facts...)
}

func (m *mortal) Renew(ctx context.Context, id string, token int64, ttl time.Duration) (*cairn.Stop, error) {
	if err := m.gone(); err != nil {
		return nil, err
	}
	return m.Store.Renew(ctx, id, token, ttl)
}

// editor returns an agent of a machine. Its second step changes a file and adds one, and then calls last.
func editor(t *testing.T, st driver.Store, dir string, last func(context.Context) error) *cairn.Agent {
	t.Helper()
	p, err := workspace.Dir(dir)
	if err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.New(st, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close() })
	file := func(id, tool, path, content string) scripted.Step {
		args := map[string]string{"path": path}
		switch tool {
		case "write":
			args["content"] = content
		case "edit":
			args["old"], args["new"], _ = strings.Cut(content, " ")
		}
		return scripted.Call("workspace_"+tool, args).ID(id)
	}
	a := agent("bot", []scripted.Step{
		scripted.Reply(file("c1", "write", "a", "one"), file("c2", "write", "gone", "x")),
		scripted.Reply(file("c3", "edit", "a", "one two"), file("c4", "remove", "gone", ""), scripted.Call("last", words{}).ID("c5")),
		scripted.Reply(file("c6", "read", "a", ""), file("c7", "list", "", "")),
		scripted.Text("Done."),
	}, cairn.Func("last", "Ends the step.", func(ctx context.Context, _ *cairn.Call, _ words) (string, error) { return "last", last(ctx) }, cairn.Serial()))
	a.Workspace = ws
	return a
}

// A process dies in a step that has changed files. Another one on another host and another machine restores the files as of
// the last commit and repeats the step, so each change is made once.
func TestFilesSurviveAKillAcrossHosts(t *testing.T) {
	t.Parallel()
	all := hosts(t)
	for i, first := range all {
		second := all[(i+1)%len(all)]
		t.Run(fmt.Sprintf("%s to %s", first.Name, second.Name), func(t *testing.T) {
			t.Parallel()
			path, base := filepath.Join(t.TempDir(), "cairn.db"), t.TempDir()
			opts := &engine.Options{LeaseTTL: 3 * time.Second, WorkInterval: 100 * time.Millisecond, HostGrace: time.Second}
			one := &mortal{Store: handle(t, path, nil).(*sqlitestore.Store)}
			ctx, kill := context.WithCancel(t.Context())
			defer kill()
			dying := first.Start(t, one, []*cairn.Agent{editor(t, one, filepath.Join(base, "1"), func(ctx context.Context) error {
				one.dead.Store(true)
				kill()
				<-ctx.Done()
				return ctx.Err()
			})}, opts)
			if _, err := dying.Execute(t.Context(), "s", "bot", cairn.Text("Begin.")); err != nil {
				t.Fatal(err)
			}
			<-ctx.Done()

			st := handle(t, path, nil)
			living := second.Start(t, st, []*cairn.Agent{editor(t, st, filepath.Join(base, "2"), func(context.Context) error { return nil })}, opts)
			working, stop := context.WithCancel(t.Context())
			worked := make(chan error, 1)
			go func() { worked <- living.Work(working) }()
			testclock.Await(t, "another process to take the run over", func() bool {
				row, err := living.Session(t.Context(), "s")
				return err == nil && row.Status != cairn.SessionActive
			})
			stop()
			if err := <-worked; err != nil {
				t.Fatal(err)
			}
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			_ = dying.Close(ended)
			wantFiles(t, living, st)
		})
	}
}

// wantFiles checks the results of the editor's calls, and its files as a reader of the store sees them.
func wantFiles(t *testing.T, eng *engine.Engine, st driver.Store) {
	t.Helper()
	var got []string
	for m, err := range eng.AllMessages(t.Context(), "s") {
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range m.ToolResults() {
			got = append(got, r.CallID+" "+strings.Trim(string(r.Output), `"`))
			if r.IsError {
				t.Errorf("call %s failed: %s", r.CallID, r.Output)
			}
		}
	}
	if len(got) != 7 || !strings.Contains(got[5], "two") || strings.Contains(got[6], "gone") {
		t.Errorf("the results are %q", got)
	}
	reader, err := workspace.NewReader(st)
	page, err2 := eng.WorkspaceFiles(t.Context(), "s", engine.WorkspaceAt{Reader: reader}, "", store.PageQuery{})
	if err := errors.Join(err, err2); err != nil || len(page.Items) != 1 || page.Items[0].Path != "a" || page.Items[0].Size != 3 {
		t.Errorf("the workspace has %+v, %v", page.Items, err)
	}
	row, err := eng.Session(t.Context(), "s")
	if err != nil || row.Turn != 1 || row.Step != 4 {
		t.Errorf("the session is at turn %d, step %d; %v", row.Turn, row.Step, err)
	}
}
