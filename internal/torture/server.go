package torture

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn/internal/testclock"
)

// Server is the server of a store or a host.
type Server interface {
	// Kill ends the server as a crash would.
	Kill()
	// Start restarts the server, and returns once it serves requests.
	Start() error
}

// RunOn is [Run] with fewer processes, since everything takes longer, and with kills of the store's server. The
// server is down for as long as a start takes, and up for a random time of about a second. Processes may get
// ErrUnavailable.
func RunOn(t *testing.T, server Server, open Open) {
	RunHost(t, Host{Start: inProcess, alone: true, Server: server}, open, Numbers{Test: 12, Soak: 500, Server: 100})
}

// outages kills a server repeatedly.
type outages struct {
	n    atomic.Int64 // number of kills so far
	stop chan struct{}
	over chan error
}

// outage starts to kill a server repeatedly, if there is one. The server is up for a while after each start.
func outage(server Server, up func() time.Duration) *outages {
	o := &outages{stop: make(chan struct{}), over: make(chan error, 1)}
	if server == nil {
		o.over <- nil
		return o
	}
	go func() {
		for more := true; more; {
			select {
			case <-time.After(up()):
			case <-o.stop:
				more = false // once more, so that it is killed even if the processes were quick
			}
			server.Kill()
			o.n.Add(1)
			if err := server.Start(); err != nil {
				o.over <- err
				return
			}
		}
		o.over <- nil
	}()
	return o
}

// end stops the kills and leaves the server running.
func (o *outages) end(t *testing.T) {
	t.Helper()
	close(o.stop)
	if err := <-o.over; err != nil {
		t.Errorf("the server does not start again: %v", err)
	}
}

// Pauser is a server that can be suspended: it keeps its connections and answers nothing.
type Pauser interface {
	Pause()
	Resume()
	// Recover returns once the server serves requests again. restarted reports that it did not, and was restarted.
	Recover() (restarted bool, err error)
}

// pauseOf is how long a server is suspended: longer than a worker waits for the answer to a heartbeat.
const pauseOf = 5 * time.Second

// pauses suspends a server repeatedly.
type pauses struct {
	n    atomic.Int64 // number of pauses so far
	hung atomic.Int64 // after how many of them the server had to be restarted
	stop chan struct{}
	over chan error
}

// pausing starts to suspend a server repeatedly, if there is one. The server is up for a while after each pause.
func pausing(server Pauser, up func() time.Duration) *pauses {
	p := &pauses{stop: make(chan struct{}), over: make(chan error, 1)}
	if server == nil {
		p.over <- nil
		return p
	}
	go func() {
		for more := true; more; {
			select {
			case <-time.After(up()):
			case <-p.stop:
				more = false // once more, so that it is paused even if the processes were quick
			}
			server.Pause()
			p.n.Add(1)
			testclock.Deaf(pauseOf)
			server.Resume()
			switch restarted, err := server.Recover(); {
			case err != nil:
				p.over <- err
				return
			case restarted:
				p.hung.Add(1)
			}
		}
		p.over <- nil
	}()
	return p
}

// end stops the pauses and leaves the server running.
func (p *pauses) end(t *testing.T) {
	t.Helper()
	close(p.stop)
	if err := <-p.over; err != nil {
		t.Errorf("the server does not start again: %v", err)
	}
}

// uptime draws how long a server is up.
func uptime(pace int64) time.Duration {
	return time.Duration(min(pace, 8)) * time.Duration(300+rand.IntN(1200)) * time.Millisecond
}
