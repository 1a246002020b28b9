package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
)

// openTerminal returns both ends of a new pseudo-terminal.
func openTerminal(t *testing.T) (controller, terminal *os.File) {
	t.Helper()
	controller, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { controller.Close() })
	control := func(request uintptr, value *uint32) {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, controller.Fd(), request, uintptr(unsafe.Pointer(value))); errno != 0 {
			t.Fatal(errno)
		}
	}
	var unlock, number uint32
	control(syscall.TIOCSPTLCK, &unlock)
	control(syscall.TIOCGPTN, &number)
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return controller, terminal
}

// startAt starts the command at a new terminal.
func (b *bench) startAt(t *testing.T, args ...string) (cmd *exec.Cmd, keys *os.File, shown *bufio.Reader) {
	t.Helper()
	controller, terminal := openTerminal(t)
	cmd = exec.Command(os.Args[0], args...)
	cmd.Env = []string{asCairn + "=1", "GORACE=" + os.Getenv("GORACE"), "CAIRN_DB=" + b.env["CAIRN_DB"], "TERM=xterm"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return cmd, controller, bufio.NewReader(controller)
}

const (
	ctrlC = "\x03"
	ctrlD = "\x04"
)

// prompt is shown where a message can be typed.
const prompt = "\x1b[1m\x1b[36myou: \x1b[0m\x1b[0m"

// press types at a terminal.
func press(t *testing.T, keys *os.File, text string) {
	t.Helper()
	if _, err := keys.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// interruptAndResume stops an answer halfway and has it completed.
func interruptAndResume(t *testing.T, keys *os.File, shown *bufio.Reader) {
	t.Helper()
	press(t, keys, ctrlC)
	if text := readUntil(t, shown, prompt); !strings.Contains(text, "interrupted · ") {
		t.Errorf("Ctrl-C: %q", text)
	}
	press(t, keys, "/resume\r")
	if text := readUntil(t, shown, prompt); !strings.Contains(text, "completed · ") {
		t.Errorf("/resume: %q", text)
	}
}

// TestTerminal types at a terminal: it asks, stops an answer, resumes it, and leaves.
func TestTerminal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cmd, keys, shown := b.startAt(t, "demo", "--yes", "--pace", "20ms")
	readUntil(t, shown, prompt)
	press(t, keys, "Order 42 arrived broken\r")
	readUntil(t, shown, "I am asking ")
	interruptAndResume(t, keys, shown)
	press(t, keys, ctrlD)
	if err := cmd.Wait(); err != nil {
		t.Errorf("Ctrl-D: %v", err)
	}
	wantTranscript(t, b, wholeAnswer)
}

// TestApproveAtTheTerminal is asked about a refund. At first it does not understand the question, then it gives
// invalid arguments, and leaves the call. The last time it gives another reason.
func TestApproveAtTheTerminal(t *testing.T) {
	t.Parallel()
	const question = "\x1b[1m\x1b[36mApprove refund of 24.50 EUR for order 42 (Espresso cups, set of 4, broken)? [y]es / [n]o / [e]dit / [l]ater: \x1b[0m\x1b[0m"
	b := newBench(t)
	type step struct{ shown, keys string }
	sit := func(steps ...step) {
		t.Helper()
		cmd, keys, shown := b.startAt(t, "demo", "--pace", "0s")
		for _, s := range steps {
			readUntil(t, shown, s.shown)
			press(t, keys, s.keys)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	left := step{" inbox approve call_", ""}
	sit(step{"you: ", "Order 42 arrived broken\r"}, step{question, "what?\r"}, step{"leave it for later", ""},
		step{question, "e\r"}, step{"New arguments: ", `{"order":"x"}` + "\r"}, step{"violates the schema", ""}, step{question, "l\r"}, left)
	sit(step{question, ctrlC}, left)
	sit(step{question, ctrlD}, left)
	if s := b.session(t); s.Status != cairn.SessionPaused {
		t.Errorf("the session is %s", s.Status)
	}
	sit(step{question, "e\r"}, step{"New arguments: ", `{"order":42,"reason":"late"}` + "\r"}, step{`→ refund {"order":42,"reason":"late"}`, ""},
		step{"Done: 24.50 EUR", ""}, step{"you: ", "/quit\r"})
	wantTranscript(t, b, wholeAnswer)
	wantRefunds(t, b, 1)
}

// TestApproveFromAnotherTerminal approves a refund elsewhere while the demo asks about it: the demo resumes the answer.
// What another process says is shown at the prompt as well.
func TestApproveFromAnotherTerminal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cmd, keys, shown := b.startAt(t, "demo", "--pace", "0s")
	readUntil(t, shown, prompt)
	press(t, keys, "Order 42 arrived broken\r")
	readUntil(t, shown, "[l]ater: ")
	b.settle(t, cli.ExitOK, "approve", "call_")
	readUntil(t, shown, "Done: 24.50 EUR")
	readUntil(t, shown, prompt)
	b.everyday = true
	b.run("thank you\n", "demo")
	readUntil(t, shown, "You are welcome.")
	readUntil(t, shown, prompt)
	press(t, keys, ctrlD)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	wantRefunds(t, b, 1)
}

// TestCtrlCAtThePrompt leaves with Ctrl-C.
func TestCtrlCAtThePrompt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cmd, keys, shown := b.startAt(t, "demo")
	readUntil(t, shown, "you: ")
	press(t, keys, ctrlC)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestDeleteAsks answers the question before a deletion.
func TestDeleteAsks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.everyday = true // as the processes that it starts
	b.run("hello\n", "demo")
	for _, test := range []struct {
		answer string
		code   int
	}{{"\r", cli.ExitFailure}, {"n\r", cli.ExitFailure}, {ctrlD, cli.ExitFailure}, {"y\r", cli.ExitOK}} {
		cmd, keys, shown := b.startAt(t, "sessions", "delete", "demo")
		readUntil(t, shown, "Delete session demo with its 2 messages? [y/N] ")
		press(t, keys, test.answer)
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != test.code {
			t.Errorf("%q: exit %d, want %d", test.answer, code, test.code)
		}
	}
	if _, _, code := b.run("", "sessions", "show", "demo"); code != cli.ExitNotFound {
		t.Errorf("the session is still there: exit %d", code)
	}
}

// TestChatAtTheTerminal stops an answer of a server, resumes it, and leaves.
func TestChatAtTheTerminal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.serve(t, b.file(t, "cairn.yaml", "  - {name: guide, model: 'scripted:200ms', tools: [{client: get_location, description: Where.}]}"))
	cmd, keys, shown := b.startAt(t, "chat", "--url", s.url, "--token", aliceToken, "--agent", "guide")
	readUntil(t, shown, prompt)
	press(t, keys, "hello\r")
	readUntil(t, shown, "You said:")
	interruptAndResume(t, keys, shown)
	press(t, keys, "location\r")
	readUntil(t, shown, "Result for get_location {} (/help): ")
	press(t, keys, "/help\r")
	readUntil(t, shown, "/later")
	readUntil(t, shown, "Result for get_location {} (/help): ")
	press(t, keys, "Bern\r")
	if text := readUntil(t, shown, prompt); !strings.Contains(text, `returned "Bern"`) {
		t.Errorf("the result: %q", text)
	}
	press(t, keys, ctrlD)
	readUntil(t, shown, "To continue:")
	if err := cmd.Wait(); err != nil {
		t.Errorf("Ctrl-D: %v", err)
	}
	s.signal(syscall.SIGTERM)
	s.end()
}
