package hop_test

import (
	"context"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
)

// A stop from a process without a host ends a model call that says nothing more. The lease is so long that no heartbeat would
// find it within the test: what does is the watch of the store.
func TestStopFromAnotherProcess(t *testing.T) {
	t.Parallel()
	place := files(t)
	for _, h := range hosts(t) {
		t.Run(h.Name, func(t *testing.T) {
			t.Parallel()
			st := place.Open(t, nil)
			speaking := make(chan struct{})
			model := scripted.New(scripted.Reply(scripted.Text("well "), scripted.Do(func() { close(speaking) }), scripted.Gate(make(chan struct{}))))
			eng := h.Start(t, place.Another(t, st), []*cairn.Agent{{Name: "bot", Model: model}}, &engine.Options{LeaseTTL: 24 * time.Hour})
			run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("go"))
			if err != nil {
				t.Fatal(err)
			}
			<-speaking
			other, err := engine.New(place.Another(t, st), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := other.Interrupt(ctx, "s", "enough"); err != nil {
				t.Fatal(err)
			}
			t.Logf("the run ended %s after it was asked to", time.Since(begun))
			res, err := run.Wait(ctx)
			if err != nil || res.Status != cairn.RunInterrupted || res.Text != "well " {
				t.Errorf("the run came to %+v, %v", res, err)
			}
			for _, e := range []*engine.Engine{eng, other} {
				if err := e.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
