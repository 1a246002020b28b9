package step_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/budget"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/store/driver"
)

type in struct{}

func nothing(context.Context, *cairn.Call, in) (string, error) { return "", nil }

var tools = []cairn.Tool{
	cairn.Func("look", "Looks.", nothing),
	cairn.Func("close", "Ends.", nothing, cairn.FinishWith()),
	cairn.SubAgent(&cairn.Agent{Name: "helper", Description: "Helps."}),
	cairn.Func("alone", "Runs alone.", nothing, cairn.Serial()),
}

func reply(calls ...string) *step.Reply {
	m := &cairn.Message{Role: cairn.RoleAssistant, Parts: []cairn.Part{cairn.TextPart("so")}}
	for i := 0; i+1 < len(calls); i += 2 {
		m.Parts = append(m.Parts, cairn.Part{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{CallID: calls[i], Tool: calls[i+1], Input: []byte(`{}`)}})
	}
	return &step.Reply{Message: m}
}

func result(id string) *step.Result {
	return &step.Result{Result: &cairn.ToolResult{CallID: id, Output: []byte(`"ok"`)}}
}

func of(facts ...step.Fact) *step.Step {
	s := step.New("run", 3, tools, nil)
	for _, f := range facts {
		s.Add(f)
	}
	return s
}

func TestStepBeginsWithNothing(t *testing.T) {
	t.Parallel()
	s := of()
	if s.ID != "run/3" || s.Planned() || s.Message() != nil || s.Failed() != nil || s.Waits() || s.Below(nil) != nil {
		t.Errorf("a step without facts: %+v", s)
	}
}

func TestPlanFollowsFromTheReply(t *testing.T) {
	t.Parallel()
	r := reply("a", "look", "b", "close", "c", "helper", "d", "unknown", "e", "look")
	r.Refused = []string{"e"}
	s := of(r)
	closing := []turn.Round{{Parallel: []string{"b"}}}
	want := turn.Planned{Round: turn.Round{Parallel: []string{"a", "d", "e"}, Children: []string{"c"}}, Later: closing,
		Tools: map[string]string{"a": "look", "b": "close", "c": "helper", "d": "unknown", "e": "look"}}
	if got := s.Plan(); !reflect.DeepEqual(got, want) {
		t.Errorf("plan %+v, want %+v", got, want)
	}
	if c := s.Call("e"); !c.Off || c.Tool != nil || s.Call("d").Tool != nil || s.Call("a").Tool == nil {
		t.Error("the tools of the calls")
	}
	if !of().WouldDelegate(r) || of().WouldDelegate(reply("a", "look")) || !s.Delegates() {
		t.Error("whether the step delegates")
	}
	s.Add(result("a"))
	ends := result("b")
	ends.Completion = &cairn.Completion{Reason: cairn.ReasonFinishTool}
	s.Add(ends)
	// So that the loop sees that the turn has ended.
	want = turn.Planned{Round: turn.Round{Parallel: []string{"d", "e"}, Children: []string{"c"}}, Later: closing,
		Tools: map[string]string{"b": "close", "c": "helper", "d": "unknown", "e": "look"}}
	if got := s.Plan(); !reflect.DeepEqual(got, want) {
		t.Errorf("plan with results %+v, want %+v", got, want)
	}
}

func TestSerialCallsAreRoundsOfTheirOwn(t *testing.T) {
	t.Parallel()
	wrote := func(id string) *step.Result {
		r := result(id)
		r.Writes.Ops = []cairn.Op{{Kind: cairn.OpIncrement, Path: "/" + id, Value: []byte("1")}}
		return r
	}
	s := of(reply("f", "close", "a", "look", "b", "helper", "s", "alone", "t", "alone", "c", "look", "d", "look", "g", "close"))
	round := func(ids ...string) turn.Round { return turn.Round{Parallel: ids} }
	want := turn.Planned{Round: turn.Round{Parallel: []string{"a"}, Children: []string{"b"}},
		Later: []turn.Round{round("s"), round("t"), round("c", "d"), round("f"), round("g")},
		Tools: map[string]string{"f": "close", "a": "look", "b": "helper", "s": "alone", "t": "alone", "c": "look", "d": "look", "g": "close"}}
	if got := s.Plan(); !reflect.DeepEqual(got, want) {
		t.Errorf("plan %+v, want %+v", got, want)
	}
	s.Add(wrote("a"))
	s.Add(wrote("b"))
	s.Add(wrote("s"))
	want = turn.Planned{Round: round("t"), Later: want.Later[2:],
		Tools: map[string]string{"f": "close", "t": "alone", "c": "look", "d": "look", "g": "close"}}
	if got := s.Plan(); !reflect.DeepEqual(got, want) {
		t.Errorf("plan with results %+v, want %+v", got, want)
	}
	for id, n := range map[string]int{"a": 0, "b": 0, "s": 2, "t": 3, "c": 3, "d": 3, "f": 3, "g": 3} {
		if got := s.Below(s.Call(id)); len(got) != n {
			t.Errorf("call %s sees the writes of %d calls, want %d", id, len(got), n)
		}
	}
	s.Inherited = true
	if !s.Begun(s.Call("t")) || s.Begun(s.Call("c")) || s.Begun(s.Call("f")) {
		t.Error("of the calls without a result, only the first one may have begun in a dead process")
	}
}

func TestCallThatWaits(t *testing.T) {
	t.Parallel()
	row := &cairn.PendingCall{CallRef: cairn.CallRef{ID: "a"}, Status: cairn.CallOpen}
	s := of(reply("a", "look", "b", "helper", "c", "look"), &step.Wait{CallID: "a", Pending: row})
	if !s.Call("a").Waits() || s.Call("b").Waits() || !s.Waits() || s.WaitReason() != cairn.ReasonCalls {
		t.Fatal("a call that people must answer")
	}
	asked := &cairn.Suspension{Calls: []cairn.CallRef{{ID: "below"}}}
	s.Add(&step.Wait{CallID: "b", Waiting: asked, Child: &cairn.ChildRef{CallID: "b", SessionID: "child"}})
	if s.WaitReason() != cairn.ReasonStepPartial {
		t.Errorf("status %s", s.WaitReason())
	}
	w := s.Suspension("opener")
	if w.StepID != "opener" || !w.Awaits("child") || w.Awaits("other") || len(w.Calls) != 2 || w.Calls[0].ID != "a" || w.Calls[1].ID != "below" {
		t.Errorf("suspension %+v", w)
	}
	answer := *row
	answer.Status = cairn.CallAnswered
	s.Add(&step.Row{Call: &answer})
	if s.Call("a").Waits() || !s.Waits() || s.WaitReason() != cairn.ReasonChildren {
		t.Error("a call that was answered meanwhile")
	}
	s.Add(result("a"))
	s.Add(result("b"))
	if s.Waits() || s.Call("b").AwaitsChild() {
		t.Error("calls that have results wait")
	}
}

func TestCarriedStepHasTheOpenCallsOnly(t *testing.T) {
	t.Parallel()
	m := reply("a", "look", "b", "look").Message
	s := step.New("next", 1, tools, nil)
	s.Carry(m, m.ToolUses()[1:])
	s.Attach([]cairn.PendingCall{{CallRef: cairn.CallRef{ID: "a"}}, {CallRef: cairn.CallRef{ID: "b"}, Status: cairn.CallAnswered,
		Answer: &cairn.CallAnswer{Kind: cairn.DecisionApproved, Value: []byte(`{"edited":true}`)}}})
	if !s.Carried || !s.Planned() || s.Call("a") != nil || s.Call("b").Row == nil {
		t.Fatalf("carried: %+v", s)
	}
	if got := string(s.Call("b").Input()); got != `{"edited":true}` {
		t.Errorf("the tool runs with %s", got)
	}
}

func TestWhatACallSees(t *testing.T) {
	t.Parallel()
	writes := func(path string) step.Writes { return step.Writes{Ops: []cairn.Op{{Path: path}}} }
	r, a, c := reply("a", "look", "b", "close", "c", "look"), result("a"), result("c")
	r.Writes, a.Writes = writes("/reply"), writes("/a")
	s := of(&step.Opening{Writes: writes("/opening")}, r, a, c)
	paths := func(call string) (list []string) {
		for _, w := range s.Below(s.Call(call)) {
			list = append(list, w.Ops[0].Path)
		}
		return list
	}
	if got := paths("c"); !reflect.DeepEqual(got, []string{"/opening", "/reply"}) {
		t.Errorf("a parallel call sees %v", got)
	}
	if got := paths("b"); !reflect.DeepEqual(got, []string{"/opening", "/reply", "/a"}) {
		t.Errorf("the finishing call sees %v", got)
	}
}

func TestWhetherACallRanAnotherAgent(t *testing.T) {
	t.Parallel()
	run := &turn.Begun{Position: turn.Position{RunID: "r"}}
	with := func(change func(*step.Result)) *step.Result { r := result("a"); change(r); return r }
	for name, c := range map[string]struct {
		facts []step.Fact
		want  bool
	}{
		"vetoed":               {[]step.Fact{result("a")}, false},
		"could not begin":      {[]step.Fact{&step.Started{CallID: "a", Announced: true}, result("a")}, false},
		"handed over":          {[]step.Fact{&step.Started{CallID: "a", Run: run}, result("a")}, true},
		"came to an end":       {[]step.Fact{with(func(r *step.Result) { r.Consulted = &step.Consulted{Status: cairn.RunFailed} })}, true},
		"is in the background": {[]step.Fact{with(func(r *step.Result) { r.Result.Background = "child" })}, true},
	} {
		s := of(append([]step.Fact{reply("a", "helper")}, c.facts...)...)
		if got := s.RanChild(s.Call("a")); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	m := reply("a", "helper").Message
	s := step.New("next", 1, tools, nil)
	s.Carry(m, m.ToolUses())
	s.Add(result("a"))
	if !s.RanChild(s.Call("a")) {
		t.Error("what a call waited for has run")
	}
}

func TestWhatMayHaveHadEffects(t *testing.T) {
	t.Parallel()
	look, closing := cairn.Func("look", "", nothing), cairn.Func("close", "", nothing, cairn.FinishWith())
	for name, c := range map[string]struct {
		tool      string
		inherited bool
		facts     []step.Fact
		want      bool
	}{
		"not called":                       {"look", false, nil, false},
		"called":                           {"look", false, []step.Fact{&step.Attempt{CallID: "a", Number: 1}}, true},
		"of a dead process":                {"look", true, nil, true},
		"unknown to a dead process":        {"nothing", true, nil, false},
		"pending at a dead process":        {"look", true, []step.Fact{&step.Row{Call: &cairn.PendingCall{CallRef: cairn.CallRef{ID: "a"}, Status: cairn.CallOpen}}}, false},
		"approved at a dead process":       {"look", true, []step.Fact{&step.Row{Call: &cairn.PendingCall{CallRef: cairn.CallRef{ID: "a"}, Status: cairn.CallAnswered}}}, true},
		"the turn's end of a dead process": {"close", true, nil, true},
	} {
		s := step.New("run", 1, []cairn.Tool{look, closing}, nil)
		s.Inherited = c.inherited
		s.Add(reply("a", c.tool))
		for _, f := range c.facts {
			s.Add(f)
		}
		if got := s.Begun(s.Call("a")); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	s := step.New("run", 1, []cairn.Tool{look, closing}, nil)
	s.Inherited = true
	s.Add(reply("a", "look", "b", "close"))
	if !s.Begun(s.Call("a")) || s.Begun(s.Call("b")) {
		t.Error("a call that ends the turn has begun before its sibling has ended")
	}
}

// every returns one fact of each kind, with every field set.
func every() []step.Fact {
	w := step.Writes{Ops: []cairn.Op{{Kind: cairn.OpReplace, Path: "/n", Value: []byte(`1`)}}, Context: []cairn.Message{cairn.Context("c")},
		Usage: map[string]float64{"u": 1}, Checkpoint: true,
		About:   &driver.ContextChange{Title: new("t"), AddTags: []string{"a"}, Metadata: cairn.Metadata{"n": 1.0}},
		Emitted: []cairn.Data{{Name: "n", ID: "i", Value: []byte(`1`)}}}
	failed := cairn.Errorf(cairn.ErrHook, "no")
	done := &cairn.Completion{Reason: cairn.ReasonReply, Text: "t", Output: []byte(`{}`)}
	r := reply("a", "look")
	r.Passed = []cairn.Event{{Type: cairn.EventToolStart, Origin: "far", CallID: "x", Data: json.RawMessage("1")}}
	r.Said = "so"
	r.Context, r.Usage, r.Refused, r.Failed, r.Writes, r.Sequence = []cairn.Message{cairn.Context("x")}, step.BillOf(cairn.UsageEntry{Kind: cairn.UsageModel, Name: "m", Usage: cairn.Usage{ModelCalls: 1}}), []string{"a"}, failed, w, 7
	r.Requested, r.Limit, r.Before = "p:m", &cairn.PendingCall{CallRef: cairn.CallRef{ID: "limit"}}, &budget.Amount{Tokens: 7}
	return []step.Fact{
		&step.Opening{Writes: w}, r,
		&step.Started{CallID: "a", Agent: "helper", ChildID: "child", Announced: true, Run: &turn.Begun{Position: turn.Position{RunID: "r1"}}, Writes: w},
		&step.Attempt{CallID: "a", Number: 2},
		&step.Sent{CallID: "a", Number: 2, Row: &cairn.PendingCall{Effect: &cairn.Effect{State: cairn.EffectSent}}},
		&step.Spent{By: "me", Usage: step.BillOf(cairn.UsageEntry{Kind: cairn.UsageModel, Usage: cairn.Usage{DiscardedCalls: 1, InputTokens: 3}})},
		&step.Wait{CallID: "b", Pending: &cairn.PendingCall{CallRef: cairn.CallRef{ID: "b"}}, Waiting: &cairn.Suspension{StepID: "s"}, Child: &cairn.ChildRef{CallID: "b", SessionID: "child", Agent: "helper", Kind: cairn.ChildSubAgent}, Writes: w},
		&step.Result{Result: &cairn.ToolResult{CallID: "a", Output: []byte(`1`)}, Began: true, Consulted: &step.Consulted{Agent: "h", ChildID: "c", Status: cairn.RunCompleted},
			Closed: true, Completion: done, Failed: failed, Feedback: "f", Attempts: 2, Took: time.Second, Hit: true, Made: time.Unix(1, 0).UTC(),
			Effect: &cairn.PendingCall{Effect: &cairn.Effect{State: cairn.EffectConfirmed}}, Writes: w},
		&step.Judgement{Writes: w, Completion: done, Failed: failed, Feedback: "f", Owes: true},
		&step.Ended{Messages: []cairn.Message{cairn.Context("m")}, Ops: w.Ops, Usage: step.BillOf(cairn.UsageEntry{Kind: cairn.UsageTool, Usage: cairn.Usage{ToolCalls: 1}}), Cache: []driver.CacheEntry{{Key: "k", Output: []byte(`1`)}}, CacheDrop: []string{"d"}, About: w.About},
	}
}

func TestFactsSurviveTheStore(t *testing.T) {
	t.Parallel()
	for _, f := range every() {
		v := reflect.ValueOf(f).Elem()
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				t.Fatalf("%T.%s is not set by this test", f, v.Type().Field(i).Name)
			}
		}
		for _, lease := range []int64{0, 4} {
			piece, err := step.Encode("run/3", lease, "me", f)
			if err != nil {
				t.Fatal(err)
			}
			got, err := step.Decode([]driver.Staged{piece}, "run/3", 4)
			if err != nil || len(got) != 1 || got[0].By != "me" {
				t.Fatalf("%T: %+v, %v", f, got, err)
			}
			want, _ := json.Marshal(f)
			if have, _ := json.Marshal(got[0].Fact); string(have) != string(want) {
				t.Errorf("%T came back as %s, not %s", f, have, want)
			}
		}
	}
}

func TestWhichFactsCount(t *testing.T) {
	t.Parallel()
	piece := func(stepID string, lease int64, by string, f step.Fact) driver.Staged {
		p, err := step.Encode(stepID, lease, by, f)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	list := []driver.Staged{
		piece("run/3", 5, "short", reply()), piece("run/3", 0, "lasting", reply("a", "look")),
		piece("run/3", 4, "old", result("a")), piece("run/3", 5, "mine", &step.Wait{CallID: "a"}),
		piece("run/2", 0, "before", result("a")),
		piece("run/3", 5, "mine", &step.Started{CallID: "x", Run: &turn.Begun{Position: turn.Position{RunID: "4/5"}}}),
	}
	facts, err := step.Decode(list, "run/3", 5)
	if err != nil {
		t.Fatal(err)
	}
	var by []string
	for _, f := range facts {
		by = append(by, f.By)
	}
	if !reflect.DeepEqual(by, []string{"lasting", "mine", "mine"}) {
		t.Errorf("facts by %v count", by)
	}
	if f, by := step.Standing(facts, result("a")); by != "mine" {
		t.Errorf("in the result's place stands %T by %q, not the wait", f, by)
	}
	if f, _ := step.Standing(facts, result("b")); f != nil {
		t.Errorf("%T stands in a place that is free", f)
	}
	s := step.New("run", 3, tools, nil)
	s.AddAll([]step.Staged{facts[1], facts[0]}) // the reply need not be the first
	if s.Call("a") == nil || s.Call("a").Wait == nil {
		t.Error("facts of calls that came before the reply were lost")
	}
}

func TestDamagedFacts(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{
		"no JSON": `{`, "unknown kind": `{"kind":"rumour","fact":{}}`, "another shape": `{"kind":"reply","fact":[]}`, "no result": `{"kind":"result","fact":{}}`,
	} {
		_, err := step.Decode([]driver.Staged{{StepID: "run/3", Key: "reply", Data: []byte(data)}}, "run/3", 1)
		if !errors.Is(err, cairn.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Emitted data replaces that of its name and id. Beyond 64 KiB the oldest is dropped.
func TestEmittedData(t *testing.T) {
	t.Parallel()
	var w step.Writes
	half := json.RawMessage(`"` + strings.Repeat("x", 30<<10) + `"`)
	for _, d := range []cairn.Data{{Name: "a", ID: "1", Value: half}, {Name: "a", Value: half}, {Name: "b", ID: "1"}, {Name: "a", ID: "1", Value: []byte("2")}} {
		w.Emit(d)
	}
	before := w
	w.Emit(cairn.Data{Name: "b", ID: "1", Value: half})
	w.Emit(cairn.Data{Name: "c", Value: []byte("3")})
	names := func(w step.Writes) (list string) {
		for _, d := range w.Emitted {
			list += fmt.Sprint(d.Name, d.ID, len(d.Value), " ")
		}
		return list
	}
	if got, want := names(before), "a11 a30722 b10 "; got != want {
		t.Errorf("kept are %s, want %s", got, want)
	}
	if got, want := names(w), "a11 a30722 b130722 c1 "; got != want {
		t.Errorf("kept are %s, want %s", got, want)
	}
	w.Emit(cairn.Data{Name: "d", Value: half})
	if got, want := names(w), "b130722 c1 d30722 "; got != want {
		t.Errorf("kept are %s, want %s", got, want)
	}
}
