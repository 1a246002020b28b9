package main

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/stores"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

// counted is a store that lists the calls of it and of its log.
type counted struct {
	store.Store
	delay time.Duration // of each call

	mu    sync.Mutex
	calls []string
}

func (c *counted) Unwrap() store.Store { return c.Store }

func (c *counted) called(name string) {
	c.mu.Lock()
	c.calls = append(c.calls, name)
	c.mu.Unlock()
	testclock.Deaf(c.delay)
}

// taken returns the calls since the last time.
func (c *counted) taken() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.calls
	c.calls = nil
	return list
}

func (c *counted) Commit(ctx context.Context, id string, commit *driver.Commit) (*cairn.Session, error) {
	c.called("Commit")
	return c.Store.Commit(ctx, id, commit)
}

func (c *counted) Read(ctx context.Context, id string, want driver.Want) (*driver.Contents, error) {
	c.called("Read")
	return c.Store.Read(ctx, id, want)
}

func (c *counted) Runs(ctx context.Context, id string, q store.PageQuery) (store.Page[cairn.Run], error) {
	c.called("Runs")
	return c.Store.Runs(ctx, id, q)
}

func (c *counted) Calls(ctx context.Context, q store.CallQuery) (store.Page[cairn.PendingCall], error) {
	c.called("Calls")
	return c.Store.Calls(ctx, q)
}

func (c *counted) List(ctx context.Context, q store.SessionQuery) (store.Page[cairn.Session], error) {
	c.called("List")
	return c.Store.List(ctx, q)
}

func (c *counted) EventLog() store.Log {
	p, _ := driver.As[driver.LogProvider](c.Store)
	return countedLog{p.EventLog(), c}
}

type countedLog struct {
	store.Log
	of *counted
}

func (l countedLog) Unwrap() store.Log { return l.Log }

func (l countedLog) Append(ctx context.Context, log string, expect int64, events ...cairn.Event) (int64, error) {
	l.of.called("Append")
	return l.Log.Append(ctx, log, expect, events...)
}

func (l countedLog) Read(ctx context.Context, log string, after int64, limit int) ([]cairn.Event, error) {
	l.of.called("Log.Read")
	return l.Log.Read(ctx, log, after, limit)
}

func (l countedLog) Bounds(ctx context.Context, log string) (first, last int64, err error) {
	l.of.called("Bounds")
	return l.Log.Bounds(ctx, log)
}

func (l countedLog) Follow(ctx context.Context, log string, after int64) iter.Seq2[cairn.Event, error] {
	l.of.called("Follow")
	return l.Log.Follow(ctx, log, after)
}

// talk is a server on a store whose calls are counted. Its model answers once it is let.
type talk struct {
	t   testing.TB
	st  *counted
	eng *engine.Engine
	url string
	// asked gets the calls of the store until the model is called.
	asked chan []string
	let   chan struct{}
}

func newTalk(t testing.TB, st store.Store, delay time.Duration) *talk {
	t.Helper()
	s := &talk{t: t, st: &counted{Store: st, delay: delay}, asked: make(chan []string, 1), let: make(chan struct{}, 1)}
	bot := &cairn.Agent{Name: "bot", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
		s.st.mu.Lock()
		s.asked <- slices.Clone(s.st.calls)
		s.st.mu.Unlock()
		<-s.let
		return scripted.Text("Hello.")
	})}
	eng, err := engine.New(s.st, []*cairn.Agent{bot}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close(context.WithoutCancel(t.Context())) })
	h, err := server.New(eng, &server.Options{AllowUnauthenticated: true, RequestsPerMinute: -1})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	t.Cleanup(h.Drain)
	s.eng, s.url = eng, srv.URL
	return s
}

// post posts a body and reads the turn to its end. It returns the calls of the store until the run has begun, and those
// until the turn is followed.
func (s *talk) post(body string) (begun, followed []string) {
	s.t.Helper()
	s.st.taken()
	res, err := http.Post(s.url+"/chat", "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	in := bufio.NewScanner(res.Body)
	if res.StatusCode != http.StatusOK || !in.Scan() { // the turn's first event
		s.t.Fatalf("status %d: %s", res.StatusCode, in.Text())
	}
	begun, followed = <-s.asked, s.st.taken()
	s.let <- struct{}{}
	text := ""
	for in.Scan() {
		text += in.Text()
	}
	if !strings.Contains(text, "Hello.") || !strings.HasSuffix(text, "[DONE]") {
		s.t.Fatalf("the stream is %s", text)
	}
	for i, call := range slices.Backward(begun) { // what follows the commit runs beside the model
		if call == "Commit" {
			begun = begun[:i+1]
			break
		}
	}
	return begun, followed
}

// ended waits until the process has put a session away after its last run: the stream of the run ends before that.
func (s *talk) ended(chat string) {
	s.t.Helper()
	run, err := s.eng.Attach(s.t.Context(), chat)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := run.Wait(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// said is the body of a post with a message, after what the page shows of earlier turns.
func said(chat, id string, shown ...string) string {
	list := append(shown, fmt.Sprintf(`{"id":%q,"role":"user","parts":[{"type":"text","text":"hi"}]}`, id))
	return fmt.Sprintf(`{"id":%q,"messages":[%s]}`, chat, strings.Join(list, ","))
}

// shown is the body of what a page shows of a chat.
func (s *talk) shown(chat string) string {
	s.t.Helper()
	res, err := http.Get(s.url + "/chat/" + chat)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	in := bufio.NewReader(res.Body)
	text, _ := in.ReadString(0)
	from, to := strings.Index(text, `"messages":[`), strings.LastIndex(text, `}]`)
	if res.StatusCode != http.StatusOK || from < 0 || to < from {
		s.t.Fatalf("status %d: %s", res.StatusCode, text)
	}
	return text[from+len(`"messages":[`) : to+1]
}

// Between a message to a chat and the call of the model there are few calls of the store, whether the session is new, was
// driven by this process, or by another one. What follows the turn begins with what is in hand.
func TestFewCallsBeforeTheFirstWord(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) store.Store{
		"memory": func(*testing.T) store.Store { return memstore.New(nil) },
		"SQLite": func(t *testing.T) store.Store {
			st, err := sqlitestore.Open(filepath.Join(t.TempDir(), "s.db"), nil)
			if err != nil {
				t.Fatal(err)
			}
			return st
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := open(t)
			t.Cleanup(func() { st.Close() })
			one, other := newTalk(t, st, 0), newTalk(t, st, 0)
			check := func(what string, of *talk, body, want string) {
				t.Helper()
				begun, followed := of.post(body)
				if got := strings.Join(begun, " "); got != want || strings.Join(followed, " ") != want+" Follow" {
					t.Errorf("%s: the run begins with %v, in all there are %v", what, begun, followed)
				}
			}
			check("a new session", one, said("s", "m1"), "List List Commit")
			one.ended("s")
			check("a session that this process has in memory", one, said("s", "m2", one.shown("s")), "List Commit")
			check("a session that another process has driven", other, said("s", "m3", one.shown("s")), "List Read Commit")
			check("a session that another process has driven since", one, said("s", "m4", one.shown("s")), "List Read Commit")
			one.ended("s")
			check("a client that shows nothing", one, said("s", "m5"), "List Commit")
			check("a session with an id of the server's", one, said("", "m1"), "Commit")
		})
	}
}

// BenchmarkFirstWord measures the time from a post to a chat until the first word of an answer by a model that answers at
// once: of a new session, and of one that has a turn.
func BenchmarkFirstWord(b *testing.B) {
	for _, place := range []struct {
		name  string
		open  func(testing.TB) store.Store
		delay time.Duration
	}{
		{"five milliseconds away", func(testing.TB) store.Store { return memstore.New(nil) }, 5 * time.Millisecond},
		{"postgres", func(tb testing.TB) store.Store {
			at, err := stores.Parse("", testenv.Postgres(tb))
			if err != nil {
				tb.Fatal(err)
			}
			st, err := at.Open(tb.Context(), time.Now)
			if err != nil {
				tb.Fatal(err)
			}
			return st
		}, 0},
	} {
		b.Run(place.name, func(b *testing.B) {
			st := place.open(b)
			b.Cleanup(func() { st.Close() })
			one, other := newTalk(b, st, place.delay), newTalk(b, st, place.delay)
			var times [3][]time.Duration
			n := 0
			for b.Loop() {
				chat := fmt.Sprint("chat", n)
				n++
				times[0] = append(times[0], one.firstWord(said(chat, "m1")))
				shown := one.shown(chat)
				times[1] = append(times[1], one.firstWord(said(chat, "m2", shown)))
				times[2] = append(times[2], other.firstWord(said(chat, "m3", shown)))
			}
			b.ReportMetric(0, "ns/op")
			for i, what := range []string{"new", "in-memory", "cold"} {
				slices.Sort(times[i])
				b.ReportMetric(times[i][len(times[i])/2].Seconds()*1000, "ms/"+what)
			}
		})
	}
}

// firstWord posts a body and returns the time until the answer's first word. It reads the rest.
func (s *talk) firstWord(body string) (passed time.Duration) {
	s.let <- struct{}{}
	began := time.Now()
	res, err := http.Post(s.url+"/chat", "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	for in := bufio.NewScanner(res.Body); in.Scan(); {
		if passed == 0 && strings.Contains(in.Text(), "Hello.") {
			passed = time.Since(began)
		}
	}
	<-s.asked
	if passed == 0 {
		s.t.Fatalf("status %d, and no word", res.StatusCode)
	}
	return passed
}
