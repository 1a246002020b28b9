package torture

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Server is one that a store or a host is on.
type Server interface {
	// Kill ends it as a crash would.
	Kill()
	// Start starts it again, and returns when it serves.
	Start() error
}

// RunOn does what [Run] does with 60 processes, since all of it takes longer, and kills the store's server, too: it is down
// for as long as a start takes, and up for a random time of about a second. A process may take an answer of ErrUnavailable
// for what it is.
func RunOn(t *testing.T, server Server, open Open) {
	RunHost(t, Host{Start: inProcess, Server: server}, open, 60)
}

// outage kills a server again and again until the function that it returns is called, which leaves it running.
func outage(t *testing.T, server Server) (over func()) {
	if server == nil {
		return func() {}
	}
	stop, stopped := make(chan struct{}), make(chan error, 1)
	kills := 0
	go func() {
		for up := true; up; {
			select {
			case <-time.After(time.Duration(300+rand.IntN(1200)) * time.Millisecond):
			case <-stop:
				up = false // once more, so that it was killed however soon the processes were
			}
			server.Kill()
			kills++
			if err := server.Start(); err != nil {
				stopped <- err
				return
			}
		}
		stopped <- nil
	}()
	return func() {
		close(stop)
		if err := <-stopped; err != nil {
			t.Errorf("the server does not start again: %v", err)
		}
		t.Logf("the server was killed %d times", kills)
	}
}
