package effects

import (
	"encoding/json"
	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/limits"
	"github.com/cairn-agents/cairn/internal/ops"
	"github.com/cairn-agents/cairn/store"
)

// scope is what stands behind the handle of one tool call, or of the hooks of one phase: it gathers what they write
// until the step is committed. It implements cairn.Env.
type scope struct {
	emit   *emitter
	number int
	max    int // size of an event
	live   *live
	below  []*scope // what the scope's own writes go on top of, beside the session's state
	// frozen says why writes are refused; empty while they are not.
	frozen string

	mu         sync.Mutex
	ops        []cairn.Op
	view       json.RawMessage // base with ops; nil if it must be made anew
	context    []cairn.Message
	usage      map[string]float64
	emitted    int // events
	checkpoint bool
	ended      bool
}

func (fx *Effects) newScope(l *live, number int, below ...*scope) *scope {
	return &scope{emit: l.emit, number: number, max: fx.Log.MaxEvent(), live: l, below: below}
}

// state returns the state with the writes of some scopes on top.
func (l *live) state(on ...*scope) (json.RawMessage, error) {
	l.mu.Lock()
	raw := l.doc.Raw()
	l.mu.Unlock()
	var lists [][]cairn.Op
	for _, s := range on {
		if s == nil {
			continue
		}
		s.mu.Lock()
		if len(s.ops) > 0 {
			lists = append(lists, s.ops)
		}
		s.mu.Unlock()
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
	if err == nil && len(s.ops) > 0 {
		if raw, err = ops.Fold(raw, s.ops); err != nil {
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
	s.ops = append(s.ops, list...)
	s.view = nil
	return nil
}

func (s *scope) Emit(name string, data json.RawMessage) error {
	ev := cairn.Event{Type: cairn.EventCustom, Step: s.number, Name: name, Data: data}
	s.emit.ids.put(&ev)
	if err := store.CheckEvent(&ev, s.max-64); err != nil { // leaves room for the sequence and the time
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return errEnded
	}
	s.emit.event(ev)
	s.emitted++
	return nil
}

func (s *scope) AddContext(m cairn.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.context = append(s.context, m)
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
		problem = unaccountable(amount, s.usage[name]+amount)
	}
	if problem != "" {
		s.emit.fx.Logger.Warn("usage not recorded: the name "+problem, "session", s.emit.ids.session, "amount", amount)
		return
	}
	if s.usage == nil {
		s.usage = map[string]float64{}
	}
	s.usage[name] += amount
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
	s.checkpoint = true
}

// end closes the scope: what a tool that was given up on still does has no effect. A nil scope has none to end.
func (s *scope) end() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

// frozenScope returns a scope for functions that only read, over the state as it is.
func (fx *Effects) frozenScope(l *live, number int, why string, below ...*scope) *scope {
	s := fx.newScope(l, number, below...)
	s.frozen = why
	return s
}
