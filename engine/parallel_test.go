package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
)

// change is a write of a call to the state.
type change func(call *cairn.Call) error

func set(value any, path ...string) change {
	return func(call *cairn.Call) error { return call.Set(path, value) }
}

func add(amount any, path ...string) change {
	return func(call *cairn.Call) error { return call.Add(path, amount) }
}

// write is a model that makes a call of the tool "c0", "c1", … for each change, in one reply, and the agent's tools.
func write(opts [][]cairn.ToolOption, changes ...change) *cairn.Agent {
	var calls []scripted.Step
	var tools []cairn.Tool
	for i, do := range changes {
		name := fmt.Sprint("c", i)
		calls = append(calls, scripted.Call(name, in{name}).ID(name))
		var with []cairn.ToolOption
		if i < len(opts) {
			with = opts[i]
		}
		tools = append(tools, tool(name, func(_ context.Context, call *cairn.Call, _ in) (string, error) { return "ok", do(call) }, with...))
	}
	return bot(scripted.New(scripted.Reply(calls...), scripted.Text("done")), tools...)
}

// conflicts returns the conflicts on a session's log, and checks that the logger was given the same number.
func conflicts(t *testing.T, agent *cairn.Agent) (list []cairn.StateConflict, left string) {
	t.Helper()
	var log bytes.Buffer
	st := tapOn(nil)
	turn(t, open(t, st, agent, with(func(o *engine.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })), "s", "go")
	for _, ev := range history(t, st, "s") {
		list = append(list, ev.Conflicts...)
	}
	if n := strings.Count(log.String(), "overwritten by a parallel call"); n != len(list) {
		t.Errorf("%d conflicts are on the log, %d were logged:\n%s", len(list), n, &log)
	}
	return list, state(t, st, "s")
}

func TestParallelAdditionsAllCount(t *testing.T) {
	t.Parallel()
	list, got := conflicts(t, write(nil, add(3, "refunded"), add(4, "refunded"), add(-2, "by", "a"), add(0.5, "by", "a")))
	if got != `{"by":{"a":-1.5},"refunded":7}` || len(list) > 0 {
		t.Errorf("state %s, conflicts %+v", got, list)
	}
}

func TestAdditionThatDoesNotFitIsAnErrorOfItsCall(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	agent := write(nil, set("text", "name"), add(1, "n"), add(1, "name"), add(int64(1)<<62, "n"), add(int64(1)<<62, "n"))
	turn(t, open(t, st, agent), "s", "go")
	if got := state(t, st, "s"); got != `{"n":4611686018427387905,"name":"text"}` {
		t.Errorf("state %s", got)
	}
	for id, want := range map[string]string{"c2": "/name", "c4": "/n"} {
		if r := result(t, messages(t, st, "s"), id); r.Code != cairn.ErrState || !strings.Contains(string(r.Output), "increment "+want+":") {
			t.Errorf("call %s: %s (%s)", id, r.Output, r.Code)
		}
	}
}

// TestConflictsOfParallelCalls has, for each list of changes by parallel calls, the conflicts that are reported, as
// path, lost call and call that won.
func TestConflictsOfParallelCalls(t *testing.T) {
	t.Parallel()
	type doc struct {
		N     int            `json:"n"`
		List  []int          `json:"list"`
		Items map[string]int `json:"items"`
	}
	update := func(f func(*doc)) change {
		return func(call *cairn.Call) error { return cairn.UpdateState(call, f) }
	}
	del := func(path ...string) change { return func(call *cairn.Call) error { return call.Delete(path...) } }
	grow := func(path string, item any) change {
		return func(call *cairn.Call) error { return call.Append([]string{path}, item) }
	}
	both := func(list ...change) change {
		return func(call *cairn.Call) (err error) {
			for _, f := range list {
				if err == nil {
					err = f(call)
				}
			}
			return err
		}
	}
	object := map[string]int{"x": 1, "y": 2}
	for name, c := range map[string]struct {
		changes []change
		want    []string
	}{
		"sums by UpdateState":           {[]change{update(func(d *doc) { d.N += 3 }), update(func(d *doc) { d.N += 4 })}, []string{"/n c0 c1"}},
		"different members":             {[]change{update(func(d *doc) { d.N = 3 }), update(func(d *doc) { d.Items = object })}, nil},
		"different keys of a map":       {[]change{update(func(d *doc) { d.Items = map[string]int{"a": 1} }), update(func(d *doc) { d.Items = map[string]int{"b": 1} })}, nil},
		"items of one list":             {[]change{update(func(d *doc) { d.List = append(d.List, 1) }), update(func(d *doc) { d.List = append(d.List, 2) })}, nil},
		"a list that grows and shrinks": {[]change{grow("list", 1), set([]int{}, "list")}, []string{"/list c0 c1"}},
		"equal values":                  {[]change{set(object, "a"), set(object, "a"), set(1, "a", "x")}, nil},
		"a value and one within":        {[]change{set(object, "a"), set(7, "a", "x")}, []string{"/a/x c0 c1"}},
		"a value and one around":        {[]change{set(7, "a", "x"), set(object, "a")}, []string{"/a/x c0 c1"}},
		"the whole state":               {[]change{set(7, "a"), func(call *cairn.Call) error { return call.Set(nil, object) }}, []string{"/a c0 c1"}},
		"names with a common prefix":    {[]change{set(1, "a"), set(2, "ab")}, nil},
		"own value":                     {[]change{both(set(1, "a"), set(2, "a"), del("a"), set(3, "a")), set(1, "b")}, nil},
		"own value set back":            {[]change{set(1, "a"), both(set(2, "a"), set(1, "a"))}, nil},
		"three values":                  {[]change{set(1, "a"), set(2, "a"), set(3, "a")}, []string{"/a c0 c2", "/a c1 c2"}},
		"a value and its deletion":      {[]change{set(1, "a"), del("a")}, []string{"/a c0 c1"}},
		"a deletion and a value":        {[]change{del("n"), set(1, "n")}, []string{"/n c0 c1"}},
		"two deletions":                 {[]change{del("n"), del("n")}, nil},
		"an addition and a value":       {[]change{add(3, "a"), set(4, "a")}, []string{"/a c0 c1"}},
		"a value and an addition":       {[]change{set(4, "a"), add(3, "a")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agent := write(nil, c.changes...)
			agent.State = cairn.StateOf(map[string]any{"n": 0})
			list, state := conflicts(t, agent)
			var got []string
			for _, k := range list {
				got = append(got, k.Path+" "+k.Lost+" "+k.Won)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("conflicts %q, want %q; state %s", got, c.want, state)
			}
		})
	}
}

func TestSerialCallSeesWhatPrecedesIt(t *testing.T) {
	t.Parallel()
	double := func(call *cairn.Call) error {
		return cairn.UpdateState(call, func(s *map[string]int) { (*s)["n"] *= 2 })
	}
	alone := []cairn.ToolOption{cairn.Serial()}
	for name, c := range map[string]struct {
		opts    [][]cairn.ToolOption
		changes []change
		want    string
	}{
		"between others":      {[][]cairn.ToolOption{nil, alone, nil}, []change{add(3, "n"), double, add(1, "n")}, `{"n":7}`},
		"first":               {[][]cairn.ToolOption{alone, nil}, []change{add(3, "n"), double}, `{"n":6}`},
		"one after the other": {[][]cairn.ToolOption{alone, alone, alone}, []change{add(3, "n"), double, double}, `{"n":12}`},
		"before the last one": {[][]cairn.ToolOption{{cairn.FinishWith()}, alone}, []change{double, add(3, "n")}, `{"n":6}`},
		"past a write that does not fit": {[][]cairn.ToolOption{nil, nil, alone}, []change{add(3, "n"), func(call *cairn.Call) error { return call.Append([]string{"n"}, 1) }, double},
			`{"n":6}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agent := write(c.opts, c.changes...)
			agent.State = cairn.StateOf(map[string]int{"n": 0})
			if list, got := conflicts(t, agent); got != c.want || len(list) > 0 {
				t.Errorf("state %s, want %s; conflicts %+v", got, c.want, list)
			}
		})
	}
}

func TestSerialCallRunsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		span := make([]string, 5)
		var opts [][]cairn.ToolOption
		var changes []change
		for i := range span {
			opts = append(opts, nil)
			changes = append(changes, func(*cairn.Call) error {
				from := time.Since(begun)
				testclock.Deaf(time.Second)
				span[i] = fmt.Sprintf("%s-%s", from, time.Since(begun))
				return nil
			})
		}
		opts[2] = []cairn.ToolOption{cairn.Serial()}
		turn(t, open(t, tapOn(nil), write(opts, changes...)), "s", "go")
		if want := []string{"0s-1s", "0s-1s", "1s-2s", "2s-3s", "2s-3s"}; !reflect.DeepEqual(span, want) {
			t.Errorf("the calls ran %q, want %q", span, want)
		}
	})
}
