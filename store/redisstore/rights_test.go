package redisstore

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/storetest"
	"github.com/redis/go-redis/v9"
)

// limited is a server with a user who has only some rights.
type limited struct {
	url   string // for the user
	admin *redis.Client
}

// newLimited starts a server with a user, app, to whom the rules apply.
func newLimited(tb testing.TB, rules ...string) *limited {
	tb.Helper()
	server := testenv.RedisServer(tb, "--appendonly", "no", "--enable-debug-command", "local")
	opts, err := redis.ParseURL(server.URL())
	if err != nil {
		tb.Fatal(err)
	}
	l := &limited{url: strings.Replace(server.URL(), "unix://", "unix://app:secret@", 1), admin: redis.NewClient(opts)}
	tb.Cleanup(func() { l.admin.Close() })
	l.allow(tb, append([]string{"reset", "on", ">secret"}, rules...)...)
	return l
}

// allow applies rules to the user.
func (l *limited) allow(tb testing.TB, rules ...string) {
	tb.Helper()
	args := []any{"ACL", "SETUSER", "app"}
	for _, rule := range rules {
		args = append(args, rule)
	}
	if err := l.admin.Do(context.Background(), args...).Err(); err != nil {
		tb.Fatalf("ACL SETUSER app %v: %v", rules, err)
	}
}

// digest identifies what the server holds.
func (l *limited) digest(tb testing.TB) string {
	tb.Helper()
	text, err := l.admin.Do(context.Background(), "DEBUG", "DIGEST").Text()
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// A user with exactly the rights that docs/STORES.md lists can write, keep records and use the log.
func TestUserWithDocumentedRights(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/STORES.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "ACL SETUSER app on >SECRET ")
	list, _, _ = strings.Cut(list, "\n\n")
	documented := strings.Fields(strings.ReplaceAll(list, "\\", " "))
	if want := granted("cairn"); !slices.Equal(documented, want) {
		t.Fatalf("docs/STORES.md lists the rights\n%s\nwant\n%s", strings.Join(documented, " "), strings.Join(want, " "))
	}
	l := newLimited(t, append(documented, "~test-*", "&test-*")...)
	open := func(tb testing.TB) *Store { return openAt(tb, l.url, &Options{Prefix: newPrefix()}) }
	t.Run("writes", func(t *testing.T) {
		s := open(t)
		for _, w := range writings {
			if err := both(w.prepare, w.do)(t.Context(), s, w.name); err != nil {
				t.Errorf("%s: %v", w.name, err)
			}
		}
	})
	t.Run("records", func(t *testing.T) {
		storetest.RunRecords(t, func(tb testing.TB) driver.Store { return open(tb) }, &storetest.Options{Brief: true})
	})
	t.Run("log", func(t *testing.T) {
		storetest.RunLog(t, func(tb testing.TB) driver.Log { return logOf(open(tb)) }, &storetest.LogOptions{
			Second: func(tb testing.TB, log driver.Log) driver.Log { return logOf(second(tb, storeOf(log))) }, Brief: true})
	})
}

// Open names the right that a user lacks, and how to grant it.
func TestOpenNamesTheMissingRight(t *testing.T) {
	t.Parallel()
	rules := granted("cairn")
	l := newLimited(t)
	for _, rule := range rules {
		if slices.Contains(clusterCommands, strings.ToUpper(strings.ReplaceAll(rule[1:], "|", " "))) {
			continue
		}
		t.Run(rule, func(t *testing.T) {
			less := slices.DeleteFunc(slices.Clone(rules), func(r string) bool { return r == rule })
			l.allow(t, append([]string{"reset", "on", ">secret"}, less...)...)
			wantError(t, refused(t, l.url, nil), cairn.ErrUnavailable, `Redis user "app" lacks the right to `, "grant it with ACL SETUSER app ", rule)
		})
	}
	if keys := l.admin.Keys(t.Context(), "*").Val(); len(keys) > 0 {
		t.Errorf("the refused opens have written %v", keys)
	}
	l.allow(t, append([]string{"reset", "on", ">secret"}, rules...)...)
	s := openAt(t, l.url, nil)
	if err := s.Health(t.Context()); err != nil {
		t.Error(err)
	}
	l.allow(t, "-xadd", "resetchannels")
	wantError(t, s.Health(t.Context()), cairn.ErrUnavailable, "run XADD", "use the channels cairn:*", "ACL SETUSER app +xadd &cairn:*")
}

// writing is a kind of write. It returns the error of its last call, on a session or name that nothing else uses.
type writing struct {
	name    string
	prepare func(ctx context.Context, s *Store, id string) error
	do      func(ctx context.Context, s *Store, id string) error
}

// runningCommit begins a run of a session.
func runningCommit() *driver.Commit {
	return &driver.Commit{Guard: driver.Guard{Idle: true}, Create: &cairn.Session{Agent: "support"},
		StartRun: &cairn.Run{ID: "run", Agent: "support", Status: cairn.RunRunning},
		Messages: []cairn.Message{cairn.User(cairn.TextPart("hello"))}, Status: cairn.SessionActive,
		Lease: driver.LeaseChange{Action: driver.LeaseTake, Owner: "worker", TTL: time.Hour}}
}

// stepCommit is the first step of that run.
func stepCommit() *driver.Commit {
	return &driver.Commit{Guard: driver.Guard{Version: 1}, Messages: []cairn.Message{cairn.User(cairn.TextPart("reply"))}, Step: 1,
		State:      &driver.StateChange{Ops: []cairn.Op{{Kind: cairn.OpReplace, Path: "/n", Value: []byte("1")}}},
		Checkpoint: &cairn.Checkpoint{ID: "cp-1", RunID: "run", StepID: "step-1", Step: 1},
		Lease:      driver.LeaseChange{Action: driver.LeaseRenew, TTL: 2 * time.Hour}, DropStaged: true}
}

// endCommit ends that run.
func endCommit() *driver.Commit {
	return &driver.Commit{EndRun: &cairn.Run{ID: "run", Agent: "support", Status: cairn.RunFailed}, Status: cairn.SessionIdle,
		Lease: driver.LeaseChange{Action: driver.LeaseRelease}, DropStaged: true}
}

// eventful adds events to a commit.
func eventful(c func() *driver.Commit) func() *driver.Commit {
	return func() *driver.Commit {
		with := c()
		with.Events = []cairn.Event{{Type: cairn.EventCustom, Name: "one"}, {Type: cairn.EventCustom, Name: "two"}}
		return with
	}
}

func commit(c func() *driver.Commit) func(context.Context, *Store, string) error {
	return func(ctx context.Context, s *Store, id string) error {
		_, err := s.Commit(ctx, id, c())
		return err
	}
}

func appendEvent(ctx context.Context, s *Store, id string) error {
	_, err := s.log.Append(ctx, id, driver.AnySequence, cairn.Event{Type: cairn.EventTextDelta, Text: "hello"})
	return err
}

func putRecord(ctx context.Context, s *Store, id string) error {
	_, err := s.Records().Put(ctx, driver.RecordWrite{Namespace: id, Key: "key", Index: "index", Value: []byte("1"), Seen: -1, TTL: time.Hour})
	return err
}

func removeSession(ctx context.Context, s *Store, id string) error {
	_, err := s.Remove(ctx, id, driver.Deleted)
	return err
}

// both runs one after the other.
func both(list ...func(context.Context, *Store, string) error) func(context.Context, *Store, string) error {
	return func(ctx context.Context, s *Store, id string) error {
		for _, do := range list {
			if err := do(ctx, s, id); err != nil {
				return err
			}
		}
		return nil
	}
}

func nothing(context.Context, *Store, string) error { return nil }

// writings are the writes that a right is taken away from.
var writings = []writing{
	{"begin", nothing, commit(runningCommit)},
	{"step", commit(runningCommit), commit(stepCommit)},
	{"end", both(commit(runningCommit), commit(stepCommit)), commit(endCommit)},
	{"begin with events", nothing, commit(eventful(runningCommit))},
	{"step with events", commit(eventful(runningCommit)), commit(eventful(stepCommit))},
	{"end with events", both(commit(eventful(runningCommit)), commit(eventful(stepCommit))), commit(eventful(endCommit))},
	{"branch with events", commit(eventful(runningCommit)), func(ctx context.Context, s *Store, id string) error {
		_, err := s.Branch(ctx, id, driver.BranchPoint{Events: []cairn.Event{{Type: cairn.EventBranched}}}, &cairn.Session{ID: "branch of " + id, Agent: "support"})
		return err
	}},
	{"renew", commit(runningCommit), func(ctx context.Context, s *Store, id string) error {
		row, err := driver.Load(ctx, s, id)
		if err == nil {
			_, err = s.Renew(ctx, id, row.Lease.Token, time.Second)
		}
		return err
	}},
	{"stage", commit(runningCommit), func(ctx context.Context, s *Store, id string) error {
		row, err := driver.Load(ctx, s, id)
		if err == nil {
			err = s.Stage(ctx, id, row.Lease.Token, driver.Staged{StepID: "s", Key: "k", Data: []byte("1")})
		}
		return err
	}},
	{"stop", commit(runningCommit), func(ctx context.Context, s *Store, id string) error {
		return s.RequestStop(ctx, id, cairn.Stop{RunID: "run", Kind: cairn.StopInterrupt})
	}},
	{"append", appendEvent, appendEvent},
	{"fenced append", appendEvent, func(ctx context.Context, s *Store, id string) error {
		_, err := s.log.AppendFenced(ctx, id, driver.AnySequence, driver.Writer{Session: id, Token: 2})
		return err
	}},
	{"trim", both(appendEvent, appendEvent), func(ctx context.Context, s *Store, id string) error { return s.log.Trim(ctx, id, 2) }},
	{"drop", appendEvent, func(ctx context.Context, s *Store, id string) error { return s.log.Drop(ctx, id) }},
	{"record", putRecord, putRecord},
	{"delete a record", putRecord, func(ctx context.Context, s *Store, id string) error { return s.Records().Delete(ctx, id, "key", -1) }},
	{"memories", nothing, putMemory},
	{"more memories", putMemory, putMemory},
	{"drop memories", putMemory, func(ctx context.Context, s *Store, id string) error {
		_, err := s.Memories().Drop(ctx, driver.UserMemories(id))
		return err
	}},
	{"blobs", commit(runningCommit), putBlob("a")},
	{"more blobs", both(commit(runningCommit), putBlob("a"), dropBlob), putBlob("a")},
	{"name blobs", both(commit(runningCommit), putBlob("a")), func(ctx context.Context, s *Store, id string) error {
		owner, err := blobOwner(ctx, s, id)
		if err != nil {
			return err
		}
		return s.Blobs().Name(ctx, owner, owner, driver.BlobKey([]byte("a")))
	}},
	{"drop blobs", both(commit(runningCommit), putBlob("a")), dropBlob},
	{"sweep blobs", both(commit(runningCommit), putBlob("a"), dropBlob), func(ctx context.Context, s *Store, id string) error {
		_, err := s.Blobs().Sweep(ctx, 0)
		return err
	}},
	{"remove", both(commit(runningCommit), commit(endCommit)), removeSession},
	{"restore", both(commit(runningCommit), commit(endCommit), removeSession), func(ctx context.Context, s *Store, id string) error {
		_, err := s.Restore(ctx, id)
		return err
	}},
	{"delete", both(commit(runningCommit), commit(endCommit)), func(ctx context.Context, s *Store, id string) error { return s.Delete(ctx, id) }},
}

// A write that lacks a right to one of its commands writes nothing, whichever command that is, and names the right.
func TestLostRightLeavesNoHalfWrite(t *testing.T) {
	t.Parallel()
	l := newLimited(t, granted("cairn")...)
	s := openAt(t, l.url, nil)
	failed := 0
	for _, w := range writings {
		for _, command := range scriptCommands() {
			id := w.name + " without " + command
			l.admin.FlushDB(t.Context()) // so that a digest takes no time
			if err := w.prepare(t.Context(), s, id); err != nil {
				t.Fatalf("prepare %s: %v", id, err)
			}
			before := l.digest(t)
			l.allow(t, "-"+command)
			err := w.do(t.Context(), s, id)
			if command == "PUBLISH" && err != nil {
				t.Errorf("%s: %v", id, err)
			}
			if err != nil {
				failed++
				wantError(t, err, cairn.ErrUnavailable, "lacks the right to run "+command, "ACL SETUSER app +"+strings.ToLower(command))
				if after := l.digest(t); after != before {
					t.Errorf("%s: an error, and something was written", id)
				}
			}
			l.allow(t, "+"+command)
			if err != nil {
				if err := w.do(t.Context(), s, id); err != nil {
					t.Errorf("%s, once it has the right again: %v", id, err)
				}
			}
		}
	}
	if failed < 5*len(writings) {
		t.Errorf("only %d writes lacked a right", failed)
	}
}

// putMemory replaces the only entry of a scope by another one.
func putMemory(ctx context.Context, s *Store, id string) error {
	scope := driver.UserMemories(id)
	there, err := s.Memories().Read(ctx, scope)
	if err == nil {
		_, err = s.Memories().Write(ctx, driver.MemoryWrite{Scope: scope, Seen: there.Version, Deletes: []string{fmt.Sprint(there.Version)},
			Puts: []driver.MemoryEntry{{Key: "k", Value: []byte("v")}}, DueAt: time.Unix(int64(len(there.Found)), 1000)})
	}
	return err
}

func blobOwner(ctx context.Context, s *Store, id string) (driver.BlobOwner, error) {
	row, err := driver.Load(ctx, s, id)
	if err != nil {
		return driver.BlobOwner{}, err
	}
	return driver.OwnerOfBlobs(row), nil
}

func putBlob(text string) func(context.Context, *Store, string) error {
	return func(ctx context.Context, s *Store, id string) error {
		owner, err := blobOwner(ctx, s, id)
		if err == nil {
			_, err = s.Blobs().Put(ctx, owner, []byte(text))
		}
		return err
	}
}

func dropBlob(ctx context.Context, s *Store, id string) error {
	owner, err := blobOwner(ctx, s, id)
	if err != nil {
		return err
	}
	return s.Blobs().Drop(ctx, owner, driver.BlobKey([]byte("a")))
}

// warnings returns a logger and a count of its records that contain some words.
func warnings() (*slog.Logger, func(words string) int) {
	var mu sync.Mutex
	var text bytes.Buffer
	logger := slog.New(slog.NewTextHandler(writerFunc(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return text.Write(b)
	}), nil))
	return logger, func(words string) int {
		mu.Lock()
		defer mu.Unlock()
		return strings.Count(text.String(), words)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// A user who loses the right to the channels still writes. Followers and watchers in other processes poll, and return
// to messages when the user has the right again.
func TestWritesWithoutChannels(t *testing.T) {
	t.Parallel()
	l := newLimited(t, granted("cairn")...)
	logger, logged := warnings()
	writer, reader := openAt(t, l.url, &Options{Logger: logger}), openAt(t, l.url, nil)
	if _, err := writer.Commit(t.Context(), "session", runningCommit()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	events, notices := make(chan int64, 100), make(chan driver.StopNotice, 100)
	var readers sync.WaitGroup
	readers.Go(func() {
		for ev, err := range reader.log.Follow(ctx, "session", 0) {
			if err != nil {
				t.Error(err)
				return
			}
			events <- ev.Sequence
		}
	})
	readers.Go(func() {
		for notice, err := range reader.WatchStops(ctx) {
			if err != nil {
				t.Error(err)
				return
			}
			notices <- notice
		}
	})
	defer readers.Wait()
	defer cancel()
	arrives := func(sequence int64) {
		t.Helper()
		if err := appendEvent(t.Context(), writer, "session"); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-events:
			if got != sequence {
				t.Errorf("event %d arrives, want %d", got, sequence)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("event %d does not arrive", sequence)
		}
	}
	arrives(1)
	l.allow(t, "resetchannels")
	for n := range int64(2) {
		arrives(2 + n)
	}
	for len(notices) > 0 {
		<-notices
	}
	if err := writer.RequestStop(t.Context(), "session", cairn.Stop{RunID: "run", Kind: cairn.StopInterrupt}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-notices: // an empty one: look at the sessions
	case <-time.After(20 * time.Second):
		t.Fatal("a watcher of stop requests hears nothing")
	}
	if n := logged("lacks the right to"); n != 1 {
		t.Errorf("%d warnings, want 1", n)
	}
	l.allow(t, "&cairn:*")
	l.admin.Del(t.Context(), reader.muteKey())
	testclock.Await(t, "the reader to have its right again", func() bool {
		reader.listener.subscribing.Lock()
		defer reader.listener.subscribing.Unlock()
		return !reader.listener.lacking
	})
	arrives(4)
}
