package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// page is a workspace of one page, whose content is also its reference. Its tool writes a line below the others.
type page struct {
	mu       sync.Mutex
	seen     []string // what the tool found
	branched []string
	fail     error // of Branched
}

func (p *page) Name() string { return "page" }

func (p *page) Offer(context.Context, *cairn.Step, json.RawMessage) (*cairn.Offer, error) {
	return &cairn.Offer{Pinned: json.RawMessage(`{}`), Note: "There is a page."}, nil
}

func (p *page) Tools(json.RawMessage) ([]cairn.Tool, error) {
	return []cairn.Tool{tool("write", func(ctx context.Context, call *cairn.Call, in in) (string, error) {
		p.mu.Lock()
		p.seen = append(p.seen, call.Workspace())
		p.mu.Unlock()
		if err := call.SetWorkspace(call.Workspace() + in.Text + "/"); err != nil {
			return "", err
		}
		switch in.Text {
		case "torn":
			return "", errors.New("the page is torn")
		case "ask":
			var answer string
			if err := call.Ask(ctx, "May I?", nil, &answer); err != nil {
				return "", err
			}
		}
		return call.Workspace(), nil
	}, cairn.Serial())}, nil
}

func (p *page) Branched(_ context.Context, ref string, from, to *cairn.Session) error {
	p.branched = append(p.branched, fmt.Sprintf("%s of %s to %s", ref, from.ID, to.ID))
	return p.fail
}

// writes calls the tool with each word of the user's message, each in a call of one reply.
func writes() cairn.Model {
	return scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if len(req.Tools) == 0 {
			return scripted.Text("a summary")
		}
		last := req.Messages[len(req.Messages)-1]
		if last.Role != cairn.RoleUser || last.Hidden && !strings.Contains(last.Text(), "page") {
			return scripted.Text("done")
		}
		for i := len(req.Messages) - 1; i >= 0; i-- {
			if m := req.Messages[i]; m.Role == cairn.RoleUser && !m.Hidden {
				var calls []scripted.Step
				for _, word := range strings.Fields(m.Text()) {
					calls = append(calls, scripted.Call("write", in{word}))
				}
				return scripted.Reply(calls...)
			}
		}
		return scripted.Text("done")
	})
}

func (p *page) agent() *cairn.Agent {
	a := bot(writes())
	a.Workspace = p
	return a
}

func (p *page) wantSeen(t *testing.T, what string, want ...string) {
	t.Helper()
	if !slices.Equal(p.seen, want) {
		t.Errorf("%s: the calls saw %q, want %q", what, p.seen, want)
	}
	p.seen = nil
}

// The workspace is that of the transcript: of earlier calls of the step, of earlier turns, of the summary, and of the
// checkpoint after a rewind. A failed call names it as well; one that asks does not before it is answered.
func TestWorkspaceFollowsTheTranscript(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, p := memstore.New(nil), &page{}
		eng := open(t, st, p.agent())
		turn(t, eng, "s", "a b")
		p.wantSeen(t, "one step", "", "a/")
		cp, err := eng.Checkpoint(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		turn(t, eng, "s", "torn c")
		p.wantSeen(t, "after an error", "a/b/", "a/b/torn/")
		if _, err := eng.Compact(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		other := open(t, st, p.agent(), named("other"))
		turn(t, other, "s", "d")
		p.wantSeen(t, "after a summary, in another process", "a/b/torn/c/")

		asked := turn(t, other, "s", "ask")
		p.wantSeen(t, "first pass", "a/b/torn/c/d/")
		for _, c := range asked.Suspended.Calls {
			if _, err := eng.Submit(t.Context(), "s", cairn.Answer(c, "yes")); err != nil {
				t.Fatal(err)
			}
		}
		run, err := eng.Resume(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		wait(t, run)
		p.wantSeen(t, "second pass", "a/b/torn/c/d/")

		if _, err := eng.Rewind(t.Context(), "s", cp.ID); err != nil {
			t.Fatal(err)
		}
		turn(t, eng, "s", "e")
		p.wantSeen(t, "rewound", "a/b/")
		for _, m := range messages(t, st, "s") {
			for _, r := range m.ToolResults() {
				if r.Workspace == "" {
					t.Errorf("the result of %s names no workspace", r.CallID)
				}
			}
		}
	})
}

// What a call of a discarded step did is not in the transcript.
func TestWorkspaceOfADiscardedStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, p := memstore.New(nil), &page{}
		a := p.agent()
		a.Tools = []cairn.Tool{cairn.Func("hang", "", func(ctx context.Context, _ *cairn.Call, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})}
		first := true
		a.Model = scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
			switch last := req.Messages[len(req.Messages)-1]; {
			case last.Role == cairn.RoleTool:
				return scripted.Text("done")
			case first:
				first = false
				return scripted.Reply(scripted.Call("write", in{"lost"}), scripted.Call("hang", nil))
			}
			return scripted.Call("write", in{"kept"})
		})
		one := open(t, st, a)
		run := start(t, one, "s", "write")
		synctest.Wait()
		leave(t, one) // as it dies
		p.wantSeen(t, "before the takeover", "")
		two := open(t, st, a, named("two"))
		_ = run
		resumed, err := two.Resume(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		wait(t, resumed)
		p.wantSeen(t, "after the takeover", "")
		turn(t, two, "s", "write")
		p.wantSeen(t, "in the next turn", "kept/")
	})
}

// A branch takes the workspace along as it was at the branch's point.
func TestBranchTakesTheWorkspaceAlong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, p := memstore.New(nil), &page{}
		eng := open(t, st, p.agent())
		turn(t, eng, "s", "a")
		n := load(t, st, "s").MessageCount
		turn(t, eng, "s", "b")
		for to, opts := range map[string][]engine.BranchOption{"now": nil, "then": {engine.AtMessage(n)}, "before": {engine.AtMessage(0)}} {
			if _, err := eng.Branch(t.Context(), "s", to, opts...); err != nil {
				t.Fatal(err)
			}
		}
		slices.Sort(p.branched)
		if want := []string{"a/ of s to then", "a/b/ of s to now"}; !slices.Equal(p.branched, want) {
			t.Errorf("branched %q, want %q", p.branched, want)
		}
		p.seen = nil
		turn(t, eng, "then", "c")
		p.wantSeen(t, "in the branch", "a/")
		p.fail = cairn.Errorf(cairn.ErrUnavailable, "no space")
		_, err := eng.Branch(t.Context(), "s", "lost")
		wantError(t, err, cairn.ErrUnavailable)
	})
}

func TestSetWorkspaceRefuses(t *testing.T) {
	t.Parallel()
	var errs []error
	a := bot(scripted.New(scripted.Call("name", in{"x"}), scripted.Text("done")), tool("name", func(_ context.Context, call *cairn.Call, in in) (string, error) {
		errs = append(errs, call.SetWorkspace(""), call.SetWorkspace(strings.Repeat("x", cairn.MaxWorkspaceRef+1)), call.SetWorkspace("a\x00"))
		return call.Workspace(), nil
	}))
	st := memstore.New(nil)
	turn(t, open(t, st, a), "s", "go")
	for _, err := range errs {
		if e := cairn.AsError(err); err == nil || e.Code != cairn.ErrInvalid || e.Field != "workspace" {
			t.Errorf("error %v, want an invalid workspace", err)
		}
	}
	for _, m := range messages(t, st, "s") {
		for _, r := range m.ToolResults() {
			if r.Workspace != "" || string(r.Output) != `""` {
				t.Errorf("the result has the workspace %q and the output %s", r.Workspace, r.Output)
			}
		}
	}
}

// published is an agent whose tool publishes two files and fails at others.
func published(t *testing.T, content []byte) *cairn.Agent {
	attempt := 0
	publish := tool("report", func(ctx context.Context, call *cairn.Call, _ in) (string, error) {
		if err := call.Publish(ctx, "report.csv", "text/csv", bytes.NewReader(content)); err != nil {
			return "", err
		}
		if attempt++; attempt == 1 { // its files do not count
			return "", cairn.Errorf(cairn.ErrUnavailable, "again")
		}
		if err := call.Publish(ctx, "empty", "", strings.NewReader("")); err != nil {
			return "", err
		}
		for field, err := range map[string]error{
			"artifact.name":       call.Publish(ctx, "../x", "", strings.NewReader("")),
			"artifact.media_type": call.Publish(ctx, "x", "text", strings.NewReader("")),
			"":                    call.Publish(ctx, "x", "", iotest.ErrReader(io.ErrClosedPipe)),
		} {
			if err == nil || field != "" && cairn.AsError(err).Field != field || field == "" && !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("error %v, want one of field %q", err, field)
			}
		}
		return "done", nil
	}, cairn.Retry(cairn.RetryPolicy{Max: 1}))
	return bot(scripted.New(scripted.Call("report", in{"x"}), scripted.Text("Here it is.")), publish)
}

// Artifacts are published once, with the step's commit; they are listed and read, in a branch as well, and their bytes end
// with the last session that has them.
func TestArtifacts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		content := bytes.Repeat([]byte("0123456789abcdef"), driver.MaxBlob/16+1000)
		st := memstore.New(nil)
		eng := open(t, st, published(t, content))
		turn(t, eng, "s", "report")
		page, err := eng.Artifacts(t.Context(), "s", store.PageQuery{})
		if err != nil || len(page.Items) != 2 || page.Next != "" {
			t.Fatalf("artifacts %+v, %v", page, err)
		}
		a := page.Items[0]
		if a.Name != "report.csv" || a.MediaType != "text/csv" || a.Size != int64(len(content)) || a.Tool != "report" || a.File != 0 || page.Items[1].File != 1 {
			t.Errorf("artifact %+v", a)
		}
		var said []cairn.Event
		for _, ev := range history(t, st, "s") {
			if ev.Type == cairn.EventArtifact {
				said = append(said, ev)
			}
		}
		if len(said) != 1 || said[0].Index != a.Message || said[0].MessageID != a.MessageID || len(said[0].Files) != 2 || said[0].Files[0].Name != a.Name {
			t.Errorf("events %+v", said)
		}
		if _, err := eng.Branch(t.Context(), "s", "b"); err != nil {
			t.Fatal(err)
		}
		if err := eng.Erase(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		_, r, err := eng.OpenArtifact(t.Context(), "b", a.Message, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d bytes, %v, want %d", len(got), err, len(content))
		}
		if at, err := r.Seek(-10, io.SeekEnd); err != nil || at != int64(len(content)-10) {
			t.Errorf("seeks to %d, %v", at, err)
		}
		if got, err := io.ReadAll(r); string(got) != "6789abcdef" || err != nil {
			t.Errorf("reads %q, %v", got, err)
		}
		if _, r, err = eng.OpenArtifact(t.Context(), "b", a.Message, 1); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); len(got) != 0 || err != nil {
			t.Errorf("an empty file has %d bytes, %v", len(got), err)
		}
		for _, at := range [][2]int{{a.Message, 2}, {a.Message, -1}, {-1, 0}, {99, 0}, {0, 0}} {
			_, _, err := eng.OpenArtifact(t.Context(), "b", at[0], at[1])
			wantError(t, err, cairn.ErrNotFound)
		}
		if err := eng.Erase(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		swept, err := st.Blobs().Sweep(t.Context(), 0)
		if owners, _ := st.Blobs().Owners(t.Context(), driver.BlobQuery{}); err != nil || swept.Blobs != 0 || len(owners.Items) > 0 {
			t.Errorf("the erased sessions leave %+v and the owners %v, %v", swept, owners.Items, err)
		}
	})
}

// lostNames is a store whose process dies after the commit of a branch: no blob is named from then on.
type lostNames struct {
	*memstore.Store
	dead bool
}

func (s *lostNames) Branch(ctx context.Context, from string, at driver.BranchPoint, to *cairn.Session) (*cairn.Session, error) {
	row, err := s.Store.Branch(ctx, from, at, to)
	s.dead = true
	return row, err
}

func (s *lostNames) Blobs() store.Blobs { return deadBlobs{s.Store.Blobs(), s} }

type deadBlobs struct {
	store.Blobs
	of *lostNames
}

func (b deadBlobs) Name(ctx context.Context, from, to store.BlobOwner, keys ...string) error {
	if b.of.dead {
		return cairn.Errorf(cairn.ErrUnavailable, "the process is dead")
	}
	return b.Blobs.Name(ctx, from, to, keys...)
}

// A branch whose process died before it named the files has them all the same: a reader names them at once, and a worker
// before the other session is gone. Only branches that were made leave a record, until then.
func TestBranchOfADeadProcessHasItsFiles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		content := []byte("a,b")
		st, p := memstore.New(nil), &page{}
		a := published(t, content)
		a.Workspace = p
		eng := open(t, st, a)
		turn(t, eng, "s", "report")
		page, err := eng.Artifacts(t.Context(), "s", store.PageQuery{})
		if err != nil {
			t.Fatal(err)
		}
		at := page.Items[0]
		dying := open(t, &lostNames{Store: st}, a, named("dying"))
		_, err = dying.Branch(t.Context(), "s", "read")
		wantError(t, err, cairn.ErrUnavailable)
		read := func(id string) {
			t.Helper()
			_, r, err := eng.OpenArtifact(t.Context(), id, at.Message, at.File)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, content) {
				t.Errorf("session %s: the artifact is %q, %v", id, got, err)
			}
		}
		records := func() int {
			t.Helper()
			page, err := st.Records().List(t.Context(), store.RecordQuery{Namespace: driver.BranchRecords})
			if err != nil {
				t.Fatal(err)
			}
			return len(page.Items)
		}
		if n := records(); n != 1 {
			t.Errorf("%d records of a branch of a dead process", n)
		}
		read("read")
		if n := records(); n != 0 {
			t.Errorf("%d records of a branch that has its files", n)
		}

		dying = open(t, &lostNames{Store: st}, a, named("dying too"))
		_, err = dying.Branch(t.Context(), "s", "kept")
		wantError(t, err, cairn.ErrUnavailable)
		_, err = eng.Branch(t.Context(), "s", "read")
		wantError(t, err, cairn.ErrExists)
		if n := records(); n != 1 {
			t.Errorf("%d records after a branch that was refused", n)
		}
		ctx, stop := context.WithCancel(t.Context())
		worked := make(chan error)
		go func() { worked <- eng.Work(ctx) }()
		testclock.Advance(time.Minute)
		if n := records(); n != 1 {
			t.Errorf("%d records of a young branch", n)
		}
		testclock.Advance(10 * time.Minute)
		stop()
		if err := <-worked; err != nil {
			t.Fatal(err)
		}
		if n := records(); n != 0 {
			t.Errorf("%d records after a worker", n)
		}
		if err := eng.Erase(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		if _, err := st.Blobs().Sweep(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		read("kept")
	})
}

// A branch whose process died before it named the files has them, though the other session is purged before any worker or
// reader looks: by an erasure, or by a sweep. A purge that cannot name them is repeated.
func TestBranchOfADeadProcessOutlivesThePurge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		content := []byte("a,b")
		st := memstore.New(nil)
		hour := with(func(o *engine.Options) { o.Retention = time.Hour })
		var eng *engine.Engine
		for i, purge := range []func(*engine.Engine, string) error{
			func(eng *engine.Engine, id string) error { return eng.Erase(t.Context(), id) },
			func(eng *engine.Engine, id string) error {
				if err := eng.Delete(t.Context(), id); err != nil && !errors.Is(err, cairn.ErrNotFound) {
					return err
				}
				testclock.Advance(2 * time.Hour)
				r, err := eng.Sweep(t.Context())
				if err == nil && r.Failed > 0 {
					err = r.Errors[0].Error
				}
				return err
			},
		} {
			id, to := fmt.Sprint("s", i), fmt.Sprint("branch", i)
			a := published(t, content)
			a.Workspace = &page{}
			eng = open(t, st, a, named("living"+id), hour)
			turn(t, eng, id, "report")
			list, err := eng.Artifacts(t.Context(), id, store.PageQuery{})
			if err != nil {
				t.Fatal(err)
			}
			dying := open(t, &lostNames{Store: st}, a, named("dying"+id), hour)
			_, err = dying.Branch(t.Context(), id, to)
			wantError(t, err, cairn.ErrUnavailable)
			wantError(t, purge(dying, id), cairn.ErrUnavailable)
			if err := purge(eng, id); err != nil {
				t.Fatal(err)
			}
			if _, err := st.Blobs().Sweep(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			_, r, err := eng.OpenArtifact(t.Context(), to, list.Items[0].Message, list.Items[0].File)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, content) {
				t.Errorf("branch %s: the artifact is %q, %v", to, got, err)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		worked := make(chan error)
		go func() { worked <- eng.Work(ctx) }()
		testclock.Advance(10 * time.Minute)
		stop()
		page, err := st.Records().List(t.Context(), store.RecordQuery{Namespace: driver.BranchRecords})
		if err := errors.Join(err, <-worked); err != nil || len(page.Items) > 0 {
			t.Errorf("%d records after a worker, %v", len(page.Items), err)
		}
	})
}
