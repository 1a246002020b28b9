package hosttest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
)

// attempts are scenarios of tools that are called again after an error, and of the error texts they return.
var attempts = []scenario{
	{"tool-retries", (*scene).toolRetries},
	{"tool-retries-stopped", (*scene).toolRetriesStopped},
	{"tool-retries-crashed", (*scene).toolRetriesCrashed},
	{"tool-error-texts", (*scene).toolErrorTexts},
}

// quick is a retry policy with negligible delays.
var quick = cairn.RetryPolicy{Max: 2, First: time.Millisecond}

// flaky is a tool that writes state, and then fails with the error that fail returns for its n-th execution.
func (s *scene) flaky(name string, fail func(ctx context.Context, n int) error, opts ...cairn.ToolOption) cairn.Tool {
	var key string
	return cairn.Func(name, "Does "+name+".", func(ctx context.Context, call *cairn.Call, in words) (string, error) {
		n := s.count(name)
		s.mu.Lock()
		if key != "" && key != call.IdempotencyKey() {
			s.Error("the key changed")
		}
		key = call.IdempotencyKey()
		s.mu.Unlock()
		had, err := cairn.State[map[string][]string](call)
		if err != nil || len(had["notes"]) > 0 {
			s.Errorf("attempt %d of %s sees what another one wrote: %v, %v", n, name, had, err)
		}
		if err := call.Append([]string{"notes"}, fmt.Sprintf("%s %d", in.Text, n)); err != nil {
			return "", err
		}
		call.RecordUsage(name, 1)
		return fmt.Sprintf("done at %d", n), fail(ctx, n)
	}, opts...)
}

// away returns a retryable error.
func away() error { return cairn.Errorf(cairn.ErrUnavailable, "the bank does not answer") }

// Retryable errors are retried with the same key. What a failed attempt wrote is dropped, except for its usage.
func (s *scene) toolRetries() {
	twice := s.flaky("twice", func(_ context.Context, n int) error {
		if n < 3 {
			return away()
		}
		return nil
	}, cairn.Retry(quick))
	never := s.flaky("never", func(context.Context, int) error { return away() }, cairn.Retry(quick))
	broken := s.flaky("broken", func(context.Context, int) error { return errors.New("no such account") }, cairn.Retry(quick))
	chosen := quick
	chosen.When = func(err error) bool { return err.Error() == "busy" }
	busy := s.flaky("busy", func(_ context.Context, n int) error {
		if n == 1 {
			return errors.New("busy")
		}
		return away()
	}, cairn.Retry(chosen))
	once := s.flaky("once", func(context.Context, int) error { return away() })
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "twice", "a"), asks("c2", "never", "b"), asks("c3", "broken", "c"), asks("c4", "busy", "d"), asks("c5", "once", "e")),
		scripted.Text("So it is.")), twice, never, broken, busy, once)}
	s.process().turn("s", "go")
}

// A stop ends the wait for the next attempt.
func (s *scene) toolRetriesStopped() {
	s.agents = []*cairn.Agent{bot(plays(asks("c1", "never", "b"), scripted.Text("Bye.")),
		s.flaky("never", func(context.Context, int) error { return away() }, cairn.Retry(cairn.RetryPolicy{First: time.Hour, Limit: time.Hour})))}
	one, two := s.process(), s.process()
	run := one.start("s", "go")
	s.atWork("never")
	s.must(two.Interrupt(s.Context(), "s", "enough"))
	s.outcome(run)
	two.resume("s")
}

// A process that takes over the call begins with the attempt that was under way.
func (s *scene) toolRetriesCrashed() {
	s.agents = []*cairn.Agent{bot(plays(asks("c1", "flaky", "b"), scripted.Text("Bye.")),
		s.flaky("flaky", func(ctx context.Context, n int) error {
			if n == 2 {
				<-ctx.Done()
			}
			return away()
		}, cairn.Retry(quick)))}
	s.agents[0].Durability = cairn.PerTool
	one := s.process(s.mortal())
	run := one.start("s", "go")
	testclock.Await(s.T, "the second attempt", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.ran["flaky"] == 2
	})
	one.die()
	one.leave() // otherwise it would keep running until its lease lapses
	s.awaitDeath(run)
	s.process().work()
	s.awaitEnd("s", 1)
}

// The model, the transcript and the log contain the error text that the tool or the agent chooses.
func (s *scene) toolErrorTexts() {
	fails := func(name string, opts ...cairn.ToolOption) cairn.Tool {
		return s.tool(name, func(context.Context, *cairn.Call, words) (string, error) {
			return "", errors.New("host 10.0.0.7 refused")
		}, opts...)
	}
	texts := cairn.ErrorText(func(err error) string { return "it did not work: " + err.Error()[:4] })
	bad := cairn.ErrorText(func(error) string { panic("no words") })
	boom := s.tool("boom", func(context.Context, *cairn.Call, words) (string, error) { panic("secret") })
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "own", "x"), asks("c2", "plain", "x"), asks("c3", "wordless", "x"), asks("c4", "boom", "x"),
			scripted.Call("own", map[string]int{"text": 1}).ID("c5")),
		scripted.Text("So it is.")), fails("own", texts), fails("plain"), fails("wordless", bad), boom)}
	s.agents[0].ErrorText = func(error) string { return "the service is away" }
	s.agents[0].ShowToolErrors = true
	s.process().turn("s", "go")
}
