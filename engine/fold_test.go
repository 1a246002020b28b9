package engine_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host/hosttest"
	"github.com/cairn-agents/cairn/store/memstore"
)

// A snapshot taken at any time and the events after its cursor yield the transcript.
func TestSnapshotAndEventsRetellTheTranscript(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	var eng *engine.Engine
	var mu sync.Mutex
	var snaps []*engine.Snapshot
	take := func() {
		snap, err := eng.Snapshot(context.WithoutCancel(t.Context()), "s")
		if err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		snaps = append(snaps, snap)
	}
	agent := bot(counter(2), note())
	agent.Hooks = &cairn.Hooks{
		BeforeModel: func(context.Context, *cairn.Step, *cairn.Request) error { take(); return nil },
		TextDelta:   func(context.Context, *cairn.Step, string) { take() },
	}
	eng = open(t, st, agent)
	must(eng.Create(t.Context(), "s", "bot"))
	speak := func(in cairn.Input) {
		wait(t, must(eng.Execute(t.Context(), "s", "bot", in)))
	}
	take()
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { // in addition to those that the hooks take
		for range eng.Events(ctx, "s", cairn.Cursor{}) {
			take()
		}
	})
	long := strings.Repeat("ü", cairn.MaxEventText)
	file := cairn.FilePart(cairn.File{Name: "a.png", MediaType: "image/png", Data: []byte("bytes")})
	speak(cairn.Messages(cairn.Context("It rains."), cairn.User(cairn.TextPart("go"), file)))
	take()
	wantError(t, eng.AddContext(t.Context(), "s", "It pours.", "It snows."), nil)
	take()
	speak(cairn.Text(long))
	switchTools(t, eng, "s", map[string]bool{"note": false})
	take()
	speak(cairn.Text("again"))
	cps := checkpoints(t, eng, "s")
	if _, err := eng.Rewind(t.Context(), "s", cps[1].ID); err != nil {
		t.Fatal(err)
	}
	take()
	speak(cairn.Text("once more"))
	take()
	cancel()
	watching.Wait()

	last := snaps[len(snaps)-1]
	want := hosttest.Lines(last.Messages)
	for _, snap := range snaps {
		events, err := eng.History(t.Context(), "s", snap.Cursor(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := hosttest.Fold("s", snap.Messages, events); !slices.Equal(got, want) {
			t.Fatalf("from a snapshot with %d messages at %d a reader has\n%s\nwant\n%s", len(snap.Messages), snap.Sequence,
				strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if !slices.ContainsFunc(snaps, func(s *engine.Snapshot) bool { return s.Session.Status == cairn.SessionActive }) {
		t.Error("no snapshot was taken while a run was under way")
	}
}
