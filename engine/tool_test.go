package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
)

func TestParallelCallsSeeTheStateBeforeTheirStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var saw [2]string
		slowly := tool("add", func(_ context.Context, call *cairn.Call, in in) (string, error) {
			i := int(in.Text[0] - 'a')
			testclock.Deaf(time.Duration(2-i) * time.Second) // the later call ends first
			before, err := cairn.State[map[string]any](call)
			if err != nil {
				return "", err
			}
			raw, _ := json.Marshal(before)
			saw[i] = string(raw)
			if err := call.Append([]string{"list"}, in.Text); err != nil {
				return "", err
			}
			after, err := cairn.State[map[string][]string](call)
			if len(after["list"]) != 2 {
				t.Errorf("call %s does not see its own write: %v", in.Text, after)
			}
			return "", err
		})
		agent := bot(scripted.New(scripted.Reply(scripted.Call("add", in{"a"}), scripted.Call("add", in{"b"})), scripted.Text("ok")), slowly)
		agent.State = cairn.StateOf(map[string]any{"list": []string{"0"}})
		st := tapOn(nil)
		begun := time.Now()
		turn(t, open(t, st, agent), "s", "go")
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("the calls took %s, together they take 2s", took)
		}
		if saw[0] != `{"list":["0"]}` || saw[1] != saw[0] {
			t.Errorf("the calls saw %q", saw)
		}
		if got := state(t, st, "s"); got != `{"list":["0","a","b"]}` {
			t.Errorf("state %s: want both items, in call order", got)
		}
	})
}

func TestConflictingWritesAreAnErrorOfTheLaterCall(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	set := tool("set", func(_ context.Context, call *cairn.Call, in in) (string, error) {
		return "set", call.Set([]string{"x"}, in.Text)
	})
	grow := tool("grow", func(_ context.Context, call *cairn.Call, in in) (string, error) {
		return "grown", errors.Join(call.Set([]string{"y"}, in.Text), call.Append([]string{"x"}, in.Text))
	})
	turn(t, open(t, st, bot(scripted.New(
		scripted.Reply(scripted.Call("set", in{"scalar"}).ID("c1"), scripted.Call("grow", in{"item"}).ID("c2")), scripted.Text("ok")), set, grow)), "s", "go")
	if got := state(t, st, "s"); got != `{"x":"scalar"}` {
		t.Errorf("state %s: want the first call's write and nothing of the second", got)
	}
	list := messages(t, st, "s")
	if r := result(t, list, "c1"); r.IsError {
		t.Errorf("first call: %+v", r)
	}
	if r := result(t, list, "c2"); !r.IsError || r.Code != cairn.ErrState {
		t.Errorf("second call: %s (%s), want a state error", r.Output, r.Code)
	}
}

func TestLastReplaceWins(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	set := tool("set", func(_ context.Context, call *cairn.Call, in in) (string, error) {
		return "", cairn.UpdateState(call, func(s *map[string]string) { *s = map[string]string{"x": in.Text} })
	})
	turn(t, open(t, st, bot(scripted.New(
		scripted.Reply(scripted.Call("set", in{"1"}), scripted.Call("set", in{"2"})), scripted.Text("ok")), set)), "s", "go")
	if got := state(t, st, "s"); got != `{"x":"2"}` {
		t.Errorf("state %s", got)
	}
}

func TestToolThatTakesTooLongIsATimeoutForTheModel(t *testing.T) {
	t.Parallel()
	for name, fn := range map[string]func(ctx context.Context) error{
		"heeds its context":   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"ignores its context": func(context.Context) error { testclock.Deaf(time.Hour); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				late := make(chan error, 1)
				slow := tool("slow", func(ctx context.Context, call *cairn.Call, _ in) (string, error) {
					err := fn(ctx)
					if err == nil { // an hour late
						late <- errors.Join(call.Append([]string{"late"}, 1), call.Emit("late", nil))
						call.RecordUsage("late", 1)
					}
					return "late", err
				}, cairn.Timeout(30*time.Second))
				begun := time.Now()
				res := turn(t, open(t, st, bot(scripted.New(scripted.Call("slow", in{}).ID("c1"), scripted.Text("never mind")), slow)), "s", "go")
				wantStatus(t, res, cairn.RunCompleted, cairn.ReasonReply)
				if r := result(t, messages(t, st, "s"), "c1"); r.Code != cairn.ErrTimeout {
					t.Errorf("result %s (%s)", r.Output, r.Code)
				}
				if took := time.Since(begun); took != 30*time.Second {
					t.Errorf("took %s: the timeout is 30s", took)
				}
				wantSound(t, st, "s")
				if name != "ignores its context" {
					return
				}
				before := render(t, st, "s")
				if err := <-late; err == nil {
					t.Error("a tool that was given up could still write")
				}
				if render(t, st, "s") != before {
					t.Error("a tool that was given up left a trace")
				}
			})
		})
	}
}

func TestResultAfterTheTimeoutDoesNotCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		late := tool("late", func(_ context.Context, call *cairn.Call, _ in) (string, error) {
			testclock.Deaf(12 * time.Second)
			return "too late", call.Append([]string{"late"}, 1)
		}, cairn.Timeout(10*time.Second))
		eng := open(t, st, bot(scripted.New(scripted.Call("late", in{}).ID("c1"), scripted.Text("ok")), late))
		run := start(t, eng, "s", "go")
		testclock.Advance(11 * time.Second)
		if n := eng.Abandoned(); n != 1 {
			t.Errorf("%d calls are abandoned, want one", n)
		}
		wait(t, run)
		if r := result(t, messages(t, st, "s"), "c1"); !r.IsError || r.Code != cairn.ErrTimeout {
			t.Errorf("result %s (%s)", r.Output, r.Code)
		}
		testclock.Advance(2 * time.Second)
		if n := eng.Abandoned(); n != 0 || state(t, st, "s") != "{}" {
			t.Errorf("%d calls are abandoned, state %s", n, state(t, st, "s"))
		}
	})
}

// A tool that is stopped and returns within the grace time has its result kept.
func TestToolThatEndsInTheGraceTimeOfAStopCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		late := tool("late", func(context.Context, *cairn.Call, in) (string, error) {
			testclock.Deaf(12 * time.Second)
			return "just made it", nil
		})
		eng := open(t, st, bot(scripted.New(scripted.Call("late", in{}).ID("c1"), scripted.Text("ok")), late))
		run := start(t, eng, "s", "go")
		testclock.Advance(10 * time.Second)
		if err := eng.Interrupt(t.Context(), "s", ""); err != nil {
			t.Fatal(err)
		}
		wantStatus(t, wait(t, run), cairn.RunInterrupted, cairn.ReasonInterrupted)
		if r := result(t, messages(t, st, "s"), "c1"); r.IsError {
			t.Errorf("result %s", r.Output)
		}
	})
}

func TestRepeatedCallIDsAreRenamed(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	var mine []string
	keys := map[string]bool{}
	var calls []string
	key := tool("key", func(_ context.Context, call *cairn.Call, in in) (string, error) {
		calls = append(calls, call.ID+"="+in.Text)
		keys[call.IdempotencyKey()] = true
		return "", nil
	})
	long := strings.Repeat("x", 100)
	turn(t, open(t, st, bot(scripted.New(
		scripted.Call("key", in{"1"}).ID("c"),
		scripted.Call("key", in{"2"}).ID("c"),
		scripted.Call("key", in{"3"}).ID(""),
		scripted.Call("key", in{"4"}).ID(long),
		scripted.Text("ok")), key)), "s", "go")
	for i := range messages(t, st, "s") {
		for _, use := range messages(t, st, "s")[i].ToolUses() {
			mine = append(mine, use.CallID)
			if len(use.CallID) > 64 || use.CallID == "" {
				t.Errorf("call id %q", use.CallID)
			}
		}
	}
	if len(keys) != 4 || len(mine) != 4 || mine[0] != "c" || mine[1] == "c" {
		t.Errorf("calls %v with %d keys", mine, len(keys))
	}
	if calls[1] != mine[1]+"=2" {
		t.Errorf("renamed call got %s", calls[1])
	}
	wantSound(t, st, "s")
}

func TestTwinCallsOfOneReplyAreBothAnswered(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	turn(t, open(t, st, bot(scripted.New(
		scripted.Reply(scripted.Call("echo", in{"1"}).ID("c"), scripted.Call("echo", in{"2"}).ID("c")),
		scripted.Text("ok")), echo("echo"))), "s", "go")
	results := messages(t, st, "s")[2].ToolResults()
	if len(results) != 2 || string(results[0].Output) != `"1"` || string(results[1].Output) != `"2"` {
		t.Errorf("results %+v", results)
	}
	wantSound(t, st, "s")
}

func TestIdempotencyKeyIsTheSameOnARepeatedCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		var keys []string
		agent := bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
			if len(req.Messages) > 1 {
				return scripted.Text("ok")
			}
			return scripted.Call("key", in{"x"})
		}), tool("key", func(_ context.Context, call *cairn.Call, _ in) (string, error) {
			if keys = append(keys, call.IdempotencyKey()); len(keys) == 1 {
				st.cut()
			}
			return "", nil
		}))
		_, _ = start(t, open(t, st, agent, shortLease), "s", "go").Wait(t.Context())
		bringToEnd(t, st, agent)
		if len(keys) != 2 || keys[0] != keys[1] || keys[0] == "" {
			t.Errorf("keys %q", keys)
		}
	})
}

func TestToolContextIsHiddenAndReadByTheNextCall(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	model := scripted.New(scripted.Call("learn", in{"the sky is blue"}), scripted.Text("ok"))
	learn := tool("learn", func(_ context.Context, call *cairn.Call, in in) (string, error) {
		return "learnt", call.AddContext(in.Text)
	})
	turn(t, open(t, st, bot(model, learn)), "s", "go")
	second := model.Requests()[1].Messages
	last := second[len(second)-1]
	if !last.Hidden || last.Text() != "the sky is blue" || len(second) != 4 {
		t.Errorf("the second request ends with %+v", last)
	}
	// The prefix that a provider caches is the same.
	if a, b := marshal(model.Requests()[0].Messages), marshal(second[:1]); a != b {
		t.Errorf("the prefix changed from %s to %s", a, b)
	}
}

func marshal(v any) string {
	raw, _ := json.Marshal(v)
	return string(raw)
}

func TestEventOverTheLimitIsRefusedAndLeavesNoTrace(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	var errs []error
	shout := tool("shout", func(_ context.Context, call *cairn.Call, _ in) (string, error) {
		errs = append(errs, call.Emit("big", strings.Repeat("a", st.log.MaxEvent())), call.Emit("small", "a"))
		return "", nil
	})
	res := turn(t, open(t, st, bot(scripted.New(scripted.Call("shout", in{}), scripted.Text("ok")), shout)), "s", "go")
	wantStatus(t, res, cairn.RunCompleted, cairn.ReasonReply)
	wantError(t, errs[0], cairn.ErrTooLarge)
	if errs[1] != nil {
		t.Error(errs[1])
	}
	for _, ev := range history(t, st, "s") {
		if ev.Type == cairn.EventCustom && ev.Name != "small" {
			t.Errorf("event %q was written", ev.Name)
		}
	}
}

// Nothing that a tool does may keep its step from being committed.
func TestNoToolCanWedgeItsRun(t *testing.T) {
	t.Parallel()
	angry := strings.Repeat("<", 200) // six bytes each in JSON
	for name, fn := range map[string]func(call *cairn.Call, max int){
		"usage that is no number": func(call *cairn.Call, _ int) {
			call.RecordUsage("nan", math.NaN())
			call.RecordUsage("inf", math.Inf(1))
		},
		"usage under an endless name": func(call *cairn.Call, max int) { call.RecordUsage(strings.Repeat("n", max), 1) },
		"an event of just the right size": func(call *cairn.Call, max int) {
			for n := max; n > max-8000; n -= 100 {
				if call.Emit("e", strings.Repeat("a", n)) == nil {
					return
				}
			}
		},
		"a write of two events' size": func(call *cairn.Call, max int) {
			_ = call.Set([]string{"big"}, strings.Repeat("<", 2*max))
			_ = call.Set([]string{strings.Repeat("k", 2*max)}, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				agent := bot(scripted.New(scripted.Call("t", in{}), scripted.Text("ok")),
					tool("t", func(_ context.Context, call *cairn.Call, _ in) (string, error) {
						fn(call, st.log.MaxEvent())
						return "", nil
					}))
				wantStatus(t, turn(t, open(t, st, agent), angry, "go"), cairn.RunCompleted, cairn.ReasonReply)
				wantSound(t, st, angry)
			})
		})
	}
}

func TestModelCannotWedgeItsRunWithNames(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	name := strings.Repeat("no such tool \xff", st.log.MaxEvent()/8)
	res := turn(t, open(t, st, bot(scripted.New(scripted.Call(name, in{}), scripted.Text("sorry")))), "s", "go")
	wantStatus(t, res, cairn.RunCompleted, cairn.ReasonReply)
	wantSound(t, st, "s")
}

func TestLargeResultIsCutInTheLogAndWholeInTheTranscript(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	whole := strings.Repeat("größer ", 100_000)
	big := tool("big", func(context.Context, *cairn.Call, in) (string, error) { return whole, nil })
	turn(t, open(t, st, bot(scripted.New(scripted.Call("big", in{}).ID("c1"), scripted.Text("ok")), big)), "s", "go")
	if got := decode[string](t, result(t, messages(t, st, "s"), "c1").Output); got != whole {
		t.Errorf("the transcript has %d bytes of %d", len(got), len(whole))
	}
	found := false
	for _, ev := range history(t, st, "s") {
		if ev.Type != cairn.EventToolEnd {
			continue
		}
		found = true
		short := decode[string](t, ev.Data)
		if !ev.Truncated || short == "" || !strings.HasPrefix(whole, short) || len(short) >= len(whole) {
			t.Errorf("the log has %d bytes of %d, truncated %t", len(short), len(whole), ev.Truncated)
		}
	}
	if !found {
		t.Error("no tool_end")
	}
	wantSound(t, st, "s")
}

func TestStateThatDoesNotDecodeIsTheToolsError(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	read := tool("read", func(_ context.Context, call *cairn.Call, _ in) (string, error) {
		_, err := cairn.State[struct{ Notes int }](call)
		return "", err
	})
	turn(t, open(t, st, bot(scripted.New(scripted.Call("note", in{"x"}), scripted.Call("read", in{}).ID("c2"), scripted.Text("ok")), note(), read)), "s", "go")
	if r := result(t, messages(t, st, "s"), "c2"); r.Code != cairn.ErrState {
		t.Errorf("result %s (%s)", r.Output, r.Code)
	}
}

func TestStateOfAnotherShapeRefusesTheTurn(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	turn(t, open(t, st, bot(scripted.New(scripted.Call("note", in{"x"}), scripted.Text("ok")), note())), "s", "go")
	typed := bot(scripted.New(scripted.Text("ok")))
	typed.State = cairn.StateOf(struct {
		Notes int `json:"notes"`
	}{})
	eng := open(t, st, typed, named("b"))
	before := render(t, st, "s")
	_, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("go"))
	wantError(t, err, cairn.ErrState)
	if render(t, st, "s") != before {
		t.Error("the refused turn left a trace")
	}
}
