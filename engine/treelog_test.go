package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
)

// household is a bot that consults a helper, who consults a payer, who takes a note. Each repeats what it gets.
func household(d cairn.Durability, payment ...cairn.ToolOption) *cairn.Agent {
	ask := func(tool string, args any) cairn.Model {
		return scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
			if last := req.Messages[len(req.Messages)-1]; last.Role == cairn.RoleTool {
				return scripted.Text("I heard " + string(last.ToolResults()[0].Output))
			}
			return scripted.Call(tool, args)
		})
	}
	payer := &cairn.Agent{Name: "payer", Model: ask("pay", in{"42"}), Durability: d, Tools: []cairn.Tool{echo("pay", payment...)}}
	helper := &cairn.Agent{Name: "helper", Model: ask("payer", map[string]string{"input": "pay"}), Durability: d, Tools: []cairn.Tool{cairn.SubAgent(payer)}}
	agent := bot(ask("helper", map[string]string{"input": "help"}), cairn.SubAgent(helper))
	agent.Durability = d
	return agent
}

// endOfChild reports whether events contain the end of a run below the root.
func endOfChild(log string, events []cairn.Event) bool {
	for i := range events {
		if events[i].Type == cairn.EventRunEnd && events[i].SessionID != log {
			return true
		}
	}
	return false
}

// The end of a sub-agent's run is on a log elsewhere, ahead of the end of the call that consulted it, although the log
// was unreachable when the run ended.
func TestEndOfASubAgentThoughTheLogWasAway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fails int
		err   error
	}{
		"longer than is tried": {5, cairn.Errorf(cairn.ErrUnavailable, "the log is away for a moment")},
		"once":                 {1, cairn.Errorf(cairn.ErrInternal, "the disk is full")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st, fails := separated(), c.fails
				st.log.stepIn(func(_ context.Context, events []cairn.Event) error {
					if endOfChild("s", events) && fails > 0 {
						fails--
						return c.err
					}
					return nil
				})
				wantStatus(t, turn(t, open(t, st, household(cairn.PerStep)), "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
				if fails != 0 {
					t.Fatal("the log did not fail")
				}
				wantSound(t, st, "s")
			})
		})
	}
}

// If a process dies while sub-agents run, the log comes to be whole for all sessions of the tree: through the process
// that takes the run over, stops it or begins the next turn, or through a reader that waits.
func TestLogOfATreeIsWholeWhereverItsWriterDied(t *testing.T) {
	t.Parallel()
	read := func(t *testing.T, eng *engine.Engine) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range until(t, ctx, eng.Events(ctx, "s", cairn.Cursor{})) {
		}
	}
	next := map[string]func(t *testing.T, st *tap, eng *engine.Engine){
		"it is resumed": func(t *testing.T, st *tap, eng *engine.Engine) {
			if load(t, st, "s").Status == cairn.SessionActive {
				wantStatus(t, resume(t, eng, "s"), cairn.RunCompleted, cairn.ReasonReply)
			}
		},
		"the next turn begins": func(t *testing.T, _ *tap, eng *engine.Engine) {
			wantStatus(t, turn(t, eng, "s", "again"), cairn.RunCompleted, cairn.ReasonReply)
		},
		"it is interrupted": func(t *testing.T, st *tap, eng *engine.Engine) {
			if load(t, st, "s").Status == cairn.SessionActive {
				if err := eng.Interrupt(t.Context(), "s", "enough"); err != nil {
					t.Fatal(err)
				}
			}
		},
	}
	for name, do := range next {
		for _, d := range []cairn.Durability{cairn.PerStep, cairn.PerTool} {
			t.Run(name+"/"+d.String(), func(t *testing.T) {
				t.Parallel()
				diesAtEachAppend(t, 1, func(t *testing.T, st *tap, k int) bool {
					step, hit := after(k, func() error { st.cut(); return context.Canceled })
					st.log.stepIn(step)
					run, err := open(t, st, household(d), shortLease).Execute(t.Context(), "s", "bot", cairn.Text("go"))
					if err == nil {
						_, _ = run.Wait(t.Context())
					}
					testclock.Advance(ttl)
					other := st.twin()
					eng := open(t, other, household(d), shortLease, named("b"))
					do(t, other, eng)
					read(t, eng)
					wantSound(t, other, "s")
					return hit()
				})
			})
		}
	}
}

// Readers of a tree see the end of a companion that works by itself, though the process that drove it died.
func TestReadersSeeTheEndOfACompanion(t *testing.T) {
	bothLogs(t, func(t *testing.T, st *tap) {
		friend := &cairn.Agent{Name: "friend", Description: "Helps.", Model: scripted.New(scripted.Reply(scripted.Pause(time.Minute), scripted.Text("hello")))}
		agent := bot(scripted.New(scripted.Call(cairn.CompanionSpawn, map[string]string{"agent": "friend", "message": "hi"}), scripted.Text("Well.")))
		agent.Companions = []cairn.Companion{{Agent: friend, Mode: cairn.NonBlocking}}
		eng := open(t, st, agent)
		wantStatus(t, turn(t, eng, "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
		st.log.stepIn(func(_ context.Context, events []cairn.Event) error {
			if endOfChild("s", events) {
				st.cut()
				return context.Canceled
			}
			return nil
		})
		heard := make(chan struct{})
		go func() {
			for ev, err := range open(t, st.twin(), agent, named("b")).Events(t.Context(), "s", cairn.Cursor{}) {
				if err != nil {
					t.Error(err)
				}
				if ev.Type == cairn.EventRunEnd && ev.Agent == "friend" {
					break
				}
			}
			close(heard)
		}()
		select {
		case <-heard:
		case <-time.After(2 * time.Minute):
			t.Fatal("the reader was not told")
		}
		wantSound(t, st.twin(), "s")
	})
}

// They also see it when a process with the root in memory has driven another turn since, for which it read nothing.
func TestReadersSeeTheEndOfACompanionOfAnEarlierTurn(t *testing.T) {
	bothLogs(t, func(t *testing.T, st *tap) {
		friend := &cairn.Agent{Name: "friend", Description: "Helps.", Model: scripted.New(scripted.Reply(scripted.Pause(time.Minute), scripted.Text("hello")))}
		agent := bot(scripted.New(scripted.Call(cairn.CompanionSpawn, map[string]string{"agent": "friend", "message": "hi"}),
			scripted.Text("Well."), scripted.Text("Indeed."), scripted.Text("So.")))
		agent.Companions = []cairn.Companion{{Agent: friend, Mode: cairn.NonBlocking}}
		eng := open(t, st, agent)
		wantStatus(t, turn(t, eng, "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
		st.log.stepIn(func(_ context.Context, events []cairn.Event) error {
			if endOfChild("s", events) {
				st.cut()
				return context.Canceled
			}
			return nil
		})
		other := open(t, st.twin(), agent, named("b"))
		wantStatus(t, turn(t, other, "s", "and?"), cairn.RunCompleted, cairn.ReasonReply)
		testclock.Advance(2 * time.Minute)
		wantStatus(t, turn(t, other, "s", "so?"), cairn.RunCompleted, cairn.ReasonReply)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for ev := range until(t, ctx, other.Events(ctx, "s", cairn.Cursor{})) {
			if ev.Type == cairn.EventRunEnd && ev.Agent == "friend" {
				break
			}
		}
		if ctx.Err() != nil {
			t.Error("the readers did not see the end")
		}
		wantSound(t, st.twin(), "s")
	})
}

// The events of a sub-agent after a resume come after the mark of the resume, for every reader.
func TestEventsOfAResumedRunHaveThoseOfItsSubAgents(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"the same process", "another process"} {
		t.Run(who, func(t *testing.T) {
			bothLogs(t, func(t *testing.T, st *tap) {
				agent := household(cairn.PerStep, cairn.RequireApproval())
				held := with(func(o *engine.Options) { o.Coalesce = 0 })
				eng := open(t, st, agent, held)
				res := turn(t, eng, "s", "go")
				submit(t, eng, "s", cairn.Approve(res.Suspended.Calls[0]), cairn.OutcomeAccepted)
				if who == "another process" {
					eng = open(t, st.twin(), agent, held, named("b"))
				}
				run, err := eng.Resume(t.Context(), "s")
				if err != nil {
					t.Fatal(err)
				}
				var first, last cairn.Event
				begun := map[string]bool{}
				for ev, err := range run.Events(t.Context()) {
					if err != nil {
						t.Fatal(err)
					}
					if first.Type == "" {
						first = ev
					}
					begun[ev.Agent+" "+string(ev.Type)] = true
					last = ev
				}
				for _, want := range []string{"helper run_resumed", "payer run_resumed", "payer tool_start", "payer run_end", "helper run_end"} {
					if !begun[want] {
						t.Errorf("the events of the run lack %s", want)
					}
				}
				if first.Type != cairn.EventRunResumed || first.SessionID != "s" || !last.Ends(run.ID()) {
					t.Errorf("they begin with %s of %s and end with %s of %s", first.Type, first.Agent, last.Type, last.Agent)
				}
				wantSound(t, st, "s")
			})
		})
	}
}
