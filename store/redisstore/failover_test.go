package redisstore

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/redis/go-redis/v9"
)

// atSentinel returns the URL of a watched primary; nothing listens at the Sentinel that it names first.
func atSentinel(w *testenv.Watched) string {
	return "redis-sentinel://127.0.0.1:1/0?" + url.Values{"master": {w.Name}, "addr": {w.Sentinel}}.Encode()
}

// A store at a Sentinel continues on the promoted replica: calls wait for it, and so do followers and a process that
// starts during the failover.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	w := testenv.RedisSentinel(t)
	s := openAt(t, atSentinel(w), &Options{RetryFor: 30 * time.Second})
	if _, err := s.Commit(t.Context(), "session", runningCommit()); err != nil {
		t.Fatal(err)
	}
	if err := s.client.Do(t.Context(), "WAIT", 1, 60_000).Err(); err != nil { // for the replica to have it
		t.Fatal(err)
	}
	followed := make(chan error, 1)
	reader := openAt(t, atSentinel(w), nil)
	go func() {
		for ev, err := range reader.log.Follow(t.Context(), "session", 0) {
			if err != nil || ev.Sequence == 1 {
				followed <- err
				return
			}
		}
	}()
	w.Primary.Kill()
	opened := make(chan error, 1)
	go func() {
		started, err := Open(t.Context(), atSentinel(w), &Options{RetryFor: 30 * time.Second})
		if err == nil {
			_, err = driver.Load(t.Context(), started, "session")
			started.Close()
		}
		opened <- err
	}()
	if _, err := s.Commit(t.Context(), "session", stepCommit()); err != nil {
		t.Errorf("a step during the failover: %v", err)
	}
	if err := appendEvent(t.Context(), s, "session"); err != nil {
		t.Errorf("an append after the failover: %v", err)
	}
	if err := <-opened; err != nil {
		t.Errorf("a start during the failover: %v", err)
	}
	if err := <-followed; err != nil {
		t.Errorf("a follower after the failover: %v", err)
	}
	if got := texts(t, s, "session"); len(got) != 2 {
		t.Errorf("after the failover the session has the messages %q", got)
	}
}

func TestSentinelThatIsMisnamed(t *testing.T) {
	t.Parallel()
	w := testenv.RedisSentinel(t)
	wrong := &testenv.Watched{Sentinel: w.Sentinel, Name: "other"}
	wantError(t, refused(t, atSentinel(wrong), nil), cairn.ErrInvalid, `primary "other" not found`)
	wantError(t, refused(t, "redis://"+w.Sentinel, nil), cairn.ErrInvalid, "names a Sentinel", "redis-sentinel://")
	none := "redis-sentinel://127.0.0.1:1/0?master=" + w.Name
	wantError(t, refused(t, none, &Options{RetryFor: 100 * time.Millisecond}), cairn.ErrUnavailable, "127.0.0.1:1", "100ms")
}

// Several addresses are those of a cluster. Other servers are found with Sentinel.
func TestSeveralAddressesOfNoCluster(t *testing.T) {
	t.Parallel()
	w := testenv.RedisSentinel(t)
	opts := &Options{RetryFor: -1}
	url := "redis://127.0.0.1:1?addr=" + w.Address
	wantError(t, refused(t, url, opts), cairn.ErrInvalid, "several addresses", "redis-sentinel://")
}

// Open waits for a replica that may be promoted, for as long as Options.RetryFor.
func TestOpenWaitsForAPromotion(t *testing.T) {
	t.Parallel()
	server := testenv.RedisServer(t, "--appendonly", "no", "--replicaof", "127.0.0.1 1")
	err := refused(t, server.URL(), &Options{RetryFor: 100 * time.Millisecond})
	wantError(t, err, cairn.ErrUnavailable, "read-only replica", "gave up after 100ms")
	wantError(t, refused(t, server.URL(), &Options{RetryFor: -1}), cairn.ErrUnavailable, "read-only replica")

	opened := make(chan error, 1)
	go func() {
		s, err := Open(t.Context(), server.URL(), nil)
		if err == nil {
			s.Close()
		}
		opened <- err
	}()
	opts, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	admin := redis.NewClient(opts)
	defer admin.Close()
	testclock.Await(t, "the store to look at the replica", func() bool {
		return strings.Contains(admin.Info(t.Context(), "commandstats").Val(), "cmdstat_info:calls=2")
	})
	if err := admin.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

// A cluster is found through any of its nodes that is there.
func TestClusterWithSeveralSeeds(t *testing.T) {
	t.Parallel()
	seed := strings.TrimPrefix(testenv.RedisCluster(t), "redis://")
	s := openAt(t, "redis://127.0.0.1:1?addr="+seed, &Options{Prefix: newPrefix()})
	if _, err := driver.Create(t.Context(), s, &cairn.Session{ID: "session", Agent: "support"}, nil); err != nil {
		t.Error(err)
	}
	wantError(t, refused(t, "redis://127.0.0.1:1?addr=127.0.0.1:2", &Options{RetryFor: 100 * time.Millisecond}),
		cairn.ErrUnavailable, "127.0.0.1:1, 127.0.0.1:2", "100ms")
}
