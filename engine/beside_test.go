package engine_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
)

// A verb while a run is under way is one write: its events are on the log with its commit, although its process dies
// right after that, and the session stays where the run's open step begins. The run's next commit has all behind it.
func TestVerbsBesideARunAreOneWrite(t *testing.T) {
	t.Parallel()
	title := "renamed"
	queued := func(ctx context.Context, eng *engine.Engine) error {
		_, err := eng.Execute(ctx, "s", "bot", cairn.Text("later"), engine.WithOnBusy(engine.BusyEnqueue), engine.WithRunID("later"))
		return err
	}
	for name, verb := range map[string]struct {
		call func(ctx context.Context, eng *engine.Engine) error
		want []cairn.EventType
	}{
		"queue a turn": {queued, []cairn.EventType{cairn.EventQueued}},
		"remove a queued turn": {func(ctx context.Context, eng *engine.Engine) error {
			if err := queued(ctx, eng); err != nil {
				return err
			}
			return eng.Dequeue(ctx, "s", "later")
		}, []cairn.EventType{cairn.EventQueued, cairn.EventDequeued}},
		"join the turn": {func(ctx context.Context, eng *engine.Engine) error {
			_, err := eng.Execute(ctx, "s", "bot", cairn.Text("by the way"), engine.WithOnBusy(engine.BusySteer))
			return err
		}, []cairn.EventType{cairn.EventQueued}},
		"set context": {func(ctx context.Context, eng *engine.Engine) error {
			_, err := eng.SetContext(ctx, "s", store.ContextChange{Title: &title})
			return err
		}, []cairn.EventType{cairn.EventContextChanged}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				st := tapOn(nil)
				release := make(chan struct{})
				slow := tool("slow", func(context.Context, *cairn.Call, in) (string, error) { <-release; return "done", nil })
				agent := bot(scripted.New(scripted.Reply(scripted.Text("let me see"), scripted.Call("slow", in{"x"})), scripted.Text("done"), scripted.Text("and done")), slow)
				run := start(t, open(t, st, agent), "s", "go")
				testclock.Advance(time.Second)
				before := load(t, st, "s")
				other := st.twin()
				other.mute()
				logged := len(history(t, st, "s"))
				if err := verb.call(t.Context(), open(t, other, agent, named("b"))); err != nil {
					t.Fatal(err)
				}
				var got []cairn.EventType
				for _, ev := range history(t, st, "s")[logged:] {
					got = append(got, ev.Type)
					if ev.Version <= before.Version {
						t.Errorf("the %s has version %d, after %d", ev.Type, ev.Version, before.Version)
					}
				}
				if row := load(t, st, "s"); !slices.Equal(got, verb.want) || row.Outbox != nil || row.LogSequence != before.LogSequence {
					t.Errorf("the log has %v, want %v; the session has the outbox %v and is at %d, want none and %d", got, verb.want, row.Outbox, row.LogSequence, before.LogSequence)
				}
				close(release)
				wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
				testclock.Advance(time.Minute) // for a turn that was queued
				wantSound(t, st, "s")
			})
		})
	}
}
