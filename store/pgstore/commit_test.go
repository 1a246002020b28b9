package pgstore

import (
	"errors"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// TestContextOfAnotherProcess changes a session's user context through one store: the other, which remembers the
// session, sees it with its next commit.
func TestContextOfAnotherProcess(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	other := second(t, s)
	st := newStepper(t, s, "session", nil)
	if err := st.step(); err != nil {
		t.Fatal(err)
	}
	user := "ann"
	if _, err := driver.SetContext(t.Context(), other, "session", driver.ContextChange{UserID: &user, Metadata: cairn.Metadata{"k": "v"}}); err != nil {
		t.Fatal(err)
	}
	row, err := s.Commit(t.Context(), "session", &driver.Commit{Messages: stepMessages("run")})
	if err != nil {
		t.Fatal(err)
	}
	if row.UserID != user || row.Metadata["k"] != "v" {
		t.Errorf("user %q, metadata %v", row.UserID, row.Metadata)
	}
	row.Metadata["k"] = "mine"
	if row = must(s.Commit(t.Context(), "session", &driver.Commit{Messages: stepMessages("run")})); row.Metadata["k"] != "v" {
		t.Error("the store handed out its own map")
	}
}

// What a process knows of a session shortens the statement of a commit to it, and changes nothing about what the commit
// does.
func TestCommitToAKnownRow(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	row := newStepper(t, s, "session", nil).row
	commit := func(c *driver.Commit) error {
		t.Helper()
		c.Guard.Version = row.Version
		after, err := s.Commit(t.Context(), row.ID, c)
		if err == nil {
			row = after
		}
		return err
	}
	run := &cairn.Run{ID: "run", Agent: "support", Kind: cairn.RunExecute, Status: cairn.RunRunning}
	if err := commit(&driver.Commit{StartRun: run, Status: cairn.SessionActive}); err != nil {
		t.Fatal(err)
	}
	if err := commit(&driver.Commit{EndRun: &cairn.Run{ID: "other", Status: cairn.RunCompleted}}); !errors.Is(err, cairn.ErrNotFound) {
		t.Errorf("ending a run that is not there: %v", err)
	}
	ended := *run
	ended.Status = cairn.RunInterrupted
	if err := commit(&driver.Commit{EndRun: &ended, Status: cairn.SessionPaused, Suspend: &driver.Suspend{StepID: "step"}}); err != nil {
		t.Fatal(err)
	}
	due, err := s.Due(t.Context(), driver.DueQuery{})
	if err != nil || len(due.Items) != 1 || due.Items[0].Kind != driver.DueReady {
		t.Errorf("due are %+v, %v, want the session that is ready", due, err)
	}
	if err := commit(&driver.Commit{Status: cairn.SessionCompleted, Suspend: &driver.Suspend{}}); err != nil {
		t.Fatal(err)
	}
	if due, err := s.Due(t.Context(), driver.DueQuery{}); err != nil || len(due.Items) != 0 {
		t.Errorf("due are %+v, %v, want none", due, err)
	}
}
