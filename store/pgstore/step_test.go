package pgstore

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// stepsPerRun is how many steps the runs of a stepper have.
const stepsPerRun = 10

// stepper commits steps of one session as an engine does.
type stepper struct {
	tb  testing.TB
	st  driver.Store
	row *cairn.Session
	n   int

	messages []cairn.Message // of the run under way
	events   []cairn.Event   // of each commit
}

func newStepper(tb testing.TB, st driver.Store, id string, state json.RawMessage) *stepper {
	tb.Helper()
	row, err := driver.Create(tb.Context(), st, &cairn.Session{ID: id, Agent: "support"}, state)
	if err != nil {
		tb.Fatal(err)
	}
	return &stepper{tb: tb, st: st, row: row}
}

// newChild is newStepper for a child of a root, or for a root if that is nil.
func newChild(tb testing.TB, st driver.Store, id string, root *cairn.Session) *stepper {
	tb.Helper()
	s := &cairn.Session{ID: id, Agent: "support"}
	if root != nil {
		s.ParentID, s.RootID, s.Incarnation = root.ID, root.ID, root.Incarnation
	}
	row, err := driver.Create(tb.Context(), st, s, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return &stepper{tb: tb, st: st, row: row}
}

// next returns the commit of a reply, a tool result and a checkpoint; the first step of a run starts it and the last
// one ends it.
func (s *stepper) next() *driver.Commit {
	n := s.n + 1
	runID := "run-" + strconv.Itoa((n-1)/stepsPerRun)
	if s.messages == nil || n%stepsPerRun == 1 {
		s.messages = stepMessages(runID)
	}
	c := &driver.Commit{
		Guard:      driver.Guard{Version: s.row.Version, Token: s.row.Lease.Token},
		Messages:   s.messages,
		Step:       (n-1)%stepsPerRun + 1,
		Checkpoint: &cairn.Checkpoint{ID: "cp-" + strconv.Itoa(n), StepID: "step-" + strconv.Itoa(n), RunID: runID, Step: n},
		Usage:      cairn.Usage{InputTokens: 900, OutputTokens: 80, ModelCalls: 1, ToolCalls: 1},
		DropStaged: true,
		Lease:      driver.LeaseChange{Action: driver.LeaseRenew, TTL: time.Minute},
		Events:     s.events,
	}
	switch n % stepsPerRun {
	case 1:
		c.StartRun = &cairn.Run{ID: runID, Agent: "support", Kind: cairn.RunExecute, Status: cairn.RunRunning}
		c.Status, c.Lease.Action, c.Lease.Owner = cairn.SessionActive, driver.LeaseTake, "worker"
	case 0:
		c.EndRun = &cairn.Run{ID: runID, Agent: "support", Kind: cairn.RunExecute, Status: cairn.RunCompleted}
		c.Status, c.Lease.Action = cairn.SessionCompleted, driver.LeaseRelease
	}
	return c
}

func (s *stepper) step() error {
	row, err := s.st.Commit(s.tb.Context(), s.row.ID, s.next())
	for errors.Is(err, cairn.ErrStale) { // another process has added to the session
		if s.row, err = driver.Load(s.tb.Context(), s.st, s.row.ID); err == nil {
			row, err = s.st.Commit(s.tb.Context(), s.row.ID, s.next())
		}
	}
	if err == nil {
		s.row = row
		s.n++
	}
	return err
}

func stepMessages(runID string) []cairn.Message {
	input := json.RawMessage(`{"order":42,"reason":"arrived broken"}`)
	output := json.RawMessage(`{"order":42,"status":"refunded","amount":"19.90","currency":"EUR"}`)
	return []cairn.Message{
		{ID: "m1", Role: cairn.RoleAssistant, RunID: runID, Parts: []cairn.Part{
			cairn.TextPart(strings.Repeat("Let me look at that order. ", 10)),
			{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{CallID: "call-1", Tool: "refund", Input: input}}}},
		{ID: "m2", Role: cairn.RoleTool, RunID: runID, Parts: []cairn.Part{
			{Type: cairn.PartToolResult, Result: &cairn.ToolResult{CallID: "call-1", Tool: "refund", Output: output}}}},
	}
}
