package engine_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/model/scripted"
)

// Work that a stop breaks off on a host is never taken for the end of a turn: a sub-agent stopped with its caller has
// its stop in the store before it learns of it, so that its step's commit finds the stop.
func TestStopIsKeptBeforeItEndsWork(t *testing.T) {
	t.Parallel()
	for at, helper := range map[string]*cairn.Agent{
		"the model": {Name: "helper", Model: scripted.Func(func(ctx context.Context, _ *cairn.Request) scripted.Step {
			<-ctx.Done()
			return scripted.Text("half of it")
		})},
		"the guard": {Name: "helper", Model: scripted.New(scripted.Text("unguarded")),
			Guard: func(ctx context.Context, _ *cairn.Step, _ cairn.Completion) (cairn.Verdict, error) {
				<-ctx.Done()
				return cairn.Verdict{}, ctx.Err()
			}},
	} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h, st := &byHand{}, tapOn(nil)
				agent := bot(scripted.New(scripted.Call("helper", map[string]string{"input": "go"}), scripted.Text("fine")), cairn.SubAgent(helper))
				eng := open(t, st, agent, hostedBy(h))
				start(t, eng, "s", "go")
				call := decode[struct{ Children []string }](t, json.RawMessage(carry(t, eng, host.EffectPlan, next(h.begun[0], "")))).Children[0]
				run := decode[struct{ Drive *host.Run }](t, json.RawMessage(carry(t, eng, host.EffectChild, next(h.begun[0], call)))).Drive

				ended := make(chan host.Committed, 1)
				go func() {
					if decode[struct{ Judge bool }](t, json.RawMessage(carry(t, eng, host.EffectPlan, next(*run, "")))).Judge {
						carry(t, eng, host.EffectJudge, next(*run, ""))
					}
					ended <- decode[host.Committed](t, json.RawMessage(carry(t, eng, host.EffectCommit, next(*run, ""))))
				}()
				synctest.Wait()
				asked, slow := 0, make(chan struct{})
				st.stepIn(func(_ context.Context, op string) error {
					if op == "RequestStop" {
						if asked++; asked > 1 { // the first is the caller's
							<-slow
						}
					}
					return nil
				}, nil)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() { _ = eng.Interrupt(ctx, "s", "enough") }() // no process continues to drive the caller
				synctest.Wait()
				close(slow)
				if end := <-ended; asked < 2 || end.Status != cairn.RunInterrupted {
					t.Errorf("after %d requests the sub-agent's run is %s", asked, end.Status)
				}
			})
		})
	}
}
