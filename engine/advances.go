package engine

import (
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
)

// advances are the steps that calls of Advance have begun in an engine.
type advances struct {
	mu sync.Mutex
	by map[advanceKey]*advance
}

// advanceKey is a run under a lease.
type advanceKey struct {
	runKey
	token int64
}

// advance is one step in progress.
type advance struct {
	at       host.Run
	attended bool          // a call waits for it
	done     chan struct{} // closed when it is over; next and err are set before
	next     host.Run      // reference to what follows; its token is 0 if nothing does
	err      error
}

func (a *advance) key() advanceKey { return advanceKey{runKey{a.at.SessionID, a.at.RunID}, a.at.Token} }

// attend returns the run's step in progress that no other call waits for, or begins it.
func (as *advances) attend(at host.Run, begin func(*advance) error) (*advance, error) {
	a := &advance{at: at, attended: true, done: make(chan struct{})}
	as.mu.Lock()
	defer as.mu.Unlock()
	switch found := as.by[a.key()]; {
	case found == nil:
	case found.attended:
		return nil, busy(at)
	default:
		found.attended = true
		return found, nil
	}
	if err := begin(a); err != nil {
		return nil, err
	}
	if as.by == nil {
		as.by = map[advanceKey]*advance{}
	}
	as.by[a.key()] = a
	return a, nil
}

// end ends a step.
func (as *advances) end(a *advance, next host.Run, err error) {
	as.mu.Lock()
	delete(as.by, a.key())
	as.mu.Unlock()
	a.next, a.err = next, err
	close(a.done)
}

// leave leaves a step to later calls.
func (as *advances) leave(a *advance) {
	as.mu.Lock()
	defer as.mu.Unlock()
	a.attended = false
}

// advanceAgain is how long a caller pauses whose step another call drives.
const advanceAgain = time.Second

func busy(at host.Run) error {
	e := cairn.Errorf(cairn.ErrAlreadyRunning, "session %q: another call drives the step of run %s", at.SessionID, at.RunID)
	e.RetryAfter = cairn.Duration(advanceAgain)
	return e
}
