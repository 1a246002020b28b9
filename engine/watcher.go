package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/store/driver"
)

// watchEvery is how often the sessions of a log with readers are looked at.
const watchEvery = 2 * time.Second

// watchers end the readers of trees that are gone, and bring to a log that is not the store's own what dead processes left
// in outboxes. There is one watcher per tree, however many readers it has.
type watchers struct {
	ctx  context.Context // the engine's; ends all watchers
	runs *lifecycle.Runs

	mu      sync.Mutex
	closed  bool
	trees   map[string]*watcher // by log
	working sync.WaitGroup
}

// watcher watches one tree.
type watcher struct {
	readers int
	over    context.Context // ends when the tree is gone, with the reason as its cause
	cancel  context.CancelCauseFunc
	done    chan struct{}
}

// join has a tree watched until leave is called. over ends when the tree is gone.
func (ws *watchers) join(root, incarnation string) (over context.Context, leave func()) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		return ws.ctx, func() {}
	}
	log := ids.Log(root, incarnation)
	w := ws.trees[log]
	if w == nil {
		ctx, cancel := context.WithCancelCause(ws.ctx)
		w = &watcher{over: ctx, cancel: cancel, done: make(chan struct{})}
		if ws.trees == nil {
			ws.trees = map[string]*watcher{}
		}
		ws.trees[log] = w
		ws.working.Go(func() {
			defer close(w.done)
			ws.watch(ctx, root, w)
		})
	}
	w.readers++
	return w.over, func() { ws.leave(log, w) }
}

// leave undoes a join. The last reader waits for the watcher to end.
func (ws *watchers) leave(log string, w *watcher) {
	ws.mu.Lock()
	w.readers--
	last := w.readers == 0
	if last && ws.trees[log] == w {
		delete(ws.trees, log)
	}
	ws.mu.Unlock()
	if last {
		w.cancel(nil)
		<-w.done
	}
}

// close ends all watchers for good, and waits for them.
func (ws *watchers) close() {
	ws.mu.Lock()
	ws.closed = true
	for _, w := range ws.trees {
		w.cancel(nil)
	}
	ws.mu.Unlock()
	ws.working.Wait()
}

// watch looks at a tree periodically.
func (ws *watchers) watch(ctx context.Context, root string, w *watcher) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	boxes := lifecycle.Outboxes{Root: root}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := ws.runs.Look(ctx, &boxes)
		if driver.IsGone(err) {
			w.cancel(err)
			return
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, cairn.ErrNotFound) {
			ws.runs.Logger.Warn("cannot read the sessions of an event log", "session", root, "error", err)
		}
	}
}
