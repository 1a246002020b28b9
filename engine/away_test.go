package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// remoteHost is a host on a server that can be away. Calls then take ten seconds, as those of Temporal's client do.
type remoteHost struct {
	away   atomic.Bool
	drives atomic.Bool // whether the server drives the runs that it is asked about

	mu    sync.Mutex
	asked int
	runs  []host.Run
}

func (h *remoteHost) Name() string                   { return "remote" }
func (h *remoteHost) CheckLease(time.Duration) error { return nil }

func (h *remoteHost) reach(ctx context.Context) error {
	if !h.away.Load() {
		return nil
	}
	if err := testclock.Pause(ctx, 10*time.Second); err != nil {
		return cairn.Errorf(cairn.ErrUnavailable, "the server is away: %w", err)
	}
	return cairn.Errorf(cairn.ErrUnavailable, "the server is away")
}

func (h *remoteHost) Driving(ctx context.Context, _ host.Run) (bool, error) {
	h.mu.Lock()
	h.asked++
	h.mu.Unlock()
	return h.drives.Load(), h.reach(ctx)
}

func (h *remoteHost) Start(ctx context.Context, b host.Run) (func(context.Context) error, error) {
	if err := h.reach(ctx); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs = append(h.runs, b)
	return nil, nil
}

// begun returns the runs that the server was given.
func (h *remoteHost) begun() []host.Run {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]host.Run(nil), h.runs...)
}

func (h *remoteHost) questions() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked
}

// wantWithin checks how long something took.
func wantWithin(t *testing.T, what string, since time.Time, most time.Duration) {
	t.Helper()
	if took := time.Since(since); took > most {
		t.Errorf("%s took %s, want at most %s", what, took, most)
	}
}

func done() *cairn.Agent {
	return bot(scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("done") }))
}

// A run is begun at once while its host is away, however many are, and handed over once under its first lease when the
// host is back.
func TestRunBeginsWhileItsHostIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, h := memstore.New(nil), &remoteHost{}
		h.away.Store(true)
		eng := open(t, st, done(), hostedBy(h), with(func(o *engine.Options) { o.MaxRecoveries = 1 }))
		const runs = 20
		began := time.Now()
		for i := range runs {
			start(t, eng, fmt.Sprint("s", i), "go")
		}
		wantWithin(t, "beginning twenty runs", began, time.Second)
		stop := work(t, eng)
		testclock.Advance(10 * time.Minute) // many leases
		for i := range runs {
			if row := load(t, st, fmt.Sprint("s", i)); !row.Running(time.Now()) || row.Recoveries > 0 {
				t.Errorf("during the outage, session %s is %+v", row.ID, row)
			}
		}
		h.away.Store(false)
		began = time.Now()
		testclock.Await(t, "the host to have all runs", func() bool { return len(h.begun()) >= runs })
		wantWithin(t, "handing the runs over", began, 10*time.Second)
		for _, b := range h.begun() {
			drives(t, eng, b, cairn.RunCompleted)
		}
		if n := len(h.begun()); n != runs {
			t.Errorf("the host was given %d runs, want %d", n, runs)
		}
		stop()
	})
}

// A run that its host has not taken yet can be stopped.
func TestStopOfARunWhoseHostIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, h := memstore.New(nil), &remoteHost{}
		h.away.Store(true)
		eng := open(t, st, done(), hostedBy(h))
		run := start(t, eng, "s", "go")
		began := time.Now()
		if err := eng.Interrupt(t.Context(), "s", "enough"); err != nil {
			t.Fatal(err)
		}
		wantWithin(t, "the stop", began, 10*time.Second)
		wantStatus(t, wait(t, run), cairn.RunInterrupted, cairn.ReasonInterrupted)
		h.away.Store(false)
		testclock.Advance(time.Minute)
		if n := len(h.begun()); n != 0 {
			t.Errorf("the host was given the stopped run")
		}
	})
}

// An engine that is closed while its host is away releases the runs that the host has not taken.
func TestCloseReleasesRunsThatTheHostHasNotTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, h := memstore.New(nil), &remoteHost{}
		h.away.Store(true)
		eng := open(t, st, done(), hostedBy(h))
		run := start(t, eng, "s", "go")
		began := time.Now()
		wantError(t, eng.Close(t.Context()), nil)
		wantWithin(t, "closing", began, 6*time.Second)
		if row := load(t, st, "s"); row.Running(time.Now()) || row.Status != cairn.SessionActive {
			t.Errorf("the session is %+v", row)
		}
		_, err := run.Wait(t.Context())
		wantError(t, err, cairn.ErrClosed)
	})
}

// Runs whose host does not say whether it drives them delay nothing else: deadlines, queued turns, and runs of other
// processes.
func TestWorkerIsNotDelayedByAHostThatIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, h := memstore.New(nil), &remoteHost{}
		ask := cairn.ClientTool[in, string]("ask", "Asks.", cairn.WaitAtMost(time.Minute))
		agent := bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
			if len(req.Messages) == 1 && req.Messages[0].Text() == "ask" {
				return scripted.Call("ask", in{})
			}
			return scripted.Text("done")
		}), ask)
		eng := open(t, st, agent, hostedBy(h))
		started := func(id, text string) host.Run {
			start(t, eng, id, text)
			list := h.begun()
			return list[len(list)-1]
		}
		drives(t, eng, started("asks", "ask"), cairn.RunSuspended)
		h.drives.Store(true)
		for i := range 50 {
			started(fmt.Sprint("kept", i), "go")
		}
		start(t, open(t, st, agent, hostedBy(&byHand{}), named("b")), "dead", "go") // of a host that is no keeper
		h.away.Store(true)
		testclock.Advance(59 * time.Second) // all leases have lapsed, the deadline has not
		before := h.questions()
		stop := work(t, eng)
		closed := time.Now()
		testclock.Await(t, "the deadline to be enforced", func() bool {
			return load(t, st, "asks").OpenCalls == 0 && load(t, st, "dead").Recoveries > 0
		})
		wantWithin(t, "the deadline and the takeover", closed, 5*time.Second)
		testclock.Advance(time.Minute)
		if n := h.questions() - before; n > 50*15 {
			t.Errorf("the host was asked %d times in a minute", n)
		}
		h.away.Store(false)
		back := time.Now()
		for i := range 50 {
			testclock.Await(t, "the run to be kept", func() bool { return load(t, st, fmt.Sprint("kept", i)).Running(time.Now()) })
		}
		wantWithin(t, "keeping the runs of the host that is back", back, 10*time.Second)
		for i := range 50 {
			if row := load(t, st, fmt.Sprint("kept", i)); row.Recoveries > 0 {
				t.Errorf("%s was taken over", row.ID)
			}
		}
		stop()
	})
}

// A caller does not wait long for a host that does not say whether it drives a run, and not at all soon after.
func TestTurnOfASessionWhoseHostIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, h := memstore.New(nil), &remoteHost{}
		eng := open(t, st, done(), hostedBy(h))
		start(t, eng, "s", "go")
		h.away.Store(true)
		testclock.Advance(time.Minute)
		for _, most := range []time.Duration{3 * time.Second, 0, 0} {
			began := time.Now()
			_, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("again"))
			wantError(t, err, cairn.ErrUnavailable)
			wantWithin(t, "the refusal", began, most)
		}
		h.away.Store(false)
		testclock.Advance(5 * time.Second)
		if _, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("again")); err != nil {
			t.Error(err)
		}
	})
}

// An error that the host gives at once says nothing about other runs.
func TestHostThatDoesNotKnowOneRun(t *testing.T) {
	t.Parallel()
	st, pass, clock := clocked()
	h := &keeper{name: "h", silent: errors.New("no such namespace")}
	eng := open(t, st, done(), hostedBy(h), clock)
	start(t, eng, "s", "go")
	pass(time.Hour)
	for range 2 {
		_, err := eng.Resume(t.Context(), "s")
		wantError(t, err, cairn.ErrUnavailable)
	}
	if n := h.asked.Load(); n != 2 {
		t.Errorf("the host was asked %d times, want 2", n)
	}
	h.silent = nil
	if _, err := eng.Resume(t.Context(), "s"); err != nil {
		t.Error(err)
	}
}
