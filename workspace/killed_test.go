package workspace_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
	"github.com/cairn-agents/cairn/workspace"
)

// line is a process's connection to a store. The fault happens at its k-th call about a session or blobs.
type line struct {
	*memstore.Store

	mu    sync.Mutex
	calls int
	k     int
	fault fault
	dead  bool
}

// fault is what happens at a call: before it, or after it so that the answer is lost. The process may die of it.
type fault struct{ after, dies bool }

func (f fault) String() string {
	return map[fault]string{{}: "the call is refused", {after: true}: "the answer is lost", {dies: true}: "the process dies before the call",
		{after: true, dies: true}: "the process dies after the call"}[f]
}

// fired reports whether the fault has happened.
func (l *line) fired() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.k > 0 && l.calls >= l.k
}

func at[T any](l *line, call func() (T, error)) (T, error) {
	l.mu.Lock()
	l.calls++
	now, dead := l.calls == l.k, l.dead
	l.dead = dead || now && l.fault.dies
	l.mu.Unlock()
	var none T
	if dead || now && !l.fault.after {
		return none, cairn.Errorf(cairn.ErrUnavailable, "cut off")
	}
	v, err := call()
	if err == nil && now {
		return none, cairn.Errorf(cairn.ErrUnavailable, "the answer is lost")
	}
	return v, err
}

func (l *line) Commit(ctx context.Context, id string, c *driver.Commit) (*cairn.Session, error) {
	return at(l, func() (*cairn.Session, error) { return l.Store.Commit(ctx, id, c) })
}

func (l *line) Read(ctx context.Context, id string, want driver.Want) (*driver.Contents, error) {
	return at(l, func() (*driver.Contents, error) { return l.Store.Read(ctx, id, want) })
}

func (l *line) Stage(ctx context.Context, id string, token int64, pieces ...driver.Staged) error {
	_, err := at(l, func() (none struct{}, err error) { return none, l.Store.Stage(ctx, id, token, pieces...) })
	return err
}

func (l *line) Renew(ctx context.Context, id string, token int64, ttl time.Duration) (*cairn.Stop, error) {
	l.mu.Lock()
	dead := l.dead
	l.mu.Unlock()
	if dead {
		return nil, cairn.Errorf(cairn.ErrUnavailable, "cut off")
	}
	return l.Store.Renew(ctx, id, token, ttl)
}

func (l *line) Blobs() driver.Blobs { return lineBlobs{l.Store.Blobs(), l} }

type lineBlobs struct {
	driver.Blobs
	l *line
}

func (b lineBlobs) Put(ctx context.Context, o driver.BlobOwner, blobs ...[]byte) ([]string, error) {
	return at(b.l, func() ([]string, error) { return b.Blobs.Put(ctx, o, blobs...) })
}

func (b lineBlobs) Get(ctx context.Context, o driver.BlobOwner, keys ...string) ([][]byte, error) {
	return at(b.l, func() ([][]byte, error) { return b.Blobs.Get(ctx, o, keys...) })
}

// Whichever call of the store fails or is a process's last one: once another process has worked, on the same machine or on
// another one, the session has exactly the files of the calls whose results say so.
func TestFilesAreThoseOfTheResultsWhereverTheProcessDies(t *testing.T) {
	t.Parallel()
	for _, d := range []cairn.Durability{cairn.PerStep, cairn.PerTool} {
		for _, f := range []fault{{}, {after: true}, {dies: true}, {after: true, dies: true}} {
			for _, same := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, %s, same machine %v", f, d, same), func(t *testing.T) {
					t.Parallel()
					for k, fired := 1, true; fired; k++ {
						dirs := []string{base(t), base(t)}
						if same {
							dirs[1] = dirs[0]
						}
						t.Run(fmt.Sprint(k), func(t *testing.T) {
							synctest.Test(t, func(t *testing.T) { fired = killed(t, dirs, d, f, k) })
						})
					}
				})
			}
		}
	}
}

func begin(t *testing.T, l *line, dir string, d cairn.Durability) *house {
	t.Helper()
	p, err := workspace.Dir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return newHouse(t, l, p, nil, func(a *cairn.Agent, o *engine.Options) { a.Durability, o.LeaseTTL = d, 3*time.Second })
}

func killed(t *testing.T, dirs []string, d cairn.Durability, f fault, k int) (fired bool) {
	l := &line{Store: memstore.New(nil), k: k, fault: f}
	orders := cairn.Text(strings.Join([]string{write("a", "1"), write("b", "1"), "&" + write("a", "2"), `remove {"path":"b"}`, "&" + write("sub/c", "3")}, "\n"))
	turn := func(h *house) {
		if run, err := h.eng.Execute(t.Context(), "s", "bot", orders); err == nil {
			_, _ = run.Wait(t.Context())
		}
	}
	first := begin(t, l, dirs[0], d)
	turn(first)
	testclock.Advance(time.Minute)
	fired = l.fired()
	if l.dead {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = first.eng.Close(ctx)
	}
	other := begin(t, &line{Store: l.Store}, dirs[1], d)
	if exists, err := driver.Exists(t.Context(), l.Store, "s"); err != nil {
		t.Fatal(err)
	} else if !exists {
		turn(other)
	}
	works(t, other.eng, 6*time.Minute)
	row, err := other.eng.Session(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if row.Status != cairn.SessionCompleted {
		t.Fatalf("the session is %s", row.Status)
	}
	want := filesOf(other.results("s"))
	got := slices.Collect(strings.SplitSeq(other.do("s", `list {"pattern":"**"}`)[0], "\n"))
	if !slices.Equal(got, want) {
		t.Errorf("the files are %q, want %q after %q", got, want, other.results("s"))
	}
	if list, _ := filepath.Glob(filepath.Join(dirs[1], "*", "0", "files", ".cairn-*")); len(list) > 0 {
		t.Errorf("left: %q", list)
	}
	return fired
}

// filesOf returns what a list of the files says, by the results of the calls that have changed them.
func filesOf(results []string) (list []string) {
	files := map[string]bool{}
	for _, text := range results {
		var name string
		if n, _ := fmt.Sscanf(text, "Wrote %s 1 bytes.", &name); n == 1 {
			files[strings.TrimSuffix(name, ",")] = true
		} else if rest, ok := strings.CutPrefix(text, "Removed "); ok {
			delete(files, strings.TrimSuffix(rest, "."))
		}
	}
	for name := range files {
		list = append(list, name+" (1 bytes)")
	}
	if list == nil {
		return []string{"(nothing)"}
	}
	slices.Sort(list)
	return list
}

func works(t *testing.T, eng *engine.Engine, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- eng.Work(ctx) }()
	testclock.Advance(d)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
