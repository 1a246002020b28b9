package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host/hosttest"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// durable is what a session leaves behind: a store with its log.
type durable interface {
	store.Store
	driver.LogProvider
}

// wantSound checks what must hold of any session tree at rest, whatever happened to it.
func wantSound(t *testing.T, st durable, id string) {
	t.Helper()
	wantSoundBut(t, st, id, "")
}

// wantSoundBut is wantSound for a session with a known problem, whose description has a text.
func wantSoundBut(t *testing.T, st durable, id, known string) {
	t.Helper()
	problems, err := hosttest.Unsound(context.Background(), st, st.EventLog(), id)
	if err != nil {
		t.Fatal(err)
	}
	if known != "" {
		problems = slices.DeleteFunc(problems, func(problem string) bool { return strings.Contains(problem, known) })
	}
	for _, problem := range problems {
		t.Error(problem)
	}
	if len(problems) > 0 {
		t.Logf("\n%s", render(t, st, id))
	}
}

// render returns everything that a session tree left behind.
func render(t *testing.T, st durable, id string) string {
	t.Helper()
	text, err := hosttest.Describe(context.Background(), st, st.EventLog(), id)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// unanswered finds repeated messages and tool uses that do not have exactly one result before the next reply.
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
		if m.Role != cairn.RoleAssistant {
			continue
		}
		for j := i + 1; j < len(list) && list[j].Role != cairn.RoleAssistant; j++ {
			for _, r := range list[j].ToolResults() {
				answered = append(answered, r.CallID)
			}
		}
		slices.Sort(asked)
		slices.Sort(answered)
		if !slices.Equal(asked, answered) {
			problems = append(problems, fmt.Sprintf("message %s asks for %v, what follows answers %v", m.ID, asked, answered))
		}
	}
	return problems
}

// textsOf returns the text of each step as seen by a reader that drops discarded steps.
func textsOf(events []cairn.Event) map[string]string {
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
