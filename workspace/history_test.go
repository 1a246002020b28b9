package workspace_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/workspace"
)

// The files follow the transcript: back with a rewind, and along with a branch, which keeps them when its session is gone.
func TestRewindAndBranchTakeTheFilesAlong(t *testing.T) {
	t.Parallel()
	for name, make := range providers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, newStore(), make(t), &workspace.Options{Manifest: workspace.Manifest{Files: map[string]string{"given": "by the manifest"}}})
			h.do("s", write("a", "1"), write("both", "old"))
			page, err := h.eng.Checkpoints(t.Context(), "s", driver.PageQuery{})
			if err != nil {
				t.Fatal(err)
			}
			h.do("s", write("b", "2"), write("both", "new"))
			last := page.Items[len(page.Items)-1].ID
			if _, err := h.eng.Branch(t.Context(), "s", "early", engine.AtCheckpoint(last)); err != nil {
				t.Fatal(err)
			}
			if _, err := h.eng.Branch(t.Context(), "s", "late"); err != nil {
				t.Fatal(err)
			}
			if _, err := h.eng.Rewind(t.Context(), "s", last); err != nil {
				t.Fatal(err)
			}
			if got := h.do("s", `list {}`, read("both")); got[0] != "a (1 bytes)\nboth (3 bytes)\ngiven (15 bytes)" || got[1] != "old" {
				t.Errorf("after the rewind: %q", got)
			}
			if err := h.eng.Erase(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			if _, err := h.st.(driver.BlobProvider).Blobs().Sweep(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			// On this machine and on another one.
			for _, h := range []*house{h, newHouse(t, h.st, make(t), nil)} {
				if got := h.do("early", `list {}`, read("both")); !strings.HasPrefix(got[0], "a (1 bytes)\nboth (3 bytes)\ngiven (15 bytes)") || got[1] != "old" {
					t.Errorf("the early branch: %q", got)
				}
				if got := h.do("late", `list {}`, read("both")); !strings.HasPrefix(got[0], "a (1 bytes)\nb (1 bytes)\nboth (3 bytes)\ngiven (15 bytes)") || got[1] != "new" {
					t.Errorf("the late branch: %q", got)
				}
			}
		})
	}
}

// The model may take and restore snapshots, and only its own session's.
func TestSnapshotsOfTheModel(t *testing.T) {
	t.Parallel()
	h := newHouse(t, newStore(), workspace.Memory(), nil)
	got := h.do("s", write("a", "1"), `snapshot {}`)
	id := got[1][len("The snapshot is ") : len(got[1])-1]
	restore := call("restore", map[string]any{"snapshot": id})
	got = h.do("s", write("a", "2"), write("b", "3"), restore, read("a"), `list {}`, `restore {"snapshot":"nothing"}`)
	expect(t, "restored", got[2], "Restored.")
	if got[3] != "1" || got[4] != "a (1 bytes)" {
		t.Errorf("after the restore: %q", got)
	}
	expect(t, "unknown snapshot", got[5], "not the id of a snapshot")
	expect(t, "another session", h.do("t", write("c", "4"), restore)[1], "no snapshot")
}

// A file of the model that describes a tree is as good as a snapshot, but not a larger one than snapshots may be.
func TestSnapshotsThatTheModelWrites(t *testing.T) {
	t.Parallel()
	h := newHouse(t, newStore(), workspace.Memory(), &workspace.Options{Limits: workspace.Limits{SnapshotFiles: 30, SnapshotBytes: 10_000}})
	restore := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return call("restore", map[string]any{"snapshot": base64.RawURLEncoding.EncodeToString(sum[:])})
	}
	tree := "[]"
	calls := []string{write("level", tree)}
	for range 5 { // 2 + 4 + 8 + 16 + 32 directories
		key := driver.BlobKey([]byte(tree))
		tree = fmt.Sprintf(`[{"name":"a","type":"dir","dir":%q},{"name":"b","type":"dir","dir":%[1]q}]`, key)
		calls = append(calls, write("level", tree))
	}
	text := strings.Repeat("x", 3000)
	entry := fmt.Sprintf(`"type":"file","size":3000,"chunks":[%q]}`, driver.BlobKey([]byte(text)))
	large := `[{"name":"a",` + entry + `,{"name":"b",` + entry + `,{"name":"c",` + entry + `,{"name":"d",` + entry + "]"
	calls = append(calls, write("text", text), write("level", large), restore(tree), restore(large), `list {}`)
	got := h.do("s", calls...)
	got = got[len(got)-3:]
	expect(t, "many entries", got[0], "restore: ", "more than 30 files")
	expect(t, "many bytes", got[1], "restore: ", "more than 30 files or 0 MiB")
	expect(t, "afterwards", got[2], "level (", "text (")
}

// A branch whose files were not all named for it, since its process was killed, names them when it needs them.
func TestBranchThatWasInterrupted(t *testing.T) {
	t.Parallel()
	st := newStore()
	h := newHouse(t, st, workspace.Memory(), nil)
	h.do("s", write("a", "1"), write("b", "2"))
	branch, err := h.eng.Branch(t.Context(), "s", "branch")
	if err != nil {
		t.Fatal(err)
	}
	owner := driver.OwnerOfBlobs(branch)
	for _, content := range []string{"1", "2"} {
		if err := st.Blobs().Drop(t.Context(), owner, driver.BlobKey([]byte(content))); err != nil {
			t.Fatal(err)
		}
	}
	if got := h.do("branch", read("a"), read("b")); got[0] != "1" || got[1] != "2" {
		t.Errorf("the branch has %q", got)
	}
}

// A command in the background ends when the session is rewound, and its changes belong to the snapshot of the next call.
func TestBackgroundCommands(t *testing.T) {
	t.Parallel()
	dir := base(t)
	p, err := workspace.Bubblewrap(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := newHouse(t, newStore(), p, &workspace.Options{Limits: workspace.Limits{Background: 2}})
	background := func(command string) string {
		return call("shell", map[string]any{"command": command, "background": true})
	}
	got := h.do("s", write("a", "1"), background("echo started; i=0; while true; do i=$((i+1)); echo $i > count; sleep 0.02; done"), background("sleep 100"), background("true"), `processes {}`)
	expect(t, "first", got[1], `"1"`)
	expect(t, "third", got[3], "which is the limit")
	expect(t, "list", got[4], "1: echo started", "2: sleep 100 (runs since")
	testclock.Await(t, "the command", func() bool { return found(dir, "count") != "" })
	testclock.Await(t, "its output", func() bool { return strings.Contains(h.do("s", `processes {"id":"1"}`)[0], "started") })
	got = h.do("s", `processes {"id":"1"}`, `processes {"id":"2","stop":true}`, `list {}`, `processes {"id":"7"}`)
	expect(t, "output", got[0], "started\n[1: echo started")
	expect(t, "stop", got[1], "2: sleep 100 (was killed)")
	expect(t, "list", got[2], "a (1 bytes)\ncount (")
	expect(t, "unknown", got[3], `no command "7"`)

	page, err := h.eng.Checkpoints(t.Context(), "s", driver.PageQuery{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.eng.Rewind(t.Context(), "s", page.Items[0].ID); err != nil {
		t.Fatal(err)
	}
	got = h.do("s", sh("cat count 2>/dev/null; ls"), `processes {}`)
	expect(t, "after the rewind", got[0], "a", "have ended")
	expect(t, "after the rewind", got[1], "No commands run")

	// The last changes of a command that ends between two calls are there in the next call, and part of its snapshot.
	h.do("late", background("while [ ! -e go ]; do sleep 0.02; done; echo done > late"), write("go", ""))
	testclock.Await(t, "the end of the command", func() bool { return strings.Contains(h.do("late", `list {}`)[0], "late (5 bytes)") })
	testclock.Await(t, "its end to be noted", func() bool { return strings.Contains(h.do("late", `processes {}`)[0], "ended with status 0") })
	if got := newHouse(t, h.st, wrap(t, nil), nil).do("late", read("late")); !strings.HasPrefix(got[0], "done\n") {
		t.Errorf("on another machine: %q", got)
	}

	h.do("gone", background("touch going; sleep 100"))
	testclock.Await(t, "the command", func() bool { return found(dir, "going") != "" })
	if err := h.ws.Upkeep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if used, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(found(dir, "going"))), "tree")); err == nil {
		t.Errorf("the directory counts as unchanged while a command runs: %s", used)
	}
	if err := h.eng.Delete(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	if err := h.ws.Upkeep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Sweep(t.Context(), -time.Hour); err != nil { // only directories that no command uses
		t.Fatal(err)
	}
	if found(dir, "going") != "" {
		t.Error("the command of a deleted session runs on")
	}

	h.do("s", background("touch running; sleep 100"))
	testclock.Await(t, "the command", func() bool { return found(dir, "running") != "" })
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = h.ws.Close()
	}()
	select {
	case <-closed:
	case <-time.After(20 * time.Second):
		t.Fatal("Close does not end the command")
	}
	if err := p.Sweep(t.Context(), -time.Hour); err != nil {
		t.Fatal(err)
	}
	if found(dir, "running") != "" {
		t.Error("Close leaves the directory open")
	}
}

// A workspace that is too large for a snapshot stays on its machine, and another machine has the last snapshot.
func TestWorkspaceThatIsTooLarge(t *testing.T) {
	t.Parallel()
	for name, make := range providers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := &workspace.Options{Limits: workspace.Limits{SnapshotFiles: 3, SnapshotBytes: 1 << 20}}
			h := newHouse(t, newStore(), make(t), opts)
			got := h.do("s", write("a", "1"), write("b", "2"), write("c", "3"), write("d", "4"), read("d"))
			if got[2] != "Wrote c, 1 bytes." {
				t.Errorf("the third file: %q", got[2])
			}
			expect(t, "fourth file", got[3], "more than 3 files", "only on this machine")
			if got[4] != "4" {
				t.Errorf("the fourth file is %q", got[4])
			}
			if got := h.do("s", write("e", "5"), `remove {"path":"a"}`, `list {}`); got[2] != "b (1 bytes)\nc (1 bytes)\nd (1 bytes)\ne (1 bytes)" {
				t.Errorf("the next turn has %q", got[2])
			}
			other := newHouse(t, h.st, make(t), opts)
			got = other.do("s", `list {}`)
			expect(t, "on another machine", got[0], "a (1 bytes)\nb (1 bytes)\nc (1 bytes)", "their changes are lost")
			got = other.do("s", `remove {"path":"a"}`, write("d", "6"), `list {}`)
			if got[2] != "b (1 bytes)\nc (1 bytes)\nd (1 bytes)" {
				t.Errorf("small again: %q", got)
			}
		})
	}
}
