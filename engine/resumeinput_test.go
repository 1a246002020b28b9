package engine_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
)

// A message with which a paused session is resumed comes behind the results of the calls that it waited for: also if a
// tool asks once more, and if the process dies before it has used the answers.
func TestMessageOfResumeComesBehindResults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ again, crash bool }{"all answered": {}, "asks again": {again: true}, "crash": {crash: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				agent := bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
					if len(req.Messages) > 1 {
						return scripted.Text("read " + req.Messages[len(req.Messages)-1].Text())
					}
					return scripted.Reply(scripted.Call("a", in{}), scripted.Call("b", in{}))
				}), cairn.ClientTool[in, string]("a", "asks a"), tool("b", func(ctx context.Context, call *cairn.Call, _ in) (answer string, err error) {
					if err = call.Ask(ctx, "b?", nil, &answer); err == nil && c.again {
						err = call.Ask(ctx, "sure?", nil, &answer)
					}
					return answer, err
				}))
				eng := open(t, st, agent, shortLease)
				calls := turn(t, eng, "s", "go").Suspended.Calls
				for _, call := range calls {
					submit(t, eng, "s", cairn.Answer(call, "yes"), cairn.OutcomeAccepted)
				}
				if c.crash {
					st.stepIn(nil, func(_ context.Context, op string) error {
						if op == "Commit" {
							st.cut()
						}
						return nil
					})
				}
				run, err := eng.Resume(t.Context(), "s", engine.WithInput(cairn.Text("and hurry")))
				if err != nil {
					t.Fatal(err)
				}
				if c.crash {
					testclock.Advance(2 * ttl)
					st = tapOn(st.Store)
					eng = open(t, st, agent, named("two"))
					resume(t, eng, "s")
				} else if res := wait(t, run); c.again {
					submit(t, eng, "s", cairn.Answer(res.Suspended.Calls[0], "yes"), cairn.OutcomeAccepted)
					resume(t, eng, "s")
				}
				list := messages(t, st, "s")
				last := list[len(list)-2:]
				if last[0].Role != cairn.RoleUser || last[0].Text() != "and hurry" || last[1].Text() != "read and hurry" {
					t.Errorf("not behind the results, or not read by the model:\n%s", render(t, st, "s"))
				}
				wantSound(t, st, "s")
			})
		})
	}
}
