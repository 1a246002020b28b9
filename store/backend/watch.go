package backend

import (
	"context"
	"iter"
	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// Signal wakes all waiters. The zero value is ready to use. Signal is safe for concurrent use.
type Signal struct {
	mu sync.Mutex
	ch chan struct{}
}

// Wait returns a channel that is closed at the next Raise.
func (s *Signal) Wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

// Raise wakes all waiters.
func (s *Signal) Raise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}

// WatchStops implements driver.StopWatcher.WatchStops for a store that can list its outstanding stop requests by
// session. It lists them at the beginning and whenever raised is raised.
func WatchStops(ctx context.Context, raised *Signal, outstanding func(context.Context) (map[string]cairn.Stop, error)) iter.Seq2[driver.StopNotice, error] {
	return func(yield func(driver.StopNotice, error) bool) {
		known := map[string]cairn.Stop{}
		for {
			next := raised.Wait() // before the list, so that no request is missed in between
			now, err := outstanding(ctx)
			if err != nil {
				if ctx.Err() == nil {
					yield(driver.StopNotice{}, err)
				}
				return
			}
			for id, stop := range now {
				if known[id] != stop && !yield(driver.StopNotice{SessionID: id, Stop: stop}, nil) {
					return
				}
			}
			known = now
			select {
			case <-next:
			case <-ctx.Done():
				return
			}
		}
	}
}
