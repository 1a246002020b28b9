package engine_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
)

func TestRetryableModelErrorsAreTriedThreeTimesMore(t *testing.T) {
	t.Parallel()
	busy := scripted.Reply(scripted.Text("well "), scripted.Fail(cairn.Errorf(cairn.ErrOverloaded, "busy")))
	for failures, ok := range map[int]bool{0: true, 1: true, 3: true, 4: false} {
		synctest.Test(t, func(t *testing.T) {
			st := tapOn(nil)
			var steps []scripted.Step
			for range failures {
				steps = append(steps, busy)
			}
			model := scripted.New(append(steps, scripted.Text("well then"))...)
			res := turn(t, open(t, st, bot(model)), "s", "go")
			if ok {
				wantStatus(t, res, cairn.RunCompleted, cairn.ReasonReply)
			} else {
				wantStatus(t, res, cairn.RunFailed, cairn.ReasonError)
				if res.Error.Code != cairn.ErrOverloaded {
					t.Errorf("error %v", res.Error)
				}
			}
			if model.Calls() != min(failures, 3)+1 {
				t.Errorf("%d calls", model.Calls())
			}
			wantSound(t, st, "s")
		})
	}
}

func TestWaitsBetweenRetriesGrow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		agent := bot(scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
			at = append(at, time.Now())
			return scripted.Break()
		}))
		agent.Retry = &cairn.RetryPolicy{Max: 6, First: time.Second, Limit: 8 * time.Second}
		turn(t, open(t, tapOn(nil), agent), "s", "go")
		if len(at) != 7 {
			t.Fatalf("%d calls", len(at))
		}
		for i, want := range []time.Duration{1, 2, 4, 8, 8, 8} {
			wait, want := at[i+1].Sub(at[i]), want*time.Second
			if wait > want || wait < want*3/4 {
				t.Errorf("wait %d is %s, want %s less up to a quarter", i+1, wait, want)
			}
		}
	})
}

func TestRetryAfterIsObeyed(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{17 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			limited := cairn.Errorf(cairn.ErrRateLimited, "slow down")
			limited.RetryAfter = cairn.Duration(after)
			begun := time.Now()
			wantStatus(t, turn(t, open(t, tapOn(nil), bot(scripted.New(scripted.Fail(limited), scripted.Text("ok")))), "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
			if took := time.Since(begun); took != after {
				t.Errorf("told to wait %s, waited %s", after, took)
			}
		})
	}
}

// A wait longer than the policy allows is left to the caller that retries the turn, who learns how long it is.
func TestRetryAfterBeyondTheLimitFailsAtOnce(t *testing.T) {
	t.Parallel()
	for limit, after := range map[time.Duration]time.Duration{0: 10 * time.Minute, time.Hour: 2 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			st := tapOn(nil)
			limited := cairn.Errorf(cairn.ErrRateLimited, "slow down")
			limited.RetryAfter = cairn.Duration(after)
			agent := bot(scripted.New(scripted.Fail(limited), scripted.Text("ok")))
			agent.Retry = &cairn.RetryPolicy{Limit: limit}
			begun := time.Now()
			res := turn(t, open(t, st, agent), "s", "go")
			wantStatus(t, res, cairn.RunFailed, cairn.ReasonError)
			if took := time.Since(begun); took != 0 {
				t.Errorf("failed after %s", took)
			}
			kept := runsOf(t, st, "s")[0].Error
			for _, e := range []*cairn.Error{res.Error, kept} {
				if e.Code != cairn.ErrRateLimited || e.RetryAfter != cairn.Duration(after) || !strings.Contains(e.Message, after.String()) {
					t.Errorf("error %+v", e)
				}
			}
		})
	}
}

func TestModelErrorsThatARetryCannotMendFailAtOnce(t *testing.T) {
	t.Parallel()
	for _, code := range []cairn.Code{cairn.ErrModelRequest, cairn.ErrContextLength, cairn.ErrAuth, cairn.ErrFiltered} {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			st := tapOn(nil)
			model := scripted.New(scripted.Reply(scripted.Text("half a wo"), scripted.Fail(cairn.Errorf(code, "no"))), scripted.Text("ok"))
			eng := open(t, st, bot(model))
			res := turn(t, eng, "s", "go")
			wantStatus(t, res, cairn.RunFailed, cairn.ReasonError)
			if res.Error.Code != code || model.Calls() != 1 || res.Steps != 0 || res.Text != "half a wo" {
				t.Errorf("%d calls, outcome %+v, error %v", model.Calls(), res, res.Error)
			}
			wantSound(t, st, "s")
			again, err := eng.Retry(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			wantStatus(t, wait(t, again), cairn.RunCompleted, cairn.ReasonReply)
			wantSound(t, st, "s")
		})
	}
}

func TestNegativeMaxMeansNoRetries(t *testing.T) {
	t.Parallel()
	model := scripted.New(scripted.Break(), scripted.Text("ok"))
	agent := bot(model)
	agent.Retry = &cairn.RetryPolicy{Max: -1}
	wantStatus(t, turn(t, open(t, tapOn(nil), agent), "s", "go"), cairn.RunFailed, cairn.ReasonError)
	if model.Calls() != 1 {
		t.Errorf("%d calls", model.Calls())
	}
}

// rude is a model that does as it pleases.
type rude func(ctx context.Context, yield func(cairn.Chunk, error) bool)

func (rude) Info() cairn.ModelInfo { return cairn.ModelInfo{Name: "rude"} }
func (m rude) Stream(ctx context.Context, _ *cairn.Request) iter.Seq2[cairn.Chunk, error] {
	return func(yield func(cairn.Chunk, error) bool) { m(ctx, yield) }
}

func TestModelsThatMisbehaveFailTheRunAndNothingElse(t *testing.T) {
	t.Parallel()
	text := func(s string) cairn.Chunk { return cairn.Chunk{Type: cairn.ChunkText, Text: s} }
	for name, c := range map[string]struct {
		model rude
		code  cairn.Code
	}{
		"it panics":        {func(_ context.Context, yield func(cairn.Chunk, error) bool) { yield(text("oh "), nil); panic("boom") }, cairn.ErrInternal},
		"a foreign error":  {func(_ context.Context, yield func(cairn.Chunk, error) bool) { yield(cairn.Chunk{}, errors.New("huh")) }, cairn.ErrInternal},
		"an unknown chunk": {func(_ context.Context, yield func(cairn.Chunk, error) bool) { yield(cairn.Chunk{Type: "smell"}, nil) }, cairn.ErrModel},
		"stray arguments": {func(_ context.Context, yield func(cairn.Chunk, error) bool) {
			yield(cairn.Chunk{Type: cairn.ChunkToolArgs, CallID: "x"}, nil)
		}, cairn.ErrModel},
		"nothing whatsoever": {func(context.Context, func(cairn.Chunk, error) bool) {}, cairn.ErrModel},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := tapOn(nil)
			agent := bot(c.model)
			agent.Retry = &cairn.RetryPolicy{Max: -1}
			res := turn(t, open(t, st, agent), "s", "go")
			wantStatus(t, res, cairn.RunFailed, cairn.ReasonError)
			if res.Error.Code != c.code {
				t.Errorf("error %s: %v", res.Error.Code, res.Error)
			}
			wantSound(t, st, "s")
		})
	}
}

func TestEmptyReplyEndsTheTurn(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	res := turn(t, open(t, st, bot(scripted.New(scripted.Step{}))), "s", "go")
	wantStatus(t, res, cairn.RunCompleted, cairn.ReasonReply)
	if list := messages(t, st, "s"); len(list) != 2 || list[1].Role != cairn.RoleAssistant {
		t.Errorf("transcript %s", marshal(list))
	}
}

func TestUsageAddsUpOverStepsAndTurns(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	eng := open(t, st, bot(counter(3), tool("note", func(_ context.Context, call *cairn.Call, _ in) (string, error) {
		call.RecordUsage("pages", 1.5)
		return "", nil
	})))
	for n := int64(1); n <= 2; n++ {
		res := turn(t, eng, "s", "go")
		if u := res.Usage; u.InputTokens != 30 || u.OutputTokens != 13 || u.ModelCalls != 3 || u.ToolCalls != 2 || u.Custom["pages"] != 3 {
			t.Errorf("turn %d: usage %+v", n, u)
		}
		if u := load(t, st, "s").Usage; u.InputTokens != 30*n || u.Custom["pages"] != float64(3*n) {
			t.Errorf("after turn %d: usage of the session %+v", n, u)
		}
	}
}

func TestFirstDeltaIsNotHeldBackAndLaterOnesAreWrittenTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		agent := bot(scripted.New(scripted.Reply(scripted.Pause(time.Second), scripted.Text(strings.Repeat("word ", 100)).Pace(time.Millisecond))))
		eng := open(t, st, agent, with(func(o *engine.Options) { o.Coalesce = 0 })) // the default, 20 ms
		run := start(t, eng, "s", "go")
		begun := time.Now().Add(time.Second)
		var at []time.Duration
		var texts []string
		for ev, err := range run.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Type == cairn.EventTextDelta {
				at, texts = append(at, time.Since(begun)), append(texts, ev.Text)
			}
		}
		if len(at) == 0 || at[0] != 0 || texts[0] != "word " {
			t.Fatalf("deltas at %v: the first was held back", at)
		}
		if n := len(at); n < 5 || n > 7 {
			t.Errorf("%d deltas for 100 ms of text, want one and then one per 20 ms: %v", n, at)
		}
		for i := 1; i < len(at); i++ {
			if gap := at[i] - at[i-1]; gap > 20*time.Millisecond {
				t.Errorf("delta %d came %s after the one before", i, gap)
			}
		}
		wantSound(t, st, "s")
	})
}

func TestLongDeltaIsSplitAtCharacters(t *testing.T) {
	t.Parallel()
	for shift := range 4 {
		st := tapOn(nil)
		whole := "abcd"[:shift] + strings.Repeat("é世𝄞", 30_000)
		turn(t, open(t, st, bot(scripted.New(scripted.Chunk(cairn.Chunk{Type: cairn.ChunkText, Text: whole})))), "s", "go")
		n, heard := 0, ""
		for _, ev := range history(t, st, "s") {
			if ev.Type == cairn.EventTextDelta {
				n++
				heard += ev.Text
				if strings.ToValidUTF8(ev.Text, "?") != ev.Text {
					t.Fatalf("delta %d is cut within a character", n)
				}
			}
		}
		if n < 2 || heard != whole {
			t.Errorf("%d deltas with %d bytes of %d", n, len(heard), len(whole))
		}
		wantSound(t, st, "s")
	}
}
