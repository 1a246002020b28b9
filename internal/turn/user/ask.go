package user

import (
	"encoding/json"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/inbox"
	"github.com/cairn-agents/cairn/internal/turn/step"
)

// asking is the state of a tool's questions in one pass. The function is rerun from its start with each answer, so its
// n-th question gets the n-th of the call's answers.
type asking struct {
	answered []*cairn.PendingCall // in order
	asked    int
	open     *define.Question  // the unanswered question; nil until it is asked
	refused  error             // why the function must not ask; nil if it may
	before   step.Writes       // what was written before the pass
	kept     []json.RawMessage // what earlier passes did once (Keep), in order
	used     int               // how many of kept this pass has reached
	once     []json.RawMessage // what this pass did once
}

// replays reports whether the function has yet to reach a question that an earlier pass asked.
func (a *asking) replays() bool { return a != nil && a.asked < len(a.answered) }

// LetAsk allows the next call of the tool's function to ask.
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

// Asked returns the unanswered question that the function asked, or nil.
func (s *Scope) Asked() *define.Question {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asking.open
}

// Discard drops what this pass of the function wrote.
func (s *Scope) Discard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.w, s.view = s.asking.before, nil
}

// ofTool returns what the function of a tool asks. The error for other code says what only such a function does. The caller
// holds the lock.
func (s *Scope) ofTool(field, does string) (*asking, error) {
	switch {
	case s.ended:
		return nil, errEnded
	case s.asking == nil:
		return nil, cairn.Invalid(field, "only a tool function %s", does)
	}
	return s.asking, nil
}

// errSuspended is the error of a question that has no answer yet.
var errSuspended = cairn.Errorf(cairn.ErrSuspended, "the call waits for the answer to its question; the tool must return this error")

// Ask implements define.Env.
func (s *Scope) Ask(q define.Question) (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.ofTool("ask", "can ask")
	switch {
	case err != nil:
		return nil, err
	case a.refused != nil:
		return nil, a.refused
	case a.open != nil: // the function did not return the error
		return nil, errSuspended
	}
	if a.asked++; a.asked <= len(a.answered) {
		return inbox.Value(a.answered[a.asked-1])
	}
	size := len(q.Prompt) + len(q.Payload)
	for _, raw := range a.once {
		size += len(raw)
	}
	if size > cairn.MaxPromptBytes {
		return nil, &cairn.Error{Code: cairn.ErrTooLarge, Field: "prompt", Message: "prompt: too large with its payload and the values kept by Once (max 1 MiB)"}
	}
	q.Kept, a.open = a.once, &q
	return nil, errSuspended
}

// Kept implements define.Env.
func (s *Scope) Kept() (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.ofTool("once", "can use Once")
	switch {
	case err != nil:
		return nil, err
	case a.open != nil:
		return nil, errSuspended
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
	a, err := s.ofTool("once", "can use Once")
	if err == nil {
		a.once = append(a.once, raw)
	}
	return err
}
