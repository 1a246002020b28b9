package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// program is a Process that runs as a program of this machine, which confines the command.
type program struct {
	cmd    *exec.Cmd
	before func() // before the process group is killed
	done   chan struct{}
	// The result, once done is closed.
	status int
	err    error
	dead   bool // killed by Kill; guarded by mu
	mu     sync.Mutex
}

// startProgram starts a program that confines a command. setUp reports whether the command was reached: otherwise the
// program's failure is that of the sandbox. kill, which may be nil, is called before the program is killed.
func startProgram(cmd *exec.Cmd, c *Command, setUp func() bool, kill func()) (Process, error) {
	if len(c.Input) > 0 {
		cmd.Stdin = bytes.NewReader(c.Input)
	}
	first := &output{limit: 2000}
	out := io.MultiWriter(c.Output, first)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = time.Second // for processes that have left the group but hold the output
	confine(cmd)
	p := &program{cmd: cmd, before: kill, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel kills the program when the thread that has started it ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			err = cmd.Wait()
			p.finish(err, setUp(), first.text())
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// finish records the result.
func (p *program) finish(err error, setUp bool, output string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer close(p.done)
	var exit *exec.ExitError
	switch {
	case p.dead:
		p.status = -1
	case !setUp:
		p.err = fmt.Errorf("the sandbox failed: %s", strings.TrimSpace(fmt.Sprintf("%v: %s", err, output)))
	case errors.As(err, &exit):
		p.status = exit.ExitCode()
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		p.err = err
	}
}

// Wait implements Process.
func (p *program) Wait() (int, error) {
	<-p.done
	return p.status, p.err
}

// Kill implements Process.
func (p *program) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.done:
		return
	default:
	}
	p.dead = true
	if p.before != nil {
		p.before()
	}
	killGroup(p.cmd)
}

// probe runs a script that checks from within that a sandbox holds.
func probe(d Runner, script string, most time.Duration) error {
	out := &output{limit: 2000}
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	p, err := d.Start(ctx, Command{Args: []string{"/bin/sh", "-c", script}, Dir: ".", Output: out})
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, p.Kill)
	defer stop()
	status, err := p.Wait()
	if err == nil && status != 0 {
		err = fmt.Errorf("the sandbox does not hold: the probe ended with status %d: %s", status, out.text())
	}
	return err
}
