package crosshost_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
)

// A stop from a process without a host ends a model call that yields nothing more, and its run, within a second in
// at least one of five attempts: the machine may be busy. The lease is so long that no heartbeat would find the
// stop during the test. The store's watch of stops does.
func TestStopFromAnotherProcess(t *testing.T) {
	const stops = 5
	place := files(t)
	for _, h := range hosts(t) {
		t.Run(h.Name, func(t *testing.T) { // sequentially, since they are timed
			st := place.Open(t, nil)
			speaking := make(chan struct{})
			model := scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
				return scripted.Reply(scripted.Text("well "), scripted.Do(func() { speaking <- struct{}{} }), scripted.Gate(make(chan struct{})))
			})
			eng := h.Start(t, place.Another(t, st), []*cairn.Agent{{Name: "bot", Model: model}}, &engine.Options{LeaseTTL: 24 * time.Hour})
			other, err := engine.New(place.Another(t, st), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			var took []time.Duration
			for n := range stops {
				session := fmt.Sprint("s", n)
				run, err := eng.Execute(ctx, session, "bot", cairn.Text("go"))
				if err != nil {
					t.Fatal(err)
				}
				<-speaking
				begun := time.Now()
				if err := other.Interrupt(ctx, session, "enough"); err != nil {
					t.Fatal(err)
				}
				res, err := run.Wait(ctx)
				took = append(took, time.Since(begun))
				if err != nil || res.Status != cairn.RunInterrupted || res.Text != "well " {
					t.Errorf("the run came to %+v, %v", res, err)
				}
			}
			if slices.Min(took) > time.Second { // the others may have waited for a processor
				t.Errorf("the runs ended %s after they were asked to", took)
			}
			for _, e := range []*engine.Engine{eng, other} {
				if err := e.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
