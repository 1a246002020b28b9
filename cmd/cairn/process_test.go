package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/shop"
)

// process is the command in its own process, which can be killed.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr *bufio.Reader
	shown  strings.Builder // output read so far
}

// start starts the command on the bench's database. Of this process's environment it gets only the race detector's
// options.
func (b *bench) start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(cmp.Or(b.program, os.Args[0]), args...)}
	p.cmd.Env = []string{asCairn + "=1", "GORACE=" + os.Getenv("GORACE")}
	for name, value := range b.env {
		p.cmd.Env = append(p.cmd.Env, name+"="+value)
	}
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdout, p.stderr = bufio.NewReader(stdout), bufio.NewReader(stderr)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
	})
	return p
}

// say writes a line to the command.
func (p *process) say(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.stdin, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

// until reads the command's output up to and including the text.
func (p *process) until(text string) {
	p.t.Helper()
	p.shown.WriteString(readUntil(p.t, p.stdout, text))
}

func readUntil(t *testing.T, r *bufio.Reader, text string) string {
	t.Helper()
	var read strings.Builder
	for !strings.HasSuffix(read.String(), text) {
		c, _, err := r.ReadRune()
		if err != nil {
			t.Fatalf("%v before %q was printed:\n%s", err, text, read.String())
		}
		read.WriteRune(c)
	}
	return read.String()
}

// signal sends a signal.
func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// end closes the command's input, unless it is closed, and returns all of its output and its exit code.
func (p *process) end() (stdout, stderr string, code int) {
	p.t.Helper()
	_ = p.stdin.Close()
	rest, err := io.ReadAll(p.stdout)
	if err != nil {
		p.t.Fatal(err)
	}
	p.shown.Write(rest)
	errs, err := io.ReadAll(p.stderr)
	if err != nil {
		p.t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := p.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return p.shown.String(), string(errs), p.cmd.ProcessState.ExitCode()
}

// session returns the session "demo" as the sessions command prints it.
func (b *bench) session(t *testing.T) (s cairn.Session) {
	t.Helper()
	b.query(t, &s, "show", "demo")
	return s
}

// query runs a sessions command with --json and decodes its output, or the items of a list.
func (b *bench) query(t *testing.T, into any, args ...string) {
	t.Helper()
	out := b.runNow(t, cli.ExitOK, append([]string{"sessions", "--json"}, args...)...)
	if reflect.TypeOf(into).Elem().Kind() == reflect.Slice {
		into = &struct{ Items any }{into}
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		t.Fatal(err)
	}
}

// settle runs an inbox command and returns its output.
func (b *bench) settle(t *testing.T, code int, args ...string) string {
	t.Helper()
	return b.runNow(t, code, append([]string{"inbox"}, args...)...)
}

// runNow runs a command at the real time, unlike bench.run: a lease may have lapsed.
func (b *bench) runNow(t *testing.T, want int, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(args, b.env, strings.NewReader(""), &out, &errs); code != want {
		t.Fatalf("%q: exit %d, want %d: %s", args, code, want, errs.String())
	}
	return out.String()
}

// wholeAnswer is the whole answer to "Order 42 arrived broken".
var wholeAnswer = []string{
	"user: Order 42 arrived broken",
	"assistant: Let me look up order 42.",
	"assistant → lookup_order",
	"tool ← lookup_order",
	"assistant: I am sorry that it arrived broken. I am asking a colleague to approve the refund of 24.50 EUR for order 42 (Espresso cups, set of 4).",
	"assistant → refund",
	"tool ← refund",
	"assistant: Done: 24.50 EUR for order 42 are on their way back to you (refund 1). Nothing needs to be sent back.",
}

// transcript returns the session's messages, abbreviated, with adjacent texts of the agent joined.
func (b *bench) transcript(t *testing.T) []string {
	t.Helper()
	var messages []cairn.Message
	b.query(t, &messages, "messages", "demo")
	var list []string
	speaking := false
	for _, m := range messages {
		for _, p := range m.Parts {
			switch {
			case m.Hidden || p.Type == cairn.PartReasoning:
			case p.Type == cairn.PartToolUse:
				list = append(list, string(m.Role)+" → "+p.ToolUse.Tool)
			case p.Type == cairn.PartToolResult && p.Result.IsError:
				list = append(list, string(m.Role)+" ← "+p.Result.Tool+" "+string(p.Result.Code))
			case p.Type == cairn.PartToolResult:
				list = append(list, string(m.Role)+" ← "+p.Result.Tool)
			case speaking && m.Role == cairn.RoleAssistant:
				list[len(list)-1] += p.Text
			default:
				list = append(list, string(m.Role)+": "+p.Text)
			}
			if !m.Hidden && p.Type != cairn.PartReasoning {
				speaking = m.Role == cairn.RoleAssistant && p.Type == cairn.PartText
			}
		}
	}
	return list
}

func wantTranscript(t *testing.T, b *bench, want []string) {
	t.Helper()
	if got := b.transcript(t); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the transcript is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// wantRefunds checks the number of refunds that the shop has paid.
func wantRefunds(t *testing.T, b *bench, want int) {
	t.Helper()
	s, err := shop.Open(t.Context(), must(filepath.Abs(strings.TrimSuffix(b.env["CAIRN_DB"], ".db")+"-shop.db")), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	refunds := 0
	for number := 41; number <= 52; number++ {
		o, err := s.Order(t.Context(), number)
		if err != nil {
			t.Fatal(err)
		}
		if o.Refund != nil {
			refunds++
		}
	}
	if refunds != want {
		t.Errorf("the shop has paid %d refunds, want %d", refunds, want)
	}
}

// TestKilled kills the demo halfway through its answer. Started again, it completes the same answer, without
// duplicates.
func TestKilled(t *testing.T) {
	t.Parallel()
	for _, moment := range []string{"Looking first", "→ lookup_order", "← ", "I am asking", "→ refund", "Done: 24.50"} {
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			p := b.start(t, "demo", "--yes", "--pace", "50ms")
			p.say("Order 42 arrived broken")
			p.until(moment)
			p.signal(syscall.SIGKILL)
			p.end()
			if s := b.session(t); s.Status != cairn.SessionActive {
				t.Fatalf("the session is %s: it was not killed in the middle", s.Status)
			}

			again := b.start(t, "demo", "--yes")
			stdout, stderr, code := again.end()
			if code != cli.ExitOK || stderr != "" {
				t.Errorf("exit %d: %s", code, stderr)
			}
			// The summary shows what was committed; everything else follows.
			for _, once := range []string{"you: Order 42", "Let me look up", "I am sorry", "Done: 24.50 EUR", "resuming it", "completed"} {
				if n := strings.Count(stdout, once); n != 1 {
					t.Errorf("%q is printed %d times:\n%s", once, n, stdout)
				}
			}
			if strings.Contains(stdout, "was interrupted") {
				t.Errorf("what the dead process said is shown:\n%s", stdout)
			}
			wantTranscript(t, b, wholeAnswer)
			wantRefunds(t, b, 1)
			var runs []cairn.Run
			b.query(t, &runs, "runs", "demo")
			if len(runs) != 2 || runs[0].Reason != cairn.ReasonCalls || runs[1].Status != cairn.RunCompleted {
				t.Errorf("runs: %+v", runs)
			}
		})
	}
}

// TestInterrupted presses Ctrl-C halfway through an answer, and resumes the answer in another process.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.start(t, "demo", "--pace", "50ms")
	p.say("Order 42 arrived broken")
	p.until("I am asking ")
	p.signal(os.Interrupt)
	stdout, stderr, code := p.end()
	if code != cli.ExitFailure || stderr != "cairn: the answer was interrupted\n" || !strings.Contains(stdout, "  interrupted · ") {
		t.Errorf("exit %d: %q\n%s", code, stderr, stdout)
	}
	if s := b.session(t); s.Status != cairn.SessionInterrupted {
		t.Errorf("the session is %s", s.Status)
	}
	half := b.transcript(t)
	if last := half[len(half)-1]; len(half) != 5 || last == wholeAnswer[4] || !strings.HasPrefix(wholeAnswer[4], last) {
		t.Errorf("the partial answer was not kept:\n%s", strings.Join(half, "\n"))
	}
	wantRefunds(t, b, 0)

	again := b.start(t, "demo", "--yes")
	again.say("/resume")
	stdout, stderr, code = again.end()
	if code != cli.ExitOK || stderr != "" || !strings.Contains(stdout, "Enter /resume to resume it") {
		t.Errorf("exit %d: %q\n%s", code, stderr, stdout)
	}
	wantTranscript(t, b, wholeAnswer)
	wantRefunds(t, b, 1)
}

// TestTerminated terminates the demo halfway through a long answer. The demo leaves at once what it cannot finish.
func TestTerminated(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.start(t, "demo", "--pace", "1s")
	p.say("Order 42 arrived broken")
	p.until("This ")
	p.signal(syscall.SIGTERM)
	stdout, stderr, code := p.end()
	if code != cli.ExitOK || stderr != "" || !strings.Contains(stdout, "Stopped in the middle of the answer.") {
		t.Errorf("exit %d: %q\n%s", code, stderr, stdout)
	}
	again := b.start(t, "demo", "--yes")
	if stdout, stderr, code = again.end(); code != cli.ExitOK || strings.Contains(stdout, "Another process") {
		t.Errorf("exit %d: %q\n%s", code, stderr, stdout)
	}
	wantTranscript(t, b, wholeAnswer)
}

// TestTerminatedAtThePrompt ends a demo that waits for a line.
func TestTerminatedAtThePrompt(t *testing.T) {
	t.Parallel()
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGHUP, os.Interrupt} {
		p := newBench(t).start(t, "demo")
		p.say("hello")
		p.until("completed")
		p.until("\n")
		p.signal(s)
		if stdout, stderr, code := p.end(); code != cli.ExitOK || stderr != "" {
			t.Errorf("%s: exit %d: %q\n%s", s, code, stderr, stdout)
		}
	}
}

// TestWatched starts a second demo while the first one answers: it shows that answer and then takes its own turn.
func TestWatched(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.start(t, "demo", "--yes", "--pace", "200ms")
	first.say("Order 42 arrived broken")
	first.until("→ lookup_order")
	second := b.start(t, "demo", "--yes")
	second.say("thank you")
	stdout, stderr, code := second.end()
	if code != cli.ExitOK || stderr != "" {
		t.Errorf("exit %d: %q", code, stderr)
	}
	if !strings.Contains(stdout, "Another process is answering") {
		t.Errorf("it is not said who answers:\n%s", stdout)
	}
	for _, once := range []string{"Done: 24.50 EUR", "You are welcome."} {
		if n := strings.Count(stdout, once); n != 1 {
			t.Errorf("%q is printed %d times:\n%s", once, n, stdout)
		}
	}
	if _, stderr, code := first.end(); code != cli.ExitOK || stderr != "" {
		t.Errorf("the first: exit %d: %q", code, stderr)
	}
	wantTranscript(t, b, append(wholeAnswer[:len(wholeAnswer):len(wholeAnswer)],
		"user: thank you", "assistant: You are welcome. Is there anything else?"))
}

// TestWatchedDies kills the first demo while a second one shows its answer: the second completes it.
func TestWatchedDies(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.start(t, "demo", "--pace", "400ms")
	first.say("Order 42 arrived broken")
	first.until("→ lookup_order")
	second := b.start(t, "demo", "--yes")
	second.until("I am ")
	first.signal(syscall.SIGKILL)
	first.end()
	stdout, stderr, code := second.end()
	if code != cli.ExitOK || stderr != "" || strings.Count(stdout, "The answer was cut off: its last step starts again.") != 1 {
		t.Errorf("exit %d: %q\n%s", code, stderr, stdout)
	}
	wantTranscript(t, b, wholeAnswer)
	wantRefunds(t, b, 1)
}

// TestStopped stops a run from another process.
func TestStopped(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args   []string
		status cairn.SessionStatus
		stderr string
	}{
		{[]string{"stop", "demo"}, cairn.SessionInterrupted, "cairn: the answer was interrupted\n"},
		{[]string{"stop", "demo", "--abort", "--reason", "enough"}, cairn.SessionFailed, "cairn: the run was aborted: enough\n"},
	} {
		b := newBench(t)
		p := b.start(t, "demo", "--pace", "100ms")
		p.say("Order 42 arrived broken")
		p.until("Looking ")
		var s cairn.Session
		if b.query(t, &s, test.args...); s.Status != test.status {
			t.Errorf("%v: the session is %s", test.args, s.Status)
		}
		if stdout, stderr, code := p.end(); code != cli.ExitFailure || stderr != test.stderr {
			t.Errorf("%v: exit %d: %q\n%s", test.args, code, stderr, stdout)
		}
	}
}

// TestFollow follows a session's events until Ctrl-C.
func TestFollow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.everyday = true // as the processes that it starts
	b.run("hello\n", "demo")
	p := b.start(t, "sessions", "events", "demo", "--follow", "--json")
	p.until(`"type":"run_end"`)
	b.run("thank you\n", "demo")
	p.until(`"type":"run_end"`)
	p.signal(os.Interrupt)
	stdout, stderr, code := p.end()
	if code != cli.ExitOK || stderr != "" {
		t.Errorf("exit %d: %q", code, stderr)
	}
	for i, line := range strings.Split(strings.TrimSuffix(stdout, "\n"), "\n") {
		var ev cairn.Event
		if err := json.Unmarshal([]byte(line), &ev); err != nil || ev.Sequence != int64(i+1) {
			t.Errorf("line %d: %v: %s", i+1, err, line)
		}
	}
}

// TestWork kills the demo halfway through its answer and has a worker complete it, once the refund is approved.
func TestWork(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.start(t, "demo", "--pace", "50ms")
	p.say("Order 42 arrived broken")
	p.until("I am asking ")
	p.signal(syscall.SIGKILL)
	p.end()

	worker := b.start(t, "work")
	readUntil(t, worker.stderr, "run suspended\" session=demo")
	b.settle(t, cli.ExitOK, "approve", "call_")
	readUntil(t, worker.stderr, "run ended")
	worker.signal(syscall.SIGTERM)
	if stdout, stderr, code := worker.end(); code != cli.ExitOK || stdout != "" {
		t.Errorf("exit %d: %q %q", code, stdout, stderr)
	}
	if s := b.session(t); s.Status != cairn.SessionCompleted {
		t.Errorf("the session is %s", s.Status)
	}
	wantTranscript(t, b, wholeAnswer)
	wantRefunds(t, b, 1)
}
