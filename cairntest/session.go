// Package cairntest helps to test agents. [New] returns a session in memory, with its own engine. [NewCall] returns the
// handle that a tool gets, for a test of only the tool. With a model that plays a script (package model/scripted),
// tests need no key and no network.
//
// Everything also works inside testing/synctest, where tool timeouts and model retries take no real time. TTLs and
// deadlines of calls do not need synctest: they depend on the store's clock, which [Session.Advance] moves.
package cairntest

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// Session is a conversation with an agent in a test. Its methods fail the test on unexpected errors. It is not safe
// for concurrent use.
type Session struct {
	// ID is the id of the current session. It is "session" until it is set to another session's id.
	ID string
	// Agent is the name of the agent that [Session.Say] talks to.
	Agent string
	// Engine runs the agents. Use it for everything that Session has no method for.
	Engine *engine.Engine
	// Store is the store that keeps the session.
	Store *memstore.Store

	agents []*cairn.Agent
	opts   engine.Options
	clock  *clock
}

// New returns a session of the first agent, which begins with the first [Session.Say]. The other agents are registered
// too, for agents that consult others by name. The engine's log lines, such as the stack of a tool that panicked, go to
// the log of the test. The engine is closed when the test ends.
func New(t testing.TB, agents ...*cairn.Agent) *Session {
	t.Helper()
	if len(agents) == 0 || agents[0] == nil {
		t.Fatal("cairntest.New: agent is nil")
	}
	logged := &output{to: t.Output()}
	t.Cleanup(logged.end)
	s := &Session{ID: sessionID, Agent: agents[0].Name, agents: agents, clock: &clock{}, opts: engine.Options{
		Coalesce: -1, WorkInterval: time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}}
	s.Store = memstore.New(&memstore.Options{Now: s.clock.now})
	s.open(t)
	t.Cleanup(func() { s.close(t) })
	return s
}

// output is the engine's log output. It discards lines after the test has ended, since abandoned user code may
// return after that.
type output struct {
	mu    sync.Mutex
	to    io.Writer
	ended bool
}

func (o *output) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return len(line), nil
	}
	return o.to.Write(line)
}

func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
}

func (s *Session) open(t testing.TB) {
	t.Helper()
	var err error
	if s.Engine, err = engine.New(s.Store, s.agents, &s.opts); err != nil {
		t.Fatal(err)
	}
}

// close closes the engine without waiting for its runs.
func (s *Session) close(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Engine.Close(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("cairntest: close engine: %v", err)
	}
}

// Restart replaces the engine by another one on the same store, as when another process takes over: everything that is
// not in the store is lost. A run under way is released at once; [Session.Resume] continues it.
func (s *Session) Restart(t testing.TB) {
	t.Helper()
	s.close(t)
	s.open(t)
}

// Say runs a turn with a text to its end and returns its result. If the turn was suspended, the result lists the calls
// that the session waits for. A turn that fails, fails the test: see [Session.SayFails].
func (s *Session) Say(t testing.TB, text string, opts ...engine.RunOption) *cairn.Result {
	t.Helper()
	run, err := s.Engine.Execute(t.Context(), s.ID, s.Agent, cairn.Text(text), opts...)
	return outcome(t, run, err)
}

// SayFails runs a turn that is expected to fail, or not to begin, and returns the error.
func (s *Session) SayFails(t testing.TB, text string, opts ...engine.RunOption) *cairn.Error {
	t.Helper()
	run, err := s.Engine.Execute(t.Context(), s.ID, s.Agent, cairn.Text(text), opts...)
	if err == nil {
		var res *cairn.Result
		if res, err = run.Wait(t.Context()); err == nil {
			t.Fatalf("cairntest: turn did not fail: status %s, text %q", res.Status, res.Text)
		}
	}
	return cairn.AsError(err)
}

// Resume continues a session that was interrupted or rewound, and waits for the run as Say does.
func (s *Session) Resume(t testing.TB, opts ...engine.RunOption) *cairn.Result {
	t.Helper()
	run, err := s.Engine.Resume(t.Context(), s.ID, opts...)
	return outcome(t, run, err)
}

// Retry runs a failed turn again from its last committed step, and waits for the run as Say does.
func (s *Session) Retry(t testing.TB, opts ...engine.RunOption) *cairn.Result {
	t.Helper()
	run, err := s.Engine.Retry(t.Context(), s.ID, opts...)
	return outcome(t, run, err)
}

// outcome waits for a run that a verb began. It fails the test if the run did not begin or failed.
func outcome(t testing.TB, run *engine.Run, err error) *cairn.Result {
	t.Helper()
	if err != nil {
		t.Fatalf("cairntest: begin run: %v", err)
	}
	res, err := run.Wait(t.Context())
	if err != nil {
		t.Fatalf("cairntest: run failed: %v", err)
	}
	return res
}

// Calls returns the open calls of the session and its sub-agents, the oldest first.
func (s *Session) Calls(t testing.TB) []cairn.PendingCall {
	t.Helper()
	page, err := s.Engine.Inbox(t.Context(), store.CallQuery{RootID: s.ID, Limit: 1000})
	if err != nil {
		t.Fatalf("cairntest: pending calls: %v", err)
	}
	return page.Items
}

// Submit answers a pending call, and resumes the session once it waits for no other open calls. It returns the result
// of the resumed run, or else the result of the previous run, which is still suspended.
func (s *Session) Submit(t testing.TB, answer cairn.Submission) *cairn.Result {
	t.Helper()
	if _, err := s.Engine.Submit(t.Context(), s.ID, answer); err != nil {
		t.Fatalf("cairntest: submit answer: %v", err)
	}
	can, err := s.Engine.CanResume(t.Context(), s.ID)
	if err != nil {
		t.Fatalf("cairntest: %v", err)
	}
	if !can.Resume {
		run, err := s.Engine.Attach(t.Context(), s.ID)
		return outcome(t, run, err)
	}
	return s.Resume(t)
}

// Approve approves the oldest call that waits for approval, as Submit does. To change its arguments, or to choose
// among several calls, submit an answer to one of [Session.Calls].
func (s *Session) Approve(t testing.TB) *cairn.Result {
	t.Helper()
	return s.Submit(t, cairn.Approve(s.oldest(t, cairn.CallApproval)))
}

// Deny denies the oldest call that waits for approval, as Submit does. The model reads the reason, if there is one.
func (s *Session) Deny(t testing.TB, reason string) *cairn.Result {
	t.Helper()
	return s.Submit(t, cairn.Deny(s.oldest(t, cairn.CallApproval), reason))
}

// Answer gives the result of the oldest open call of a client-executed tool, or the answer to the oldest question
// of a tool, whichever is older, as Submit does.
func (s *Session) Answer(t testing.TB, value any) *cairn.Result {
	t.Helper()
	return s.Submit(t, cairn.Answer(s.oldest(t, cairn.CallClientTool, cairn.CallQuestion), value))
}

// oldest returns the oldest open call of one of the given kinds.
func (s *Session) oldest(t testing.TB, kinds ...cairn.CallKind) cairn.CallRef {
	t.Helper()
	for _, c := range s.Calls(t) {
		if slices.Contains(kinds, c.Kind) {
			return c.CallRef
		}
	}
	t.Fatalf("cairntest: no open call of kind %s", kinds[0])
	return cairn.CallRef{}
}

// Messages returns the session's transcript, hidden messages included.
func (s *Session) Messages(t testing.TB) []cairn.Message {
	t.Helper()
	list, err := driver.AllMessages(t.Context(), s.Store, s.ID)
	if err != nil {
		t.Fatalf("cairntest: messages: %v", err)
	}
	return list
}

// Events returns the events on the session's log so far, including its sub-agents' events.
func (s *Session) Events(t testing.TB) []cairn.Event {
	t.Helper()
	var all []cairn.Event
	for {
		var after cairn.Cursor
		if len(all) > 0 {
			after = all[len(all)-1].Cursor()
		}
		page, err := s.Engine.History(t.Context(), s.ID, after, 0)
		if err != nil {
			t.Fatalf("cairntest: events: %v", err)
		}
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
	}
}

// State returns the session's state as an S.
func State[S any](t testing.TB, s *Session) S {
	t.Helper()
	state, err := engine.StateAs[S](t.Context(), s.Engine, s.ID)
	if err != nil {
		t.Fatalf("cairntest: state: %v", err)
	}
	return state
}
