package dostore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
)

// The worker refuses a wrong secret, takes the two of a rotation, and takes a client whose clock is wrong.
func TestSecrets(t *testing.T) {
	t.Parallel()
	url := fmt.Sprintf("do+insecure://%s/secrets", testenv.Worker(t))
	for secret, admitted := range map[string]bool{testenv.WorkerSecret: true, testenv.WorkerNextSecret: true, "another": false} {
		s, err := Open(t.Context(), url, &Options{Secret: secret})
		switch {
		case admitted && err != nil:
			t.Errorf("secret %q: %v", secret, err)
		case !admitted && (!errors.Is(err, cairn.ErrUnavailable) || !strings.Contains(err.Error(), "rejected the secret")):
			t.Errorf("secret %q: error %v", secret, err)
		}
		if err == nil {
			s.Close()
		}
	}
	if _, err := Open(t.Context(), url, nil); !errors.Is(err, cairn.ErrInvalid) {
		t.Errorf("no secret: error %v", err)
	}
	if s, err := Open(t.Context(), "do+insecure://:a%20secret%20of%20tests@"+testenv.Worker(t)+"/secrets", nil); err != nil {
		t.Errorf("the secret in the URL: %v", err)
	} else {
		s.Close()
	}
	s := openAt(t, url)
	l := s.directory()
	_, refused, err := l.handshake(t.Context(), time.Now().Add(-time.Hour).Unix())
	if err == nil || refused == "" {
		t.Fatalf("a signature of an hour ago: error %v, time %q", err, refused)
	}
	unknown := s.link(s.prefix + "/unknown")
	ws, _, err := l.handshake(t.Context(), time.Now().Unix())
	if err != nil {
		t.Fatal(err)
	}
	ws.CloseNow()
	if _, _, err := unknown.handshake(t.Context(), time.Now().Unix()); !errors.Is(err, cairn.ErrSchema) {
		t.Errorf("an unknown path: error %v", err)
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "do://", "do://host", "do://host/a/b", "do://host/..", "http://host/a", "do://host/a%2Fb", "do://host/a?b=c", "do://user:secret@host/a", "\x00"} {
		if _, err := Open(t.Context(), url, &Options{Secret: "s"}); !errors.Is(err, cairn.ErrInvalid) {
			t.Errorf("%q: error %v", url, err)
		}
	}
}

// A value of any size up to a message of a WebSocket comes back unchanged, although rows of an object are smaller. A larger
// write is refused and changes nothing.
func TestLargeValues(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	l := s.tree("large")
	for _, value := range []string{"", strings.Repeat("a", 600_000), strings.Repeat("x", 599_999) + "😀" + strings.Repeat("é", 1_500_000), "short"} {
		r := &request{Put: [][3]string{{"owner", "key", value}}}
		if refused, _, err := l.write(t.Context(), fixed(r)); err != nil || refused != nil {
			t.Fatalf("write of %d bytes: %v, %v", len(value), refused, err)
		}
		a, err := l.call(t.Context(), &request{Op: "read", Ask: []ask{get("owner", "key"), scan("owner", "", behind)}})
		if err != nil {
			t.Fatal(err)
		}
		one, err1 := a.one(0)
		all, err2 := a.all(1)
		if err1 != nil || err2 != nil || one == nil || one.value != value || len(all) != 1 || all[0].value != value {
			t.Fatalf("%d bytes came back as others: %v, %v", len(value), err1, err2)
		}
	}
	r := &request{Put: [][3]string{{"owner", "key", strings.Repeat("z", maxFrame)}}}
	if _, _, err := l.write(t.Context(), fixed(r)); !errors.Is(err, cairn.ErrTooLarge) {
		t.Fatalf("a write of %d bytes: error %v", maxFrame, err)
	}
	a, err := l.call(t.Context(), &request{Op: "read", Ask: []ask{get("owner", "key")}})
	if err != nil {
		t.Fatal(err)
	}
	if one, err := a.one(0); err != nil || one == nil || one.value != "short" {
		t.Fatalf("after a write that was too large: %v, %v", one, err)
	}
}

// An object accepts a write that arrives late, numbers it after its last one, and refuses one of a clock that is ahead.
func TestTimesOfWrites(t *testing.T) {
	t.Parallel()
	l := openNew(t).tree("times")
	write := func(by time.Duration) *answer {
		t.Helper()
		a, err := l.call(t.Context(), &request{Op: "write", At: stamp(l.db.clock.now()).Add(by).UnixMicro(), Put: [][3]string{{"owner", "key", by.String()}}})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if _, err := l.connect(t.Context()); err != nil { // so that the clock is known
		t.Fatal(err)
	}
	first, late := write(0), write(-time.Hour)
	if first.Version == 0 || late.Version != first.Version+1 || late.Ahead {
		t.Errorf("a write of an hour ago has version %d after %d", late.Version, first.Version)
	}
	if ahead := write(time.Hour); !ahead.Ahead || ahead.Version != 0 || ahead.Last != late.Version {
		t.Errorf("a write of an hour ahead: %+v", ahead)
	}
}

// A killed runtime loses no answered commit, in a tree or in the lists. Followers continue, and a client connects again.
func TestKilledRuntime(t *testing.T) {
	t.Parallel()
	worker := testenv.WorkerServer(t)
	s := openAt(t, "do+insecure://"+worker.Address+"/killed")
	ctx := t.Context()
	row, err := s.Commit(ctx, "session", &driver.Commit{Create: &cairn.Session{Agent: "support"}, Events: events("begin")})
	if err != nil {
		t.Fatal(err)
	}
	log := row.Log()
	var followed atomic.Int64
	following, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for following.Err() == nil {
			for ev, err := range s.EventLog().Follow(following, log, followed.Load()) {
				if err != nil {
					break // the runtime is away: followers of an engine begin again as well
				}
				followed.Store(ev.Sequence)
			}
		}
	}()
	answered, lost := 1, 0
	for round := range testenv.Choose(3, 100) {
		worker.Kill()
		if err := worker.Start(); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			testclock.Await(t, "a commit", func() bool {
				var err error
				row, err = s.Commit(ctx, "session", &driver.Commit{Messages: []cairn.Message{cairn.User(cairn.TextPart(fmt.Sprint(round, i)))}, Events: events("more")})
				if err != nil && !errors.Is(err, cairn.ErrUnavailable) {
					t.Fatal(err)
				}
				if err != nil {
					lost++
				}
				return err == nil
			})
			answered++
		}
	}
	page, err := s.List(ctx, driver.SessionQuery{})
	if err != nil || len(page.Items) != 1 || page.Items[0].Version != row.Version {
		t.Fatalf("the list has %d sessions, error %v; the session has version %d", len(page.Items), err, row.Version)
	}
	if n := row.MessageCount; n < answered-1 || n > answered-1+lost || row.LogSequence != int64(n)+1 {
		t.Fatalf("%d messages and %d events after %d commits and %d without an answer", n, row.LogSequence, answered, lost)
	}
	testclock.Await(t, "the follower to have all events", func() bool { return followed.Load() == row.LogSequence })
	stop()
	<-done
}

// While the directory is away, commits are answered and lists lack them; once it is back, an alarm delivers the rest.
func TestDirectoryIsAway(t *testing.T) {
	t.Parallel()
	worker := testenv.WorkerServer(t)
	s := openAt(t, "do+insecure://"+worker.Address+"/away")
	ctx := t.Context()
	created := map[string]bool{}
	create := func(id string) {
		t.Helper()
		if _, err := driver.Create(ctx, s, &cairn.Session{ID: id, Agent: "support"}, nil); err != nil {
			t.Fatal(err)
		}
		created[id] = true
	}
	create("before")
	worker.Break(t)
	create("meanwhile")
	if page, err := s.List(ctx, driver.SessionQuery{}); err != nil || len(page.Items) != 1 {
		t.Fatalf("the list has %d sessions while the directory is away, error %v", len(page.Items), err)
	}
	worker.Mend(t)
	testclock.Await(t, "the list to have all sessions", func() bool {
		page, err := s.List(ctx, driver.SessionQuery{})
		return err == nil && len(page.Items) == len(created)
	})
}

// A client that finds another version of the protocol says so.
func TestOtherVersion(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.NotFoundHandler()}
	go server.Serve(l)
	defer server.Close()
	_, err = Open(t.Context(), "do+insecure://"+l.Addr().String()+"/s", &Options{Secret: "s"})
	if !errors.Is(err, cairn.ErrSchema) {
		t.Fatalf("error %v", err)
	}
}

func events(text string) []cairn.Event {
	return []cairn.Event{{Type: cairn.EventTextDelta, SessionID: "session", Text: text}}
}
