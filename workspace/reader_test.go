package workspace_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
	"github.com/cairn-agents/cairn/workspace"
)

// onlooker is a process without agents, which reads workspaces from the store.
type onlooker struct {
	t      *testing.T
	eng    *engine.Engine
	reader *workspace.Reader
}

func newOnlooker(t *testing.T, st *memstore.Store) *onlooker {
	t.Helper()
	r, err := workspace.NewReader(st)
	if err != nil {
		t.Fatal(err)
	}
	eng, err := engine.New(st, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close(context.Background()) })
	return &onlooker{t, eng, r}
}

// list returns the paths of a workspace's files, read in pages.
func (o *onlooker) list(session, snapshot, prefix string) string {
	o.t.Helper()
	var paths []string
	at := engine.WorkspaceAt{Snapshot: snapshot, Reader: o.reader}
	for f, err := range driver.All(func(cursor string) (store.Page[cairn.WorkspaceFile], error) {
		return o.eng.WorkspaceFiles(o.t.Context(), session, at, prefix, store.PageQuery{Cursor: cursor, Limit: 2})
	}) {
		if err != nil {
			o.t.Fatal(err)
		}
		paths = append(paths, f.Path)
	}
	return strings.Join(paths, " ")
}

func (o *onlooker) open(session, snapshot, path string) (*cairn.WorkspaceFile, io.ReadSeeker, error) {
	return o.eng.OpenWorkspaceFile(o.t.Context(), session, engine.WorkspaceAt{Snapshot: snapshot, Reader: o.reader}, path)
}

func (o *onlooker) snapshots(session string) (list []cairn.WorkspaceSnapshot) {
	o.t.Helper()
	page, err := o.eng.WorkspaceSnapshots(o.t.Context(), session, store.PageQuery{})
	if err != nil {
		o.t.Fatal(err)
	}
	return page.Items
}

// Any process reads the files of any snapshot, before the first call as after it, also of a branch whose blobs were not
// named, and after a summary.
func TestApplicationsReadFiles(t *testing.T) {
	t.Parallel()
	st := newStore()
	provider, err := workspace.Dir(base(t))
	if err != nil {
		t.Fatal(err)
	}
	h := newHouse(t, st, provider, &workspace.Options{Manifest: workspace.Manifest{Files: map[string]string{"given": "by the manifest", "a/b/c": "deep"}}}, func(a *cairn.Agent, _ *engine.Options) {
		a.Model = scripted.Func(func(ctx context.Context, req *cairn.Request) scripted.Step {
			if len(req.Tools) == 0 {
				return scripted.Text("A summary.")
			}
			return obey(ctx, req)
		})
	})
	o := newOnlooker(t, st)
	h.do("s", `list {}`)
	expectList := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	expectList("the beginning", o.list("s", "", ""), "a a/b a/b/c given")
	large := strings.Repeat("0123456789abcdef", driver.MaxBlob/16+10)
	h.do("s", write("a/d", "1"), write("a-b", "2"), write("large", large), write("a/b/.e", "3"))
	all := "a a/b a/b/.e a/b/c a/d a-b given large"
	expectList("the end", o.list("s", "", ""), all)
	expectList("a directory", o.list("s", "", "a/b/"), "a/b/.e a/b/c")
	expectList("a prefix", o.list("s", "", "a-"), "a-b")
	expectList("nothing", o.list("s", "", "z"), "")
	snapshots := o.snapshots("s")
	if len(snapshots) != 4 || snapshots[1].Tool != "workspace_write" {
		t.Fatalf("the snapshots are %+v", snapshots)
	}
	expectList("the first snapshot", o.list("s", snapshots[0].ID, ""), "a a/b a/b/c a/d given")

	f, content, err := o.open("s", "", "large")
	if err != nil || f.Size != int64(len(large)) || f.Type != cairn.WorkspaceRegular {
		t.Fatalf("the file is %+v, %v", f, err)
	}
	if _, err := content.Seek(driver.MaxBlob-1, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(content); err != nil || string(rest) != large[driver.MaxBlob-1:] {
		t.Errorf("the end of the file is %q, %v", rest, err)
	}
	for path, code := range map[string]cairn.Code{"": cairn.ErrInvalid, "a": cairn.ErrInvalid, "../x": cairn.ErrInvalid, "a/./b": cairn.ErrInvalid, "given/x": cairn.ErrNotFound, "z": cairn.ErrNotFound, "a/b/c/d/e": cairn.ErrNotFound} {
		if _, _, err := o.open("s", "", path); cairn.AsError(err).Code != code {
			t.Errorf("path %q: error %v, want %s", path, err, code)
		}
	}

	if _, err := h.eng.Compact(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	expectList("after a summary", o.list("s", "", ""), all)
	branch, err := h.eng.Branch(t.Context(), "s", "branch")
	if err != nil {
		t.Fatal(err)
	}
	page, err := st.Blobs().List(t.Context(), driver.OwnerOfBlobs(branch), driver.BlobQuery{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range page.Items {
		if err := st.Blobs().Drop(t.Context(), driver.OwnerOfBlobs(branch), row.Key); err != nil {
			t.Fatal(err)
		}
	}
	expectList("an interrupted branch", o.list("branch", "", ""), all)
	if _, content, err := o.open("branch", "", "a/d"); err != nil {
		t.Error(err)
	} else if text, err := io.ReadAll(content); string(text) != "1" || err != nil {
		t.Errorf("a file of the interrupted branch is %q, %v", text, err)
	}
	if _, err := o.eng.WorkspaceFiles(t.Context(), "s", engine.WorkspaceAt{}, "", store.PageQuery{}); cairn.AsError(err).Code != cairn.ErrInvalid {
		t.Errorf("without a reader: %v", err)
	}
	if page, err := h.eng.WorkspaceFiles(t.Context(), "s", engine.WorkspaceAt{}, "", store.PageQuery{}); err != nil || len(page.Items) != 8 {
		t.Errorf("by the agent's workspace: %+v, %v", page, err)
	}
}

// An application restores a snapshot between turns. The next call finds its files, on this machine and on another one; a
// branch has them, and a rewind undoes it.
func TestApplicationsRestoreSnapshots(t *testing.T) {
	t.Parallel()
	for name, make := range providers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newStore()
			h := newHouse(t, st, make(t), nil)
			o := newOnlooker(t, st)
			h.do("s", write("a", "old"), write("a", "new"), write("b", "1"))
			cp, err := h.eng.Checkpoint(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			first := o.snapshots("s")[0].ID
			if _, err := o.eng.RestoreWorkspace(t.Context(), "s", first); err != nil {
				t.Fatal(err)
			}
			if got := o.list("s", "", ""); got != "a" {
				t.Errorf("restored: %q", got)
			}
			if list := o.snapshots("s"); len(list) != 4 || list[3].CallID != "" || list[3].ID != list[3].MessageID {
				t.Errorf("the snapshots are %+v", list)
			}
			if _, err := o.eng.Branch(t.Context(), "s", "branch"); err != nil {
				t.Fatal(err)
			}
			for _, h := range []*house{h, newHouse(t, st, make(t), nil)} {
				if got := h.do("s", read("a"), `list {}`); !strings.HasPrefix(got[0], "old") || !strings.HasPrefix(got[1], "a (3 bytes)") || strings.Contains(got[1], "b (") {
					t.Errorf("after the restoration: %q", got)
				}
			}
			if got := h.do("branch", read("a")); !strings.HasPrefix(got[0], "old") {
				t.Errorf("the branch has %q", got)
			}
			if _, err := h.eng.Rewind(t.Context(), "s", cp.ID); err != nil {
				t.Fatal(err)
			}
			if got := h.do("s", read("a"), read("b")); !slices.Equal(got, []string{"new", "1"}) {
				t.Errorf("after the rewind: %q", got)
			}
		})
	}
}

// A session that runs or waits is not restored, and neither is one to a snapshot that it does not have.
func TestRestorationIsRefused(t *testing.T) {
	t.Parallel()
	st := newStore()
	h := newHouse(t, st, workspace.Memory(), &workspace.Options{ToolOptions: map[string][]cairn.ToolOption{"remove": {cairn.RequireApproval()}}})
	h.do("other", write("a", "1"))
	h.do("s", write("a", "1"))
	snapshot := newOnlooker(t, st).snapshots("s")[0].ID
	for _, c := range []struct {
		session, snapshot string
		want              cairn.Code
	}{{"s", "", cairn.ErrInvalid}, {"s", ids.Short(), cairn.ErrNotFound}, {"other", snapshot, cairn.ErrNotFound}, {"none", snapshot, cairn.ErrNotFound}} {
		if _, err := h.eng.RestoreWorkspace(t.Context(), c.session, c.snapshot); cairn.AsError(err).Code != c.want {
			t.Errorf("%+v: %v", c, err)
		}
	}
	run, err := h.eng.Execute(t.Context(), "s", "bot", cairn.Text(`remove {"path":"a"}`))
	if err != nil {
		t.Fatal(err)
	}
	if res, err := run.Wait(t.Context()); err != nil || res.Status != cairn.RunSuspended {
		t.Fatal(res, err)
	}
	if _, err := h.eng.RestoreWorkspace(t.Context(), "s", snapshot); cairn.AsError(err).Code != cairn.ErrWaiting {
		t.Errorf("of a session that waits: %v", err)
	}
}
