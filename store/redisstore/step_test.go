package redisstore

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// scripts returns the names of the scripts that write while a function runs.
func (s *Store) scripts(do func()) (names []string) {
	s.intercept = func(name string) error {
		names = append(names, name)
		return nil
	}
	do()
	s.intercept = nil
	return names
}

// A step that exists already is not repeated under another checkpoint, and nothing of that checkpoint is left.
func TestStepThatIsThereAlready(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	row := newStepper(t, s, "session", nil).row
	step := func(checkpoint, step string) *cairn.Session {
		t.Helper()
		after, err := s.Commit(t.Context(), row.ID, &driver.Commit{Guard: driver.Guard{Version: row.Version}, Messages: stepMessages,
			Checkpoint: &cairn.Checkpoint{ID: checkpoint, StepID: step, RunID: "run"}})
		if err != nil {
			t.Fatal(err)
		}
		return after
	}
	row = step("first", "step")
	var again *cairn.Session
	if names := s.scripts(func() { again = step("other", "step") }); !slices.Equal(names, []string{"step"}) {
		t.Errorf("scripts are %q", names)
	}
	if again.Version != row.Version || again.MessageCount != row.MessageCount || again.CheckpointID != "first" {
		t.Errorf("the step twice: %+v, want %+v", again, row)
	}
	if cp, err := driver.FindCheckpoint(t.Context(), s, row.ID, "other"); !errors.Is(err, cairn.ErrNotFound) {
		t.Errorf("the second checkpoint is %+v, %v", cp, err)
	}
	if list, err := s.Checkpoints(t.Context(), row.ID, driver.PageQuery{}); err != nil || len(list.Items) != 1 {
		t.Errorf("checkpoints are %+v, %v", list.Items, err)
	}
	before := row
	if row = step("other", "next"); row.Version <= before.Version || row.CheckpointID != "other" {
		t.Errorf("the next step: %+v", row)
	}
}

// An imported session is distinct: its steps are computed here like any other's, and not from the cached row of a
// session with the same id and version that was imported before.
func TestStepsOfImportedSessions(t *testing.T) {
	t.Parallel()
	from, s := openNew(t), openNew(t)
	other := second(t, s)
	ctx := context.Background()
	if _, err := driver.Create(ctx, from, &cairn.Session{ID: "session", Agent: "support"}, nil); err != nil {
		t.Fatal(err)
	}
	take := func(into *Store) {
		t.Helper()
		if err := into.Import(ctx, "session", store.Export(ctx, from, "session")); err != nil {
			t.Fatal(err)
		}
	}
	step := func(s *Store, id string, messages int) *cairn.Session {
		t.Helper()
		row, err := s.Commit(ctx, "session", &driver.Commit{Messages: stepMessages[:messages], Checkpoint: &cairn.Checkpoint{ID: id, StepID: id}})
		if err != nil {
			t.Fatal(err)
		}
		return row
	}
	take(s)
	step(s, "one", 1)
	if names := s.scripts(func() { step(s, "two", 1) }); !slices.Equal(names, []string{"step"}) {
		t.Errorf("a step of an imported session takes the scripts %q", names)
	}
	if err := other.Delete(ctx, "session"); err != nil {
		t.Fatal(err)
	}
	take(other)
	step(other, "three", 2)
	step(other, "four", 2)
	if row := step(s, "five", 1); row.MessageCount != 5 {
		t.Errorf("a session has %d messages, want the 4 of one process and 1 of another", row.MessageCount)
	}
}
