package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/store"
)

// reconcileAfter is how often a log with readers is compared with the store. A process that has ended a run has at
// least that long to publish the end before readers publish it themselves.
const reconcileAfter = 2 * time.Second

// watchers complete the logs that this process reads, where their writers no longer can. There is one watcher per tree,
// however many readers it has.
type watchers struct {
	ctx    context.Context // the engine's; ends all watchers
	runs   *lifecycle.Runs
	logger *slog.Logger

	mu      sync.Mutex
	closed  bool
	trees   map[string]*watcher // by log
	working sync.WaitGroup
}

// watcher completes the log of one tree.
type watcher struct {
	readers int
	runs    map[string]*awaited // by id
	over    context.Context     // ends when the tree is gone, with the reason as its cause
	cancel  context.CancelCauseFunc
	done    chan struct{}
}

// awaited is a run whose end readers wait for.
type awaited struct {
	session string
	readers int
}

// join has the log of a tree completed until leave is called. run is the run that the reader waits for, or nil. over
// ends when the tree is gone.
func (ws *watchers) join(root, incarnation string, run *Run) (over context.Context, leave func()) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		return ws.ctx, func() {}
	}
	log := ids.Log(root, incarnation)
	w := ws.trees[log]
	if w == nil {
		ctx, cancel := context.WithCancelCause(ws.ctx)
		w = &watcher{runs: map[string]*awaited{}, over: ctx, cancel: cancel, done: make(chan struct{})}
		if ws.trees == nil {
			ws.trees = map[string]*watcher{}
		}
		ws.trees[log] = w
		ws.working.Go(func() {
			defer close(w.done)
			ws.keepComplete(ctx, root, w)
		})
	}
	w.readers++
	if run != nil {
		a := w.runs[run.id]
		if a == nil {
			a = &awaited{session: run.session}
			w.runs[run.id] = a
		}
		a.readers++
	}
	return w.over, func() { ws.leave(log, w, run) }
}

// leave undoes a join. The last reader waits for the watcher to end.
func (ws *watchers) leave(log string, w *watcher, run *Run) {
	ws.mu.Lock()
	if run != nil {
		a := w.runs[run.id]
		if a.readers--; a.readers == 0 {
			delete(w.runs, run.id)
		}
	}
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

// awaitedRuns lists the runs that readers wait for, with their sessions.
func (ws *watchers) awaitedRuns(w *watcher) map[string]string {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	runs := make(map[string]string, len(w.runs))
	for id, a := range w.runs {
		runs[id] = a.session
	}
	return runs
}

// keepComplete compares the log of a tree with the store periodically, and completes it.
func (ws *watchers) keepComplete(ctx context.Context, root string, w *watcher) {
	ticker := time.NewTicker(reconcileAfter)
	defer ticker.Stop()
	c := lifecycle.Completion{Root: root}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := ws.runs.Complete(ctx, &c, ws.awaitedRuns(w))
		if store.IsGone(err) {
			w.cancel(err)
			return
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, cairn.ErrNotFound) {
			ws.logger.Warn("event log not completed", "session", root, "error", err)
		}
	}
}
