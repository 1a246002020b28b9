package chat

import (
	"context"
	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
)

// feed reads ahead the events of a session. It wakes its owner, which takes them.
type feed struct {
	wake   chan struct{}
	cancel context.CancelFunc
	read   sync.WaitGroup

	mu     sync.Mutex
	events []cairn.Event
	over   bool
	err    error // why the feed is over; nil if the session was deleted
}

// open begins to read after a cursor.
func (f *feed) open(ctx context.Context, c *client.Client, session string, after cairn.Cursor) {
	f.close()
	ctx, f.cancel = context.WithCancel(ctx)
	f.events, f.over, f.err = nil, false, nil
	f.read.Go(func() {
		var failed error
		for ev, err := range c.Events(ctx, session, &client.EventsOptions{After: after}) {
			if failed = err; err != nil {
				break
			}
			f.mu.Lock()
			f.events = append(f.events, ev)
			f.mu.Unlock()
			f.ring()
		}
		f.mu.Lock()
		f.over, f.err = true, failed
		f.mu.Unlock()
		f.ring()
	})
}

// opened reports whether the feed is being read.
func (f *feed) opened() bool { return f.cancel != nil }

// ring wakes the owner.
func (f *feed) ring() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// take returns the events read since the last call, and whether the feed is over.
func (f *feed) take() (list []cairn.Event, over bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list, f.events = f.events, nil
	return list, f.over, f.err
}

// close stops reading.
func (f *feed) close() {
	if f.cancel != nil {
		f.cancel()
		f.read.Wait()
		f.cancel = nil
	}
}
