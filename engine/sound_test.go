package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// durable is what a session leaves behind: a store with its log.
type durable interface {
	store.Store
	store.LogProvider
}

// wantSound checks what must hold of any session whose last run has ended, whatever happened to it: its transcript,
// its runs and its log tell one story.
func wantSound(t *testing.T, st durable, id string) {
	t.Helper()
	problems := unsound(t, st, id)
	for _, problem := range problems {
		t.Errorf("session %s: %s", id, problem)
	}
	if len(problems) > 0 {
		t.Logf("\n%s", render(t, st, id))
	}
}

func unsound(t *testing.T, st durable, id string) []string {
	t.Helper()
	list, runs, events := messages(t, st, id), runsOf(t, st, id), history(t, st, id)
	var problems []string
	problems = append(problems, unanswered(list)...)
	problems = append(problems, untold(runs, events)...)
	problems = append(problems, unheard(list, events)...)
	row := load(t, st, id)
	if row.Status == cairn.SessionActive {
		problems = append(problems, "it is still active")
	}
	if row.MessageCount != len(list) || row.Turn != len(runs) {
		problems = append(problems, fmt.Sprintf("the row counts %d messages and %d turns, there are %d and %d", row.MessageCount, row.Turn, len(list), len(runs)))
	}
	return problems
}

// unanswered finds repeated messages and tool uses that do not have exactly one result right after them.
func unanswered(list []cairn.Message) (problems []string) {
	ids, calls := map[string]bool{}, map[string]bool{}
	for i := range list {
		m := &list[i]
		if m.ID == "" || ids[m.ID] {
			problems = append(problems, fmt.Sprintf("message id %q is empty or repeated", m.ID))
		}
		ids[m.ID] = true
		var asked, answered []string
		for _, use := range m.ToolUses() {
			asked = append(asked, use.CallID)
			if calls[use.CallID] {
				problems = append(problems, fmt.Sprintf("call id %q is repeated", use.CallID))
			}
			calls[use.CallID] = true
		}
		if i+1 < len(list) {
			for _, r := range list[i+1].ToolResults() {
				answered = append(answered, r.CallID)
			}
		}
		if m.Role == cairn.RoleAssistant && !slices.Equal(asked, answered) {
			problems = append(problems, fmt.Sprintf("message %s asks for %v, the next one answers %v", m.ID, asked, answered))
		}
	}
	return problems
}

// untold finds runs whose beginning, steps and end are not on the log exactly once each.
func untold(runs []cairn.Run, events []cairn.Event) (problems []string) {
	marks := map[string]int{}
	for i := range events {
		ev := &events[i]
		if ev.Sequence != int64(i)+1 {
			problems = append(problems, fmt.Sprintf("event %d has sequence %d", i+1, ev.Sequence))
		}
		switch ev.Type {
		case cairn.EventRunStart, cairn.EventRunResumed:
			marks[ev.RunID+" begin"]++
		case cairn.EventStepCommitted:
			marks[fmt.Sprint(ev.RunID, " step ", ev.Step)]++
		case cairn.EventRunEnd:
			marks[ev.RunID+" end "+string(ev.Status)]++
		}
	}
	want := map[string]int{}
	for i := range runs {
		r := &runs[i]
		if r.Turn != i+1 {
			problems = append(problems, fmt.Sprintf("run %d has turn %d", i+1, r.Turn))
		}
		want[r.ID+" begin"]++
		for n := range r.Steps {
			want[fmt.Sprint(r.ID, " step ", n+1)]++
		}
		if r.Status == cairn.RunRunning {
			problems = append(problems, fmt.Sprintf("run %s is still running", r.ID))
		}
		want[r.ID+" end "+string(r.Status)]++
	}
	for mark := range want {
		if marks[mark] != 1 {
			problems = append(problems, fmt.Sprintf("the log tells %d times of %s", marks[mark], mark))
		}
		delete(marks, mark)
	}
	for mark := range marks {
		problems = append(problems, "the log tells of "+mark+", which did not happen")
	}
	return problems
}

// unheard finds replies that a reader of the log did not see exactly as they are in the transcript.
func unheard(list []cairn.Message, events []cairn.Event) (problems []string) {
	heard := heardText(events)
	for i := range list {
		m := &list[i]
		step, ok := strings.CutSuffix(m.ID, "/reply")
		if !ok {
			continue
		}
		if heard[step] != m.Text() {
			problems = append(problems, fmt.Sprintf("of step %s a reader saw %q, the transcript has %q", step, heard[step], m.Text()))
		}
		delete(heard, step)
	}
	for step, text := range heard {
		if text != "" {
			problems = append(problems, fmt.Sprintf("a reader saw %q of step %s, which is not in the transcript", text, step))
		}
	}
	return problems
}

// heardText returns the text a reader has of each step, if it drops what was discarded.
func heardText(events []cairn.Event) map[string]string {
	heard := map[string]string{}
	for i := range events {
		ev := &events[i]
		step := fmt.Sprintf("%s/%d", ev.RunID, ev.Step)
		switch ev.Type {
		case cairn.EventTextDelta:
			heard[step] += ev.Text
		case cairn.EventStepDiscarded:
			delete(heard, step)
		}
	}
	return heard
}
