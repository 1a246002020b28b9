package torture

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
)

// runsContiguous finds turns that are missing or repeated, runs that failed, and more than one running run.
func runsContiguous(h *History) error {
	s := h.Session
	if len(h.Runs) != s.Turn {
		return fmt.Errorf("the session is at turn %d with %d runs", s.Turn, len(h.Runs))
	}
	for i := range h.Runs {
		r := &h.Runs[i]
		last := i == len(h.Runs)-1
		switch {
		case r.Turn != i+1:
			return fmt.Errorf("run %s is turn %d in place %d", r.ID, r.Turn, i+1)
		case last && r.ID != s.RunID:
			return fmt.Errorf("the session is at run %s, the last one is %s", s.RunID, r.ID)
		case r.Status == cairn.RunRunning && (!last || s.Status != cairn.SessionActive):
			return fmt.Errorf("run %s of turn %d is running, the session is %s at turn %d", r.ID, r.Turn, s.Status, s.Turn)
		case last && s.Status == cairn.SessionActive && r.Status != cairn.RunRunning:
			return fmt.Errorf("the session is active, its run %s is %s", r.ID, r.Status)
		case (r.Status == cairn.RunRunning) != r.EndedAt.IsZero():
			return fmt.Errorf("run %s is %s and ended at %s", r.ID, r.Status, r.EndedAt)
		case stopped(r) && h.mayStop():
		case r.Status == cairn.RunFailed:
			return fmt.Errorf("run %s failed: %v", r.ID, r.Error)
		case r.Status == cairn.RunInterrupted: // a message to a crashed session gives up no run
			return fmt.Errorf("run %s was interrupted: %s", r.ID, r.Reason)
		}
	}
	return nil
}

// mayStop reports whether runs of the session may be stopped: those of families, those of children whose parents
// proceed, and those to whose session a message was sent that stops them.
func (h *History) mayStop() bool {
	return kindOf(h.Session.Agent).waits || slices.ContainsFunc(h.Journal, func(r record) bool { return r.Kind == sending && r.Way.stops() })
}

// usageAddsUp finds runs whose usage differs from that of their committed steps and of the calls that they
// cancelled.
func usageAddsUp(h *History) error {
	var sum cairn.Usage
	for _, t := range h.turns() {
		if t.undone {
			sum = sum.Add(t.run.Usage)
			continue
		}
		var want cairn.Usage
		closed := slices.Clone(t.withdrawn) // by the run that cancelled the pending calls
		for _, s := range t.steps {
			if s.reply != nil {
				want.ModelCalls++
			}
			if s.results != nil {
				closed = append(closed, s.results)
			}
		}
		for _, m := range closed {
			for _, r := range m.ToolResults() {
				want.ToolCalls++
				if r.IsError {
					want.ToolErrors++
				}
			}
		}
		got := t.run.Usage
		if t.run.Status == cairn.RunRunning {
			got = h.Session.RunUsage
		}
		if stopped(t.run) && got.ModelCalls == want.ModelCalls+1 { // the model had not replied yet
			want.ModelCalls++
		}
		if !sameCounts(got, want) {
			return fmt.Errorf("run %s used %+v, its steps %+v", t.run.ID, got, want)
		}
		sum = sum.Add(want)
	}
	if !sameCounts(h.Session.Usage, sum) {
		return fmt.Errorf("the session used %+v, its runs %+v", h.Session.Usage, sum)
	}
	return nil
}

func sameCounts(a, b cairn.Usage) bool {
	return a.ModelCalls == b.ModelCalls && a.ToolCalls == b.ToolCalls && a.ToolErrors == b.ToolErrors
}

// checkpointsOrdered finds checkpoints that are missing, repeated, out of order, or at a wrong position.
func checkpointsOrdered(h *History) error {
	ends := map[string]int{}  // number of messages after a step; negative if the step added none
	loose := map[string]int{} // number of rows after a run's last step, which a deferred commit of both counts
	late := map[string]int{}  // number of late answers behind a step
	last := map[string]int{}  // last committed step of a run
	for _, t := range h.turns() {
		if t.undone {
			continue
		}
		if n := t.count(h.committedSteps(t.run)); n > 0 {
			last[t.run.ID] = n
		}
		if t.resumes && last[t.run.ID] > 0 {
			ends[stepID(t.run.ID, 1)] = -1
		}
		for i := range t.steps {
			s := &t.steps[i]
			ends[stepID(t.run.ID, s.number)], late[stepID(t.run.ID, s.number)] = s.to, s.late
			if i == len(t.steps)-1 && !h.everyStep() {
				loose[stepID(t.run.ID, s.number)] = len(t.loose)
			}
		}
	}
	parent, before, number := "", 0, int64(0)
	for i := range h.Checkpoints {
		cp := &h.Checkpoints[i]
		end, known := ends[cp.StepID]
		byHand := cp.StepID == cp.ID // between turns
		switch {
		case cp.MessageCount < before || cp.MessageCount > len(h.Messages):
			return fmt.Errorf("checkpoint %s has %d messages, the one before it %d, the session %d", cp.ID, cp.MessageCount, before, len(h.Messages))
		case cp.Number != number+1 && (h.Session.Epoch == 0 || cp.Number <= number) || cp.ParentID != parent:
			return fmt.Errorf("checkpoint %s has number %d and parent %q in place %d after %q", cp.ID, cp.Number, cp.ParentID, i+1, parent)
		case !byHand && (cp.StepID != stepID(cp.RunID, cp.Step) || !known):
			return fmt.Errorf("checkpoint %s is of run %s step %d (%s), which is not in the transcript", cp.ID, cp.RunID, cp.Step, cp.StepID)
		case !byHand && (cp.MessageCount < end-late[cp.StepID] || cp.MessageCount > end) && cp.MessageCount != end+loose[cp.StepID] && end >= 0:
			return fmt.Errorf("checkpoint %s has %d messages, its step ends at %d", cp.ID, cp.MessageCount, end)
		}
		parent, before, number = cp.ID, cp.MessageCount, cp.Number
		if byHand {
			continue
		}
		delete(ends, cp.StepID)
		if cp.Step == last[cp.RunID] {
			delete(last, cp.RunID)
		}
	}
	if parent != h.Session.CheckpointID {
		return fmt.Errorf("the session is at checkpoint %q, the last one is %q", h.Session.CheckpointID, parent)
	}
	if h.everyStep() && len(ends) > 0 {
		return fmt.Errorf("%d steps have no checkpoint", len(ends))
	}
	for run, n := range last {
		return fmt.Errorf("the last step %d of run %s has no checkpoint", n, run)
	}
	return nil
}

// everyStep reports whether each step is committed by itself: per step or per tool.
func (h *History) everyStep() bool { return strings.HasPrefix(h.Session.Agent, "per-") }

// nobodyLeftRunning finds active sessions that no process can drive. Only a released session has no lease.
func nobodyLeftRunning(h *History) error {
	s := h.Session
	switch {
	case s.Status == cairn.SessionActive && (s.Lease.Until.IsZero() || s.Lease.Owner == "" && s.Lease.Until.After(s.UpdatedAt)):
		return fmt.Errorf("the session is active without a lease: %+v", s.Lease)
	// A stop of a dead run holds the lease for no time.
	case s.Status != cairn.SessionActive && s.Lease.Owner != "" && s.Lease.Until.After(s.UpdatedAt):
		return fmt.Errorf("the session is %s, %s has its lease", s.Status, s.Lease.Owner)
	case h.Settled && s.Status == cairn.SessionActive:
		return fmt.Errorf("the session is still active in turn %d step %d after %d recoveries", s.Turn, s.Step, s.Recoveries)
	}
	return nil
}

// needsAreDue finds sessions that need a worker but are not listed as due, or are due for another reason, and due
// sessions that need no worker.
func needsAreDue(h *History) error {
	before, after := need(h.Session, h.Asked), need(h.Session, h.Answered)
	if h.Due != before && h.Due != after {
		return fmt.Errorf("the session needs a worker for %q, and is due for %q: %+v", before, h.Due, *h.Session)
	}
	return nil
}
