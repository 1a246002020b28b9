package session

import (
	"sync"

	"github.com/cairn-agents/cairn"
)

// early keeps stop requests that arrive before the run that they are to stop is in memory.
type early struct {
	mu   sync.Mutex
	runs map[string]*expected // by run
}

type expected struct {
	times int // calls of expect without their take
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
