package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store/memstore"
)

// retold is a transcript as a reader makes it of a snapshot and the events behind it, by the rules of docs/EVENTS.md.
type retold struct {
	session string
	lines   []string // by index; empty for a place that nothing is known of yet
	steps   map[string]*retoldStep
	loose   []string // results of calls of earlier runs
}

type retoldStep struct {
	text, calls string
	results     []string
}

// lineOf is what a reader can know of a message.
func lineOf(m *cairn.Message) string {
	var uses, results []string
	for _, use := range m.ToolUses() {
		uses = append(uses, use.CallID)
	}
	for _, r := range m.ToolResults() {
		results = append(results, r.CallID)
	}
	switch {
	case m.Role == cairn.RoleTool:
		return resultsLine(results)
	case m.Role == cairn.RoleAssistant:
		return replyLine(m.Text(), strings.Join(uses, " "))
	}
	files := 0
	for i := range m.Parts {
		if m.Parts[i].File != nil {
			files++
		}
	}
	text := m.Text()
	if len(m.Tools) > 0 {
		text = ""
	}
	return saidLine(text[:min(len(text), cairn.MaxEventText)], files, m.ID)
}

func saidLine(text string, files int, id string) string {
	return fmt.Sprintf("said %q with %d files as %s", text, files, id)
}
func replyLine(text, calls string) string { return fmt.Sprintf("reply %q, calls %s", text, calls) }
func resultsLine(calls []string) string {
	slices.Sort(calls)
	return "results of " + strings.Join(calls, " ")
}

func retell(snap *engine.Snapshot) *retold {
	r := &retold{session: snap.Session.ID, steps: map[string]*retoldStep{}}
	for i := range snap.Messages {
		r.lines = append(r.lines, lineOf(&snap.Messages[i]))
	}
	return r
}

func (r *retold) put(index int, line string) {
	for len(r.lines) <= index {
		r.lines = append(r.lines, "")
	}
	if r.lines[index] == "" {
		r.lines[index] = line
	}
}

// next puts a line at the first free place.
func (r *retold) next(line string) {
	if i := slices.Index(r.lines, ""); i >= 0 {
		r.lines[i] = line
		return
	}
	r.lines = append(r.lines, line)
}

func (r *retold) settle() {
	if len(r.loose) > 0 {
		r.next(resultsLine(r.loose))
		r.loose = nil
	}
}

func (r *retold) hear(ev *cairn.Event) {
	if ev.SessionID != r.session {
		return
	}
	key := fmt.Sprint(ev.RunID, "/", ev.Step)
	st := r.steps[key]
	switch ev.Type {
	case cairn.EventUserMessage, cairn.EventContextAdded, cairn.EventContextChanged:
		if ev.MessageID != "" {
			r.put(ev.Index, saidLine(ev.Text, len(ev.Files), ev.MessageID))
		}
	case cairn.EventStepStart:
		r.settle()
		r.steps[key] = &retoldStep{}
	case cairn.EventStepDiscarded:
		delete(r.steps, key)
	case cairn.EventTextDelta:
		if st != nil {
			st.text += ev.Text
		}
	case cairn.EventToolArgEnd:
		if st != nil {
			st.calls = strings.TrimSpace(st.calls + " " + ev.CallID)
		}
	case cairn.EventToolEnd:
		if st == nil {
			r.loose = append(r.loose, ev.CallID)
		} else {
			st.results = append(st.results, ev.CallID)
		}
	case cairn.EventStepCommitted:
		if delete(r.steps, key); st == nil {
			return // the snapshot has it
		}
		if st.text != "" || st.calls != "" {
			r.next(replyLine(st.text, st.calls))
		}
		if len(st.results) > 0 {
			r.next(resultsLine(st.results))
		}
	case cairn.EventRunEnd:
		r.settle()
	case cairn.EventRewound:
		r.lines, r.steps = r.lines[:min(ev.MessageCount, len(r.lines))], map[string]*retoldStep{}
	}
}

// A snapshot that is taken at any time and the events behind its cursor give the transcript.
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
	watching.Go(func() { // beside those that the hooks take
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
	want := retell(last).lines
	for _, snap := range snaps {
		events, err := eng.History(t.Context(), "s", snap.Cursor(), 0)
		if err != nil {
			t.Fatal(err)
		}
		r := retell(snap)
		for i := range events {
			r.hear(&events[i])
		}
		if !slices.Equal(r.lines, want) {
			t.Fatalf("from a snapshot with %d messages at %d a reader has\n%s\nwant\n%s", len(snap.Messages), snap.Sequence,
				strings.Join(r.lines, "\n"), strings.Join(want, "\n"))
		}
	}
	if !slices.ContainsFunc(snaps, func(s *engine.Snapshot) bool { return s.Session.Status == cairn.SessionActive }) {
		t.Error("no snapshot was taken while a run was under way")
	}
}
