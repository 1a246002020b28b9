package traces

import (
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/cairn-agents/cairn"
)

// tree is what the spans of later events need of a tree's log up to a position. It is kept as a record, so that any
// process continues there. It has no entry of a session whose turn is complete.
type tree struct {
	// At is the sequence of the last event that was read.
	At       int64               `json:"at"`
	Sessions map[string]*session `json:"sessions,omitempty"`
}

// session is the latest run of a session, and its place in traces.
type session struct {
	Run    string          `json:"run,omitempty"`
	Agent  string          `json:"agent,omitempty"`
	Began  time.Time       `json:"began,omitzero"`
	Ended  time.Time       `json:"ended,omitzero"`
	Status cairn.RunStatus `json:"status,omitempty"`
	// Top is the span of the first run of the turn in the trace, Parent the parent of the run's own span; empty for none.
	Top    place  `json:"top"`
	Parent string `json:"parent,omitempty"`
	// Remote is set if the parent is of another program.
	Remote bool    `json:"remote,omitempty"`
	Links  []place `json:"links,omitempty"`
	// Carried is set if the run's first step is one that a suspended run has begun.
	Carried bool `json:"carried,omitempty"`
	// Caller is the call that consults the session, if it is a child.
	Caller *caller `json:"caller,omitempty"`
	// Count is the number of messages, and Unread the index of the first that no model has answered.
	Count  int `json:"count,omitempty"`
	Unread int `json:"unread,omitempty"`

	Steps map[int]*step `json:"steps,omitempty"`
	// Tries counts the attempts at steps, and Void the discarded spans of calls.
	Tries map[int]int    `json:"tries,omitempty"`
	Void  map[string]int `json:"void,omitempty"`
	// Open are calls of committed steps that have no result.
	Open   []*call `json:"open,omitempty"`
	Events []mark  `json:"events,omitempty"`
}

// caller is the call by which a session consults a child.
type caller struct {
	Session string `json:"session"`
	Call    string `json:"call"`
	Tool    string `json:"tool"`
}

// step is an attempt at a step that is not committed.
type step struct {
	Began     time.Time          `json:"began"`
	Try       int                `json:"try"`
	Models    []cairn.UsageEntry `json:"models,omitempty"`
	Requested string             `json:"requested,omitempty"`
	Compacted bool               `json:"compacted,omitempty"`
	Calls     []*call            `json:"calls,omitempty"`
}

// call is the call of a tool or agent in a run.
type call struct {
	ID       string     `json:"id"`
	Tool     string     `json:"tool"`
	Step     int        `json:"step,omitempty"`
	Began    time.Time  `json:"began"`
	Ended    time.Time  `json:"ended,omitzero"`
	Failed   bool       `json:"failed,omitempty"`
	Code     cairn.Code `json:"code,omitempty"`
	Cached   bool       `json:"cached,omitempty"`
	Attempts int        `json:"attempts,omitempty"`
	Input    string     `json:"input,omitempty"`
	Output   string     `json:"output,omitempty"`
	Events   []mark     `json:"events,omitempty"`
}

// mark is an event of a span.
type mark struct {
	Name     string    `json:"name"`
	At       time.Time `json:"at"`
	Call     string    `json:"call,omitempty"`
	Tool     string    `json:"tool,omitempty"`
	Text     string    `json:"text,omitempty"`
	Deadline time.Time `json:"deadline,omitzero"`
}

// step returns the attempt at a step that an event belongs to; nil for none. The usage of a step that added nothing
// belongs to the last one.
func (s *session) step(ev *cairn.Event) *step {
	if s.Run != ev.RunID {
		return nil
	}
	if ev.Step > 0 {
		return s.Steps[ev.Step]
	}
	if ev.Type == cairn.EventUsage && len(s.Steps) > 0 {
		return s.Steps[slices.Max(slices.Collect(maps.Keys(s.Steps)))]
	}
	return nil
}

// toolSpan returns the span of a call of the run.
func (s *session) toolSpan(c *call) trace.SpanID { return toolSpan(s.Run, c.ID, s.Void[c.ID]) }

// call returns a call of the run that has begun and has no span yet; nil if there is none.
func (s *session) call(id string) *call {
	for _, st := range s.Steps {
		if c := find(st.Calls, id); c != nil {
			return c
		}
	}
	return find(s.Open, id)
}

func find(list []*call, id string) *call {
	if i := slices.IndexFunc(list, func(c *call) bool { return c.ID == id }); i >= 0 {
		return list[i]
	}
	return nil
}

// start begins an attempt at a step.
func (s *session) start(ev *cairn.Event) {
	if s.Steps == nil {
		s.Steps = map[int]*step{}
	}
	if s.Tries == nil { // a record has no empty maps, so one of the two may be there without the other
		s.Tries = map[int]int{}
	}
	s.Tries[ev.Step]++
	s.Steps[ev.Step] = &step{Began: ev.Time, Try: s.Tries[ev.Step]}
}

// unopen removes a call from those without a result, and returns it; nil if it is not one of them.
func (s *session) unopen(id string) *call {
	c := find(s.Open, id)
	if c != nil {
		s.Open = slices.DeleteFunc(s.Open, func(o *call) bool { return o == c })
	}
	return c
}
