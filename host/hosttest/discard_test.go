package hosttest

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// takenOver rewrites the log as if each step had been taken over twice. A process died in the step, or, if open is 2,
// in the step after it, which its commit would have added with the step; one discard voids what it published. The next
// process died before it published anything. The end of each run was written by a process that took the run over, too.
func (t *tree) takenOver(open int) {
	var list []cairn.Event
	put := func(of cairn.Event, step int, et cairn.EventType) *cairn.Event {
		list = append(list, cairn.Event{Type: et, SessionID: of.SessionID, RunID: of.RunID, Step: step})
		return &list[len(list)-1]
	}
	for _, ev := range t.events {
		switch ev.Type {
		case cairn.EventStepStart:
			for n := ev.Step; n < ev.Step+open; n++ {
				put(ev, n, cairn.EventStepStart)
				put(ev, n, cairn.EventTextDelta).Text = "void"
				call := fmt.Sprint("void", n)
				put(ev, n, cairn.EventToolArgEnd).CallID = call
				put(ev, n, cairn.EventToolEnd).CallID = call
			}
			put(ev, ev.Step, cairn.EventStepDiscarded)
			put(ev, ev.Step, cairn.EventStepDiscarded)
		case cairn.EventRunEnd:
			put(ev, ev.Step+1, cairn.EventStepDiscarded)
		}
		list = append(list, ev)
	}
	t.events = list
	t.renumber()
}

// before is how readers understood a discard before it voided later steps.
func before(discard, start *cairn.Event) bool {
	return start.RunID == discard.RunID && start.Step == discard.Step
}

// A run that is taken over has a discard of the step after its last commit, whether or not that has begun. Whatever
// the conversation, a reader that follows the rules has the transcript. So has one of the revision before, which voids
// no step but the one that is named, except that steps committed together leave it with what the later ones said.
func TestReadersOfRunsThatWereTakenOver(t *testing.T) {
	t.Parallel()
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, Host{Start: inProcess}, Store{Bubble: true, Open: func(_ testing.TB, now func() time.Time) driver.Store {
					return memstore.New(&memstore.Options{Now: now})
				}})
				sc.play(s)
				s.finish()
				for _, root := range s.roots {
					for open := range 3 {
						tree, err := readTree(s.ctx, s.st, s.log, root)
						s.must(err)
						tree.takenOver(open)
						for _, problem := range tree.unsound() {
							t.Errorf("with %d open steps: %s", open, problem)
						}
						for _, r := range tree.sessions {
							if got, want := fold(r.row.ID, r.messages[:r.inherited()], r.events, before), Lines(r.messages); open < 2 && !slices.Equal(got, want) {
								t.Errorf("with %d open steps the revision before has\n%q\nwant\n%q", open, got, want)
							}
						}
					}
				}
			})
		})
	}
}
