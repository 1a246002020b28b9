package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// rates is a cached tool that remembers which texts it was run with.
type rates struct {
	mu  sync.Mutex
	ran []string
}

func (r *rates) tool(name string, p cairn.CachePolicy) cairn.Tool {
	return tool(name, func(_ context.Context, _ *cairn.Call, in in) (string, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ran = append(r.ran, in.Text)
		return fmt.Sprintf("%s %d", in.Text, len(r.ran)), nil
	}, cairn.Cache(p))
}

// seen returns the texts so far, joined, and clears them.
func (r *rates) seen() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.ran
	r.ran = nil
	return strings.Join(list, " ")
}

// obey is a model that does what the last user message says, word by word, each in a step of its own: "x:y" calls the
// tool x with the text y. It decides from the request alone.
func obey() *scripted.Model {
	return scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		at := len(req.Messages) - 1
		for req.Messages[at].Role != cairn.RoleUser || req.Messages[at].Hidden {
			at--
		}
		done := 0
		for _, m := range req.Messages[at:] {
			if m.Role == cairn.RoleAssistant {
				done++
			}
		}
		words := strings.Fields(req.Messages[at].Text())
		if done >= len(words) {
			return scripted.Text("done")
		}
		var calls []scripted.Step
		for _, one := range strings.Split(words[done], "+") {
			name, text, _ := strings.Cut(one, ":")
			calls = append(calls, scripted.Call(name, in{text}))
		}
		return scripted.Reply(calls...)
	})
}

// says executes a turn that ends.
func says(t *testing.T, eng *engine.Engine, text string) *cairn.Result {
	t.Helper()
	res := turn(t, eng, "s", text)
	wantStatus(t, res, cairn.RunCompleted, cairn.ReasonReply)
	return res
}

// ledger is a tap that keeps what each commit does to the tool-result cache.
type ledger struct {
	*tap
	mu    sync.Mutex
	lines []string
}

func (s *ledger) Commit(ctx context.Context, id string, c *driver.Commit) (*cairn.Session, error) {
	s.mu.Lock()
	s.lines = append(s.lines, fmt.Sprintf("+%d-%d", len(c.Cache), len(c.CacheDrop)))
	s.mu.Unlock()
	return s.tap.Commit(ctx, id, c)
}

// written returns the changes of the commits since the last call: "+1-2" adds one entry and drops two.
func (s *ledger) written() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.lines
	s.lines = nil
	return strings.Join(list, " ")
}

func TestSameArgumentsRunOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, second string
		runs          int
	}{
		"the same":         {`{"a":1,"b":{"c":[1,2]}}`, `{"a":1,"b":{"c":[1,2]}}`, 1},
		"white space":      {`{"a":1,"b":2}`, " {\n \"a\": 1, \"b\": 2 }", 1},
		"order of members": {`{"a":1,"b":{"c":1,"d":2}}`, `{"b":{"d":2,"c":1},"a":1}`, 1},
		"escapes":          {`{"a":"é/"}`, `{"\u0061":"\u00e9\/"}`, 1},
		"none at all":      {``, `{}`, 1},
		"another value":    {`{"a":1}`, `{"a":2}`, 2},
		"order of items":   {`{"a":[1,2]}`, `{"a":[2,1]}`, 2},
		"another spelling": {`{"a":1}`, `{"a":1.0}`, 2},
		"one more member":  {`{"a":1}`, `{"a":1,"b":null}`, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runs := 0
			look := cairn.RawFunc("look", "Looks.", json.RawMessage(`{"type":"object"}`),
				func(context.Context, *cairn.Call, json.RawMessage) (json.RawMessage, error) {
					runs++
					return json.RawMessage(fmt.Sprint(runs)), nil
				}, cairn.Cache(cairn.CachePolicy{}))
			model := scripted.New(scripted.Call("look", c.first).ID("c1"), scripted.Call("look", c.second).ID("c2"), scripted.Text("done"))
			st := tapOn(nil)
			res := turn(t, open(t, st, bot(model, look)), "s", "go")
			list := messages(t, st, "s")
			same := string(result(t, list, "c1").Output) == string(result(t, list, "c2").Output)
			if runs != c.runs || same != (runs == 1) || res.Usage.ToolCacheHits != int64(2-c.runs) {
				t.Errorf("run %d times, want %d; the same result: %t, %d hits", runs, c.runs, same, res.Usage.ToolCacheHits)
			}
		})
	}
}

func TestCacheIsOfOneTool(t *testing.T) {
	t.Parallel()
	var a, b rates
	eng := open(t, tapOn(nil), bot(obey(), a.tool("a", cairn.CachePolicy{}), b.tool("b", cairn.CachePolicy{})))
	says(t, eng, "a:x b:x a:x b:x")
	if got := a.seen() + ", " + b.seen(); got != "x, x" {
		t.Errorf("run with %q", got)
	}
}

func TestHitIsMarkedAndHooksHearOfIt(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	var r rates
	agent := bot(obey(), r.tool("rate", cairn.CachePolicy{}))
	var heard []string
	agent.Hooks = &cairn.Hooks{
		BeforeTool: func(_ context.Context, call *cairn.Call) error {
			heard = append(heard, "before")
			return call.Append([]string{"audit"}, string(call.Input))
		},
		AfterTool: func(_ context.Context, _ *cairn.Call, result *cairn.ToolResult) {
			heard = append(heard, "after "+string(result.Output))
		},
		OnStateChange: func(context.Context, *cairn.Call, []cairn.Op) { heard = append(heard, "state") },
	}
	res := says(t, open(t, st, agent), "rate:x rate:x")
	if res.Usage.ToolCalls != 2 || res.Usage.ToolCacheHits != 1 || res.Usage.ToolErrors != 0 || r.seen() != "x" {
		t.Errorf("usage %+v", res.Usage)
	}
	once := []string{"before", "state", `after "x 1"`}
	if want := slices.Concat(once, once); !slices.Equal(heard, want) {
		t.Errorf("hooks heard %q, want %q", heard, want)
	}
	if got, want := state(t, st, "s"), `{"audit":["{\"text\":\"x\"}","{\"text\":\"x\"}"]}`; got != want {
		t.Errorf("state %s, want %s: what a hook writes is no part of the result", got, want)
	}
	var marks []bool
	for _, ev := range history(t, st, "s") {
		if ev.Type == cairn.EventToolEnd {
			marks = append(marks, ev.Cached)
		} else if ev.Cached {
			t.Errorf("%s is marked", ev.Type)
		}
	}
	if !slices.Equal(marks, []bool{false, true}) {
		t.Errorf("ends marked as cached: %v", marks)
	}
	if row := load(t, st, "s"); row.Usage.ToolCacheHits != 1 {
		t.Errorf("the session counts %+v", row.Usage)
	}
	wantSound(t, st, "s")
}

func TestVetoHoldsForAHitToo(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	var r rates
	agent := bot(obey(), r.tool("rate", cairn.CachePolicy{}))
	calls := 0
	agent.Hooks = &cairn.Hooks{BeforeTool: func(context.Context, *cairn.Call) error {
		if calls++; calls == 2 {
			return errors.New("not again")
		}
		return nil
	}}
	res := says(t, open(t, st, agent), "rate:x rate:x rate:x")
	if r.seen() != "x" || res.Usage.ToolErrors != 1 || res.Usage.ToolCacheHits != 1 {
		t.Errorf("usage %+v: want the second call vetoed, the third a hit", res.Usage)
	}
	if !strings.Contains(render(t, st, "s"), "not again") {
		t.Error("the veto is not told")
	}
}

// A result that a hit would not reproduce is not kept.
func TestWhatIsKept(t *testing.T) {
	t.Parallel()
	kept, run := true, false
	for name, c := range map[string]struct {
		fn   func(call *cairn.Call) error
		want bool
	}{
		"a result":               {func(*cairn.Call) error { return nil }, kept},
		"an error":               {func(*cairn.Call) error { return errors.New("down") }, run},
		"a panic":                {func(*cairn.Call) error { panic("down") }, run},
		"a state write":          {func(call *cairn.Call) error { return call.Append([]string{"seen"}, 1) }, run},
		"a state write of no op": {func(call *cairn.Call) error { return cairn.UpdateState(call, func(*struct{}) {}) }, kept},
		"a state read":           {func(call *cairn.Call) error { _, err := cairn.State[struct{}](call); return err }, kept},
		"an event":               {func(call *cairn.Call) error { return call.Emit("seen", 1) }, run},
		"an event refused":       {func(call *cairn.Call) error { _ = call.Emit("", 1); return nil }, kept},
		"context":                {func(call *cairn.Call) error { return call.AddContext("it rains") }, run},
		"a switch":               {func(call *cairn.Call) error { return call.SwitchTools(map[string]bool{"other": false}) }, run},
		"usage":                  {func(call *cairn.Call) error { call.RecordUsage("looks", 1); return nil }, kept},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := &ledger{tap: tapOn(nil)}
			runs := 0
			look := tool("look", func(_ context.Context, call *cairn.Call, _ in) (string, error) {
				runs++
				return "seen", c.fn(call)
			}, cairn.Cache(cairn.CachePolicy{}))
			res := says(t, open(t, st, bot(obey(), look, note(), echo("other"))), "look:x look:x")
			want, writes := 1, "+0-0 +1-0 +0-0 +0-0"
			if c.want == run {
				want, writes = 2, "+0-0 +0-0 +0-0 +0-0"
			}
			if runs != want || res.Usage.ToolCacheHits != int64(2-want) {
				t.Errorf("run %d times, want %d; usage %+v", runs, want, res.Usage)
			}
			if got := st.written(); got != writes {
				t.Errorf("commits write %s, want %s", got, writes)
			}
			if usage := res.Usage.Custom["looks"]; usage > 1 {
				t.Errorf("custom usage %g: a hit consumes nothing", usage)
			}
		})
	}
}

func TestTimeoutIsNotKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64 // the second does not wait for the first, which is abandoned
		slow := tool("slow", func(ctx context.Context, _ *cairn.Call, _ in) (string, error) {
			if runs.Add(1) == 1 {
				<-ctx.Done()
			}
			return "late", ctx.Err()
		}, cairn.Cache(cairn.CachePolicy{}), cairn.Timeout(time.Second))
		res := says(t, open(t, tapOn(nil), bot(obey(), slow)), "slow:x slow:x slow:x")
		if runs.Load() != 2 || res.Usage.ToolCacheHits != 1 || res.Usage.ToolErrors != 1 {
			t.Errorf("run %d times, usage %+v", runs.Load(), res.Usage)
		}
	})
}

func TestResultIsGoodForItsTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy, good time.Duration
	}{{0, time.Hour}, {time.Minute, time.Minute}} {
		t.Run(c.good.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var r rates
				eng := open(t, tapOn(nil), bot(obey(), r.tool("rate", cairn.CachePolicy{TTL: c.policy})))
				says(t, eng, "rate:x")
				testclock.Advance(c.good / 2)
				says(t, eng, "rate:x") // does not extend its validity
				testclock.Advance(c.good/2 - 1)
				says(t, eng, "rate:x")
				if got := r.seen(); got != "x" {
					t.Errorf("run with %q up to its end", got)
				}
				testclock.Advance(time.Nanosecond)
				says(t, eng, "rate:x rate:x")
				if got := r.seen(); got != "x" {
					t.Errorf("run with %q after its end", got)
				}
			})
		})
	}
}

// A result is not kept if it failed because what a hook wrote for the call did not fit.
func TestResultOfAFailedCallIsNotKept(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	var r rates
	spoil := tool("spoil", func(_ context.Context, call *cairn.Call, _ in) (string, error) {
		return "", call.Set([]string{"audit"}, 1)
	})
	agent := bot(obey(), r.tool("rate", cairn.CachePolicy{}), spoil)
	agent.Hooks = &cairn.Hooks{BeforeTool: func(_ context.Context, call *cairn.Call) error {
		if call.Tool == "spoil" {
			return nil
		}
		return call.Append([]string{"audit"}, call.ID)
	}}
	res := says(t, open(t, st, agent), "spoil:+rate:x rate:x")
	if got := r.seen(); got != "x x" || res.Usage.ToolErrors != 2 || res.Usage.ToolCacheHits != 0 {
		t.Errorf("run with %q, usage %+v", got, res.Usage)
	}
	wantOutcomes(t, st, "s", "spoil= rate!state_invalid rate!state_invalid")
}

// TestCacheIsOneForAllTools has two tools with different limits: the larger one bounds what the session keeps of both.
func TestCacheIsOneForAllTools(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	cached := func(name string, most int) cairn.Tool { return echo(name, cairn.Cache(cairn.CachePolicy{Max: most})) }
	var steps []scripted.Step
	for i, text := range []string{"1", "2", "3"} {
		for _, tool := range []string{"one", "two"} {
			steps = append(steps, scripted.Call(tool, in{text}).ID(fmt.Sprint(tool, i)))
		}
	}
	eng := open(t, st, bot(scripted.New(append(steps, scripted.Text("done"))...), cached("one", 1), cached("two", 3)))
	wantStatus(t, turn(t, eng, "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
	snap, err := st.Store.Read(t.Context(), "s", driver.ToDrive(0))
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, e := range snap.Cache {
		kept = append(kept, e.Tool+" "+string(e.Output))
	}
	slices.Sort(kept)
	if want := []string{`one "3"`, `two "2"`, `two "3"`}; !slices.Equal(kept, want) {
		t.Errorf("the session keeps %q, want %q", kept, want)
	}
}

// A client tool and a sub-agent that are cached are asked once for the same arguments, in the same turn and in later
// ones.
func TestCachedAnswers(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	helper := &cairn.Agent{Name: "helper", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
		return scripted.Text(fmt.Sprint("answer ", runs.Add(1)))
	})}
	cached := cairn.Cache(cairn.CachePolicy{})
	where := cairn.ClientTool[in, string]("where", "Asks the client.", cached)
	st := memstore.New(nil)
	eng := open(t, st, bot(scripted.New(
		scripted.Call("where", in{"home"}), scripted.Call("helper", task{"go"}), scripted.Call("where", in{"home"}), scripted.Call("helper", task{"go"}), scripted.Text("done"),
		scripted.Reply(scripted.Call("where", in{"home"}), scripted.Call("helper", task{"go"})), scripted.Call("helper", task{"go further"}), scripted.Text("done")),
		where, cairn.SubAgent(helper, cached)))
	res := turn(t, eng, "s", "go")
	if res.Suspended == nil || len(res.Suspended.Calls) != 1 {
		t.Fatalf("the first call: %+v", res)
	}
	submit(t, eng, "s", cairn.Answer(res.Suspended.Calls[0], "here"), cairn.OutcomeAccepted)
	run, err := eng.Resume(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if res = wait(t, run); res.Status != cairn.RunCompleted || runs.Load() != 1 {
		t.Fatalf("the turn is %s after %d runs of the sub-agent", res.Status, runs.Load())
	}
	if res = turn(t, eng, "s", "again"); res.Status != cairn.RunCompleted || runs.Load() != 2 {
		t.Errorf("the next turn is %s after %d runs of the sub-agent", res.Status, runs.Load())
	}
	row, err := eng.Session(t.Context(), "s")
	if err != nil || row.Usage.ToolCacheHits != 4 || row.Usage.SubAgentRuns != 2 {
		t.Errorf("usage %+v, %v", row.Usage, err)
	}
	var results []string
	for _, m := range messages(t, st, "s") {
		for _, r := range m.ToolResults() {
			results = append(results, r.Tool+string(r.Output))
		}
	}
	want := `where"here" helper"answer 1" where"here" helper"answer 1" where"here" helper"answer 1" helper"answer 2"`
	if got := strings.Join(results, " "); got != want {
		t.Errorf("results are %s, want %s", got, want)
	}
}

// The failure of a client or of a sub-agent is not cached.
func TestFailedAnswersAreNotCached(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	helper := &cairn.Agent{Name: "helper", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
		runs.Add(1)
		return scripted.Fail(cairn.Errorf(cairn.ErrAuth, "no key"))
	})}
	cached := cairn.Cache(cairn.CachePolicy{})
	eng := open(t, memstore.New(nil), bot(scripted.New(
		scripted.Reply(scripted.Call("where", in{"home"}), scripted.Call("helper", task{"go"})), scripted.Reply(scripted.Call("where", in{"home"}), scripted.Call("helper", task{"go"})), scripted.Text("done")),
		cairn.ClientTool[in, string]("where", "Asks the client.", cached), cairn.SubAgent(helper, cached)))
	res := turn(t, eng, "s", "go")
	for range 2 {
		if res.Suspended == nil || len(res.Suspended.Calls) != 1 {
			t.Fatalf("outcome %+v", res)
		}
		submit(t, eng, "s", cairn.AnswerError(res.Suspended.Calls[0], "no signal"), cairn.OutcomeAccepted)
		run, err := eng.Resume(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		res = wait(t, run)
	}
	if res.Status != cairn.RunCompleted || runs.Load() < 2 {
		t.Errorf("the turn is %s after %d runs of the sub-agent", res.Status, runs.Load())
	}
}
