// Package process runs an example as a separate program for its test: several times, in sequence or concurrently,
// until it ends, is asked to stop, or is killed.
package process

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// marker is set in the environment of a test binary that is to run the example.
const marker = "CAIRN_EXAMPLE"

// Main runs the example if the test binary was started by Start, else the rest of TestMain.
func Main(example, tests func()) {
	if os.Getenv(marker) != "" {
		example()
		return
	}
	tests()
}

// Process is a running example.
type Process struct {
	cmd    *exec.Cmd
	lines  chan string
	mu     sync.Mutex
	stderr bytes.Buffer
}

// Start starts the example in a directory. It is killed when the test ends.
func Start(t *testing.T, dir string, args ...string) *Process {
	t.Helper()
	p := &Process{cmd: exec.CommandContext(t.Context(), os.Args[0], args...), lines: make(chan string, 1000)}
	p.cmd.Dir, p.cmd.Env, p.cmd.Stderr = dir, append(os.Environ(), marker+"=1"), p
	stdout, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go p.read(stdout)
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

func (p *Process) read(stdout io.Reader) {
	defer close(p.lines)
	for s := bufio.NewScanner(stdout); s.Scan(); {
		p.lines <- s.Text()
	}
}

// Write collects what the process writes to standard error.
func (p *Process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.Write(b)
}

func (p *Process) errors() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

// Await reads lines until one contains text, and returns that line.
func (p *Process) Await(t *testing.T, text string) string {
	t.Helper()
	timer := time.NewTimer(time.Minute)
	defer timer.Stop()
	for {
		select {
		case line, ok := <-p.lines:
			switch {
			case !ok:
				t.Fatalf("the process ended before it wrote %q: %s", text, p.errors())
			case strings.Contains(line, text):
				return line
			}
		case <-timer.C:
			t.Fatalf("the process has not written %q: %s", text, p.errors())
		}
	}
}

// Signal sends a signal to the process.
func (p *Process) Signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// Kill kills the process and waits until it has ended.
func (p *Process) Kill(t *testing.T) {
	t.Helper()
	p.Signal(t, syscall.SIGKILL)
	for range p.lines {
	}
	_ = p.cmd.Wait()
}

// End waits for the end of the process, which must not fail, and returns the lines that were not read yet.
func (p *Process) End(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	for line := range p.lines {
		out.WriteString(line + "\n")
	}
	if err := p.cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, p.errors())
	}
	return out.String()
}

// Run runs the example in a directory to its end and returns its output.
func Run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	return Start(t, dir, args...).End(t)
}

// Fails runs the example in a directory, expects that it exits with a status, and returns what it wrote to standard
// error.
func Fails(t *testing.T, dir string, status int, args ...string) string {
	t.Helper()
	p := Start(t, dir, args...)
	for range p.lines {
	}
	_ = p.cmd.Wait()
	if got := p.cmd.ProcessState.ExitCode(); got != status {
		t.Errorf("the exit status is %d, want %d", got, status)
	}
	return p.errors()
}
