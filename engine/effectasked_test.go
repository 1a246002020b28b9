package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
)

// Nothing else than a word that the effect did not happen leads to a second attempt.
func TestConfirmThatCannotTellAsksAPerson(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]cairn.ToolOption{
		"no Confirm": nil,
		"an error": {cairn.Confirm(func(context.Context, string) (bool, string, error) {
			return true, "lie", errors.New("no answer")
		})},
		"a panic": {cairn.Confirm(func(context.Context, string) (bool, string, error) { panic("no") })},
		"too long": {cairn.Timeout(time.Minute), cairn.Confirm(func(ctx context.Context, _ string) (bool, string, error) {
			<-ctx.Done()
			return false, "", nil
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := &bank{}
				agent := bot(refunder(), b.refund(opts...))
				st := crashed(t, b, agent, true)
				eng := open(t, st, agent, shortLease, named("b"))
				run, err := eng.Resume(t.Context(), "s")
				if err != nil {
					t.Fatal(err)
				}
				res := wait(t, run)
				wantStatus(t, res, cairn.RunSuspended, cairn.ReasonCalls)
				row := wantEffect(t, eng, cairn.EffectUnknown, cairn.CallOpen, 1)
				for _, bad := range []any{"happened", map[string]string{"outcome": "perhaps"}, map[string]int{"n": 1}} {
					_, err := eng.Submit(t.Context(), "s", cairn.Answer(row.CallRef, bad))
					wantError(t, err, cairn.ErrInvalid)
				}
				if len(res.Suspended.Calls) != 1 || res.Suspended.Calls[0].ID != row.ID || res.Suspended.Calls[0].Kind != cairn.CallEffect || b.times() != 1 {
					t.Errorf("suspended for %s after %d refunds", marshal(res.Suspended), b.times())
				}
				wantSound(t, st.Store, "s")
			})
		})
	}
}

// askedOf returns an engine with a session that waits for a person's word about an effect, which was booked.
func askedOf(t *testing.T, b *bank, opts ...cairn.ToolOption) (*engine.Engine, *tap, cairn.CallRef) {
	t.Helper()
	agent := bot(refunder(), b.refund(opts...))
	st := crashed(t, b, agent, true)
	eng := open(t, st, agent, shortLease, named("b"))
	run, err := eng.Resume(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	res := wait(t, run)
	wantStatus(t, res, cairn.RunSuspended, cairn.ReasonCalls)
	return eng, st, res.Suspended.Calls[0]
}

func TestPersonSettlesAnEffect(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(cairn.CallRef) cairn.Submission
		text   string
		state  cairn.EffectState
		status cairn.CallStatus
		sent   int
	}{
		"happened":             {func(c cairn.CallRef) cairn.Submission { return cairn.Happened(c, "no. 7") }, `"no. 7"`, cairn.EffectConfirmed, cairn.CallSettled, 1},
		"happened, no result":  {func(c cairn.CallRef) cairn.Submission { return cairn.Happened(c, nil) }, `"the call took effect, as a person found out"`, cairn.EffectConfirmed, cairn.CallSettled, 1},
		"did not":              {func(c cairn.CallRef) cairn.Submission { return cairn.DidNotHappen(c, "the bank has none") }, `"the bank has none"`, cairn.EffectFailed, cairn.CallSettled, 1},
		"try again":            {cairn.TryAgain, `"refunded 42"`, cairn.EffectConfirmed, cairn.CallSettled, 2},
		"an error as answer":   {func(c cairn.CallRef) cairn.Submission { return cairn.AnswerError(c, "nobody knows") }, "", cairn.EffectUnknown, cairn.CallDropped, 1},
		"after days, elsewise": {cairn.TryAgain, `"refunded 42"`, cairn.EffectConfirmed, cairn.CallSettled, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := &bank{}
				eng, st, call := askedOf(t, b)
				if name == "after days, elsewise" {
					leave(t, eng)
					testclock.Advance(72 * time.Hour)
					eng = open(t, st, bot(refunder(), b.refund()), shortLease, named("c"))
				}
				if _, err := eng.Submit(t.Context(), "s", c.answer(call).By("ann")); err != nil {
					t.Fatal(err)
				}
				run, err := eng.Resume(t.Context(), "s")
				if err != nil {
					t.Fatal(err)
				}
				res := wait(t, run)
				wantStatus(t, res, cairn.RunCompleted, cairn.ReasonReply)
				if c.text != "" && res.Text != c.text || b.times() != c.sent {
					t.Errorf("%s after %d refunds", res.Text, b.times())
				}
				row := wantEffect(t, eng, c.state, c.status, c.sent)
				if i := slices.IndexFunc(row.Trail, func(d cairn.Decision) bool { return d.Reviewer == "ann" }); i < 0 {
					t.Errorf("trail %s", marshal(row.Trail))
				}
				if c.sent == 2 && b.sent[0] != b.sent[1] {
					t.Error("the second attempt has another key")
				}
				wantSound(t, st.Store, "s")
			})
		})
	}
}

// A second crash of an attempt that a person asked for opens the row again.
func TestEffectThatIsUnknownTwiceAsksTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bank{}
		eng, st, call := askedOf(t, b)
		if _, err := eng.Submit(t.Context(), "s", cairn.TryAgain(call).By("ann")); err != nil {
			t.Fatal(err)
		}
		leave(t, eng)
		dying := tapOn(st.Store)
		b.after = func(ctx context.Context, _ int) error { dying.cut(); <-ctx.Done(); return ctx.Err() }
		run, err := open(t, dying, bot(refunder(), b.refund()), shortLease, named("c")).Resume(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Wait(t.Context()); err == nil {
			t.Fatal("the run did not end")
		}
		b.after = nil
		testclock.Advance(2 * ttl)
		eng = open(t, st, bot(refunder(), b.refund()), shortLease, named("d"))
		if run, err = eng.Resume(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		wantStatus(t, wait(t, run), cairn.RunSuspended, cairn.ReasonCalls)
		row := wantEffect(t, eng, cairn.EffectUnknown, cairn.CallOpen, 2)
		if row.ID != call.ID || row.Answer != nil {
			t.Errorf("the row is %s", marshal(row))
		}
		if receipt, err := eng.Submit(t.Context(), "s", cairn.Happened(row.CallRef, "both").By("ann")); err != nil || receipt.Outcome != cairn.OutcomeAccepted {
			t.Fatal(receipt.Outcome, err)
		}
		if run, err = eng.Resume(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		if res := wait(t, run); res.Text != `"both"` || b.times() != 2 {
			t.Errorf("%s after %d refunds", res.Text, b.times())
		}
		wantEffect(t, eng, cairn.EffectConfirmed, cairn.CallSettled, 2)
		wantSound(t, st.Store, "s")
	})
}

// A person who is asked can be overtaken by a stop or a new turn: the row stays unknown.
func TestWaitForAnEffectThatIsEnded(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *engine.Engine){
		"stop": func(t *testing.T, eng *engine.Engine) {
			if err := eng.Interrupt(t.Context(), "s", ""); err != nil {
				t.Fatal(err)
			}
		},
		"new turn": func(t *testing.T, eng *engine.Engine) { turn(t, eng, "s", "anew", withdraw) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := &bank{}
				eng, st, _ := askedOf(t, b)
				end(t, eng)
				row := wantEffect(t, eng, cairn.EffectUnknown, cairn.CallDropped, 1)
				if r := result(t, messages(t, st, "s"), "c1"); r.Code != cairn.ErrEffectUnknown {
					t.Errorf("the result is %s", marshal(r))
				}
				if _, err := eng.SettleEffect(t.Context(), "s", row.ID, engine.EffectSettlement{By: "ann"}); err != nil {
					t.Fatal(err)
				}
				wantEffect(t, eng, cairn.EffectFailed, cairn.CallSettled, 1)
				wantSound(t, st.Store, "s")
			})
		})
	}
}

// A deadline for the person leaves the effect unknown, and the model reads that.
func TestNobodySettlesAnEffectInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bank{}
		eng, st, _ := askedOf(t, b, cairn.WaitAtMost(time.Hour))
		testclock.Advance(2 * time.Hour)
		run, err := eng.Resume(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		if res := wait(t, run); !strings.Contains(res.Text, "unknown") {
			t.Errorf("the model reads %s", res.Text)
		}
		wantEffect(t, eng, cairn.EffectUnknown, cairn.CallDropped, 1)
		wantSound(t, st.Store, "s")
	})
}

func TestSettleAnEffectThatARunWaitsFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		eng, st, call := askedOf(t, &bank{})
		for name, by := range map[string]string{"nobody": "", "no name": "\x00"} {
			if _, err := eng.SettleEffect(t.Context(), "s", call.ID, engine.EffectSettlement{By: by}); cairn.AsError(err).Field != "by" {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := eng.SettleEffect(t.Context(), "s", call.ID, engine.EffectSettlement{By: "ann", Happened: true}); err != nil {
			t.Fatal(err)
		}
		run, err := eng.Resume(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
		wantEffect(t, eng, cairn.EffectConfirmed, cairn.CallSettled, 1)
		wantSound(t, st.Store, "s")
	})
}

// Reviewers who decide together decide anew about each attempt.
func TestReviewersSettleAnEffectTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &bank{}
		eng, _, call := askedOf(t, b, cairn.AssignTo(cairn.AllReviewers, "ann", "bob"))
		b.after = func(context.Context, int) error { panic("again") }
		for n, answer := range []func(cairn.CallRef) cairn.Submission{cairn.TryAgain, func(c cairn.CallRef) cairn.Submission { return cairn.Happened(c, nil) }} {
			for i, by := range []string{"ann", "bob"} {
				receipt, err := eng.Submit(t.Context(), "s", answer(call).By(by))
				if err != nil || receipt.Outcome != cairn.OutcomeAccepted || receipt.Ready != (i == 1) {
					t.Fatalf("answer %d of %s: %+v, %v", n, by, receipt, err)
				}
			}
			run, err := eng.Resume(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			wait(t, run)
		}
		wantEffect(t, eng, cairn.EffectConfirmed, cairn.CallSettled, 2)
	})
}
