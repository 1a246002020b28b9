package torture

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
)

// talks reports whether a tool is one of the companion tools.
func (k *kind) talks(tool string) bool { return k.mate != "" && strings.HasPrefix(tool, "companion__") }

// callsOf returns, by child, the calls that consulted it according to the log.
func (t *Tree) callsOf() map[string][]*cairn.Event {
	list := map[string][]*cairn.Event{}
	for i := range t.Events {
		if ev := &t.Events[i]; ev.Type == cairn.EventSubagentStart {
			list[ev.ChildID] = append(list[ev.ChildID], ev)
		}
	}
	return list
}

// awaits reports whether a session waits for a child.
func (h *History) awaits(child string) bool {
	if len(h.Runs) == 0 || h.Session.Status != cairn.SessionPaused {
		return false
	}
	return h.Runs[len(h.Runs)-1].Suspended.Awaits(child)
}

// childrenBelong finds sessions that no call consulted, sub-agents that several calls began, and children in
// another tree than their parent.
func childrenBelong(t *Tree) error {
	calls := t.callsOf()
	root := t.Sessions[0].Session.ID
	for _, h := range t.Sessions[1:] {
		s := h.Session
		parent := t.session(s.ParentID)
		if parent == nil || s.RootID != root {
			return fmt.Errorf("session %s has the parent %q and the root %q, in the tree of %s", s.ID, s.ParentID, s.RootID, root)
		}
		by := map[string]bool{}
		for _, ev := range calls[s.ID] {
			if by[ev.CallID] = true; ev.SessionID != s.ParentID || ev.Name != s.Agent {
				return fmt.Errorf("session %s of %s was begun by %s for %s", s.ID, s.ParentID, ev.SessionID, ev.Name)
			}
		}
		if len(by) == 0 || len(by) > 1 && s.Kind != cairn.ChildCompanion {
			return fmt.Errorf("session %s was begun by %d calls of its parent %s", s.ID, len(by), s.ParentID)
		}
	}
	return nil
}

// everyWaitEnds finds orphans: sub-agents that have not ended although their parent does not wait for them.
// Companions may outlive a call.
func everyWaitEnds(t *Tree) error {
	if !t.Settled {
		return nil
	}
	for _, h := range t.Sessions[1:] {
		parent := t.session(h.Session.ParentID)
		if h.Session.Kind == cairn.ChildCompanion || parent == nil || parent.awaits(h.Session.ID) {
			continue
		}
		if s := h.Session.Status; s == cairn.SessionPaused || s == cairn.SessionActive {
			return fmt.Errorf("session %s is %s, its parent %s is %s and does not wait for it", h.Session.ID, s, parent.Session.ID, parent.Session.Status)
		}
	}
	return nil
}

// consultationsEnd finds consultations of other agents whose end is missing on the log, is on it twice, or follows
// the end of their call. Discarded steps do not count. The consultation of a resumed call ends in the step that
// resumed it.
func consultationsEnd(h *History) error {
	type consultation struct{ began, ended, over bool }
	calls := map[string]*consultation{}
	fresh := map[string]map[string]consultation{} // by step: what its calls' consultations were before
	for i := range h.Events {
		ev := &h.Events[i]
		id := stepID(ev.RunID, ev.Step)
		switch ev.Type {
		case cairn.EventStepStart:
			fresh[id] = map[string]consultation{}
			continue
		case cairn.EventStepDiscarded:
			last := ev.Step
			for fresh[stepID(ev.RunID, last+1)] != nil {
				last++
			}
			for n := last; n >= ev.Step; n-- {
				for call, before := range fresh[stepID(ev.RunID, n)] {
					*calls[call] = before
				}
				delete(fresh, stepID(ev.RunID, n))
			}
			continue
		case cairn.EventSubagentStart, cairn.EventSubagentEnd, cairn.EventToolEnd:
		default:
			continue
		}
		c := calls[ev.CallID]
		if c == nil {
			c = &consultation{}
			calls[ev.CallID] = c
		}
		if before, ok := fresh[id]; ok {
			if _, known := before[ev.CallID]; !known {
				before[ev.CallID] = *c
			}
		}
		switch {
		case ev.Type == cairn.EventSubagentStart && !c.began:
			c.began = true
		case ev.Type == cairn.EventSubagentEnd && c.began && !c.ended && !c.over:
			c.ended = true
		case ev.Type == cairn.EventToolEnd && c.began == c.ended:
			c.over = true
		default:
			return fmt.Errorf("event %d (%s) of call %s of %s: it has begun to consult: %t, ended that: %t, ended: %t",
				ev.Sequence, ev.Type, ev.CallID, ev.Tool, c.began, c.ended, c.over)
		}
	}
	return nil
}

// childrenEndFirst finds runs that end on the log before a sub-agent that they consulted. A sub-agent of a discarded step
// may end later: its process has died, and its lease must lapse first.
func childrenEndFirst(t *Tree) error {
	consulted := map[string]*cairn.Event{} // by sub-agent: its beginning
	open := map[string]bool{}              // the sessions with a run that has not ended
	for i := range t.Events {
		ev := &t.Events[i]
		switch ev.Type {
		case cairn.EventSubagentStart:
			if h := t.session(ev.ChildID); h != nil && h.Session.Kind == cairn.ChildSubAgent {
				consulted[ev.ChildID] = ev
			}
		case cairn.EventStepDiscarded:
			maps.DeleteFunc(consulted, func(_ string, by *cairn.Event) bool { return ev.Voids(by) })
		case cairn.EventRunStart, cairn.EventRunResumed:
			open[ev.SessionID] = true
			for child, by := range consulted {
				if by.SessionID == ev.SessionID && by.RunID == ev.Name { // its step continues in this run
					carried := *by
					carried.RunID, carried.Step = ev.RunID, 1
					consulted[child] = &carried
				}
			}
		case cairn.EventRunEnd:
			if ev.Status == cairn.RunSuspended {
				continue
			}
			delete(open, ev.SessionID)
			for child, by := range consulted {
				if by.SessionID == ev.SessionID && open[child] {
					return fmt.Errorf("run %s of %s ends with event %d, and its sub-agent %s has not ended", ev.RunID, ev.SessionID, ev.Sequence, child)
				}
			}
		}
	}
	return nil
}

// childResultsKept finds results of sub-agents that differ from the outcomes of their sessions.
func childResultsKept(t *Tree) error {
	children := map[string]*History{} // by call
	for id, list := range t.callsOf() {
		if h := t.session(id); h != nil && h.Session.Kind != cairn.ChildCompanion {
			for _, ev := range list {
				children[ev.CallID] = h
			}
		}
	}
	for _, h := range t.Sessions {
		for id, list := range h.results() {
			child := children[id]
			if child == nil || list[0].IsError {
				continue
			}
			last := &child.Runs[len(child.Runs)-1]
			said, err := json.Marshal(last.Text)
			if err != nil {
				return err
			}
			if len(last.Output) > 0 {
				said = last.Output
			}
			if last.Status != cairn.RunCompleted || compact(list[0].Output) != compact(said) {
				return fmt.Errorf("session %s was given %s by call %s, whose session %s is %s with %s",
					h.Session.ID, list[0].Output, id, child.Session.ID, last.Status, said)
			}
		}
	}
	return nil
}

// consultedOnce finds sub-agents that were consulted again after they had completed, or that began another turn than
// the one of their call.
func consultedOnce(t *Tree) error {
	for _, h := range t.Sessions[1:] {
		for i := 1; i < len(h.Runs) && h.Session.Kind != cairn.ChildCompanion; i++ {
			if r := &h.Runs[i]; r.Kind != cairn.RunResume || h.Runs[i-1].Status == cairn.RunCompleted {
				return fmt.Errorf("session %s of %s: run %s (%s) follows run %s, which is %s", h.Session.ID, h.Session.Agent, r.ID, r.Kind, h.Runs[i-1].ID, h.Runs[i-1].Status)
			}
		}
	}
	return nil
}

// noSessionStuck finds sessions that have neither ended nor have a call that can still be answered.
func noSessionStuck(t *Tree) error {
	if !t.Settled {
		return nil
	}
	for _, h := range t.Sessions {
		s := h.Session
		if s.Status == cairn.SessionActive || t.Answered && s.Status == cairn.SessionPaused {
			return fmt.Errorf("session %s of %s is %s, with %d calls open", s.ID, s.Agent, s.Status, s.OpenCalls)
		}
		if s.Status != cairn.SessionPaused {
			continue
		}
		waits := slices.ContainsFunc(h.Calls, func(c cairn.PendingCall) bool { return c.Status == cairn.CallOpen })
		for _, child := range t.Sessions {
			waits = waits || h.awaits(child.Session.ID) && child.Session.Status == cairn.SessionPaused
		}
		if !waits {
			return fmt.Errorf("session %s of %s waits for nobody: %+v", s.ID, s.Agent, h.Runs[len(h.Runs)-1].Suspended)
		}
	}
	return nil
}
