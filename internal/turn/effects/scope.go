package effects

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/limits"
	"github.com/cairn-agents/cairn/internal/ops"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/store"
)

// scope is what stands behind the handle of one tool call, or of the hooks of one phase: it gathers what they write
// until the step is committed. It implements cairn.Env.
type scope struct {
	fx     *Effects
	emit   *journal.Emitter
	number int
	max    int // size of an event
	live   *live
	below  []*step.Writes // what the scope's own writes go on top of, beside the session's state
	// frozen says why writes are refused; empty while they are not.
	frozen string

	mu      sync.Mutex
	w       step.Writes
	view    json.RawMessage // the state with w's operations; nil if it must be made anew
	emitted int             // events
	ended   bool
}

func (fx *Effects) newScope(l *live, number int, below ...*step.Writes) *scope {
	s := new(scope)
	s.init(fx, l, number, below)
	return s
}

func (s *scope) init(fx *Effects, l *live, number int, below []*step.Writes) {
	s.fx, s.emit, s.number, s.max, s.live, s.below = fx, l.emit, number, fx.Log.MaxEvent(), l, below
}

// state returns the state with some writes on top.
func (l *live) state(on ...*step.Writes) (json.RawMessage, error) {
	l.mu.Lock()
	raw := l.doc.Raw()
	l.mu.Unlock()
	var lists [][]cairn.Op
	for _, w := range on {
		if len(w.Ops) > 0 {
			lists = append(lists, w.Ops)
		}
	}
	if len(lists) == 0 {
		return raw, nil
	}
	raw, err := ops.Fold(raw, lists...)
	if err != nil {
		return nil, cairn.Errorf(cairn.CodeState, "state: %w", err)
	}
	return raw, nil
}

// errEnded is what the handle answers to a function that goes on after it was given up or has returned.
var errEnded = cairn.Errorf(cairn.CodeNotExecuted, "the call has ended; its handle can no longer be used")

func (s *scope) State() (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, errEnded
	}
	if s.view != nil {
		return s.view, nil
	}
	raw, err := s.live.state(s.below...)
	if err == nil && len(s.w.Ops) > 0 {
		if raw, err = ops.Fold(raw, s.w.Ops); err != nil {
			err = cairn.Errorf(cairn.CodeState, "state: %w", err)
		}
	}
	if err != nil {
		return nil, err
	}
	s.view = raw
	return raw, nil
}

func (s *scope) Update(list []cairn.Op) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.frozen != "":
		return cairn.Errorf(cairn.CodeState, "state cannot be written %s", s.frozen)
	case s.ended:
		return errEnded
	}
	s.w.Ops = append(s.w.Ops, list...)
	s.view = nil
	return nil
}

func (s *scope) Emit(name string, data json.RawMessage) error {
	ev := cairn.Event{Type: cairn.EventCustom, Step: s.number, Name: name, Data: data}
	s.emit.Put(&ev)
	if err := store.CheckEvent(&ev, s.max-64); err != nil { // leaves room for the sequence and the time
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return errEnded
	}
	s.emit.Event(ev)
	s.emitted++
	return nil
}

func (s *scope) AddContext(m cairn.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.w.Context = append(s.w.Context, m)
	}
}

func (s *scope) RecordUsage(name string, amount float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	problem := ids.Check(name)
	if problem == "" {
		problem = unaccountable(amount, s.w.Usage[name]+amount)
	}
	if problem != "" {
		s.fx.Logger.Warn("usage not recorded: the name "+problem, "session", s.live.row.ID, "amount", amount)
		return
	}
	if s.w.Usage == nil {
		s.w.Usage = map[string]float64{}
	}
	s.w.Usage[name] += amount
}

// unaccountable returns what is wrong with amounts, of which one is the sum of others, or "".
func unaccountable(amounts ...float64) string {
	for _, n := range amounts {
		if limits.Number(n) != "" {
			return "has an amount or a sum that is not a finite number"
		}
	}
	return ""
}

func (s *scope) Checkpoint() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.w.Checkpoint = true
}

// end closes the scope and returns what was written: what user code that was given up still does has no effect.
func (s *scope) end() step.Writes {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	return s.w
}

// writes returns what was written so far.
func (s *scope) writes() step.Writes {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.w
	w.Usage = maps.Clone(w.Usage)
	return w
}

// resume has the scope begin with what was written before.
func (s *scope) resume(w step.Writes) *scope {
	s.w = step.Writes{Ops: slices.Clip(w.Ops), Context: slices.Clip(w.Context), Usage: maps.Clone(w.Usage), Checkpoint: w.Checkpoint}
	return s
}

// effects counts what the scope's function did that a cached result would not do again.
func (s *scope) effects() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.w.Ops) + len(s.w.Context) + s.emitted
}

// frozenScope returns a scope for functions that only read, over the state as it is.
func (fx *Effects) frozenScope(l *live, number int, why string, below ...*step.Writes) *scope {
	s := fx.newScope(l, number, below...)
	s.frozen = why
	return s
}
