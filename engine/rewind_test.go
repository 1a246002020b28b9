package engine_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
)

// A run that is resumed where a rewind left calls open closes them as it begins. If it is stopped while it waits, and
// its process dies before it publishes that, the log has the end of each call once.
func TestStopOfARunThatBeganAtARewind(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string][]scripted.Step{
		"after a step":  {scripted.Call("pay", in{"1"}), scripted.Call("pay", in{"2"}), scripted.Text("bye")},
		"before a step": {scripted.Call("pay", in{"1"}), {}, scripted.Text("bye")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if name == "before a step" {
					steps[1] = scripted.Gate(make(chan struct{})) // of the bubble
				}
				st := tapOn(nil)
				agent := bot(scripted.New(steps...), echo("pay", cairn.RequireApproval()))
				one := open(t, st, agent, shortLease)
				turn(t, one, "s", "go")
				page, err := one.Checkpoints(t.Context(), "s", store.PageQuery{})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := one.Rewind(t.Context(), "s", page.Items[0].ID); err != nil {
					t.Fatal(err)
				}
				if _, err := one.Resume(t.Context(), "s"); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				st.log.stepIn(func(context.Context, []cairn.Event) error { return cairn.Errorf(cairn.CodeInternal, "cut off") })
				if err := one.Interrupt(t.Context(), "s", "enough"); err != nil {
					t.Fatal(err)
				}
				two := open(t, tapOn(st.Store), agent, shortLease, named("b"))
				turn(t, two, "s", "bye")
				wantSound(t, st.Store, "s")
			})
		})
	}
}

// A session that is suspended while a rewind is under way is taken back with its pending calls cancelled.
func TestRewindOfASessionThatIsSuspendedMeanwhile(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	agent := bot(scripted.New(scripted.Text("hello"), scripted.Call("pay", in{"1"})), echo("pay", cairn.RequireApproval()))
	one, two := open(t, st, agent), open(t, tapOn(st.Store), agent, named("b"))
	turn(t, one, "s", "hi")
	page, err := one.Checkpoints(t.Context(), "s", store.PageQuery{})
	if err != nil {
		t.Fatal(err)
	}
	suspended := sync.OnceFunc(func() { turn(t, two, "s", "pay") })
	st.stepIn(func(_ context.Context, op string) error {
		if op == "Commit" {
			suspended()
		}
		return nil
	}, nil)
	if _, err := one.Rewind(t.Context(), "s", page.Items[0].ID); err != nil {
		t.Fatal(err)
	}
	if open, err := one.Inbox(t.Context(), store.CallQuery{RootID: "s"}); err != nil || len(open.Items) > 0 {
		t.Errorf("pending are %+v, %v", open.Items, err)
	}
	wantSound(t, st.Store, "s")
}
