package engine

import (
	"sync"
	"time"
)

// slowness remembers for a while that the host was slow. It is safe for concurrent use.
type slowness struct {
	mu    sync.Mutex
	until time.Time
}

// note records that the host was slow.
func (s *slowness) note(rest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Now().Add(rest)
}

// left returns how long to wait for the host: wait, or nothing while it is known to be slow.
func (s *slowness) left(wait time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.until) {
		return 0
	}
	return wait
}
