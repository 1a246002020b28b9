package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/redis/go-redis/v9"
)

// writeTree makes a tree of sessions that have everything that a session can have, and a log.
func writeTree(t *testing.T, s *Store, root string, children int) {
	t.Helper()
	for i := range children + 1 {
		id, create := root, &cairn.Session{Agent: "support", UserID: "user", TTL: cairn.Duration(time.Hour)}
		if i > 0 {
			id, create.ParentID, create.RootID = fmt.Sprint(root, "-child-", i), root, root
		}
		row, err := s.Commit(t.Context(), id, &driver.Commit{Create: create, Messages: []cairn.Message{cairn.User(cairn.TextPart("hello"))},
			StartRun: &cairn.Run{ID: "run"}, Checkpoint: &cairn.Checkpoint{ID: "cp", StepID: "step"},
			Status: cairn.SessionActive, Suspend: &driver.Suspend{StepID: "step"}, Lease: driver.LeaseChange{Action: driver.LeaseTake, Owner: "worker"},
			Enqueue: &driver.QueuedTurn{ID: "turn"}, Cache: []driver.CacheEntry{{Key: "k"}},
			Calls: []driver.CallWrite{{Call: cairn.PendingCall{CallRef: cairn.CallRef{ID: fmt.Sprint("call-", i), Kind: cairn.CallApproval, Reviewers: []string{"ann"}},
				StepID: "step", Status: cairn.CallOpen, ClaimedBy: "bob"}}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Stage(t.Context(), id, row.Lease.Token, driver.Staged{StepID: "s", Key: "k", Data: []byte("1")}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Commit(t.Context(), id, &driver.Commit{Status: cairn.SessionPaused}); err != nil {
			t.Fatal(err)
		}
	}
	row, err := driver.Load(t.Context(), s, root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.log.Append(t.Context(), row.Log(), 0, cairn.Event{Type: cairn.EventCustom}); err != nil {
		t.Fatal(err)
	}
}

// keys returns the names of all keys of a store, except for the layout and the attempts, which expire.
func keys(t *testing.T, s *Store) []string {
	t.Helper()
	var names []string
	var mu sync.Mutex
	scan := func(ctx context.Context, node *redis.Client) error {
		list := node.Scan(ctx, 0, s.opts.Prefix+":{*", 1000).Iterator()
		for list.Next(ctx) {
			_, name, _ := strings.Cut(list.Val(), "}:")
			if !strings.HasPrefix(name, "x:") {
				mu.Lock()
				names = append(names, name)
				mu.Unlock()
			}
		}
		return list.Err()
	}
	err := error(nil)
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(t.Context(), scan)
	} else {
		err = scan(t.Context(), s.client.(*redis.Client))
	}
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// A removal leaves nothing under the original names of the keys, and a purge leaves nothing at all, however many keys
// there were.
func TestPurgeLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB) *Store{"server": openNew, "cluster": openCluster} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			const children = purgeBatch / 9
			writeTree(t, s, "session", children)
			row, err := driver.Load(t.Context(), s, "session")
			if err != nil {
				t.Fatal(err)
			}
			if err := s.log.Drop(t.Context(), row.Log()); err != nil {
				t.Fatal(err)
			}
			// The only remnant of the log says that it was dropped.
			keys := func(t *testing.T, s *Store) []string {
				return slices.DeleteFunc(keys(t, s), func(name string) bool { return name == "l:"+row.Log() })
			}
			before := keys(t, s)
			removed, err := s.Remove(t.Context(), "session", driver.Deleted)
			if err != nil {
				t.Fatal(err)
			}
			hidden := "z:" + removed.Key + ":"
			var want []string
			for _, name := range before {
				switch id, of := strings.CutPrefix(name, "s:"); {
				case strings.HasPrefix(name, "i:"):
				case strings.HasPrefix(name, "to:"):
					want = append(want, name)
				case of:
					want = append(want, hidden+name, "d:"+id)
				default:
					want = append(want, hidden+name)
				}
			}
			if len(want) <= purgeBatch {
				t.Fatalf("%d keys are purged at once", len(want))
			}
			want = append(want, "i:gone:session", "i:removed", "t:"+removed.Key, "z:"+removed.Key)
			slices.Sort(want)
			if got := keys(t, s); !slices.Equal(got, want) {
				t.Errorf("keys after the removal: %q, want %q", got, want)
			}
			if n, err := s.Purge(t.Context(), removed.Key); err != nil || n != children+1 {
				t.Errorf("the purge removed %d checkpoints, %v, want %d", n, err, children+1)
			}
			if got := keys(t, s); len(got) > 0 {
				t.Errorf("keys after the purge: %q", got)
			}
		})
	}
}

// With Options.Retention the server purges removed trees that no sweep purges, and nothing else.
func TestRetention(t *testing.T) {
	t.Parallel()
	s := openAt(t, testenv.Redis(t), &Options{Prefix: newPrefix(), Retention: 50 * time.Millisecond})
	ctx := t.Context()
	for _, id := range []string{"expired", "stays"} {
		writeTree(t, s, id, 2)
	}
	if _, err := driver.SetContext(ctx, s, "expired", driver.ContextChange{ExpiresAt: new(time.Now().Add(-time.Hour))}); err != nil {
		t.Fatal(err)
	}
	if _, err := driver.SetContext(ctx, s, "stays", driver.ContextChange{ExpiresAt: new(time.Now().Add(time.Hour))}); err != nil {
		t.Fatal(err)
	}
	removed, err := s.Remove(ctx, "expired", driver.Expired)
	if err != nil {
		t.Fatal(err)
	}
	testclock.Await(t, "what was removed to go", func() bool {
		return !slices.ContainsFunc(keys(t, s), func(name string) bool { return strings.Contains(name, removed.Key) })
	})
	if page, err := s.Removed(ctx, 0, driver.PageQuery{}); err != nil || len(page.Items) > 0 {
		t.Errorf("removed: %+v, %v", page.Items, err)
	}
	if _, err := s.Purge(ctx, removed.Key); !errors.Is(err, cairn.ErrNotFound) {
		t.Errorf("a purge afterwards: %v", err)
	}
	if slices.Contains(keys(t, s), "i:removed") {
		t.Error("the list of what was removed is still there")
	}
	if _, err := driver.Load(ctx, s, "expired"); !errors.Is(err, cairn.ErrNotFound) || driver.IsGone(err) {
		t.Errorf("what went is still reserved: %v", err)
	}
	if page, err := s.List(ctx, driver.SessionQuery{RootID: "stays"}); err != nil || len(page.Items) != 3 {
		t.Errorf("sessions that are listed: %+v, %v", page.Items, err)
	}
	if page, err := s.Stale(ctx, driver.PageQuery{}); err != nil || len(page.Items) > 0 {
		t.Errorf("stale: %v, %v", page.Items, err)
	}
}

// Events that have expired are reported as trimmed, and sequences continue.
func TestEventRetention(t *testing.T) {
	t.Parallel()
	s := openAt(t, testenv.Redis(t), &Options{Prefix: newPrefix(), EventRetention: 20 * time.Millisecond})
	ev := cairn.Event{Type: cairn.EventCustom}
	if _, err := s.log.Append(t.Context(), "log", 0, ev, ev, ev); err != nil {
		t.Fatal(err)
	}
	testclock.Await(t, "the events to go", func() bool {
		_, err := s.log.Read(t.Context(), "log", 1, 0)
		return errors.Is(err, cairn.ErrTrimmed)
	})
	if last, err := s.log.Append(t.Context(), "log", 3, ev); err != nil || last != 4 {
		t.Errorf("the next event has sequence %d, %v", last, err)
	}
}
