package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// Whatever ends the run of a dead process, its effects are on record, and the model of the next turn reads about them.
func TestDeadRunThatIsStoppedLeavesItsEffects(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, eng *engine.Engine){
		"interrupt": func(t *testing.T, eng *engine.Engine) {
			if err := eng.Interrupt(t.Context(), "s", ""); err != nil {
				t.Fatal(err)
			}
		},
		"interrupt without the agent": func(t *testing.T, eng *engine.Engine) {
			if err := eng.Replace(&cairn.Agent{Name: "other", Model: scripted.New()}); err != nil {
				t.Fatal(err)
			}
			if err := eng.Interrupt(t.Context(), "s", ""); err != nil {
				t.Fatal(err)
			}
		},
		"rollback": func(t *testing.T, eng *engine.Engine) {
			run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("anew"), engine.WithOnBusy(engine.BusyRollback))
			if err != nil {
				t.Fatal(err)
			}
			wait(t, run)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := &bank{}
				agent := bot(scripted.New(scripted.Call("refund", in{"42"}).ID("c1"), scripted.Text("hello")), b.refund())
				st := crashed(t, b, agent, true)
				eng := open(t, st, agent, shortLease, named("b"))
				end(t, eng)
				if b.times() != 1 {
					t.Errorf("%d refunds", b.times())
				}
				rows := effectsOf(t, eng, cairn.EffectUnknown)
				if len(rows) != 1 || rows[0].Status != cairn.CallDropped {
					t.Errorf("the ledger has %s", marshal(effectsOf(t, eng)))
				}
				read := ""
				for m, err := range eng.AllMessages(t.Context(), "s") {
					if err != nil {
						t.Fatal(err)
					}
					if m.RunID == "" {
						t.Errorf("message %s belongs to no run", m.ID)
					}
					read += m.Text()
					for _, r := range m.ToolResults() {
						read += string(r.Output)
					}
				}
				if want := `the outcome is unknown`; strings.Contains(read, want) == (name == "rollback") {
					t.Errorf("the model of the next turn reads %q", read)
				}
				wantSound(t, st.Store, "s")
			})
		})
	}
}

// stagedIn returns what is staged of the session "s".
func stagedIn(st *tap) []driver.Staged {
	snap, err := st.Store.Read(context.Background(), "s", driver.Want{Staged: true})
	if err != nil {
		return nil
	}
	return snap.Staged
}

// Of two attempts of a host at once, one calls the tool. The other asks Confirm, then a person.
func TestTwoAttemptsOfAHostSendOnce(t *testing.T) {
	t.Parallel()
	st, h, b := memstore.New(nil), &byHand{}, &bank{}
	begun, done := make(chan struct{}), make(chan struct{})
	b.before = func(context.Context, int) error { close(begun); <-done; return nil }
	agent := bot(refunder(), b.refund())
	one, two := open(t, st, agent, hostedBy(h)), open(t, st, agent, hostedBy(h), named("b"))
	start(t, one, "s", "go")
	carry(t, one, host.EffectPlan, next(h.begun[0], ""))
	var first sync.WaitGroup
	first.Go(func() { carry(t, one, host.EffectTool, next(h.begun[0], "c1")) })
	<-begun
	carry(t, two, host.EffectTool, next(h.begun[0], "c1"))
	close(done)
	first.Wait()
	carry(t, two, host.EffectCommit, next(h.begun[0], ""))
	wantEffect(t, two, cairn.EffectUnknown, cairn.CallOpen, 1)
	if b.times() != 1 {
		t.Errorf("%d refunds", b.times())
	}
}

// A second attempt of a host asks Confirm. Of an effect that the host has given up, a person is asked: no user code runs.
func TestSecondAttemptOfAHost(t *testing.T) {
	t.Parallel()
	for _, abandoned := range []bool{false, true} {
		t.Run(fmt.Sprint(abandoned), func(t *testing.T) {
			t.Parallel()
			st, h, b := memstore.New(nil), &byHand{}, &bank{}
			ctx, cancel := context.WithCancel(t.Context())
			b.after = func(ctx context.Context, _ int) error { cancel(); return ctx.Err() }
			agent := bot(refunder(), b.refund(b.probe()))
			eng := open(t, st, agent, hostedBy(h))
			start(t, eng, "s", "go")
			carry(t, eng, host.EffectPlan, next(h.begun[0], ""))
			call := next(h.begun[0], "c1")
			_, err := eng.ForHost().Effect(ctx, host.EffectTool, next(h.begun[0], "c1"))
			wantError(t, err, context.Canceled)
			state, status, asked := cairn.EffectConfirmed, cairn.CallSettled, 1
			if abandoned {
				state, status, asked = cairn.EffectUnknown, cairn.CallOpen, 0
				call = []byte(strings.TrimSuffix(string(call), "}") + `,"failed":{"code":"unavailable","message":"given up"}}`)
			}
			carry(t, eng, host.EffectTool, call)
			carry(t, eng, host.EffectCommit, next(h.begun[0], ""))
			wantEffect(t, eng, state, status, 1)
			if b.times() != 1 || b.asked != asked {
				t.Errorf("%d refunds, %d questions", b.times(), b.asked)
			}
		})
	}
}

// A process that is closed keeps the result of an effect that has just happened.
func TestResultOfAnEffectOutlastsItsProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, st, at := &bank{}, tapOn(nil), make(chan struct{})
		b.after = func(ctx context.Context, _ int) error { close(at); <-ctx.Done(); return nil }
		agent := bot(refunder(), b.refund(b.probe()))
		eng := open(t, st, agent, shortLease)
		start(t, eng, "s", "go")
		<-at
		leave(t, eng)
		testclock.Advance(2 * ttl)
		eng = open(t, st, agent, shortLease, named("b"))
		run, err := eng.Resume(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		if res := wait(t, run); res.Text != `"refunded 42"` || b.asked != 0 || b.times() != 1 {
			t.Errorf("%s after %d refunds and %d questions", res.Text, b.times(), b.asked)
		}
		wantEffect(t, eng, cairn.EffectConfirmed, cairn.CallSettled, 1)
		wantSound(t, st.Store, "s")
	})
}
