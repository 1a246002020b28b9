package traces

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
)

// fold reads the events of a tree in order, and writes the spans that are complete.
type fold struct {
	*tree
	w *writer
}

// read adds the next event.
func (f *fold) read(ev *cairn.Event) {
	f.At = ev.Sequence
	if ev.Origin != "" { // of an agent on another server
		return
	}
	s := f.Sessions[ev.SessionID]
	switch ev.Type {
	case cairn.EventRunStart, cairn.EventRunResumed:
		f.begin(s, ev)
		return
	case cairn.EventToolEnd:
		if s == nil || s.step(ev) == nil {
			f.closed(s, ev)
			return
		}
	case cairn.EventUsage:
		if s == nil || s.step(ev) == nil {
			f.uncounted(s, ev)
			return
		}
	}
	if s == nil || s.Run != ev.RunID {
		return
	}
	switch ev.Type {
	case cairn.EventUserMessage:
		s.Unread = min(s.Unread, ev.Index)
	case cairn.EventStepStart:
		s.start(ev)
	case cairn.EventStepCommitted:
		f.committed(s, ev)
	case cairn.EventStepDiscarded:
		f.discarded(s, ev)
	case cairn.EventRunEnd:
		f.end(s, ev)
	case cairn.EventToolApproval, cairn.EventToolPending:
		s.Events = append(s.Events, mark{Name: eventPending, At: ev.Time, Call: ev.CallID, Tool: ev.Tool, Deadline: ev.Deadline})
	default:
		if st := s.step(ev); st != nil {
			f.during(s, st, ev)
		}
	}
}

// begin begins a run of a session whose earlier run is old, if it is known.
func (f *fold) begin(old *session, ev *cairn.Event) {
	s := &session{Run: ev.RunID, Agent: ev.Agent, Began: ev.Time, Count: ev.MessageCount, Unread: ev.MessageCount}
	if old != nil {
		s.Caller = old.Caller
	}
	own := runSpan(ev.RunID)
	switch {
	case old != nil && ev.Type == cairn.EventRunResumed && old.Run == ev.Name:
		previous := place{old.Top.Trace, runSpan(old.Run).String()}
		s.Links = append(s.Links, previous)
		s.Events = append(s.Events, mark{Name: eventResumed, At: ev.Time})
		s.Top, s.Parent, s.Carried, s.Unread = old.Top, old.Top.Span, old.Status == cairn.RunSuspended, old.Unread
		if after := f.w.opts.NewTraceAfter; after > 0 && s.Caller == nil && ev.Time.Sub(old.Ended) > after {
			s.Top, s.Parent = placeOf(traceID(ev.SessionID, ev.RunID), own), ""
		}
	default:
		s.Top = placeOf(traceID(ev.SessionID, ev.RunID), own)
		var text string
		_ = json.Unmarshal(ev.Data, &text) // absent without a traceparent
		if parent, ok := parseParent(text); ok {
			s.Top.Trace, s.Parent, s.Remote = parent.TraceID().String(), parent.SpanID().String(), true
		}
	}
	if s.Caller != nil {
		f.consulted(s, ev)
	}
	f.put(ev.SessionID, s)
}

func (f *fold) put(id string, s *session) {
	if f.Sessions == nil {
		f.Sessions = map[string]*session{}
	}
	f.Sessions[id] = s
}

// consulted makes the run of a child part of the trace of its parent's run, below the call that consults it.
func (f *fold) consulted(s *session, ev *cairn.Event) {
	parent := f.Sessions[s.Caller.Session]
	if parent == nil || !parent.Ended.IsZero() { // it no longer waits
		return
	}
	c := parent.call(s.Caller.Call)
	if c == nil { // an earlier run of the parent has begun the call
		c = &call{ID: s.Caller.Call, Tool: s.Caller.Tool, Began: ev.Time}
		parent.Open = append(parent.Open, c)
	}
	s.Top = place{parent.Top.Trace, runSpan(s.Run).String()}
	s.Parent, s.Remote = parent.toolSpan(c).String(), false
}

// during adds an event of a step in progress.
func (f *fold) during(s *session, st *step, ev *cairn.Event) {
	switch ev.Type {
	case cairn.EventUsage:
		st.Models = append(st.Models, ev.ModelCalls()...)
	case cairn.EventModelFallback:
		st.Requested = ev.Text
	case cairn.EventCompacted:
		st.Compacted = true
	case cairn.EventToolStart:
		st.Calls = append(st.Calls, &call{ID: ev.CallID, Tool: ev.Tool, Step: ev.Step, Began: ev.Time, Input: f.w.content(ev.Data)})
	case cairn.EventToolEnd:
		c := cmp.Or(find(st.Calls, ev.CallID), s.unopen(ev.CallID))
		if c == nil { // an earlier run has begun it, or it was denied
			c = &call{ID: ev.CallID, Tool: ev.Tool, Began: st.Began}
		}
		if find(st.Calls, c.ID) == nil {
			st.Calls = append(st.Calls, c)
		}
		c.Step, c.Ended, c.Failed, c.Code, c.Cached, c.Attempts = ev.Step, ev.Time, ev.IsError, ev.Code, ev.Cached, ev.Attempts
		c.Output = f.w.content(ev.Data)
	case cairn.EventSubagentStart:
		of := &caller{ev.SessionID, ev.CallID, ev.Tool}
		if child := f.Sessions[ev.ChildID]; child != nil {
			child.Caller = of
		} else {
			f.put(ev.ChildID, &session{Caller: of})
		}
	case cairn.EventEffectSent, cairn.EventEffectUnknown, cairn.EventEffectSettled:
		name := map[cairn.EventType]string{cairn.EventEffectSent: eventSent, cairn.EventEffectUnknown: eventUnknown, cairn.EventEffectSettled: eventSettled}[ev.Type]
		if c := s.call(ev.CallID); c != nil {
			c.Events = append(c.Events, mark{Name: name, At: ev.Time, Text: ev.Name})
		}
	}
}

// committed writes the spans of a step.
func (f *fold) committed(s *session, ev *cairn.Event) {
	st := s.Steps[ev.Step]
	if st == nil { // the log was trimmed
		return
	}
	f.w.chats(s, ev.SessionID, ev.Step, st, chatEnd{count: ev.MessageCount})
	for _, c := range st.Calls {
		if c.Ended.IsZero() {
			s.Open = append(s.Open, c)
			continue
		}
		f.w.tool(s, ev.SessionID, c, toolEnd{at: c.Ended})
	}
	if len(st.Models) > 0 {
		s.Unread = s.Count + 1
	}
	s.Count = ev.MessageCount
	delete(s.Steps, ev.Step)
	delete(s.Tries, ev.Step)
}

// discarded writes the spans of attempts that were dropped.
func (f *fold) discarded(s *session, ev *cairn.Event) {
	for _, n := range slices.Sorted(maps.Keys(s.Steps)) {
		if n < ev.Step {
			continue
		}
		st := s.Steps[n]
		f.w.chats(s, ev.SessionID, n, st, chatEnd{void: true, at: ev.Time, failed: ev.Error})
		for _, c := range st.Calls {
			at := c.Ended
			if at.IsZero() {
				at = ev.Time
			}
			f.w.tool(s, ev.SessionID, c, toolEnd{at: at, void: true})
			if s.Void == nil {
				s.Void = map[string]int{}
			}
			s.Void[c.ID]++
		}
		delete(s.Steps, n)
	}
}

// end writes the span of a run.
func (f *fold) end(s *session, ev *cairn.Event) {
	if !s.Ended.IsZero() { // it was suspended, and is now stopped
		f.w.stopped(s, ev)
		f.forget(s, ev)
		return
	}
	f.discarded(s, &cairn.Event{SessionID: ev.SessionID, Time: ev.Time, Error: ev.Error})
	for _, c := range s.Open {
		f.w.tool(s, ev.SessionID, c, toolEnd{at: ev.Time, pending: true})
	}
	if ev.Status == cairn.RunSuspended {
		s.Events = append(s.Events, mark{Name: eventSuspended, At: ev.Time, Text: string(ev.Reason)})
	}
	f.w.run(s, ev)
	s.Ended, s.Status = ev.Time, ev.Status
	s.Steps, s.Tries, s.Void, s.Open, s.Events, s.Links = nil, nil, nil, nil, nil, nil
	f.forget(s, ev)
}

// forget drops a session whose turn cannot be resumed.
func (f *fold) forget(s *session, ev *cairn.Event) {
	if ev.Status == cairn.RunCompleted || s.Caller != nil && ev.Status != cairn.RunSuspended {
		delete(f.Sessions, ev.SessionID)
	}
}

// closed writes the span of a call that was closed outside of steps: that of a suspended run.
func (f *fold) closed(s *session, ev *cairn.Event) {
	if s == nil || s.Run == "" {
		return
	}
	c := &call{ID: ev.CallID, Tool: ev.Tool, Began: ev.Time, Failed: ev.IsError, Code: ev.Code}
	f.w.close(s, ev.SessionID, c)
}

// uncounted writes the spans of model calls that belong to no step.
func (f *fold) uncounted(s *session, ev *cairn.Event) {
	if s == nil || s.Run == "" {
		return
	}
	models := ev.ModelCalls()
	began := ev.Time
	for i := range models {
		began = began.Add(-time.Duration(models[i].Duration))
	}
	st := &step{Began: began, Try: int(ev.Sequence), Models: models}
	f.w.chats(s, ev.SessionID, 0, st, chatEnd{void: true, at: ev.Time})
}
