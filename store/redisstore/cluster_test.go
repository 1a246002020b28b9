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
	"github.com/cairn-agents/cairn/host/hosttest"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/storetest"
	"github.com/redis/go-redis/v9"
)

// openCluster opens a store on the cluster under a prefix of its own.
func openCluster(tb testing.TB) *Store {
	tb.Helper()
	return openAt(tb, testenv.RedisCluster(tb), &Options{Prefix: newPrefix()})
}

// The whole suite takes as long as on one server, which `make test` covers. The cluster runs the scenarios of a store,
// which use every operation on trees of sessions.
func TestClusterConformance(t *testing.T) {
	if !testenv.Soak() {
		hosttest.Run(t, inProcess, hosttest.Store{Name: "rediscluster", OwnClock: true, Set: hosttest.OnStore,
			Open:    func(tb testing.TB, _ func() time.Time) driver.Store { return openCluster(tb) },
			Another: func(tb testing.TB, st driver.Store) driver.Store { return second(tb, st.(*Store)) },
		})
		return
	}
	storetest.Run(t, func(tb testing.TB) driver.Store { return openCluster(tb) }, &storetest.Options{
		Reopen: func(tb testing.TB, st driver.Store) driver.Store { return reopen(tb, st.(*Store)) },
		Second: func(tb testing.TB, st driver.Store) driver.Store { return second(tb, st.(*Store)) },
	})
}

func TestClusterLogConformance(t *testing.T) {
	storetest.RunLog(t, func(tb testing.TB) driver.Log { return logOf(openCluster(tb)) }, &storetest.LogOptions{
		Reopen: func(tb testing.TB, log driver.Log) driver.Log { return logOf(reopen(tb, storeOf(log))) },
		Second: func(tb testing.TB, log driver.Log) driver.Log { return logOf(second(tb, storeOf(log))) },
	})
}

// The sessions of a prefix are on every node of the cluster.
func TestClusterSpreadsSessions(t *testing.T) {
	t.Parallel()
	s := openCluster(t)
	for i := range 50 {
		if _, err := driver.Create(t.Context(), s, &cairn.Session{ID: fmt.Sprint("session-", i), Agent: "support"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	var held []int
	err := s.client.(*redis.ClusterClient).ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		n := 0
		for rows := node.Scan(ctx, 0, s.opts.Prefix+":{*}:s:*", 1000).Iterator(); rows.Next(ctx); {
			n++
		}
		mu.Lock()
		defer mu.Unlock()
		held = append(held, n)
		return nil
	})
	if err != nil || len(held) != 3 || slices.Min(held) == 0 || held[0]+held[1]+held[2] != 50 {
		t.Errorf("the nodes hold %v of 50 sessions, %v", held, err)
	}
}

// family returns the ids of a root and of a child whose own id belongs to another bucket.
func family(s *Store, n int) (root, child string) {
	root = fmt.Sprint("root-", n)
	for i := 0; ; i++ {
		if child = fmt.Sprint(root, "-child-", i); s.bucketOf(child) != s.bucketOf(root) {
			return root, child
		}
	}
}

// A cluster's nodes have users of their own: Open names what the user lacks on any of them.
func TestClusterRights(t *testing.T) {
	t.Parallel()
	prefix := newPrefix()
	admin := openCluster(t)
	allow := func(node *redis.Client, rules ...string) error {
		args := []any{"ACL", "SETUSER", "app-" + prefix}
		for _, rule := range rules {
			args = append(args, rule)
		}
		return node.Do(t.Context(), args...).Err()
	}
	nodes := admin.client.(*redis.ClusterClient)
	var last *redis.Client
	err := nodes.ForEachMaster(t.Context(), func(_ context.Context, node *redis.Client) error {
		return allow(node, append([]string{"reset", "on", ">secret"}, granted(prefix)...)...)
	})
	if err == nil {
		last, err = nodes.MasterForKey(t.Context(), "any")
	}
	if err != nil {
		t.Fatal(err)
	}
	url := strings.Replace(admin.url, "redis://", "redis://app-"+prefix+":secret@", 1)
	s := openAt(t, url, &Options{Prefix: prefix})
	root, child := family(s, 1)
	for _, session := range []*cairn.Session{{ID: root, Agent: "support"}, {ID: child, Agent: "helper", ParentID: root, RootID: root}} {
		if _, err := driver.Create(t.Context(), s, session, nil); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.List(t.Context(), driver.SessionQuery{}); err != nil {
		t.Error(err)
	}
	if err := appendEvent(t.Context(), s, root); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	for ev, err := range s.log.Follow(ctx, root, 0) {
		if err != nil || ev.Sequence != 1 {
			t.Errorf("followed %+v, %v", ev, err)
		}
		break
	}
	cancel()
	if err := allow(last, "-xadd"); err != nil {
		t.Fatal(err)
	}
	wantError(t, refused(t, url, &s.opts), cairn.ErrUnavailable, "lacks the right to run XADD", "ACL SETUSER app-"+prefix+" +xadd")
}

// A child is kept with its root, and every process finds it by its id.
func TestClusterFindsChildren(t *testing.T) {
	t.Parallel()
	s := openCluster(t)
	root, child := family(s, 1)
	for _, session := range []*cairn.Session{{ID: root, Agent: "support"}, {ID: child, Agent: "helper", ParentID: root, RootID: root}} {
		if _, err := driver.Create(t.Context(), s, session, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.client.Exists(t.Context(), s.buckets[s.bucketOf(root)]+"s:"+child).Val(); n != 1 {
		t.Error("the child is not in the bucket of its root")
	}
	other := second(t, s)
	if row, err := driver.Load(t.Context(), other, child); err != nil || row.RootID != root {
		t.Errorf("another process finds %+v, %v", row, err)
	}
	_, err := driver.Create(t.Context(), other, &cairn.Session{ID: child, Agent: "support"}, nil)
	if !errors.Is(err, cairn.ErrExists) {
		t.Errorf("a root of the child's id: %v", err)
	}
	if err := other.Delete(t.Context(), child); err != nil {
		t.Fatal(err)
	}
	if _, err := driver.Load(t.Context(), s, child); !errors.Is(err, cairn.ErrNotFound) {
		t.Errorf("after its deletion by another process: %v", err)
	}
	// The id is free again, for a root and for a child of another tree.
	if _, err := driver.Create(t.Context(), s, &cairn.Session{ID: child, Agent: "support"}, nil); err != nil {
		t.Fatal(err)
	}
	if row, err := driver.Load(t.Context(), other, child); err != nil || row.RootID != child {
		t.Errorf("the other process finds %+v, %v", row, err)
	}
}

// A process dies after it has noted where a child is to be kept: the process that creates the session corrects the
// note.
func TestClusterForgivesANoteOfNothing(t *testing.T) {
	t.Parallel()
	s := openCluster(t)
	for n, make := range map[int]func(root, child string) *cairn.Session{
		1: func(_, child string) *cairn.Session { return &cairn.Session{ID: child, Agent: "support"} },
		2: func(root, child string) *cairn.Session {
			return &cairn.Session{ID: child, Agent: "support", ParentID: root, RootID: root}
		},
	} {
		root, child := family(s, n)
		wrong := (s.bucketOf(root) + 1) % len(s.buckets)
		if wrong == s.bucketOf(child) {
			wrong = (wrong + 1) % len(s.buckets)
		}
		if err := s.client.Set(t.Context(), s.buckets[s.bucketOf(child)]+"to:"+child, wrong, 0).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := driver.Load(t.Context(), s, child); !errors.Is(err, cairn.ErrNotFound) {
			t.Errorf("a session that was only noted: %v", err)
		}
		if _, err := driver.Create(t.Context(), s, make(root, child), nil); err != nil {
			t.Fatal(err)
		}
		if row, err := driver.Load(t.Context(), second(t, s), child); err != nil || row.ID != child {
			t.Errorf("another process finds %+v, %v", row, err)
		}
	}
}
