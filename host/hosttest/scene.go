package hosttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/store/driver"
)

// scene is the stage of a scenario: a store, its processes, and what was recorded of them.
type scene struct {
	*testing.T
	ctx    context.Context // bounds a scene that hangs
	host   Host
	place  Store
	st     driver.Store
	log    driver.Log
	diary  *diary
	agents []*cairn.Agent
	// recorded gives the processes the store's records, if it keeps any.
	recorded bool
	// roots are the sessions whose trees are compared with the golden file; default "s".
	roots []string
	// soon is the length of short deadlines and leases; ahead is the time skipped so far.
	soon  time.Duration
	ahead atomic.Int64

	processes []*process
	workers   []func()

	mu   sync.Mutex
	said []string
	ran  map[string]int
}

func newScene(t *testing.T, h Host, place Store) *scene {
	s := &scene{T: t, host: h, place: place, diary: &diary{}, roots: []string{"s"}, soon: time.Minute, ran: map[string]int{}}
	limit := 24 * time.Hour // on a fake clock
	switch {
	case place.Bubble:
	case h.Crashes == 0: // a process dies at each of some hundred operations, and a lease lapses after each
		limit = 30 * time.Minute
	default:
		limit = 3 * time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	s.ctx = ctx
	s.st = place.Open(t, s.now)
	if place.Log != nil {
		s.log = place.Log(t)
	} else if own, ok := s.st.(driver.LogProvider); ok {
		s.log = own.EventLog()
	} else {
		t.Fatalf("store %q brings no log, and Store.Log is not set", place.Name)
	}
	if place.OwnClock {
		s.soon = 2 * time.Second // shorter ones lapse under a live process on a busy machine
	}
	return s
}

// Context returns the context for calls that people make in the scene.
func (s *scene) Context() context.Context { return s.ctx }

// now is the store's clock.
func (s *scene) now() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }

// wrongBy is the error of a process's clock. No scenario's outcome may depend on it.
const wrongBy = time.Hour

// wrongClock returns a process's clock: alternately fast and slow.
func (s *scene) wrongClock() func() time.Time {
	by := wrongBy
	if len(s.processes)%2 == 1 {
		by = -wrongBy
	}
	return func() time.Time { return s.now().Add(by) }
}

// later skips s.soon, after which short deadlines and leases have passed. No process may be running. With OwnClock
// it returns at once: the next await takes the real time.
func (s *scene) later() {
	switch {
	case s.place.Bubble:
		testclock.Advance(s.soon)
	case !s.place.OwnClock:
		s.ahead.Add(int64(s.soon))
	}
}

// patience bounds the wait for an expected event, however slow the machine. It is longer than the half minute for which a
// worker leaves a session alone whose claim failed.
func (s *scene) patience() time.Duration {
	if s.place.Bubble {
		return 10 * s.soon
	}
	return 90 * time.Second
}

// option changes the options of a process.
type option func(*engine.Options)

// mortal is for processes that will die: it gives them a short lease.
func (s *scene) mortal() option { return func(o *engine.Options) { o.LeaseTTL = s.soon } }

// process starts a process for the scene's agents.
func (s *scene) process(opts ...option) *process {
	s.Helper()
	st, log := s.st, s.log
	if s.place.Another != nil && len(s.processes) > 0 {
		st = s.place.Another(s.T, s.st)
		if s.place.Log == nil {
			log = st.(driver.LogProvider).EventLog()
		}
	}
	p := &process{s: s, tap: &tap{Store: st, log: log}}
	hooks := s.diary.hooks("", p.alive)
	hooks.TextDelta, hooks.StepContext = nil, nil
	o := &engine.Options{Coalesce: -1, WorkInterval: 20 * time.Millisecond, Now: s.wrongClock(), Hooks: []*cairn.Hooks{hooks}}
	if s.place.Bubble {
		o.WorkInterval = time.Second
	}
	line := p.tap.line()
	if s.place.Log != nil {
		line, o.Log = p.tap.withoutLog(), p.tap.EventLog()
	}
	if s.recorded || s.host.Records {
		line = p.tap.withRecords(line)
	}
	for _, set := range opts {
		set(o)
	}
	p.Engine = s.host.Start(s.T, line, s.agents, o)
	s.processes = append(s.processes, p)
	s.Cleanup(func() { p.leave() })
	return p
}

func (p *process) alive() bool { return !p.tap.isDead() }

// leave closes the engine without waiting for its runs.
func (p *process) leave() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := p.Close(ctx); err != nil && !errors.Is(err, context.Canceled) {
		p.s.Errorf("close: %v", err)
	}
}

// finish stops the workers and waits for every run that is still running.
func (s *scene) finish() {
	for _, stop := range s.workers {
		stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.patience())
	defer cancel()
	for _, p := range s.processes {
		if err := p.Close(ctx); err != nil {
			s.Errorf("a run did not come to an end: %v", err)
		}
	}
}

// work runs the process's worker until the scene ends.
func (p *process) work() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Work(ctx) }()
	p.s.workers = append(p.s.workers, sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil && p.alive() {
			p.s.Errorf("work: %v", err)
		}
	}))
	p.s.Cleanup(p.s.workers[len(p.s.workers)-1])
}

// say adds a line to the scenario's golden text.
func (s *scene) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, fmt.Sprintf(format, args...))
}

// count records that a tool ran.
func (s *scene) count(tool string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ran[tool]++
	return s.ran[tool]
}

// must fails the scene on an error.
func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// want fails the scene if an error is not of the sentinel's kind, and adds its message to the golden text.
func (s *scene) want(what string, err error, want cairn.Code) {
	s.Helper()
	var e *cairn.Error
	switch {
	case !errors.Is(err, want):
		s.Fatalf("%s: error %v, want one of code %q", what, err, want)
	case !errors.As(err, &e):
		s.Fatalf("%s: error %v is not a *cairn.Error", what, err)
	}
	s.say("%s: %s: %s", what, e.Code, e.Message)
}

// start executes a turn of the bot.
func (p *process) start(session, text string, opts ...engine.RunOption) *engine.Run {
	p.s.Helper()
	run, err := p.Execute(p.s.Context(), session, "bot", cairn.Text(text), opts...)
	p.s.must(err)
	return run
}

// turn executes a turn of the bot and returns its outcome.
func (p *process) turn(session, text string, opts ...engine.RunOption) *cairn.Result {
	p.s.Helper()
	return p.s.outcome(p.start(session, text, opts...))
}

// resume resumes a session and returns the outcome.
func (p *process) resume(session string, opts ...engine.RunOption) *cairn.Result {
	p.s.Helper()
	run, err := p.Resume(p.s.Context(), session, opts...)
	p.s.must(err)
	return p.s.outcome(run)
}

// retry retries a session's failed turn and returns the outcome.
func (p *process) retry(session string, opts ...engine.RunOption) *cairn.Result {
	p.s.Helper()
	run, err := p.Retry(p.s.Context(), session, opts...)
	p.s.must(err)
	return p.s.outcome(run)
}

// outcome waits for a run's outcome.
func (s *scene) outcome(run *engine.Run) *cairn.Result {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), s.patience())
	defer cancel()
	res, err := run.Wait(ctx)
	if res.Status == cairn.RunRunning {
		s.Fatalf("run %s has no outcome: %v", run.ID(), err)
	}
	return res
}

// submit answers a call of a tree and checks the outcome.
func (p *process) submit(root string, answer cairn.Submission, want cairn.Outcome) cairn.Receipt {
	p.s.Helper()
	r, err := p.Submit(p.s.Context(), root, answer)
	if r.Outcome != want || err != nil {
		p.s.Fatalf("submission: %s, want %s; error %v", r.Outcome, want, err)
	}
	text := fmt.Sprintf("%s of %s: %s", answer.Type, answer.CallID, r.Outcome)
	if r.Ready {
		text += ", ready"
	}
	p.s.say("%s", text)
	return r
}

// open returns the one open call of a tool in a tree.
func (s *scene) open(root, tool string) cairn.CallRef {
	s.Helper()
	var list []cairn.CallRef
	for _, call := range s.openCalls(root) {
		if call.Tool == tool {
			list = append(list, call.CallRef)
		}
	}
	if len(list) != 1 {
		s.Fatalf("%d open calls of %s in the tree of %s, want one", len(list), tool, root)
	}
	return list[0]
}

// openCalls returns the open calls of a tree.
func (s *scene) openCalls(root string) []cairn.PendingCall {
	s.Helper()
	page, err := s.st.Calls(s.Context(), driver.CallQuery{RootID: root, Statuses: []cairn.CallStatus{cairn.CallOpen}})
	s.must(err)
	return page.Items
}

// awaitEvent follows a tree's log until accept reports true for an event, and returns that event.
func (s *scene) awaitEvent(root, what string, accept func(*cairn.Event) bool) cairn.Event {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), s.patience())
	defer cancel()
	for ev, err := range s.log.Follow(ctx, s.row(root).Log(), 0) {
		s.must(err)
		if accept(&ev) {
			return ev
		}
	}
	s.Fatalf("waited in vain for %s; the log has:\n%s", what, s.tail(root))
	return cairn.Event{}
}

// tail returns the events of a tree for a failure message.
func (s *scene) tail(root string) string {
	events, err := allEvents(context.Background(), s.log, s.row(root).Log())
	var b strings.Builder
	for i := range events {
		fmt.Fprintf(&b, "%s: %s\n", events[i].SessionID, eventLine(&events[i]))
	}
	if err != nil {
		fmt.Fprintln(&b, err)
	}
	return b.String()
}

// awaitEnd waits for the n-th end of a run of the session, and for its hooks.
func (s *scene) awaitEnd(session string, n int) {
	s.Helper()
	ends := 0
	s.awaitEvent(s.row(session).RootID, fmt.Sprintf("the end of run %d of %s", n, session), func(ev *cairn.Event) bool {
		if ev.Type == cairn.EventRunEnd && ev.SessionID == session {
			ends++
		}
		return ends == n
	})
	s.awaitHooks(session, n)
}

// awaitHooks waits until hooks have run for n ends of runs of the session.
func (s *scene) awaitHooks(session string, n int) {
	s.Helper()
	testclock.Await(s.T, "the hooks", func() bool { return s.diary.ends(session) >= n })
}

// awaitDeath waits until a dead process's run can no longer be driven, and makes its lease lapse.
func (s *scene) awaitDeath(run *engine.Run) {
	s.Helper()
	res, err := run.Wait(context.Background())
	if res.Status != cairn.RunRunning {
		s.Fatalf("the run of the dead process came to an end: %s (%s)", res.Status, res.Reason)
	}
	if err == nil {
		s.Fatal("the run of the dead process has neither an outcome nor an error")
	}
	s.later()
}

// row returns a session's row.
func (s *scene) row(id string) *cairn.Session {
	s.Helper()
	row, err := driver.Load(s.Context(), s.st, id)
	s.must(err)
	return row
}

// child returns the only child of a session.
func (s *scene) child(parent string) string {
	s.Helper()
	page, err := s.st.List(s.Context(), driver.SessionQuery{ParentID: parent})
	s.must(err)
	if len(page.Items) != 1 {
		s.Fatalf("session %s has %d children, want one", parent, len(page.Items))
	}
	return page.Items[0].ID
}

func withText(text string) engine.RunOption { return engine.WithInput(cairn.Text(text)) }

func callsOf(root string) driver.CallQuery { return driver.CallQuery{RootID: root} }
