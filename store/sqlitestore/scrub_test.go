package sqlitestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
)

// secretText is what a user wrote and the model and the tools repeated.
const secretText = "DE02-SECRET"

// secrets counts the secret in the bytes of all files of a store.
func secrets(t *testing.T, s *Store) (n int) {
	t.Helper()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		raw, err := os.ReadFile(s.path + suffix)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		n += bytes.Count(raw, []byte(secretText))
	}
	return n
}

// confide makes sessions of users in which a secret is in messages of all sizes, state, tool results, cached results,
// staged pieces, events, titles, a queued turn and records, between those of others.
func confide(t *testing.T, e *engine.Engine, users ...string) {
	t.Helper()
	for i := range 6 {
		for _, user := range users {
			text := "nothing"
			if user == "ann" {
				text = secretText
			}
			id := fmt.Sprint(user, i)
			for turn := range 3 {
				size := []int{3, 200, 2000}[turn]
				run, err := e.Execute(t.Context(), id, "support", cairn.Text(strings.Repeat(text+" ", size)), engine.WithUser(user))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := run.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			must(e.Records().Put(t.Context(), driver.RecordWrite{Namespace: driver.UserRecords, Key: id, Index: driver.UserIndex(user),
				Value: []byte(`"` + strings.Repeat(text, 500) + `"`), Seen: driver.AnyVersion}))
			if i%2 == 0 {
				if err := e.Delete(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// echo is an agent whose model and tool repeat what the user wrote.
func echo() *cairn.Agent {
	type note struct {
		Text string `json:"text"`
	}
	repeat := cairn.Func("repeat", "Repeats a text.", func(_ context.Context, _ *cairn.Call, in note) (string, error) { return in.Text + in.Text, nil },
		cairn.Cache(cairn.CachePolicy{}))
	return &cairn.Agent{Name: "support", Tools: []cairn.Tool{repeat}, Durability: cairn.PerTool,
		Model: scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
			last := req.Messages[len(req.Messages)-1]
			if last.Role == cairn.RoleUser {
				return scripted.Call("repeat", note{last.Text()})
			}
			return scripted.Text(strings.Repeat("Noted: "+repeated(req), 50))
		})}
}

// repeated returns the secret if a message has it.
func repeated(req *cairn.Request) string {
	for _, m := range req.Messages {
		if strings.Contains(m.Text(), secretText) {
			return secretText
		}
	}
	return "nothing"
}

func newEngine(t *testing.T, s *Store) *engine.Engine {
	t.Helper()
	e := must(engine.New(s, []*cairn.Agent{echo()}, nil))
	t.Cleanup(func() { e.Close(context.WithoutCancel(t.Context())) })
	return e
}

// What a user wrote is in no byte of the files once the user is erased, while other processes have them open too.
func TestEraseUserOverwritesFiles(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	second(t, s)
	e := newEngine(t, s)
	confide(t, e, "ann", "bob")
	if secrets(t, s) == 0 {
		t.Fatal("the files have no secret to erase")
	}
	r, err := e.EraseUser(t.Context(), "ann")
	if err != nil || r.Failed > 0 || r.Erased != 6 || r.Records != 6 || r.Remains != "" {
		t.Fatalf("report %+v, %v", r, err)
	}
	if n := secrets(t, s); n > 0 {
		t.Errorf("the files have the secret %d times", n)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := secrets(t, s); n > 0 {
		t.Errorf("after Close the files have the secret %d times", n)
	}
	kept := openAt(t, s.path, nil)
	if page, err := kept.List(t.Context(), driver.SessionQuery{UserID: "bob"}); err != nil || len(page.Items) != 3 {
		t.Errorf("the other user has %d sessions, %v", len(page.Items), err)
	}
}

func TestEraseAndSweepOverwriteFiles(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := openAt(t, filepath.Join(t.TempDir(), "cairn.db"), &Options{Synchronous: Normal, Now: func() time.Time { return now }})
	e := newEngine(t, s)
	confide(t, e, "ann")
	for i := range 3 {
		if err := e.Erase(t.Context(), fmt.Sprint("ann", 2*i)); err != nil {
			t.Fatal(err)
		}
		if err := e.Delete(t.Context(), fmt.Sprint("ann", 2*i+1)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 6 {
		if err := e.Records().Delete(t.Context(), driver.UserRecords, fmt.Sprint("ann", i), driver.AnyVersion); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(365 * 24 * time.Hour)
	if r, err := e.Sweep(t.Context()); err != nil || r.Purged != 3 || r.Failed > 0 {
		t.Fatalf("sweep: %+v, %v", r, err)
	}
	if n := secrets(t, s); n > 0 {
		t.Errorf("the files have the secret %d times", n)
	}
}

// A connection that reads an older state keeps the log. The report says so, and the next sweep removes what remains.
func TestEraseUserReportsWhatRemains(t *testing.T) {
	t.Parallel()
	s := openAt(t, filepath.Join(t.TempDir(), "cairn.db"), &Options{Synchronous: Normal, BusyTimeout: 20 * time.Millisecond})
	e := newEngine(t, s)
	confide(t, e, "ann")
	reader := must(connect(dataSource(s.path, "rw"), sqlBeginRead))
	defer reader.close()
	must(reader.row("SELECT count(*) FROM sessions", func(*columns) {}))
	r, err := e.EraseUser(t.Context(), "ann")
	if err != nil || r.Erased != 6 || !strings.Contains(r.Remains, s.path+"-wal") {
		t.Fatalf("report %+v, %v: want that the log remains", r, err)
	}
	if err := s.Scrub(t.Context()); !errors.Is(err, cairn.ErrUnavailable) {
		t.Errorf("scrub: %v, want ErrUnavailable", err)
	}
	if err := reader.run(sqlEndRead); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := secrets(t, s); n > 0 {
		t.Errorf("after the sweep the files have the secret %d times", n)
	}
}
