package torture

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
)

// eventsContiguous finds gaps in a tree's log, events of other trees, and sessions that are ahead of their log.
func eventsContiguous(t *Tree) error {
	runs := map[string]string{} // session by run
	for _, h := range t.Sessions {
		for i := range h.Runs {
			runs[h.Runs[i].ID] = h.Session.ID
		}
		if n := int64(len(t.Events)); n < h.Session.LogSequence {
			return fmt.Errorf("session %s is at event %d, the log has %d", h.Session.ID, h.Session.LogSequence, n)
		}
	}
	for i := range t.Events {
		ev := &t.Events[i]
		if ev.Sequence != int64(i+1) {
			return fmt.Errorf("event %d is in place %d", ev.Sequence, i+1)
		}
		if ev.Version > 0 { // written by a verb outside of runs
			if !slices.ContainsFunc(t.Sessions, func(h *History) bool { return h.Session.ID == ev.SessionID }) {
				return fmt.Errorf("event %d (%s) is of session %q", ev.Sequence, ev.Type, ev.SessionID)
			}
			continue
		}
		if ev.Type == cairn.EventDequeued { // a turn whose messages joined another one has no run
			continue
		}
		if ev.RunID == "" || runs[ev.RunID] != ev.SessionID {
			return fmt.Errorf("event %d (%s) is of session %q, run %q", ev.Sequence, ev.Type, ev.SessionID, ev.RunID)
		}
	}
	return nil
}

// reader reads a log as a user interface does: it drops discarded steps and keeps committed ones.
type reader struct {
	open map[string]*shown // by step id
	kept map[string]*shown
	last map[string]int // the last committed step, by run
	// closed counts the results of cancelled calls, which belong to no step.
	closed map[string]int
}

type shown struct {
	start   *cairn.Event
	text    string
	results map[string]string // the last result per call
}

func (r *reader) read(ev *cairn.Event) error {
	id := stepID(ev.RunID, ev.Step)
	s := r.open[id]
	switch ev.Type {
	case cairn.EventStepStart:
		if s != nil || r.kept[id] != nil {
			return fmt.Errorf("event %d begins step %s again; open: %t", ev.Sequence, id, s != nil)
		}
		r.open[id] = &shown{start: ev, results: map[string]string{}}
	case cairn.EventStepDiscarded:
		if r.last[ev.RunID] >= ev.Step {
			return fmt.Errorf("event %d discards step %s, and step %d is committed", ev.Sequence, id, r.last[ev.RunID])
		}
		maps.DeleteFunc(r.open, func(_ string, s *shown) bool { return ev.Voids(s.start) })
	case cairn.EventStepCommitted:
		if s == nil {
			return fmt.Errorf("event %d commits step %s, which is not open", ev.Sequence, id)
		}
		r.kept[id] = s
		r.last[ev.RunID] = ev.Step
		delete(r.open, id)
	case cairn.EventToolEnd:
		if s == nil {
			r.closed[render(ev.CallID, ev.Data, ev.IsError)]++
			return nil
		}
		s.results[ev.CallID] = render(ev.CallID, ev.Data, ev.IsError)
	case cairn.EventTextDelta, cairn.EventToolArgStart, cairn.EventToolArgDelta, cairn.EventToolArgEnd, cairn.EventToolStart,
		cairn.EventStatePatch, cairn.EventUsage:
		if ev.Type == cairn.EventUsage && ev.Step == 0 {
			return nil
		}
		if s == nil {
			return fmt.Errorf("event %d (%s) is of step %s, which is not open", ev.Sequence, ev.Type, id)
		}
		s.text += ev.Text
		if ev.Type == cairn.EventToolArgDelta {
			s.text = strings.TrimSuffix(s.text, ev.Text)
		}
	}
	return nil
}

// resultWord renders a result of the transcript for comparison with the log.
func resultWord(r *cairn.ToolResult) string {
	if r.Private {
		return render(r.CallID, json.RawMessage(define.PrivateError), r.IsError)
	}
	return render(r.CallID, r.Output, r.IsError)
}

// render renders a result, from the log or the transcript.
func render(call string, output json.RawMessage, isError bool) string {
	return fmt.Sprintf("%s: %s %t", call, compact(output), isError)
}

// replayEqualsLive finds steps whose events differ from the transcript, are repeated, or are discarded although the
// step was committed.
func replayEqualsLive(h *History) error {
	r := reader{open: map[string]*shown{}, kept: map[string]*shown{}, last: map[string]int{}, closed: map[string]int{}}
	undone := h.undone()
	for i := range h.Events {
		if undone[h.Events[i].RunID] {
			continue
		}
		if err := r.read(&h.Events[i]); err != nil {
			return err
		}
	}
	for _, t := range h.turns() {
		if t.undone {
			continue
		}
		for i := range t.steps {
			s := &t.steps[i]
			id := stepID(t.run.ID, s.number)
			if err := r.compare(r.kept[id], s, h.logged()); err != nil {
				return err
			}
			delete(r.kept, id)
		}
		if t.resumes && t.count(h.committedSteps(t.run)) > 0 {
			delete(r.kept, stepID(t.run.ID, 1)) // it may have added nothing
		}
		if stopped(t.run) { // before the step had a reply
			delete(r.open, stepID(t.run.ID, t.run.Steps+1))
		}
		for _, m := range t.withdrawn {
			for _, res := range m.ToolResults() {
				word := resultWord(res)
				if n := r.closed[word]; n > 1 || n == 0 && h.logged() {
					return fmt.Errorf("run %s: the log says %d times that %s", t.run.ID, n, word)
				}
				delete(r.closed, word)
			}
		}
	}
	for id := range r.kept {
		return fmt.Errorf("step %s is committed in the log and not in the transcript", id)
	}
	for word := range r.closed {
		return fmt.Errorf("the log says outside of any step that %s, the transcript does not", word)
	}
	if h.logged() && h.Session.Status != cairn.SessionActive {
		for id := range r.open {
			return fmt.Errorf("step %s is open in the log of a session that is %s", id, h.Session.Status)
		}
	}
	return nil
}

// compare compares what a reader saw of a step, if anything, with the transcript.
func (r *reader) compare(saw *shown, s *step, logged bool) error {
	if saw == nil {
		if !logged {
			return nil // the last commit's marks may be missing
		}
		return fmt.Errorf("%s is committed, the log does not say so", s)
	}
	if s.reply != nil && saw.text != s.reply.Text() {
		return fmt.Errorf("%s says %q in the log, %q in the transcript", s, saw.text, s.reply.Text())
	}
	if s.results == nil {
		return nil
	}
	for _, res := range s.results.ToolResults() {
		if want := resultWord(res); saw.results[res.CallID] != want {
			return fmt.Errorf("%s: the log says that %s, the transcript that %s", s, saw.results[res.CallID], want)
		}
	}
	return nil
}

// afterWait are the events of a suspended run that is stopped, before it ends once more.
var afterWait = []cairn.EventType{cairn.EventToolEnd, cairn.EventSubagentEnd, cairn.EventError}

// marks are the events that follow from commits of a run, other than those of its open step.
var marks = []cairn.EventType{cairn.EventRunStart, cairn.EventRunResumed, cairn.EventRunEnd, cairn.EventUserMessage, cairn.EventStepCommitted, cairn.EventCheckpoint}

// placedBehindMarks finds marks of a session behind the place that its row has on the log, from where readers and
// attempts at effects read, and anything there of a session that is not active. On a log elsewhere that place is a lower
// bound.
func placedBehindMarks(h *History) error {
	for i := range h.Events {
		ev := &h.Events[i]
		if !h.Own || ev.Sequence <= h.Session.LogSequence {
			continue
		}
		if h.Session.Status != cairn.SessionActive || ev.Version == 0 && slices.Contains(marks, ev.Type) {
			return fmt.Errorf("the session is %s and at event %d, event %d (%s) follows", h.Session.Status, h.Session.LogSequence, ev.Sequence, ev.Type)
		}
	}
	return nil
}

// marksOnce finds runs that begin or end twice in the log, or end before they begin, ends that are not published,
// and commits that are published twice. A suspended run that is stopped ends once more.
func marksOnce(h *History) error {
	undone := h.undone()
	starts, waits, ends, commits := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	for i := range h.Events {
		ev := &h.Events[i]
		switch {
		case undone[ev.RunID]:
		case ev.Type == cairn.EventRunStart || ev.Type == cairn.EventRunResumed:
			starts[ev.RunID]++
		case ev.Type == cairn.EventRunEnd && ev.Status == cairn.RunSuspended:
			waits[ev.RunID]++
		case ev.Type == cairn.EventRunEnd:
			ends[ev.RunID]++
		case ev.Type == cairn.EventStepCommitted:
			commits[stepID(ev.RunID, ev.Step)]++
		case ends[ev.RunID] > 0 || waits[ev.RunID] > 0 && !slices.Contains(afterWait, ev.Type):
			return fmt.Errorf("event %d (%s) comes after the end of run %s", ev.Sequence, ev.Type, ev.RunID)
		}
	}
	for i := range h.Runs {
		r := &h.Runs[i]
		if undone[r.ID] {
			continue
		}
		if n := starts[r.ID]; n > 1 || n == 0 && h.logged() {
			return fmt.Errorf("run %s begins %d times in the log", r.ID, n)
		}
		n, may := ends[r.ID], 1
		if r.Status == cairn.RunSuspended {
			n, may = waits[r.ID], 1
		}
		if r.Status == cairn.RunRunning {
			may = 0
		}
		if n > may || n < may && h.logged() {
			return fmt.Errorf("run %s is %s and ends %d times in the log", r.ID, r.Status, n)
		}
		if extra := waits[r.ID]; r.Status != cairn.RunSuspended && (extra > 1 || extra == 1 && !stopped(r)) || r.Status == cairn.RunSuspended && ends[r.ID] > 0 {
			return fmt.Errorf("run %s is %s, the log says %d times that it waits and %d times that it ended", r.ID, r.Status, extra, ends[r.ID])
		}
	}
	for id, n := range commits {
		if n > 1 {
			return fmt.Errorf("step %s is committed %d times in the log", id, n)
		}
	}
	return nil
}

// patchesFolded finds a log whose state patches, without discarded ones, do not lead to the state.
func patchesFolded(h *History) error {
	if !h.logged() {
		return nil // the marks of the last commits may be missing
	}
	fold := ledger{Entries: []entry{}}
	pending, undone := []*cairn.Event{}, h.undone() // patches of steps that are not committed
	for i := range h.Events {
		ev := &h.Events[i]
		if undone[ev.RunID] {
			continue
		}
		switch ev.Type {
		case cairn.EventStatePatch:
			pending = append(pending, ev)
		case cairn.EventStepDiscarded:
			pending = slices.DeleteFunc(pending, ev.Voids)
		case cairn.EventStepCommitted:
			var rest []*cairn.Event
			for _, p := range pending {
				if p.RunID != ev.RunID || p.Step != ev.Step {
					rest = append(rest, p)
				} else if err := fold.apply(p.Patch); err != nil {
					return fmt.Errorf("step %s: %w", stepID(ev.RunID, ev.Step), err)
				}
			}
			pending = rest
		}
	}
	return fold.equals(h.State)
}

func (l *ledger) apply(patch []cairn.PatchOp) error {
	for _, p := range patch {
		if err := l.patch(p); err != nil {
			return err
		}
	}
	return nil
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
