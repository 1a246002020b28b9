package engine_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
)

// However a wait for another agent is cancelled, the call that consulted it ends as any other: with subagent_end before
// tool_end, with AfterSubAgent before AfterTool, and counted.
func TestCancelledWaitClosesTheConsultation(t *testing.T) {
	t.Parallel()
	asks := func() *cairn.Agent {
		return &cairn.Agent{Name: "scribe", Model: scripted.New(scripted.Call("act", in{"now"})), Tools: []cairn.Tool{echo("act", cairn.RequireApproval())}}
	}
	kinds := map[string]func() *cairn.Agent{
		"a sub-agent": func() *cairn.Agent {
			return &cairn.Agent{Name: "bot", Tools: []cairn.Tool{cairn.SubAgent(asks())}, Model: scripted.New(
				scripted.Call("scribe", map[string]string{"input": "ask"}), scripted.Text("fine"))}
		},
		"a companion": func() *cairn.Agent {
			a, _ := companions(cairn.Blocking, asks(), spawn("c1", "ann", "ask"), scripted.Text("fine"))
			return a
		},
	}
	ways := map[string]struct {
		end    func(ctx context.Context, eng *engine.Engine) error
		status cairn.RunStatus // of the child
	}{
		"interrupt": {func(ctx context.Context, eng *engine.Engine) error { return eng.Interrupt(ctx, "s", "enough") }, cairn.RunInterrupted},
		"abort":     {func(ctx context.Context, eng *engine.Engine) error { return eng.Abort(ctx, "s", "enough") }, cairn.RunFailed},
		"the next turn": {func(ctx context.Context, eng *engine.Engine) error {
			run, err := eng.Execute(ctx, "s", "bot", cairn.Text("never mind"), withdraw)
			if err != nil {
				return err
			}
			_, err = run.Wait(ctx)
			return err
		}, cairn.RunInterrupted},
	}
	for kind, agent := range kinds {
		for way, test := range ways {
			t.Run(kind+", "+way, func(t *testing.T) {
				t.Parallel()
				var mu sync.Mutex
				var heard []string
				hear := func(what string) { mu.Lock(); heard = append(heard, what); mu.Unlock() }
				a := agent()
				a.Hooks = &cairn.Hooks{
					AfterSubAgent: func(_ context.Context, _ *cairn.Call, agent string, r *cairn.ToolResult) {
						hear("AfterSubAgent " + agent + " " + string(r.Code))
					},
					AfterTool: func(_ context.Context, _ *cairn.Call, r *cairn.ToolResult) { hear("AfterTool " + string(r.Code)) },
				}
				st := tapOn(nil)
				eng := open(t, st, a)
				res := turn(t, eng, "s", "go")
				wantStatus(t, res, cairn.RunSuspended, cairn.ReasonChildren)
				if len(res.Suspended.Children) != 1 {
					t.Fatalf("the run waits for %+v, want one child", res.Suspended.Children)
				}
				child := res.Suspended.Children[0]
				if err := test.end(t.Context(), eng); err != nil {
					t.Fatal(err)
				}
				var ends []string
				for _, ev := range history(t, st, "s") {
					if ev.CallID != child.CallID || ev.Type != cairn.EventSubagentEnd && ev.Type != cairn.EventToolEnd {
						continue
					}
					if ends = append(ends, string(ev.Type)); ev.Type == cairn.EventSubagentEnd &&
						(ev.ChildID != child.SessionID || ev.Name != "scribe" || ev.Status != test.status) {
						t.Errorf("%+v, want the end of %+v as %s", ev, child, test.status)
					}
				}
				if got := strings.Join(ends, " "); got != "subagent_end tool_end" {
					t.Errorf("the call ended with %q", got)
				}
				if got := runsOf(t, st, child.SessionID); got[len(got)-1].Status != test.status {
					t.Errorf("the child's run is %s, want %s", got[len(got)-1].Status, test.status)
				}
				if got := strings.Join(heard, ", "); got != "AfterSubAgent scribe stopped, AfterTool stopped" {
					t.Errorf("the hooks heard %q", got)
				}
				if got := load(t, st, "s").Usage.SubAgentRuns; got != 1 {
					t.Errorf("%d runs of sub-agents were counted, want 1", got)
				}
				wantSound(t, st, "s")
			})
		}
	}
}

// A run that resumes a wait for another agent, and is stopped before it has looked at the wait, ends the consultation
// as well.
func TestStopBeforeTheWaitIsResumedClosesTheConsultation(t *testing.T) {
	t.Parallel()
	asks := func() *cairn.Agent {
		return &cairn.Agent{Name: "scribe", Model: scripted.New(scripted.Call("act", in{"now"}), scripted.Text("done")),
			Tools: []cairn.Tool{echo("act", cairn.RequireApproval())}}
	}
	companion, _ := companions(cairn.Blocking, asks(), spawn("c1", "ann", "ask"), scripted.Text("fine"))
	for kind, agent := range map[string]*cairn.Agent{
		"a companion": companion,
		"a sub-agent": {Name: "bot", Tools: []cairn.Tool{cairn.SubAgent(asks())}, Model: scripted.New(
			scripted.Call("scribe", map[string]string{"input": "ask"}), scripted.Text("fine"))},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			st := tapOn(nil)
			agent.Hooks = &cairn.Hooks{RunResumed: func(ctx context.Context, s *cairn.Step, _ string) {
				stop := cairn.Stop{RunID: s.RunID, Kind: cairn.StopInterrupt, Reason: "enough"}
				if err := st.RequestStop(ctx, s.SessionID, stop); err != nil {
					t.Error(err)
				}
				<-ctx.Done()
			}}
			eng := open(t, st, agent)
			res := turn(t, eng, "s", "go")
			wantStatus(t, res, cairn.RunSuspended, cairn.ReasonChildren)
			child := res.Suspended.Children[0]
			if _, err := eng.Submit(t.Context(), "s", cairn.Approve(res.Suspended.Calls[0])); err != nil {
				t.Fatal(err)
			}
			run, err := eng.Resume(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			wantStatus(t, wait(t, run), cairn.RunInterrupted, cairn.ReasonInterrupted)
			var ends []string
			for _, ev := range history(t, st, "s") {
				if ev.CallID == child.CallID && (ev.Type == cairn.EventSubagentEnd || ev.Type == cairn.EventToolEnd) {
					ends = append(ends, string(ev.Type)+" "+ev.ChildID+" "+ev.Name)
				}
			}
			if want := []string{"subagent_end " + child.SessionID + " scribe", "tool_end  "}; !slices.Equal(ends, want) {
				t.Errorf("the call ended with %q, want %q", ends, want)
			}
			wantSound(t, st, "s")
		})
	}
}
