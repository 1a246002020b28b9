package redisstore

import (
	"context"
	"sync"
)

// nameLocks serializes callers that use the same name.
type nameLocks struct {
	mu   sync.Mutex
	held map[string]*nameLock
}

type nameLock struct {
	users int           // callers that hold it or wait for it
	free  chan struct{} // holds one token
}

// take waits until no other caller holds the name. The caller holds it until it calls release.
func (n *nameLocks) take(ctx context.Context, name string) (release func(), err error) {
	n.mu.Lock()
	lock := n.held[name]
	if lock == nil {
		lock = &nameLock{free: make(chan struct{}, 1)}
		lock.free <- struct{}{}
		if n.held == nil {
			n.held = map[string]*nameLock{}
		}
		n.held[name] = lock
	}
	lock.users++
	n.mu.Unlock()
	leave := func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if lock.users--; lock.users == 0 {
			delete(n.held, name)
		}
	}
	select {
	case <-lock.free:
		return func() {
			lock.free <- struct{}{}
			leave()
		}, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
