package limit_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/limit"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// backend is a model that records when it is called, and for which session.
type backend struct {
	mu       sync.Mutex
	began    time.Time
	at       []time.Duration
	sessions []string
	reply    scripted.Step
}

func newBackend(reply scripted.Step) *backend { return &backend{began: time.Now(), reply: reply} }

func (b *backend) model() cairn.Model {
	return scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.at = append(b.at, time.Since(b.began))
		b.sessions = append(b.sessions, req.SessionID)
		return b.reply
	})
}

func ask(ctx context.Context, m cairn.Model, session, text string) error {
	req := &cairn.Request{SessionID: session, Messages: []cairn.Message{cairn.User(cairn.TextPart(text))}}
	for _, err := range m.Stream(ctx, req) {
		if err != nil {
			return err
		}
	}
	return nil
}

// many makes concurrent calls of a session.
func many(t *testing.T, wg *sync.WaitGroup, m cairn.Model, session string, n int) {
	for range n {
		wg.Go(func() {
			if err := ask(t.Context(), m, session, "hi"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(scripted.Text("ok"))
		var wg sync.WaitGroup
		many(t, &wg, limit.New(b.model(), limit.Options{RequestsPerMinute: 60}), "s", 30)
		wg.Wait()
		for i, at := range b.at { // eleven at once, then one per second
			if want := time.Duration(max(0, i-10)) * time.Second; at != want {
				t.Errorf("call %d is at %s, want %s", i, at, want)
			}
		}
	})
}

// A session with many calls does not make another one wait for all of them.
func TestSessionsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(scripted.Text("ok"))
		m := limit.New(b.model(), limit.Options{RequestsPerMinute: 60})
		var wg sync.WaitGroup
		many(t, &wg, m, "greedy", 40)
		synctest.Wait()
		many(t, &wg, m, "modest", 2)
		wg.Wait()
		if at := slices.Index(b.sessions, "modest"); at < 0 || b.at[at] > 4*time.Second {
			t.Errorf("the order is %v", b.sessions)
		}
	})
}

func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(scripted.Text("ok").Usage(900, 100))
		m := limit.New(b.model(), limit.Options{TokensPerMinute: 6000})
		for range 5 { // a thousand tokens in ten seconds, and as many in advance
			if err := ask(t.Context(), m, "s", "hi"); err != nil {
				t.Fatal(err)
			}
		}
		for i, want := range []time.Duration{0, 0, 10 * time.Second, 20 * time.Second, 30 * time.Second} {
			if d := b.at[i] - want; d < -time.Second || d > time.Second {
				t.Errorf("call %d is at %s, want %s", i, b.at[i], want)
			}
		}
		// The estimate counts before the usage is known.
		c := newBackend(scripted.Reply(scripted.Pause(time.Minute), scripted.Text("ok")))
		m = limit.New(c.model(), limit.Options{TokensPerMinute: 6000})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { ask(t.Context(), m, "s", strings.Repeat("word", 2000)) })
		}
		testclock.Advance(15 * time.Second)
		c.mu.Lock()
		if len(c.at) != 2 {
			t.Errorf("asked at %v", c.at)
		}
		c.mu.Unlock()
		wg.Wait()
	})
}

// A wrong usage does not block all other calls forever.
func TestHostileUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(scripted.Text("ok").Usage(math.MaxInt64, 0))
		m := limit.New(b.model(), limit.Options{TokensPerMinute: 1})
		ask(t.Context(), m, "s", "hi")
		ask(t.Context(), m, "s", "hi")
		if b.at[1] > 2*time.Hour {
			t.Errorf("the second is at %s", b.at[1])
		}
	})
}

// Processes that share a store share the rate, by the clock of the store.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(&memstore.Options{Now: func() time.Time { return time.Now().Add(-time.Hour) }})
		defer st.Close()
		b := newBackend(scripted.Text("ok"))
		var wg sync.WaitGroup
		for n := range 3 {
			m := limit.New(b.model(), limit.Options{RequestsPerMinute: 60, Records: st.Records(), Key: "k"})
			many(t, &wg, m, fmt.Sprint(n), 10)
		}
		wg.Wait()
		if last := b.at[len(b.at)-1]; last < 19*time.Second || last > 21*time.Second {
			t.Errorf("30 calls take until %s", last)
		}
	})
}

type unavailable struct{ store.Records }

func (unavailable) Get(context.Context, string, string) (*store.Record, error) {
	return nil, cairn.ErrUnavailable
}

// While its store is unavailable each process counts for itself.
func TestStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(scripted.Text("ok"))
		var wg sync.WaitGroup
		many(t, &wg, limit.New(b.model(), limit.Options{RequestsPerMinute: 60, Records: unavailable{}}), "s", 30)
		wg.Wait()
		if last := b.at[len(b.at)-1]; last != 19*time.Second {
			t.Errorf("30 calls take until %s", last)
		}
	})
}

// A wait that the provider asks for applies to all calls.
func TestProviderAsksToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := cairn.Errorf(cairn.ErrRateLimited, "slow down")
		busy.RetryAfter = cairn.Duration(time.Minute)
		b := newBackend(scripted.Fail(busy))
		m := limit.New(b.model(), limit.Options{TokensPerMinute: 1_000_000})
		ask(t.Context(), m, "a", "hi")
		ask(t.Context(), m, "b", "hi")
		if b.at[1] != time.Minute {
			t.Errorf("the second is at %s", b.at[1])
		}
	})
}

func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(scripted.Text("ok"))
		m := limit.New(b.model(), limit.Options{RequestsPerMinute: 1, MaxWait: 30 * time.Second})
		ask(t.Context(), m, "s", "hi")
		err := ask(t.Context(), m, "s", "hi")
		if e := cairn.AsError(err); e.Code != cairn.ErrRateLimited || e.RetryAfter != cairn.Duration(50*time.Second) {
			t.Errorf("a wait that is too long: %v", err)
		}
		m = limit.New(b.model(), limit.Options{RequestsPerMinute: 1})
		ask(t.Context(), m, "s", "hi")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for range 3 { // the first waits for its turn, the others behind it
			wg.Go(func() {
				if err := ask(ctx, m, "s", "hi"); cairn.AsError(err).Code != cairn.ErrTimeout || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("a call that was stopped: %v", err)
				}
			})
		}
		wg.Wait()
		testclock.Advance(time.Minute)
		if err := ask(t.Context(), m, "s", "hi"); err != nil { // ended calls hold nothing
			t.Error(err)
		}
	})
}

// TestWaitBehindOthers makes more calls at once than fit into MaxWait.
func TestWaitBehindOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(scripted.Text("ok"))
		const most = 150 * time.Second
		m := limit.New(b.model(), limit.Options{RequestsPerMinute: 1, MaxWait: most})
		var wg sync.WaitGroup
		var mu sync.Mutex
		answered, began := 0, time.Now()
		for range 8 {
			wg.Go(func() {
				err := ask(t.Context(), m, "s", "hi")
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					answered++
				} else if cairn.AsError(err).Code != cairn.ErrRateLimited {
					t.Error(err)
				}
				if waited := time.Since(began); waited > most {
					t.Errorf("a call waited for %s: %v", waited, err)
				}
			})
		}
		wg.Wait()
		if answered != 3 { // at once, after 50 and after 110 seconds
			t.Errorf("%d calls were answered", answered)
		}
	})
}

func TestValidate(t *testing.T) {
	model := scripted.New()
	for want, m := range map[string]*limit.Model{
		"nil":                   limit.New(nil, limit.Options{RequestsPerMinute: 1}),
		"set RequestsPerMinute": limit.New(model, limit.Options{}),
		"-1 is negative":        limit.New(model, limit.Options{TokensPerMinute: -1}),
		"-1ns is negative":      limit.New(model, limit.Options{TokensPerMinute: 1, MaxWait: -1}),
	} {
		if err := m.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func ExampleNew() {
	model := limit.New(scripted.New(scripted.Text("Hello.")), limit.Options{RequestsPerMinute: 500, TokensPerMinute: 200_000})
	for chunk := range model.Stream(context.Background(), &cairn.Request{}) {
		fmt.Print(chunk.Text)
	}
	// Output: Hello.
}
