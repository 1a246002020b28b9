package server

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
)

// shelf is a workspace without tools that has the same files in each session, and a further one that is named as the state.
type shelf map[string]string

func (shelf) Name() string { return "shelf" }

func (shelf) Offer(context.Context, *cairn.Step, json.RawMessage) (*cairn.Offer, error) {
	return nil, nil
}

func (shelf) Tools(json.RawMessage) ([]cairn.Tool, error) { return nil, nil }

func (shelf) Branched(context.Context, string, *cairn.Session, *cairn.Session) error { return nil }

func (s shelf) files(state cairn.WorkspaceState) map[string]string {
	all := maps.Clone(s)
	if state.Ref != "" {
		all[state.Ref] = state.Ref
	}
	return all
}

func (s shelf) Files(_ context.Context, _ *cairn.Session, state cairn.WorkspaceState, prefix, after string) iter.Seq2[cairn.WorkspaceFile, error] {
	return func(yield func(cairn.WorkspaceFile, error) bool) {
		all := s.files(state)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			f := cairn.WorkspaceFile{Path: name, Type: cairn.WorkspaceRegular, Size: int64(len(all[name])), Version: all[name]}
			if strings.HasPrefix(name, prefix) && name > after && !yield(f, nil) {
				return
			}
		}
	}
}

func (s shelf) Open(_ context.Context, _ *cairn.Session, state cairn.WorkspaceState, name string) (*cairn.WorkspaceFile, io.ReadSeeker, error) {
	text, ok := s.files(state)[name]
	if !ok {
		return nil, nil, &cairn.Error{Code: cairn.ErrNotFound, Field: "path", Message: "file not found"}
	}
	return &cairn.WorkspaceFile{Path: name, Type: cairn.WorkspaceRegular, Size: int64(len(text)), Version: "v1"}, strings.NewReader(text), nil
}

// Who may read a session lists and reads the files of its workspace, now and at its snapshots, without running any of them in
// the browser. Its owner restores them.
func TestWorkspace(t *testing.T) {
	place := cairn.Func("place", "", func(_ context.Context, call *cairn.Call, in struct {
		Name string `json:"name"`
	}) (string, error) {
		return "placed", call.SetWorkspace(in.Name)
	})
	call := func(name string) scripted.Step {
		return scripted.Call("place", map[string]string{"name": name}).ID("call-" + name)
	}
	agent := &cairn.Agent{Name: "bot", Tools: []cairn.Tool{place}, Workspace: shelf{"page.html": "<script>"},
		Model: scripted.New(call("one.txt"), call("two.txt"), scripted.Text("Done."))}
	w := newWorldOf(t, nil, agent)
	if _, err := w.eng.Execute(t.Context(), "s", "bot", cairn.Text("go"), engine.WithUser("alice")); err != nil {
		t.Fatal(err)
	}
	w.settled("s")
	cl, err := client.New(w.url, &client.Options{Token: "a"})
	if err != nil {
		t.Fatal(err)
	}
	paths := func(snapshot, prefix string) (list []string) {
		t.Helper()
		for cursor := ""; ; {
			page, err := cl.WorkspaceFiles(t.Context(), "s", snapshot, prefix, 1, cursor)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range page.Items {
				list = append(list, f.Path)
			}
			if cursor = page.Next; cursor == "" {
				return list
			}
		}
	}
	if got := paths("", ""); !slices.Equal(got, []string{"page.html", "two.txt"}) {
		t.Errorf("the files are %q", got)
	}
	if got := paths("call-one.txt", "o"); !slices.Equal(got, []string{"one.txt"}) {
		t.Errorf("the files of the first snapshot are %q", got)
	}
	snapshots, err := cl.WorkspaceSnapshots(t.Context(), "s", 0, "")
	if err != nil || len(snapshots.Items) != 2 || snapshots.Items[0].ID != "call-one.txt" || snapshots.Items[1].Tool != "place" || snapshots.Items[1].CreatedAt.IsZero() {
		t.Fatalf("the snapshots are %+v, %v", snapshots, err)
	}

	res, data := w.do("a", "GET", "/sessions/s/workspace/file?path=page.html", nil)
	for name, want := range map[string]string{"Content-Disposition": `attachment; filename=page.html`, "X-Content-Type-Options": "nosniff",
		"Content-Security-Policy": "default-src 'none'; sandbox", "Etag": `"v1"`, "Cache-Control": "private, no-cache"} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if string(data) != "<script>" {
		t.Errorf("the file is %q", data)
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", w.url+"/sessions/s/workspace/file?path=page.html", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer a")
	req.Header.Set("Range", "bytes=1-3")
	if res, err = http.DefaultClient.Do(req); err != nil {
		t.Fatal(err)
	}
	part, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil || res.StatusCode != http.StatusPartialContent || string(part) != "scr" {
		t.Errorf("a range: status %d, %q, %v", res.StatusCode, part, err)
	}

	row, err := cl.RestoreWorkspace(t.Context(), "s", "call-one.txt")
	if err != nil || row.MessageCount != 7 {
		t.Fatalf("restored %+v, %v", row, err)
	}
	f, err := cl.WorkspaceFile(t.Context(), "s", "", "one.txt")
	if err != nil || string(f.Data) != "one.txt" || f.Name != "one.txt" {
		t.Errorf("after the restoration: %+v, %v", f, err)
	}
	for _, c := range []struct {
		err  error
		code cairn.Code
	}{
		{second(cl.WorkspaceFile(t.Context(), "s", "", "two.txt")), cairn.ErrNotFound},
		{second(cl.WorkspaceFile(t.Context(), "s", "none", "one.txt")), cairn.ErrNotFound},
		{second(cl.RestoreWorkspace(t.Context(), "s", "none")), cairn.ErrNotFound},
		{second(cl.RestoreWorkspace(t.Context(), "s", "")), cairn.ErrInvalid},
	} {
		if cairn.AsError(c.err).Code != c.code {
			t.Errorf("error %v, want %s", c.err, c.code)
		}
	}
	_, data = w.do("a", "GET", "/sessions/s/messages", nil)
	if strings.Contains(string(data), "workspace") {
		t.Errorf("messages show the state: %s", data)
	}
}

func second[T any](_ T, err error) error { return err }
