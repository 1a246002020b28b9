package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
)

// waiting starts a demo with a pending refund.
func (b *bench) waiting(t *testing.T) *process {
	t.Helper()
	p := b.start(t, "demo")
	p.say("Order 42 arrived broken")
	p.until("waits for approval until")
	p.until("  waiting · ")
	p.until("\n")
	return p
}

// TestKilledWhilePending kills the demo while a refund is pending. However the refund is answered and the session
// resumed, the result is the same.
func TestKilledWhilePending(t *testing.T) {
	t.Parallel()
	refused := append(wholeAnswer[:6:6], "tool ← refund denied", "assistant: I could not refund order 42: it was not approved: no.")
	for name, test := range map[string]struct {
		settle func(t *testing.T, b *bench)
		want   []string
	}{
		"approved, then the demo": {func(t *testing.T, b *bench) {
			b.settle(t, cli.ExitOK, "approve", "call_", "--reviewer", "carol")
			wantSpoken(t, b.start(t, "demo"), "were decided: resuming it.", "Done: 24.50 EUR")
		}, wholeAnswer},
		"denied, then the demo": {func(t *testing.T, b *bench) {
			b.settle(t, cli.ExitOK, "deny", "call_", "--reason", "no")
			wantSpoken(t, b.start(t, "demo"), "were decided: resuming it.", "error: not approved by the user: no", "I could not refund")
		}, refused},
		"the demo asks again": {func(t *testing.T, b *bench) {
			again := b.start(t, "demo")
			again.say("y")
			wantSpoken(t, again, "waits for approval until", "Approve refund of 24.50 EUR for order 42", "Done: 24.50 EUR")
		}, wholeAnswer},
		"the demo approves": {func(t *testing.T, b *bench) {
			wantSpoken(t, b.start(t, "demo", "-y"), "waits for approval until", "approved: --yes", "Done: 24.50 EUR")
		}, wholeAnswer},
		"a worker before the approval": {func(t *testing.T, b *bench) {
			worker := b.start(t, "work")
			readUntil(t, worker.stderr, "Ctrl-C ends.")
			b.settle(t, cli.ExitOK, "approve", "call_")
			readUntil(t, worker.stderr, `"run ended" session=demo`)
		}, wholeAnswer},
		"a worker after the denial": {func(t *testing.T, b *bench) {
			b.settle(t, cli.ExitOK, "deny", "call_", "--reason", "no")
			readUntil(t, b.start(t, "work").stderr, `"run ended" session=demo`)
		}, refused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			p := b.waiting(t)
			p.signal(syscall.SIGKILL)
			p.end()
			if s := b.session(t); s.Status != cairn.SessionPaused || s.OpenCalls != 1 {
				t.Fatalf("the session is %s and waits for %d calls", s.Status, s.OpenCalls)
			}
			test.settle(t, b)
			wantTranscript(t, b, test.want)
			refunds := 1
			if len(test.want) != len(wholeAnswer) || test.want[6] != wholeAnswer[6] {
				refunds = 0
			}
			wantRefunds(t, b, refunds)
			if s := b.session(t); s.Status != cairn.SessionCompleted {
				t.Errorf("the session is %s", s.Status)
			}
		})
	}
}

// wantSpoken ends a demo and checks that it printed each of the texts once, in order.
func wantSpoken(t *testing.T, p *process, parts ...string) {
	t.Helper()
	stdout, stderr, code := p.end()
	if code != cli.ExitOK || stderr != "" {
		t.Errorf("exit %d: %q", code, stderr)
	}
	at := 0
	for _, part := range parts {
		i := strings.Index(stdout[at:], part)
		if i < 0 || strings.Count(stdout, part) != 1 {
			t.Errorf("%q is printed %d times, or not after what comes before it:\n%s", part, strings.Count(stdout, part), stdout)
			return
		}
		at += i
	}
}

// TestAnsweredElsewhere has another reviewer answer while the demo asks. The demo names the reviewer and resumes the
// session.
func TestAnsweredElsewhere(t *testing.T) {
	t.Parallel()
	const faster = "Nothing changed: refund of session demo was already approved by carol on "
	for name, test := range map[string]struct {
		again  bool   // the demo is killed and started again
		resume bool   // another process also resumes the session
		says   string // answer typed at the demo; empty for none
		shows  []string
	}{
		"approved": {says: "n", shows: []string{faster, "→ refund", "Done: 24.50 EUR", "completed · 1 model call · 1 tool call"}},
		"resumed":  {says: "n", resume: true, shows: []string{faster, "→ refund", "Done: 24.50 EUR", "completed · 1 model call · 1 tool call"}},
		"resumed, by a demo that found it pending": {again: true, says: "n", resume: true,
			shows: []string{"waits for approval until", faster, "→ refund", "Done: 24.50 EUR", "completed · 1 model call · 1 tool call"}},
		"resumed, no answer":  {resume: true, shows: []string{"→ refund", "Done: 24.50 EUR", "completed · 1 model call · 1 tool call"}},
		"approved, no answer": {shows: []string{"→ refund", "Done: 24.50 EUR", "completed · 1 model call · 1 tool call"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			p := b.waiting(t)
			if test.again {
				p.signal(syscall.SIGKILL)
				p.end()
				p = b.start(t, "demo")
				p.until("waits for approval until")
			}
			b.settle(t, cli.ExitOK, "approve", "call_", "--reviewer", "carol")
			if test.resume {
				b.start(t, "demo").end()
			}
			if test.says != "" {
				p.say(test.says)
				p.say("thank you")
				test.shows = append(test.shows, "You are welcome.")
			}
			wantSpoken(t, p, test.shows...)
			wantRefunds(t, b, 1)
		})
	}
}

// TestTakenElsewhere has a second demo wait for a refund while the first one is at the prompt. A message typed
// there does not cancel the refund, but follows it.
func TestTakenElsewhere(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		says   string
		shows  []string
		sleeps bool // the second demo sleeps until the end
	}{
		{"thank you", []string{"you: thank you", "Approve refund", "Done: 24.50 EUR", "You are welcome."}, false},
		{"/resume", []string{"you: /resume", "Approve refund", "Done: 24.50 EUR"}, false},
		{"/resume", []string{"you: /resume", "Approve refund", "Done: 24.50 EUR"}, true},
	} {
		b := newBench(t)
		first := b.start(t, "demo")
		first.say("hello")
		first.until("completed")
		second := b.waiting(t)
		if test.sleeps {
			second.signal(syscall.SIGSTOP)
		}
		first.say(test.says)
		first.until("waits for approval until")
		first.say("y")
		wantSpoken(t, first, test.shows...)
		second.signal(syscall.SIGCONT)
		wantSpoken(t, second, "Done: 24.50 EUR")
		wantRefunds(t, b, 1)
	}
}

// TestAsksWhereItIsClaimed has a reviewer claim the refund while the demo asks about it.
func TestAsksWhereItIsClaimed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.waiting(t)
	b.settle(t, cli.ExitOK, "claim", "call_", "--reviewer", "carol")
	p.say("y")
	stdout, stderr, code := p.end()
	if code != cli.ExitFailure || !strings.Contains(stderr, `is claimed by "carol" until`) || !strings.Contains(stdout, "inbox approve call_") {
		t.Errorf("exit %d: %q\n%s", code, stderr, stdout)
	}
	if out := b.settle(t, cli.ExitOK, "list"); !strings.Contains(out, "carol until ") {
		t.Errorf("the refund does not wait any more:\n%s", out)
	}
}

// TestTerminatedWhilePending terminates the demo while a refund is pending: it prints how to answer the call.
func TestTerminatedWhilePending(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT} {
		b := newBench(t)
		p := b.waiting(t)
		p.signal(s)
		stdout, stderr, code := p.end()
		if code != cli.ExitOK || stderr != "" || !strings.Contains(stdout, " inbox approve call_") {
			t.Errorf("%s: exit %d: %q\n%s", s, code, stderr, stdout)
		}
		if s := b.session(t); s.Status != cairn.SessionPaused {
			t.Errorf("the session is %s", s.Status)
		}
	}
}

// TestCommandsThatArePrinted checks that commands are printed in shell syntax.
func TestCommandsThatArePrinted(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"cairn":                           "cairn",
		"bin/cairn":                       "bin/cairn",
		"my tools/cairn":                  "'my tools/cairn'",
		"cache/go-build/ab/cd-d/cairn":    "go run ./cmd/cairn",
		"temp/go-build123/b001/exe/cairn": "go run ./cmd/cairn",
	} {
		if got := cli.Called(name); got != want {
			t.Errorf("%s is called as %s, want %s", name, got, want)
		}
	}
	b := newBench(t)
	b.env["CAIRN_DB"] = filepath.Join(b.dir, "ada's.db")
	stdout, _, _ := b.run("Order 42 arrived broken\n", "demo", "--session", "one two")
	for _, want := range []string{` --db 'DIR/ada'\''s.db'`, ` demo --session 'one two' --db `} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not printed:\n%s", want, stdout)
		}
	}
}
