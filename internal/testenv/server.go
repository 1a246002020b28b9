// Package testenv starts the servers that tests need. They are throw-away servers, at most one of each kind per
// test binary unless a test asks for its own, and end with the test binary.
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
	// startWithin bounds the time for a server to become ready.
	startWithin = time.Minute
	// stopWithin bounds the time for a server to end before it is killed.
	stopWithin = 10 * time.Second
	// staleAfter is the minimum age at which a directory counts as left by a dead process.
	staleAfter = time.Minute
	// tailLines is the number of lines of a server's log that are kept for error messages.
	tailLines = 20

	dirPrefix = "cairn-testenv-"
	// memoryDir is a file system in memory, on systems that have one.
	memoryDir = "/dev/shm"
)

// servers are the servers of this process.
var servers struct {
	sync.Mutex
	managed bool // within Run
	list    []*Server
}

// Main runs the tests of a package, stops the servers they used, and exits. It first calls before, which starts the
// servers of examples: these have no [testing.T] to request one with.
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

// Run calls do, which may start servers, and stops the servers when do returns.
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

// program is a kind of server.
type program struct {
	name string
	// ready is a part of the output line that shows that the server is ready.
	ready string
	// abort is the signal that ends the server at once, as a crash would, with its child processes.
	abort syscall.Signal
	// trusted makes the server run under this process's account.
	trusted bool
	// inMemory puts the server's directory into a file system in memory, if the system has one, since the server waits for
	// the disk at each write and has no setting against it.
	inMemory bool
	// prepare fills the server's directory and returns its command line.
	prepare func(s *Server) (command []string, err error)
}

// Server is a server of this test binary. Its process dies with the test process, even if that is killed.
type Server struct {
	// Dir is the server's directory for its data and its sockets, owned by the account that it runs under.
	Dir string

	program program
	command []string
	lock    *os.File

	mu      sync.Mutex
	process *process // nil while stopped
}

// launch starts a program in its own directory.
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

// makeDir creates the server's directory, and locks it for as long as this process lives.
func (s *Server) makeDir() (err error) {
	parent := ""
	if info, err := os.Stat(memoryDir); err == nil && info.IsDir() && s.program.inMemory {
		parent = memoryDir
	}
	if s.Dir, err = os.MkdirTemp(parent, dirPrefix+s.program.name+"-"); err != nil {
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
	inMemory, _ := filepath.Glob(filepath.Join(memoryDir, dirPrefix+"*"))
	list = append(list, inMemory...)
	for _, dir := range list {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < staleAfter {
			continue
		}
		f, err := os.Open(dir)
		if err != nil {
			continue // belongs to a live process
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			os.RemoveAll(dir)
		}
		f.Close()
	}
}

// account returns the account that the server runs under; nil for this process's account.
func (s *Server) account() (*syscall.Credential, error) {
	if s.program.trusted {
		return nil, nil
	}
	return unprivileged()
}

// unprivileged returns the account for servers that must not run as root; nil for this process's account. Servers
// refuse to run as root, or should not.
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

// cmd returns a command that runs in the server's directory and under its account.
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
func (s *Server) run(line ...string) error { return s.answer("", line...) }

// answer is run with an input.
func (s *Server) answer(input string, line ...string) error {
	cmd, err := s.cmd(line...)
	if err != nil {
		return err
	}
	cmd.Stdin = strings.NewReader(input)
	// The child dies with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(line, " "), err, out)
	}
	return nil
}

// Start starts a server that was stopped or killed, and returns once it is ready.
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

// Stop shuts down a server.
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
	s.process.signal(syscall.SIGCONT) // a paused process handles no signal but SIGKILL
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

// remove stops a server and removes its directory. It may be called repeatedly.
func (s *Server) remove() {
	s.Stop()
	os.RemoveAll(s.Dir)
	s.lock.Close()
}

// process is one life of a server.
type process struct {
	cmd     *exec.Cmd
	ready   string
	serving chan struct{} // closed when ready
	ended   chan struct{} // closed when it has ended; err is set before
	err     error

	mu   sync.Mutex
	said []string
}

// attend starts the process and waits for it on one locked thread, because the kernel signals the process when the
// thread that started it ends.
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

// listen reads the server's output.
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
	io.Copy(io.Discard, r) // an overlong line must not block the server
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
