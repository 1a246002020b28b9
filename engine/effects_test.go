package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
)

// bank is the receiver of an effectful tool: it counts what was sent to it, by idempotency key.
type bank struct {
	mu    sync.Mutex
	sent  []string
	asked int
	// before and after are called before and after a refund is booked, with the number of the attempt.
	before, after func(ctx context.Context, n int) error
}

func (b *bank) times() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.sent)
}

// refund returns the tool. opts are in addition to Effectful.
func (b *bank) refund(opts ...cairn.ToolOption) cairn.Tool {
	n := 0
	return tool("refund", func(ctx context.Context, call *cairn.Call, in in) (string, error) {
		b.mu.Lock()
		n++
		attempt := n
		b.mu.Unlock()
		if b.before != nil {
			if err := b.before(ctx, attempt); err != nil {
				return "", err
			}
		}
		b.mu.Lock()
		b.sent = append(b.sent, call.IdempotencyKey())
		b.mu.Unlock()
		if b.after != nil {
			if err := b.after(ctx, attempt); err != nil {
				return "", err
			}
		}
		return "refunded " + in.Text, nil
	}, append([]cairn.ToolOption{cairn.Effectful()}, opts...)...)
}

// probe is a Confirm that looks at what the bank has booked.
func (b *bank) probe() cairn.ToolOption {
	return cairn.Confirm(func(_ context.Context, key string) (bool, string, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.asked++
		return slices.Contains(b.sent, key), "found refunded", nil
	})
}

// refunder is a model that calls the tool once and then repeats the result.
func refunder() cairn.Model {
	return scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		for i := len(req.Messages) - 1; i >= 0; i-- {
			for _, r := range req.Messages[i].ToolResults() {
				return scripted.Text(string(r.Output))
			}
		}
		return scripted.Call("refund", in{"42"}).ID("c1")
	})
}

// effectsOf returns the rows of the ledger, as "state status attempts".
func effectsOf(t *testing.T, eng *engine.Engine, states ...cairn.EffectState) (rows []cairn.PendingCall) {
	t.Helper()
	for row, err := range store.All(func(cursor string) (store.Page[cairn.PendingCall], error) {
		return eng.Effects(t.Context(), engine.EffectQuery{States: states, Cursor: cursor})
	}) {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, *row)
	}
	return rows
}

func wantEffect(t *testing.T, eng *engine.Engine, state cairn.EffectState, status cairn.CallStatus, attempts int) cairn.PendingCall {
	t.Helper()
	rows := effectsOf(t, eng)
	if len(rows) != 1 || rows[0].Effect.State != state || rows[0].Status != status || rows[0].Effect.Attempts != attempts || rows[0].ToolCallID != "c1" {
		t.Fatalf("the ledger has %s, want one that is %s, %s, after %d attempts", marshal(rows), state, status, attempts)
	}
	if got := effectsOf(t, eng, state); len(got) != 1 {
		t.Fatalf("a query of %s effects finds %d", state, len(got))
	}
	return rows[0]
}

var effectDurabilities = map[string]cairn.Durability{"per step": cairn.PerStep, "per tool": cairn.PerTool, "manual": cairn.Manual, "interval": cairn.Interval(time.Hour)}

// crashed starts a run whose process dies during the refund, before or after it is booked, and passes the time until its
// lease lapses. It returns the store.
func crashed(t *testing.T, b *bank, agent *cairn.Agent, booked bool) *tap {
	t.Helper()
	st := tapOn(nil)
	die := func(ctx context.Context, n int) error {
		if n > 1 {
			return nil
		}
		st.cut()
		<-ctx.Done()
		return ctx.Err()
	}
	if b.after = die; !booked {
		b.before, b.after = die, nil
	}
	run := start(t, open(t, st, agent, shortLease), "s", "go")
	if _, err := run.Wait(t.Context()); err == nil {
		t.Fatal("the run did not end")
	}
	b.before, b.after = nil, nil
	testclock.Advance(2 * ttl)
	return tapOn(st.Store)
}

func TestEffectIsSentBeforeTheToolRuns(t *testing.T) {
	t.Parallel()
	for name, d := range effectDurabilities {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, st := &bank{}, tapOn(nil)
			agent := bot(refunder(), b.refund())
			agent.Durability = d
			eng := open(t, st, agent)
			b.before = func(context.Context, int) error {
				row := wantEffect(t, eng, cairn.EffectSent, cairn.CallSent, 1)
				if row.Tool != "refund" || row.SessionID != "s" || row.Agent != "bot" || row.Effect.Key == "" || row.Effect.SentAt.IsZero() {
					t.Errorf("the row is %s", marshal(row))
				}
				return nil
			}
			wantStatus(t, turn(t, eng, "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
			row := wantEffect(t, eng, cairn.EffectConfirmed, cairn.CallSettled, 1)
			if row.Effect.Key != b.sent[0] || string(row.Input) != `{"text":"42"}` {
				t.Errorf("the row is %s, the key %s", marshal(row), b.sent[0])
			}
			wantSound(t, st.Store, "s")
		})
	}
}

// With PerStep an effectful call costs one write more, whatever the number of calls beside it.
func TestEffectCostsOneWrite(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]cairn.Durability{"per step": cairn.PerStep, "per tool": cairn.PerTool} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			count := func(tool cairn.Tool) map[string]int {
				st, ops := tapOn(nil), map[string]int{}
				var mu sync.Mutex
				st.stepIn(nil, func(_ context.Context, op string) error { mu.Lock(); ops[op]++; mu.Unlock(); return nil })
				agent := bot(refunder(), tool)
				agent.Durability = d
				wantStatus(t, turn(t, open(t, st, agent), "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
				return ops
			}
			b := &bank{}
			plain, effectful := count(echo("refund")), count(b.refund())
			if effectful["Stage"] != plain["Stage"]+1 || effectful["Commit"] != plain["Commit"] || effectful["Read"] != plain["Read"] {
				t.Errorf("operations %v, without the ledger %v", effectful, plain)
			}
		})
	}
}

func TestUnknownEffectIsConfirmed(t *testing.T) {
	t.Parallel()
	for name, d := range effectDurabilities {
		for _, booked := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/%t", name, booked), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					b := &bank{}
					agent := bot(refunder(), b.refund(b.probe()))
					agent.Durability = d
					st := crashed(t, b, agent, booked)
					eng := open(t, st, agent, shortLease, named("b"))
					run, err := eng.Resume(t.Context(), "s")
					if err != nil {
						t.Fatal(err)
					}
					want, attempts := `"found refunded"`, 1
					if !booked {
						want, attempts = `"refunded 42"`, 2
					}
					if res := wait(t, run); res.Text != want || b.times() != 1 || b.asked != 1 {
						t.Errorf("%s after %d refunds and %d questions", res.Text, b.times(), b.asked)
					}
					row := wantEffect(t, eng, cairn.EffectConfirmed, cairn.CallSettled, attempts)
					if len(row.Trail) != 2 || row.Trail[0].Kind != cairn.DecisionUnknown || row.Trail[1].Kind != cairn.DecisionProbed {
						t.Errorf("trail %s", marshal(row.Trail))
					}
					wantSound(t, st.Store, "s")
				})
			})
		}
	}
}

func TestOutcomeOfAnAttempt(t *testing.T) {
	t.Parallel()
	hang := func(ctx context.Context, _ int) error { <-ctx.Done(); return nil }
	fails := func(err error) func(context.Context, int) error {
		return func(context.Context, int) error { return err }
	}
	for name, c := range map[string]struct {
		after func(context.Context, int) error
		opts  []cairn.ToolOption
		state cairn.EffectState
		waits bool
		sent  int
	}{
		"an error":        {fails(errors.New("no such order")), nil, cairn.EffectFailed, false, 1},
		"a timeout":       {hang, []cairn.ToolOption{cairn.Timeout(time.Second)}, cairn.EffectUnknown, true, 1},
		"a panic":         {func(context.Context, int) error { panic("oops") }, nil, cairn.EffectUnknown, true, 1},
		"says so":         {fails(cairn.Errorf(cairn.ErrEffectUnknown, "the bank hung up")), nil, cairn.EffectUnknown, true, 1},
		"its own timeout": {fails(fmt.Errorf("post: %w", context.DeadlineExceeded)), nil, cairn.EffectUnknown, true, 1},
		"a retried error": {func(_ context.Context, n int) error {
			if n < 3 {
				return cairn.Errorf(cairn.ErrUnavailable, "closed")
			}
			return nil
		}, []cairn.ToolOption{cairn.Retry(cairn.RetryPolicy{})}, cairn.EffectConfirmed, false, 3},
		"a retry of an unknown attempt": {fails(fmt.Errorf("%w", context.DeadlineExceeded)),
			[]cairn.ToolOption{cairn.Retry(cairn.RetryPolicy{When: func(error) bool { return true }})}, cairn.EffectUnknown, true, 1},
		"a panic, confirmed": {func(context.Context, int) error { panic("oops") }, []cairn.ToolOption{
			cairn.Confirm(func(context.Context, string) (bool, string, error) { return true, "ok", nil })}, cairn.EffectConfirmed, false, 1},
		"a panic, refuted": {func(context.Context, int) error { panic("oops") }, []cairn.ToolOption{
			cairn.Confirm(func(context.Context, string) (bool, string, error) { return false, "", nil })}, cairn.EffectFailed, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, st := &bank{after: c.after}, tapOn(nil)
				eng := open(t, st, bot(refunder(), b.refund(c.opts...)))
				res := turn(t, eng, "s", "go")
				status := cairn.CallSettled
				if c.waits {
					status = cairn.CallOpen
					wantStatus(t, res, cairn.RunSuspended, cairn.ReasonCalls)
				} else {
					wantStatus(t, res, cairn.RunCompleted, cairn.ReasonReply)
				}
				wantEffect(t, eng, c.state, status, c.sent)
				if b.times() != c.sent {
					t.Errorf("%d refunds, want %d", b.times(), c.sent)
				}
				wantSound(t, st.Store, "s")
			})
		})
	}
}

// A result that cannot be kept does not make the model believe that there was no effect.
func TestEffectWithAnUnusableResultIsConfirmed(t *testing.T) {
	t.Parallel()
	for name, out := range map[string]any{"not JSON": make(chan int), "too large": strings.Repeat("x", 64<<20)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refund := cairn.Func("refund", "Refunds.", func(context.Context, *cairn.Call, in) (any, error) { return out, nil }, cairn.Effectful())
			eng := open(t, tapOn(nil), bot(refunder(), refund))
			turn(t, eng, "s", "go")
			wantEffect(t, eng, cairn.EffectConfirmed, cairn.CallSettled, 1)
		})
	}
}

func TestStopDuringAnEffectLeavesItUnknown(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*engine.Engine, context.Context, string, string, ...engine.StopOption) error{"interrupt": (*engine.Engine).Interrupt, "abort": (*engine.Engine).Abort} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				at := make(chan struct{})
				b, st := &bank{}, tapOn(nil)
				b.after = func(ctx context.Context, _ int) error { close(at); <-ctx.Done(); return ctx.Err() }
				eng := open(t, st, bot(refunder(), b.refund(b.probe())))
				run := start(t, eng, "s", "go")
				<-at
				if err := stop(eng, t.Context(), "s", "enough"); err != nil {
					t.Fatal(err)
				}
				wait(t, run)
				r := result(t, messages(t, st, "s"), "c1")
				if r.Code != cairn.ErrEffectUnknown || !strings.Contains(string(r.Output), "unknown") {
					t.Errorf("the result is %s", marshal(r))
				}
				row := wantEffect(t, eng, cairn.EffectUnknown, cairn.CallDropped, 1)
				wantSound(t, st.Store, "s")

				settle := engine.EffectSettlement{Happened: true, By: "ann", Notes: "seen at the bank"}
				for range 2 { // the second time changes nothing
					settled, err := eng.SettleEffect(t.Context(), "s", row.ID, settle)
					if err != nil || settled.Effect.State != cairn.EffectConfirmed {
						t.Fatalf("%s, %v", marshal(settled), err)
					}
				}
				settled := wantEffect(t, eng, cairn.EffectConfirmed, cairn.CallSettled, 1)
				if last := settled.Trail[len(settled.Trail)-1]; last.Reviewer != "ann" || last.Notes != "seen at the bank" || last.At.IsZero() {
					t.Errorf("trail %s", marshal(settled.Trail))
				}
				settle.Happened = false
				_, err := eng.SettleEffect(t.Context(), "s", row.ID, settle)
				wantError(t, err, cairn.ErrInvalid)
				list := messages(t, st, "s")
				if last := list[len(list)-1]; !last.Hidden || !strings.Contains(last.Text(), "took effect") {
					t.Errorf("the model reads %s", marshal(last))
				}
			})
		})
	}
}

// A call that a stop closes before its tool was called has no row.
func TestEffectThatWasNotSentIsNotExecuted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := make(chan struct{})
		b, st := &bank{}, tapOn(nil)
		agent := bot(refunder(), b.refund())
		agent.Hooks = &cairn.Hooks{BeforeTool: func(ctx context.Context, _ *cairn.Call) error { close(at); <-ctx.Done(); return nil }}
		eng := open(t, st, agent)
		run := start(t, eng, "s", "go")
		<-at
		if err := eng.Interrupt(t.Context(), "s", ""); err != nil {
			t.Fatal(err)
		}
		wait(t, run)
		if rows := effectsOf(t, eng); len(rows) != 0 || b.times() != 0 {
			t.Errorf("the ledger has %s", marshal(rows))
		}
		if r := result(t, messages(t, st, "s"), "c1"); r.Code != cairn.ErrNotExecuted {
			t.Errorf("the result is %s", marshal(r))
		}
	})
}

// An effectful tool may ask questions: a pass that asks is no effect, though its process may die.
func TestEffectfulToolMayAsk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, st := &bank{}, tapOn(nil)
		refund := tool("refund", func(ctx context.Context, call *cairn.Call, in in) (string, error) {
			var ok bool
			if err := call.Ask(ctx, "Really?", nil, &ok); err != nil {
				return "", err
			}
			b.sent = append(b.sent, call.IdempotencyKey())
			return "refunded", nil
		}, cairn.Effectful())
		agent := bot(refunder(), refund)
		agent.Hooks = &cairn.Hooks{OnMessage: func(context.Context, *cairn.Step, *cairn.Message) {}}
		cut := false
		st.stepIn(func(_ context.Context, op string) error {
			if op == "Commit" && !cut && len(stagedIn(st)) > 0 {
				cut = true
				st.cut()
				return context.Canceled
			}
			return nil
		}, nil)
		run := start(t, open(t, st, agent, shortLease), "s", "go")
		if _, err := run.Wait(t.Context()); err == nil {
			t.Fatal("the run did not end")
		}
		testclock.Advance(2 * ttl)
		eng := open(t, tapOn(st.Store), agent, shortLease, named("b"))
		run, err := eng.Resume(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		res := wait(t, run)
		wantStatus(t, res, cairn.RunSuspended, cairn.ReasonCalls)
		if call := res.Suspended.Calls[0]; call.Kind != cairn.CallQuestion {
			t.Fatalf("suspended for %s", marshal(call))
		}
		if _, err := eng.Submit(t.Context(), "s", cairn.Answer(res.Suspended.Calls[0], true)); err != nil {
			t.Fatal(err)
		}
		if run, err = eng.Resume(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		wait(t, run)
		wantEffect(t, eng, cairn.EffectConfirmed, cairn.CallSettled, 1)
		wantSound(t, st.Store, "s")
	})
}

// Each of several effectful calls has its own row, whether they run in parallel or one after the other.
func TestSeveralEffects(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]cairn.ToolOption{"parallel": nil, "serial": {cairn.Serial()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, st := &bank{}, tapOn(nil)
				model := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
					if len(req.Messages) > 1 {
						return scripted.Text("done")
					}
					return scripted.Reply(scripted.Call("refund", in{"1"}).ID("a"), scripted.Call("refund", in{"2"}).ID("b"), scripted.Call("refund", in{"3"}).ID("c"))
				})
				b.after = func(ctx context.Context, n int) error {
					if n < 2 {
						return nil
					}
					st.cut()
					<-ctx.Done()
					return ctx.Err()
				}
				agent := bot(model, b.refund(append(opts, b.probe())...))
				agent.Durability = cairn.PerTool
				run := start(t, open(t, st, agent, shortLease), "s", "go")
				if _, err := run.Wait(t.Context()); err == nil {
					t.Fatal("the run did not end")
				}
				b.after = nil
				testclock.Advance(2 * ttl)
				eng := open(t, tapOn(st.Store), agent, shortLease, named("b"))
				run, err := eng.Resume(t.Context(), "s")
				if err != nil {
					t.Fatal(err)
				}
				wait(t, run)
				keys := slices.Compact(slices.Sorted(slices.Values(b.sent)))
				if rows := effectsOf(t, eng, cairn.EffectConfirmed); len(rows) != 3 || len(keys) != 3 || len(b.sent) != 3 {
					t.Errorf("%d rows, %d keys, %d refunds", len(rows), len(keys), len(b.sent))
				}
				wantSound(t, st.Store, "s")
			})
		})
	}
}

func TestBranchAsksBeforeItSends(t *testing.T) {
	t.Parallel()
	b, st := &bank{}, tapOn(nil)
	model := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if last := req.Messages[len(req.Messages)-1]; last.Role == cairn.RoleTool {
			return scripted.Text("done")
		}
		return scripted.Call("refund", in{"42"})
	})
	eng := open(t, st, bot(model, b.refund()))
	turn(t, eng, "s", "go")
	for id, opts := range map[string][]engine.BranchOption{"asks": nil, "sends": {engine.WithEffects()}} {
		if _, err := eng.Branch(t.Context(), "s", id, opts...); err != nil {
			t.Fatal(err)
		}
		if page, err := eng.Effects(t.Context(), engine.EffectQuery{RootID: id}); err != nil || len(page.Items) != 0 {
			t.Errorf("the branch has %s, %v", marshal(page.Items), err)
		}
	}
	res := turn(t, eng, "asks", "again")
	wantStatus(t, res, cairn.RunSuspended, cairn.ReasonCalls)
	if call := res.Suspended.Calls[0]; call.Kind != cairn.CallApproval || !strings.Contains(call.Prompt, "branch") || b.times() != 1 {
		t.Errorf("suspended for %s after %d refunds", marshal(call), b.times())
	}
	if _, err := eng.Submit(t.Context(), "asks", cairn.Approve(res.Suspended.Calls[0])); err != nil {
		t.Fatal(err)
	}
	run, err := eng.Resume(t.Context(), "asks")
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
	wantStatus(t, turn(t, eng, "sends", "again"), cairn.RunCompleted, cairn.ReasonReply)
	if b.times() != 3 {
		t.Errorf("%d refunds, want 3", b.times())
	}
}

func TestEventsOfAnEffect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		eng, st, call := askedOf(t, &bank{})
		if _, err := eng.Submit(t.Context(), "s", cairn.Happened(call, "ok")); err != nil {
			t.Fatal(err)
		}
		run, err := eng.Resume(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		wait(t, run)
		var got []string
		for _, ev := range history(t, st, "s") {
			if strings.HasPrefix(string(ev.Type), "effect_") || ev.Type == cairn.EventToolPending {
				got = append(got, fmt.Sprintf("%s %s %d %s", ev.Type, ev.Tool, ev.Attempts, ev.Name))
			}
		}
		want := []string{"effect_unknown refund 1 ", "tool_call_pending refund 0 ", "effect_settled refund 1 confirmed"}
		if !slices.Equal(got[len(got)-3:], want) {
			t.Errorf("the log has %q, want %q", got, want)
		}
	})
}
