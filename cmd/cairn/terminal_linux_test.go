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

// startAt starts the command at a terminal of its own.
func (b *bench) startAt(t *testing.T, args ...string) (cmd *exec.Cmd, keys *os.File, shown *bufio.Reader) {
	t.Helper()
	controller, terminal := openTerminal(t)
	cmd = exec.Command(os.Args[0], args...)
	cmd.Env = []string{asCairn + "=1", "CAIRN_DB=" + b.env["CAIRN_DB"], "TERM=xterm"}
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

// TestTerminal sits at a terminal: types, stops an answer, goes on with it, and leaves.
func TestTerminal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cmd, keys, shown := b.startAt(t, "demo", "--pace", "20ms")
	press := func(text string) {
		t.Helper()
		if _, err := keys.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	const prompt = "\x1b[1m\x1b[36myou: \x1b[0m\x1b[0m"
	readUntil(t, shown, prompt)
	press("Order 42 arrived broken\r")
	readUntil(t, shown, "I am refunding ")
	press(ctrlC)
	if text := readUntil(t, shown, prompt); !strings.Contains(text, "interrupted · ") {
		t.Errorf("Ctrl-C: %q", text)
	}
	press("/resume\r")
	if text := readUntil(t, shown, prompt); !strings.Contains(text, "completed · ") {
		t.Errorf("/resume: %q", text)
	}
	press(ctrlD)
	if err := cmd.Wait(); err != nil {
		t.Errorf("Ctrl-D: %v", err)
	}
	wantTranscript(t, b, wholeAnswer)
}

// TestCtrlCAtThePrompt leaves.
func TestCtrlCAtThePrompt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cmd, keys, shown := b.startAt(t, "demo")
	readUntil(t, shown, "you: ")
	if _, err := keys.WriteString(ctrlC); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestDeleteAsks answers the question whether to delete.
func TestDeleteAsks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run("hello\n", "demo")
	for _, test := range []struct {
		answer string
		code   int
	}{{"\r", exitFailure}, {"n\r", exitFailure}, {ctrlD, exitFailure}, {"y\r", exitOK}} {
		cmd, keys, shown := b.startAt(t, "sessions", "delete", "demo")
		readUntil(t, shown, "Delete session demo with its 2 messages? [y/N] ")
		if _, err := keys.WriteString(test.answer); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != test.code {
			t.Errorf("%q: exit %d, want %d", test.answer, code, test.code)
		}
	}
	if _, _, code := b.run("", "sessions", "show", "demo"); code != exitNotFound {
		t.Errorf("the session is still there: exit %d", code)
	}
}
