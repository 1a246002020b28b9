package engine_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
)

// A model call that is abandoned while a piece of its text is written to the log shares nothing with the run that ends
// without it. The race detector finds what it does share.
func TestAbandonedPieceOfText(t *testing.T) {
	t.Parallel()
	st := tapOn(nil)
	reached, gate := make(chan struct{}), make(chan struct{})
	var once sync.Once
	st.log.stepIn(func(_ context.Context, events []cairn.Event) error {
		if slices.ContainsFunc(events, func(ev cairn.Event) bool { return ev.Type == cairn.EventTextDelta }) {
			once.Do(func() { close(reached); <-gate })
		}
		return nil
	})
	agent := bot(scripted.New(scripted.Reply(scripted.Text("one "), scripted.Pause(time.Hour))))
	agent.Hooks = &cairn.Hooks{TextDelta: func(context.Context, *cairn.Step, string) {}}
	eng := open(t, st, agent, with(func(o *engine.Options) { o.StopGrace = time.Millisecond }))
	run := start(t, eng, "s", "go")
	<-reached
	stopped := make(chan error, 1)
	go func() { stopped <- eng.Interrupt(t.Context(), "s", "enough") }()
	testclock.Await(t, "the call to be abandoned", func() bool { return eng.Abandoned() > 0 })
	close(gate)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	wantStatus(t, wait(t, run), cairn.RunInterrupted, cairn.ReasonInterrupted)
}
