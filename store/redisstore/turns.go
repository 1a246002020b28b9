package redisstore

import (
	"context"
	"sync"
)

// turns serializes callers that use the same name.
type turns struct {
	mu    sync.Mutex
	taken map[string]*turn
}

type turn struct {
	users int           // callers that hold it or wait for it
	free  chan struct{} // holds one token
}

// take waits until no other caller holds the name. The caller holds it until it calls release.
func (t *turns) take(ctx context.Context, name string) (release func(), err error) {
	t.mu.Lock()
	mine := t.taken[name]
	if mine == nil {
		mine = &turn{free: make(chan struct{}, 1)}
		mine.free <- struct{}{}
		if t.taken == nil {
			t.taken = map[string]*turn{}
		}
		t.taken[name] = mine
	}
	mine.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if mine.users--; mine.users == 0 {
			delete(t.taken, name)
		}
	}
	select {
	case <-mine.free:
		return func() {
			mine.free <- struct{}{}
			leave()
		}, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
