// Package testenv starts the servers that tests need: throw-away ones, at most one of each kind for a test binary,
// which end with it.
//
// A package that uses one calls [Main] from its TestMain:
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
//
// A program that is no test, such as a benchmark, uses them within [Run].
package testenv

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// startWithin is how long a server may take until it serves.
	startWithin = time.Minute
	// stopWithin is how long a server may take to end before it is killed.
	stopWithin = 10 * time.Second
	// staleAfter is how old a directory must be to count as left by a dead process.
	staleAfter = time.Minute
	// tailLines is how many lines of a server's log are kept for error messages.
	tailLines = 20

	dirPrefix = "cairn-testenv-"
)

// servers are the servers of this process.
var servers struct {
	sync.Mutex
	managed bool // Run does
	list    []*Server
}

// Main runs the tests of a package, stops the servers they used, and exits. It calls before first, which starts what
// examples need: they have no [testing.T] to ask with.
func Main(m *testing.M, before ...func() error) {
	code := 1
	err := Run(func() error {
		if err := prepare(before); err != nil {
			return err
		}
		code = m.Run()
		return nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// Run calls do, which may start servers, and stops them when it has returned.
func Run(do func() error) error {
	servers.Lock()
	servers.managed = true
	servers.Unlock()
	err := do()
	servers.Lock()
	defer servers.Unlock()
	for _, s := range servers.list {
		s.remove()
	}
	servers.managed, servers.list = false, nil
	return err
}

func prepare(list []func() error) error {
	for _, do := range list {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// program is a server that tests can have.
type program struct {
	name string
	// ready is what a line of its output contains once it serves.
	ready string
	// abort is the signal that ends it at once, as a crash would, with its child processes.
	abort syscall.Signal
	// trusted has it run under the account of this process.
	trusted bool
	// prepare fills the directory of a server and returns its command line.
	prepare func(s *Server) (command []string, err error)
}

// Server is a server of this test binary. Its process dies with the test's, even if that is killed.
type Server struct {
	// Dir is a directory of its own for its data and its sockets, which the account it runs under owns.
	Dir string

	program program
	command []string
	lock    *os.File

	mu      sync.Mutex
	process *process // nil while it is stopped
}

// launch starts a program in a directory of its own.
func launch(what program) (*Server, error) {
	servers.Lock()
	defer servers.Unlock()
	if !servers.managed {
		return nil, fmt.Errorf("testenv: %s: TestMain of this package must call testenv.Main, or a program testenv.Run", what.name)
	}
	sweep()
	s := &Server{program: what}
	err := s.makeDir()
	if err == nil {
		servers.list = append(servers.list, s)
		s.command, err = what.prepare(s)
	}
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("testenv: %s: %w", what.name, err)
	}
	return s, nil
}

// makeDir makes the server's directory, locked for as long as this process lives.
func (s *Server) makeDir() (err error) {
	if s.Dir, err = os.MkdirTemp("", dirPrefix+s.program.name+"-"); err != nil {
		return err
	}
	if s.lock, err = os.Open(s.Dir); err != nil {
		return err
	}
	if err := syscall.Flock(int(s.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("lock %s: %w", s.Dir, err)
	}
	account, err := s.account()
	if err != nil || account == nil {
		return err
	}
	return os.Chown(s.Dir, int(account.Uid), int(account.Gid))
}

// sweep removes the directories of test processes that were killed.
func sweep() {
	list, _ := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	for _, dir := range list {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < staleAfter {
			continue
		}
		f, err := os.Open(dir)
		if err != nil {
			continue // of a live process
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			os.RemoveAll(dir)
		}
		f.Close()
	}
}

// account returns the account that the server runs under, or nil for that of this process.
func (s *Server) account() (*syscall.Credential, error) {
	if s.program.trusted {
		return nil, nil
	}
	return unprivileged()
}

// unprivileged returns the account that servers run under, or nil for that of this process. Servers refuse to run as
// root, or should not.
var unprivileged = sync.OnceValues(func() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		return nil, fmt.Errorf("an account to run servers under: %w", err)
	}
	uid, err1 := strconv.ParseUint(nobody.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(nobody.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
})

// cmd returns a command that runs as the server does.
func (s *Server) cmd(line ...string) (*exec.Cmd, error) {
	account, err := s.account()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Dir = s.Dir
	cmd.Env = append(os.Environ(), "HOME="+s.Dir, "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: account}
	dieWithParent(cmd.SysProcAttr, s.program.abort)
	return cmd, nil
}

// run runs a program to its end, in the server's directory and under its account.
func (s *Server) run(line ...string) error {
	cmd, err := s.cmd(line...)
	if err != nil {
		return err
	}
	// The child dies with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(line, " "), err, out)
	}
	return nil
}

// Start starts a server that was stopped or killed, and returns when it serves.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		return errors.New("it is running already")
	}
	cmd, err := s.cmd(s.command...)
	if err != nil {
		return err
	}
	p := &process{cmd: cmd, ready: s.program.ready, serving: make(chan struct{}), ended: make(chan struct{})}
	go p.attend()
	timer := time.NewTimer(startWithin)
	defer timer.Stop()
	select {
	case <-p.serving:
		s.process = p
		return nil
	case <-p.ended:
		return fmt.Errorf("it ended before it served: %w\n%s", p.err, p.tail())
	case <-timer.C:
		p.signal(syscall.SIGKILL)
		<-p.ended
		return fmt.Errorf("it does not serve after %s\n%s", startWithin, p.tail())
	}
}

// Stop shuts a server down.
func (s *Server) Stop() { s.end(syscall.SIGINT) }

// Kill ends a server as a crash would.
func (s *Server) Kill() { s.end(s.program.abort) }

func (s *Server) end(how syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return
	}
	s.process.signal(how)
	timer := time.NewTimer(stopWithin)
	defer timer.Stop()
	select {
	case <-s.process.ended:
	case <-timer.C:
		s.process.signal(syscall.SIGKILL)
		<-s.process.ended
	}
	s.process = nil
}

// remove ends a server and removes its directory. It may be called again.
func (s *Server) remove() {
	s.Stop()
	os.RemoveAll(s.Dir)
	s.lock.Close()
}

// process is one life of a server.
type process struct {
	cmd     *exec.Cmd
	ready   string
	serving chan struct{} // closed when it serves
	ended   chan struct{} // closed when it has ended; err is set then
	err     error

	mu   sync.Mutex
	said []string
}

// attend starts the process and waits for it on one locked thread: the kernel signals the process when the thread that
// started it ends.
func (p *process) attend() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.ended)
	out, in, err := os.Pipe()
	if err != nil {
		p.err = err
		return
	}
	defer out.Close()
	p.cmd.Stdout, p.cmd.Stderr = in, in
	p.mu.Lock()
	err = p.cmd.Start()
	p.mu.Unlock()
	in.Close()
	if err != nil {
		p.err = err
		return
	}
	// Children of a killed server may keep the pipe open for a while, so attend does not wait for its end.
	listened := make(chan struct{})
	go func() {
		defer close(listened)
		p.listen(out)
	}()
	p.err = p.cmd.Wait()
	select {
	case <-listened:
	case <-time.After(time.Second):
	}
	if p.err == nil {
		p.err = errors.New("exit status 0")
	}
}

// listen reads the server's log.
func (p *process) listen(r io.Reader) {
	lines := bufio.NewScanner(r)
	serving := false
	for lines.Scan() {
		line := lines.Text()
		p.mu.Lock()
		p.said = append(p.said[max(0, len(p.said)+1-tailLines):], line)
		p.mu.Unlock()
		if !serving && strings.Contains(line, p.ready) {
			serving = true
			close(p.serving)
		}
	}
	io.Copy(io.Discard, r) // a line that is too long must not stop the server
}

func (p *process) tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.said, "\n")
}

func (p *process) signal(how syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd.Process != nil {
		p.cmd.Process.Signal(how)
	}
}
