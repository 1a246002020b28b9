package engine

import (
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
)

// underway is what a run does, as far as its events say.
type underway struct {
	kind  cairn.SituationKind // empty if it is not known
	since time.Time
	step  int
	// retries counts the attempts at the step that failed.
	retries int
	// failed is why the last of them failed, and until when the next one begins, if that has not begun.
	failed *cairn.Error
	until  time.Time
	// open are the events with which the calls began that have not ended, oldest first.
	open []cairn.Event
}

// workOf returns what the run that holds a session does, by the last events of its tree's log.
func workOf(row *cairn.Session, tail []cairn.Event) (w underway) {
	for i := range tail {
		if ev := &tail[i]; ev.SessionID == row.ID && ev.RunID == row.RunID {
			w.add(ev)
		}
	}
	if last := len(tail) - 1; w.kind == "" && last >= 0 && row.RootID == row.ID && tail[last].SessionID != row.ID {
		ev := tail[last] // the events of the session's own are too far back
		ev.ChildID, ev.Name, ev.Tool, ev.CallID = ev.SessionID, ev.Agent, "", ""
		w.kind, w.since, w.open = cairn.SituationChild, ev.Time, []cairn.Event{ev}
	}
	return w
}

// add adds the next event of the session's run.
func (w *underway) add(ev *cairn.Event) {
	w.step = max(w.step, ev.Step)
	turn := func(kind cairn.SituationKind) {
		if w.kind != kind {
			w.kind, w.since = kind, ev.Time
		}
	}
	switch ev.Type {
	case cairn.EventStepStart:
		w.failed, w.until, w.open = nil, time.Time{}, nil
		turn(cairn.SituationModel)
	case cairn.EventTextDelta, cairn.EventThinking, cairn.EventThinkingEnd, cairn.EventToolArgStart, cairn.EventToolArgDelta, cairn.EventToolArgEnd:
		w.failed, w.until = nil, time.Time{}
		turn(cairn.SituationWriting)
	case cairn.EventStepDiscarded:
		if w.open = nil; ev.Error == nil { // by a takeover
			turn(cairn.SituationModel)
			return
		}
		w.retries++
		w.failed = ev.Error
		turn(cairn.SituationRetry)
	case cairn.EventStepRetry:
		w.kind, w.since, w.retries, w.failed, w.until, w.open = cairn.SituationRetry, ev.Time, ev.Attempts, ev.Error, ev.Until, nil
	case cairn.EventToolStart, cairn.EventSubagentStart:
		w.open = slices.DeleteFunc(w.open, func(o cairn.Event) bool { return o.CallID == ev.CallID })
		w.open = append(w.open, *ev)
		turn(cairn.SituationTool)
	case cairn.EventToolEnd, cairn.EventSubagentEnd:
		if w.open = slices.DeleteFunc(w.open, func(o cairn.Event) bool { return o.CallID == ev.CallID }); len(w.open) == 0 {
			turn(cairn.SituationRunning)
		}
	case cairn.EventStepCommitted:
		w.step, w.retries, w.failed, w.until, w.open = ev.Step+1, 0, nil, time.Time{}, nil
		turn(cairn.SituationRunning)
	}
}
