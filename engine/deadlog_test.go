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

// A process dies between a commit and a log elsewhere. Another one publishes the rest, each event at its place.
func TestLogThatADeadProcessLeft(t *testing.T) {
	t.Parallel()
	silent := func(st *tap) {
		st.log.stepIn(func(context.Context, []cairn.Event) error { return cairn.Errorf(cairn.ErrInternal, "cut off") })
	}
	for name, c := range map[string]struct {
		agent func() *cairn.Agent
		dies  func(t *testing.T, eng *engine.Engine, st *tap)
	}{
		"what a run that was stopped before its reply has added": {func() *cairn.Agent {
			a := bot(scripted.New(scripted.Gate(make(chan struct{})), scripted.Text("fine")))
			a.Hooks = &cairn.Hooks{StepContext: func(context.Context, *cairn.Step) ([]string, error) { return []string{"by the way"}, nil }}
			return a
		}, func(t *testing.T, eng *engine.Engine, st *tap) {
			start(t, eng, "s", "go")
			synctest.Wait()
			silent(st)
			if err := eng.Interrupt(t.Context(), "s", "enough"); err != nil {
				t.Fatal(err)
			}
		}},
		"what a verb has added before a wait ends": {bossOf, func(t *testing.T, eng *engine.Engine, st *tap) {
			turn(t, eng, "s", "go")
			silent(st)
			if err := eng.AddContext(t.Context(), "s", "by the way"); err != nil {
				t.Fatal(err)
			}
			if err := open(t, st.twin(), bossOf(), shortLease, named("c")).Interrupt(t.Context(), "s", "enough"); err != nil {
				t.Fatal(err)
			}
		}},
		"the end of a sub-agent whose caller begins another turn": {bossOf, func(t *testing.T, eng *engine.Engine, st *tap) {
			turn(t, eng, "s", "go")
			testclock.Advance(time.Second) // the sub-agent is older than the run that begins
			st.stepIn(nil, func(_ context.Context, op string) error {
				if op == "Commit" {
					st.cut()
				}
				return nil
			})
			_, _ = eng.Execute(t.Context(), "s", "bot", cairn.Text("never mind"), engine.WithOnWaiting(engine.WaitingWithdraw))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bothLogs(t, func(t *testing.T, st *tap) {
				agent := c.agent()
				c.dies(t, open(t, st, agent, shortLease), st)
				st.cut()
				two := open(t, st.twin(), agent, shortLease, named("b"))
				ctx, stop := context.WithCancel(t.Context())
				worked := make(chan error, 1)
				go func() { worked <- two.Work(ctx) }()
				testclock.Advance(time.Minute)
				turn(t, two, "s", "never mind")
				stop()
				if err := <-worked; err != nil {
					t.Error(err)
				}
				wantSound(t, st.twin(), "s")
			})
		})
	}
}
