package torture

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn"
)

// eventsContiguous finds gaps in the log, events of strangers, and a session that is ahead of its log.
func eventsContiguous(h *History) error {
	runs := map[string]bool{}
	for i := range h.Runs {
		runs[h.Runs[i].ID] = true
	}
	for i := range h.Events {
		ev := &h.Events[i]
		if ev.Sequence != int64(i+1) {
			return fmt.Errorf("event %d is in place %d", ev.Sequence, i+1)
		}
		if ev.SessionID != h.Session.ID || !runs[ev.RunID] {
			return fmt.Errorf("event %d (%s) is of session %q, run %q", ev.Sequence, ev.Type, ev.SessionID, ev.RunID)
		}
	}
	if n := int64(len(h.Events)); n < h.Session.LogSequence {
		return fmt.Errorf("the session is at event %d, the log has %d", h.Session.LogSequence, n)
	}
	return nil
}

// reader shows a log as a user interface does: it drops what is taken back, and keeps what was committed.
type reader struct {
	open map[string]*shown // by step id
	kept map[string]*shown
}

type shown struct {
	text    string
	results map[string]string // the last one per call
}

func (r *reader) read(ev *cairn.Event) error {
	id := stepID(ev.RunID, ev.Step)
	s := r.open[id]
	switch ev.Type {
	case cairn.EventStepStart:
		if s != nil || r.kept[id] != nil {
			return fmt.Errorf("event %d begins step %s again; open: %t", ev.Sequence, id, s != nil)
		}
		r.open[id] = &shown{results: map[string]string{}}
	case cairn.EventStepDiscarded:
		if s == nil {
			return fmt.Errorf("event %d discards step %s, which is not open", ev.Sequence, id)
		}
		delete(r.open, id)
	case cairn.EventStepCommitted:
		if s == nil {
			return fmt.Errorf("event %d commits step %s, which is not open", ev.Sequence, id)
		}
		r.kept[id] = s
		delete(r.open, id)
	case cairn.EventTextDelta, cairn.EventToolArgStart, cairn.EventToolArgDelta, cairn.EventToolArgEnd, cairn.EventToolStart,
		cairn.EventToolEnd, cairn.EventStatePatch, cairn.EventUsage:
		if s == nil {
			return fmt.Errorf("event %d (%s) is of step %s, which is not open", ev.Sequence, ev.Type, id)
		}
		s.text += ev.Text
		if ev.Type == cairn.EventToolArgDelta {
			s.text = strings.TrimSuffix(s.text, ev.Text)
		}
		if ev.Type == cairn.EventToolEnd {
			s.results[ev.CallID] = fmt.Sprintf("%s %t", compact(ev.Data), ev.IsError)
		}
	}
	return nil
}

// replayEqualsLive finds steps of which the log tells something else than the transcript, or more than once, or that it
// takes back although they were committed.
func replayEqualsLive(h *History) error {
	r := reader{open: map[string]*shown{}, kept: map[string]*shown{}}
	for i := range h.Events {
		if err := r.read(&h.Events[i]); err != nil {
			return err
		}
	}
	for _, t := range h.turns() {
		for i := range t.steps {
			s := &t.steps[i]
			id := stepID(t.run.ID, s.number)
			told := r.kept[id]
			delete(r.kept, id)
			if told == nil {
				if !h.Settled {
					continue // the last commit's marks are still to come
				}
				return fmt.Errorf("%s is committed, the log does not say so", s)
			}
			if told.text != s.reply.Text() {
				return fmt.Errorf("%s says %q in the log, %q in the transcript", s, told.text, s.reply.Text())
			}
			if s.results == nil {
				continue
			}
			for _, res := range s.results.ToolResults() {
				if want := fmt.Sprintf("%s %t", compact(res.Output), res.IsError); told.results[res.CallID] != want {
					return fmt.Errorf("%s: the result of %s is %q in the log, %q in the transcript", s, res.CallID, told.results[res.CallID], want)
				}
			}
		}
	}
	for id := range r.kept {
		return fmt.Errorf("step %s is committed in the log and not in the transcript", id)
	}
	if h.Settled {
		for id := range r.open {
			return fmt.Errorf("step %s is open in the log of a session that has ended", id)
		}
	}
	return nil
}

// marksOnce finds runs that begin or end twice in the log, or before they do; ends that it does not tell; and commits
// that it tells twice.
func marksOnce(h *History) error {
	starts, ends, commits := map[string]int{}, map[string]int{}, map[string]int{}
	for i := range h.Events {
		ev := &h.Events[i]
		switch ev.Type {
		case cairn.EventRunStart, cairn.EventRunResumed:
			starts[ev.RunID]++
		case cairn.EventRunEnd:
			ends[ev.RunID]++
		case cairn.EventStepCommitted:
			commits[stepID(ev.RunID, ev.Step)]++
		default:
			if ends[ev.RunID] > 0 {
				return fmt.Errorf("event %d (%s) comes after the end of run %s", ev.Sequence, ev.Type, ev.RunID)
			}
		}
	}
	for i := range h.Runs {
		r := &h.Runs[i]
		running := r.Status == cairn.RunRunning
		if n := starts[r.ID]; n > 1 || n == 0 && h.Settled {
			return fmt.Errorf("run %s begins %d times in the log", r.ID, n)
		}
		if n := ends[r.ID]; n > 1 || n == 1 && running || n == 0 && h.Settled && !running {
			return fmt.Errorf("run %s is %s and ends %d times in the log", r.ID, r.Status, n)
		}
	}
	for id, n := range commits {
		if n > 1 {
			return fmt.Errorf("step %s is committed %d times in the log", id, n)
		}
	}
	return nil
}

// patchesFolded finds a log whose state patches, without those that were taken back, do not lead to the state.
func patchesFolded(h *History) error {
	if !h.Settled {
		return nil // the marks of what was committed are not complete
	}
	fold := ledger{Entries: []entry{}}
	pending := map[string][]cairn.PatchOp{}
	for i := range h.Events {
		ev := &h.Events[i]
		id := stepID(ev.RunID, ev.Step)
		switch ev.Type {
		case cairn.EventStatePatch:
			pending[id] = append(pending[id], ev.Patch...)
		case cairn.EventStepDiscarded:
			delete(pending, id)
		case cairn.EventStepCommitted:
			for _, p := range pending[id] {
				if err := fold.patch(p); err != nil {
					return fmt.Errorf("step %s: %w", id, err)
				}
			}
			delete(pending, id)
		}
	}
	return fold.equals(h.State)
}

func (l *ledger) patch(p cairn.PatchOp) error {
	switch p.Path {
	case "/entries/-":
		var e entry
		err := json.Unmarshal(p.Value, &e)
		l.Entries = append(l.Entries, e)
		return err
	case "/entries":
		l.Entries = nil
		return json.Unmarshal(p.Value, &l.Entries)
	case "/total":
		return json.Unmarshal(p.Value, &l.Total)
	case "/last":
		return json.Unmarshal(p.Value, &l.Last)
	}
	return fmt.Errorf("a patch of %q", p.Path)
}
