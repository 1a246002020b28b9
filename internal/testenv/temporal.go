package testenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// temporalDir is where ensure.sh builds the server, below the user's cache directory.
const temporalDir = "cairn/temporal-1.5.1"

// Temporal returns the address of a Temporal server that is started for this test binary and keeps its data in
// memory. The tests of a package share it, so each must use its own task queues and workflow ids.
func Temporal(tb testing.TB) (address string) {
	tb.Helper()
	address, err := TemporalAddress()
	if err != nil {
		tb.Fatal(err)
	}
	return address
}

// TemporalAddress is [Temporal] for examples, which have no test. A function that is passed to [Main] calls it.
func TemporalAddress() (string, error) {
	s, err := sharedTemporal()
	if err != nil {
		return "", err
	}
	return s.Address, nil
}

var sharedTemporal = sync.OnceValues(func() (*TemporalProcess, error) { return startTemporal("temporal", "") })

// TemporalServer starts a Temporal server for one test, which may stop and restart it, and stops it when the test
// ends. It keeps its data in a file.
func TemporalServer(tb testing.TB) *TemporalProcess {
	tb.Helper()
	s, err := startTemporal("temporal-own", "server.db")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Stop)
	return s
}

// TemporalProcess is a Temporal server.
type TemporalProcess struct {
	*Server
	// Address is the address that it listens on.
	Address string
}

// Pause suspends the server, as a busy machine or a stopped virtual one would: it keeps its connections and answers
// nothing. Resume lets it continue.
func (p *TemporalProcess) Pause() { p.signal(syscall.SIGSTOP) }

// Resume continues a server that was paused.
func (p *TemporalProcess) Resume() { p.signal(syscall.SIGCONT) }

// Bounds of a server's return from a pause: it answers within returnWithin in one of returnTries.
const (
	returnWithin = 10 * time.Second
	returnTries  = 3
)

// Recover returns once a server that was paused answers. Some never answer a client again, though their health check
// passes: Recover kills and restarts them.
func (p *TemporalProcess) Recover() (restarted bool, err error) {
	for range returnTries {
		if p.answers() {
			return false, nil
		}
	}
	p.Kill()
	return true, p.Start()
}

// answers reports whether the server answers a client that connects, about its namespace: after a pause, some no longer
// find that until they are restarted.
func (p *TemporalProcess) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), returnWithin)
	defer cancel()
	return exec.CommandContext(ctx, p.command[0], "workflow", "list", "--limit", "1", "--address", p.Address).Run() == nil
}

func (p *TemporalProcess) signal(how syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process != nil {
		p.process.signal(how)
	}
}

func startTemporal(name, file string) (*TemporalProcess, error) {
	var p TemporalProcess
	s, err := launch(program{name: name, ready: "Server:", abort: syscall.SIGKILL, trusted: true, prepare: func(s *Server) ([]string, error) {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, err
		}
		bin := filepath.Join(cache, temporalDir, "temporal")
		if _, err := os.Stat(bin); err != nil {
			return nil, fmt.Errorf("Temporal server not found; `make test` builds it: %w", err)
		}
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		p.Address = loopback(port)
		line := []string{bin, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", strconv.Itoa(port), "--log-level", "error",
			"--search-attribute", "CairnSession=Keyword", "--search-attribute", "CairnAgent=Keyword",
			"--search-attribute", "CairnStatus=Keyword",
			// Otherwise each activity takes a tenth of a second more.
			"--dynamic-config-value", "history.transferProcessorMaxPollRPS=2000",
			// There are many task queues with few tasks each.
			"--dynamic-config-value", "matching.numTaskqueueReadPartitions=1",
			"--dynamic-config-value", "matching.numTaskqueueWritePartitions=1"}
		if file != "" {
			line = append(line, "--db-filename", filepath.Join(s.Dir, file))
		}
		return line, nil
	}})
	if err != nil {
		return nil, err
	}
	p.Server = s
	return &p, nil
}
