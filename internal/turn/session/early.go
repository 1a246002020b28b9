package session

import (
	"sync"

	"github.com/cairn-agents/cairn"
)

// RequestStop makes a run stop at once if this process drives it.
func (c *Cache) RequestStop(id string, stop cairn.Stop) {
	c.early.put(stop)
	for _, l := range c.working(id) {
		l.RequestStop(stop)
	}
}

// Expect has stop requests for a run be kept that this process is about to have in memory. The function that it returns
// hands them on, and is called when that is so, or will not be.
func (c *Cache) Expect(id, run string) (arrived func()) {
	c.early.expect(run)
	return func() {
		if stop := c.early.take(run); stop != nil {
			c.RequestStop(id, *stop)
		}
	}
}

// early keeps stop requests that come before what they are to stop.
type early struct {
	mu   sync.Mutex
	runs map[string]*expected // by run
}

type expected struct {
	times int // it is expected, and has not arrived
	stop  *cairn.Stop
}

func (e *early) expect(run string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.runs == nil {
		e.runs = map[string]*expected{}
	}
	if e.runs[run] == nil {
		e.runs[run] = &expected{}
	}
	e.runs[run].times++
}

func (e *early) put(stop cairn.Stop) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.runs[stop.RunID]; x != nil && (x.stop == nil || stop.Kind == cairn.StopAbort) {
		x.stop = &stop
	}
}

func (e *early) take(run string) *cairn.Stop {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.runs[run]
	if x.times--; x.times == 0 {
		delete(e.runs, run)
	}
	return x.stop
}
