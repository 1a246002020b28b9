package engine_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
)

type account struct {
	Plan  string `json:"plan"`
	Seats int    `json:"seats"`
}

// seller returns an agent with a state type that answers with its plan, after an approval.
func seller(plan string) *cairn.Agent {
	a := bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if last := req.Messages[len(req.Messages)-1]; last.Role == cairn.RoleTool {
			return scripted.Text(string(last.ToolResults()[0].Output))
		}
		return scripted.Call("plan", in{"x"})
	}), tool("plan", func(_ context.Context, call *cairn.Call, _ in) (string, error) {
		s, err := cairn.State[account](call)
		return s.Plan, err
	}, cairn.RequireApproval()))
	a.State = cairn.StateOf(account{Plan: plan, Seats: 1})
	return a
}

// patches returns the state patches on a session's log.
func patches(t *testing.T, eng *engine.Engine, id string) (list []string) {
	t.Helper()
	events, err := eng.History(t.Context(), id, cairn.Cursor{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range events {
		if ev.Type == cairn.EventStatePatch {
			raw, _ := json.Marshal(ev.Patch)
			list = append(list, string(raw))
		}
	}
	return list
}

func TestApplicationWritesTypedState(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, seller("free"))
	if _, err := eng.Create(t.Context(), "s", "bot", engine.WithState(account{"trial", 2})); err != nil {
		t.Fatal(err)
	}
	if got := state(t, st, "s"); got != `{"plan":"trial","seats":2}` {
		t.Fatalf("a new session has the state %s", got)
	}
	row, err := eng.SetState(t.Context(), "s", account{"pro", 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := eng.SetState(t.Context(), "s", account{"late", 2}, engine.IfVersion(row.Version-1)); err == nil {
		t.Error("a write with an old version was accepted")
	} else {
		wantError(t, err, cairn.ErrStale)
	}
	if again, err := eng.SetState(t.Context(), "s", json.RawMessage(`{"seats":2,"plan":"pro"}`)); err != nil || again.Version != row.Version {
		t.Errorf("an equal state was written: %+v, %v", again, err)
	}
	if _, err := engine.UpdateState(t.Context(), eng, "s", func(a *account) error { a.Seats += 3; return nil }); err != nil {
		t.Fatal(err)
	}
	call := turn(t, eng, "s", "which plan?").Suspended.Calls[0]
	if _, err := eng.SetState(t.Context(), "s", account{"gold", 5}); err != nil { // while it waits
		t.Fatal(err)
	}
	submit(t, eng, "s", cairn.Approve(call), cairn.OutcomeAccepted)
	run, err := eng.Resume(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if res := wait(t, run); res.Text != `"gold"` {
		t.Errorf("the answer is %s", res.Text)
	}
	want := `[{"op":"replace","path":"/plan","value":"pro"}] [{"op":"replace","path":"/seats","value":5}] [{"op":"replace","path":"/plan","value":"gold"}]`
	if got := strings.Join(patches(t, eng, "s"), " "); got != want {
		t.Errorf("the log has %s, want %s", got, want)
	}
	if _, err := eng.Branch(t.Context(), "s", "branch", engine.WithBranchState(account{"other", 9})); err != nil {
		t.Fatal(err)
	}
	if got := state(t, st, "branch"); got != `{"plan":"other","seats":9}` {
		t.Errorf("the branch has the state %s", got)
	}
	turn(t, eng, "new", "which plan?", engine.WithState(json.RawMessage(`{"plan":"own"}`)))
	if got := state(t, st, "new"); got != `{"plan":"own"}` {
		t.Errorf("a session created by Execute has the state %s", got)
	}
	wantSound(t, st, "s")
}

func TestStateThatIsRefused(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, seller("free"))
	if _, err := eng.Create(t.Context(), "s", "bot"); err != nil {
		t.Fatal(err)
	}
	before := load(t, st, "s").Version
	for name, c := range map[string]struct {
		state any
		want  error
	}{
		"of another type":   {json.RawMessage(`{"plan":17}`), cairn.ErrState},
		"no object":         {[]string{"pro"}, cairn.ErrInvalid},
		"nothing":           {nil, cairn.ErrInvalid},
		"not JSON":          {json.RawMessage(`{`), cairn.ErrInvalid},
		"what no store has": {json.RawMessage(`{"plan":"\u0000"}`), cairn.ErrInvalid},
		"a function":        {func() {}, cairn.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			_, set := eng.SetState(t.Context(), "s", c.state)
			_, create := eng.Create(t.Context(), "x", "bot", engine.WithState(c.state))
			_, execute := eng.Execute(t.Context(), "x", "bot", cairn.Text("hi"), engine.WithState(c.state))
			_, branch := eng.Branch(t.Context(), "s", "x", engine.WithBranchState(c.state))
			for verb, err := range map[string]error{"SetState": set, "Create": create, "Execute": execute, "Branch": branch} {
				wantError(t, err, c.want)
				if e := cairn.AsError(err); e.Field != "state" && !strings.HasPrefix(e.Field, "state.") {
					t.Errorf("%s: %v names the field %q", verb, err, e.Field)
				}
			}
		})
	}
	if load(t, st, "s").Version != before {
		t.Error("a refused state was written")
	}
	_, err := eng.SetState(t.Context(), "nowhere", account{})
	wantError(t, err, cairn.ErrNotFound)
	_, err = eng.Resume(t.Context(), "s", engine.WithState(account{}))
	wantError(t, err, cairn.ErrInvalid)
	other := open(t, st, &cairn.Agent{Name: "other", Model: counter(1)})
	_, err = other.SetState(t.Context(), "s", account{})
	wantError(t, err, cairn.ErrNotFound)
}

func TestStateIsNotSetWhileARunHoldsTheSession(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	eng := open(t, tapOn(nil), bot(scripted.New(scripted.Reply(scripted.Text("so "), scripted.Gate(gate), scripted.Text("it is")))))
	run := start(t, eng, "s", "go")
	_, err := eng.SetState(t.Context(), "s", map[string]any{"a": 1})
	wantError(t, err, cairn.ErrAlreadyRunning)
	close(gate)
	wait(t, run)
	if _, err := eng.SetState(t.Context(), "s", map[string]any{"a": 1}); err != nil { // any object: the agent has no state type
		t.Error(err)
	}
}

// A new release of the agent cannot read the state of a session that waits. SetState makes it fit.
func TestSetStateRepairsASessionThatCannotBeResumed(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	old := seller("free")
	old.State = cairn.StateOf(map[string]any{"plan": 17})
	call := turn(t, open(t, st, old), "s", "which plan?").Suspended.Calls[0]
	eng := open(t, st, seller("free"), named("b"))
	submit(t, eng, "s", cairn.Approve(call), cairn.OutcomeAccepted)
	_, err := eng.Resume(t.Context(), "s")
	wantError(t, err, cairn.ErrState)
	if _, err := eng.SetState(t.Context(), "s", account{"pro", 1}); err != nil {
		t.Fatal(err)
	}
	run, err := eng.Resume(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if res := wait(t, run); res.Text != `"pro"` {
		t.Errorf("the answer is %s", res.Text)
	}
	wantSound(t, st, "s")
}

// A patch that is too large for a session's row is on the log as a change without its content.
func TestLargeStateIsSet(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, seller("free"))
	if _, err := eng.Create(t.Context(), "s", "bot"); err != nil {
		t.Fatal(err)
	}
	large := account{Plan: strings.Repeat("x", 1<<20)}
	if _, err := eng.SetState(t.Context(), "s", large); err != nil {
		t.Fatal(err)
	}
	if got, err := engine.StateAs[account](t.Context(), eng, "s"); err != nil || got != large {
		t.Errorf("%d bytes of state, %v", len(got.Plan), err)
	}
	events := history(t, st, "s")
	if ev := events[len(events)-1]; ev.Type != cairn.EventStatePatch || !ev.Truncated || ev.Patch != nil {
		t.Errorf("the log has %s, truncated %t", ev.Type, ev.Truncated)
	}
}
