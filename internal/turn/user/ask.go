package user

import (
	"encoding/json"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/inbox"
	"github.com/cairn-agents/cairn/internal/turn/step"
)

// asking is what a tool's function asks in one pass. It runs from its start once more with each answer, so that its n-th
// question has the n-th of the call's answers.
type asking struct {
	answered []*cairn.PendingCall // in order
	asked    int
	open     *define.Question  // the one that has no answer; nil until it is asked
	refused  error             // why the function cannot ask; nil if it can
	before   step.Writes       // what was written before the pass
	kept     []json.RawMessage // what earlier passes did once, in order
	used     int               // how much of it this pass has come by
	once     []json.RawMessage // what this pass did once
}

// replays reports whether the function is before a question that an earlier pass has asked.
func (a *asking) replays() bool { return a != nil && a.asked < len(a.answered) }

// LetAsk lets the function of a call's tool that is called next ask.
func (s *Scope) LetAsk(c *step.Call) {
	before := s.Writes()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking = &asking{answered: c.Asked, before: before}
	for _, row := range c.Asked {
		s.asking.kept = append(s.asking.kept, row.Kept...)
	}
	if c.Finishing() {
		s.asking.refused = cairn.Invalid("ask", "tool %q ends the turn (FinishWith), so it cannot ask", c.Use.Tool)
	}
}

// Asked returns the question without an answer that the function has asked, or nil.
func (s *Scope) Asked() *define.Question {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asking.open
}

// Discard drops what the pass of the function has written.
func (s *Scope) Discard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.w, s.view = s.asking.before, nil
}

// Ask implements define.Env.
func (s *Scope) Ask(q define.Question) (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.asking
	switch {
	case s.ended:
		return nil, errEnded
	case a == nil:
		return nil, cairn.Invalid("ask", "only the function of a tool can ask")
	case a.refused != nil:
		return nil, a.refused
	case a.open != nil: // the function has not returned the error
		return nil, cairn.ErrSuspended
	}
	if a.asked++; a.asked <= len(a.answered) {
		return inbox.Value(a.answered[a.asked-1])
	}
	size := len(q.Prompt) + len(q.Payload)
	for _, raw := range a.once {
		size += len(raw)
	}
	if size > cairn.MaxPromptBytes {
		return nil, &cairn.Error{Code: cairn.CodeTooLarge, Field: "prompt", Message: "prompt: with the payload and what was done once larger than 1 MiB"}
	}
	q.Kept, a.open = a.once, &q
	return nil, cairn.ErrSuspended
}

// Kept implements define.Env.
func (s *Scope) Kept() (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.asking
	switch {
	case s.ended:
		return nil, errEnded
	case a == nil:
		return nil, cairn.Invalid("once", "only the function of a tool does things once")
	case a.open != nil:
		return nil, cairn.ErrSuspended
	case a.used == len(a.kept):
		return nil, nil
	}
	a.used++
	return a.kept[a.used-1], nil
}

// Keep implements define.Env.
func (s *Scope) Keep(raw json.RawMessage) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch a := s.asking; {
	case s.ended:
		return errEnded
	case a == nil:
		return cairn.Invalid("once", "only the function of a tool does things once")
	default:
		a.once = append(a.once, raw)
	}
	return nil
}
