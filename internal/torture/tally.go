package torture

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
)

// tally counts what a run of the test has checked.
type tally struct {
	sessions, below, runs, stopped, steps, events, discarded, staged, takenOver int
	// Stops of a session by itself, as opposed to those of a turn that takes its place.
	held int
	// Messages to sessions whose process was gone, those that were acknowledged, and runs that they undid.
	messages, acknowledged, undone int
	// Turns, and messages that joined a turn.
	queued, dequeued, joined int
	// Checkpoints between turns.
	byHand int
	// Pending calls by outcome.
	calls map[string]int
}

func (n tally) String() string {
	counts := join(slices.Sorted(maps.Keys(n.calls)), func(k string) string { return fmt.Sprintf("%s %d", k, n.calls[k]) })
	return fmt.Sprintf("%d sessions (%d below roots), %d runs (%d stopped, %d stops acknowledged, %d times taken over, %d queued, %d dequeued, %d messages joined, "+
		"%d sent after a process had died, %d of them acknowledged, %d runs undone), "+
		"%d steps, %d pieces staged, %d checkpoints by hand, %d events, %d steps discarded; calls: %s", n.sessions, n.below, n.runs, n.stopped, n.held, n.takenOver, n.queued, n.dequeued, n.joined,
		n.messages, n.acknowledged, n.undone,
		n.steps, n.staged, n.byHand, n.events, n.discarded, counts)
}

func (n *tally) add(t *Tree) {
	n.sessions += len(t.Sessions)
	n.below += len(t.Sessions) - 1
	n.events += len(t.Events)
	for i := range t.Events {
		if t.Events[i].Type == cairn.EventStepDiscarded {
			n.discarded++
		}
	}
	for _, h := range t.Sessions {
		n.runs += len(h.Runs)
		for i := range h.Runs {
			if stopped(&h.Runs[i]) {
				n.stopped++
			}
		}
		n.undone += len(h.undone())
		for _, t := range h.turns() {
			n.steps += len(t.steps)
		}
		for i := range h.Calls {
			c := &h.Calls[i]
			what := string(c.Kind) + " " + string(c.Status)
			if c.Answer != nil {
				what += " " + string(c.Answer.Kind)
			}
			n.calls[what]++
		}
		for i := range h.Messages {
			if joined(&h.Messages[i]) {
				n.joined++
			}
		}
		for i := range h.Checkpoints {
			if c := &h.Checkpoints[i]; c.StepID == c.ID {
				n.byHand++
			}
		}
		for _, r := range h.Journal {
			switch {
			case r.Kind == stopHeld:
				n.held++
			case r.Kind == dequeued:
				n.dequeued++
			case r.Kind == sending:
				n.messages++
			case r.Kind == sent:
				n.acknowledged++
			case r.Kind == staged:
				n.staged++
			case r.Took && r.Began == "":
				n.takenOver++
			case r.Kind == committed && r.Queued != "":
				n.queued++
			case r.Outcome == cairn.OutcomeLate:
				n.calls["late"]++
			}
		}
	}
}

// median returns the median of durations.
func median(list []time.Duration) time.Duration { return quantile(list, 0.5) }

// quantile returns the smallest duration that the given share of the durations does not exceed.
func quantile(list []time.Duration, share float64) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[min(int(share*float64(len(list))), len(list)-1)]
}

func counts(by map[string]int) string {
	return join(slices.Sorted(maps.Keys(by)), func(k string) string { return fmt.Sprintf("%s %d", k, by[k]) })
}
