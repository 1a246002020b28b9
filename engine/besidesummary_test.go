package engine_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
)

// overdue is an agent that asks a person, who does not answer in time. The run continues without the answer, until its
// history is summarised.
type overdue struct {
	*cairn.Agent
	meanwhile func()     // happens while the first summary is made
	requests  [][]string // those with a summary
	summed    []string   // what the later summaries are of
}

func newOverdue(d cairn.Durability) *overdue {
	o := &overdue{}
	asked, summed := false, false
	o.Agent = bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		size := int64(sizeOf(req))
		if req.System == cairn.SummaryInstructions {
			if summed {
				o.summed = append(o.summed, inShort(req.Messages)...)
			} else {
				o.meanwhile()
			}
			summed = true
			return scripted.Text("summary").Usage(size, 5)
		}
		if summed {
			o.requests = append(o.requests, inShort(req.Messages))
		}
		switch {
		case !asked:
			asked = true
			return scripted.Call("ask", in{"?"}).Usage(size, 20)
		case len(o.requests) > 1:
			return scripted.Text("done").Usage(size, 20)
		}
		return scripted.Call("note", in{strings.Repeat("note ", 20)}).Usage(size, 20)
	}), echo("note"), cairn.ClientTool[in, string]("ask", "Asks.", cairn.WaitAtMost(10*time.Minute)))
	o.MaxSteps, o.Durability, o.Compaction = 100, d, &cairn.Compaction{Window: 1200}
	return o
}

// play has the agent's history summarised while another process does something with its session and the call that was
// not answered, and then executes another turn in a third process.
func (o *overdue) play(t *testing.T, st *tap, meanwhile func(eng *engine.Engine, call cairn.CallRef)) {
	t.Helper()
	eng, other := open(t, st, o.Agent), open(t, st.twin(), o.Agent, named("b"))
	call := turn(t, eng, "s", "go").Suspended.Calls[0]
	o.meanwhile = func() { meanwhile(other, call) }
	testclock.Advance(11 * time.Minute)
	wantStatus(t, resume(t, eng, "s"), cairn.RunCompleted, cairn.ReasonReply)
	turn(t, open(t, st.twin(), o.Agent, named("c")), "s", "go on")
	if len(o.requests) != 3 {
		t.Fatalf("%d requests have a summary, want 3", len(o.requests))
	}
}

// What other processes add to a session while a run has its history summarised is no part of what the summary stands
// for. The model reads it behind what it has read, and another process sends what this one has sent.
func TestAdditionsDuringASummary(t *testing.T) {
	t.Parallel()
	for what, add := range map[string]func(t *testing.T, eng *engine.Engine, call cairn.CallRef){
		"a late answer": func(t *testing.T, eng *engine.Engine, call cairn.CallRef) {
			submit(t, eng, "s", cairn.Answer(call, "news"), cairn.OutcomeLate)
		},
		"context": func(t *testing.T, eng *engine.Engine, _ cairn.CallRef) {
			if err := eng.AddContext(t.Context(), "s", "news"); err != nil {
				t.Error(err)
			}
		},
		"a message": func(t *testing.T, eng *engine.Engine, _ cairn.CallRef) {
			start(t, eng, "s", "news", engine.WithOnBusy(engine.BusySteer))
		},
	} {
		for _, d := range durabilities {
			t.Run(what+"/"+d.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					o, st := newOverdue(d), tapOn(nil)
					o.play(t, st, func(eng *engine.Engine, call cairn.CallRef) { add(t, eng, call) })
					for i, list := range o.requests[1:] {
						before := o.requests[i]
						if len(list) <= len(before) || !slices.Equal(list[:len(before)], before) {
							t.Errorf("after the request %q comes %q", before, list)
						}
					}
					isNews := func(text string) bool { return strings.Contains(text, "news") }
					if list := o.requests[1]; slices.IndexFunc(list, isNews) != len(list)-1 {
						t.Errorf("what was added is not what the model reads last: %q", list)
					}
					wantSound(t, st, "s")
				})
			})
		}
	}
}

// The store takes messages of a writer that is not the engine although a run holds the session. A summary made meanwhile
// does not stand for them: the model reads them, or the next summary is made of them.
func TestForeignMessageDuringASummary(t *testing.T) {
	t.Parallel()
	for _, d := range durabilities {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o, st := newOverdue(d), tapOn(nil)
				o.play(t, st, func(*engine.Engine, cairn.CallRef) {
					_, err := driver.Update(t.Context(), st.Store, "s", func(*cairn.Session) (*driver.Commit, error) {
						m := cairn.Context("news")
						m.ID = "foreign"
						return &driver.Commit{Messages: []cairn.Message{m}}, nil
					})
					if err != nil {
						t.Error(err)
					}
				})
				if read := strings.Join(append(o.requests[1], o.summed...), "\n"); !strings.Contains(read, "news") {
					t.Errorf("no model reads the foreign message: %q", read)
				}
			})
		})
	}
}
