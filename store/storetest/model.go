package storetest

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// modelSession is what a session must be, kept in the plainest way: the whole state at every checkpoint, every list a
// slice.
type modelSession struct {
	row         cairn.Session // without times, sizes and the lease's end
	initial     json.RawMessage
	state       json.RawMessage
	messages    []string
	checkpoints []modelCheckpoint
	numbers     int64
	runs        []modelRun
	staged      []store.Staged
	pruned      bool
}

type modelCheckpoint struct {
	ID, ParentID, StepID string
	Number               int64
	Turn, MessageCount   int
	StatePosition        int64
	state                json.RawMessage
}

type modelRun struct {
	ID           string
	Turn         int
	Status       cairn.RunStatus
	FirstMessage int
}

func newModelSession(id string, state json.RawMessage, messages []string) *modelSession {
	return &modelSession{initial: state, state: state, messages: slices.Clone(messages),
		row: cairn.Session{ID: id, Agent: agentName, RootID: id, Status: cairn.SessionIdle, Version: 1, MessageCount: len(messages)}}
}

// apply does to the model what a store does with c.
func (m *modelSession) apply(c *store.Commit) error {
	if c.Rewind != "" {
		i := slices.IndexFunc(m.checkpoints, func(cp modelCheckpoint) bool { return cp.ID == c.Rewind })
		cp := m.checkpoints[i]
		m.checkpoints = m.checkpoints[:i+1]
		m.messages, m.state = m.messages[:cp.MessageCount], cp.state
		m.row.Epoch++
		m.row.MessageCount, m.row.CheckpointID, m.row.State.Position = cp.MessageCount, cp.ID, cp.StatePosition
	}
	m.row.Version++
	if c.EndRun != nil {
		i := slices.IndexFunc(m.runs, func(r modelRun) bool { return r.ID == c.EndRun.ID })
		m.runs[i].Status = c.EndRun.Status
	}
	if c.StartRun != nil {
		m.row.Turn++
		m.row.RunID, m.row.Step, m.row.RunUsage = c.StartRun.ID, 0, cairn.Usage{}
		m.runs = append(m.runs, modelRun{ID: c.StartRun.ID, Turn: m.row.Turn, Status: c.StartRun.Status, FirstMessage: len(m.messages)})
	}
	m.messages = append(m.messages, textsOf(c.Messages)...)
	m.row.MessageCount = len(m.messages)
	if c.State != nil {
		state, err := store.FoldState(m.state, [][]cairn.Op{c.State.Ops})
		if err != nil {
			return err
		}
		m.state = state
		m.row.State.Position++
	}
	if c.Step > 0 {
		m.row.Step = c.Step
	}
	if c.Status != "" {
		m.row.Status = c.Status
	}
	m.row.LogSequence = max(m.row.LogSequence, c.LogSequence)
	m.row.Usage, m.row.RunUsage = m.row.Usage.Add(c.Usage), m.row.RunUsage.Add(c.Usage)
	switch c.Lease.Action {
	case store.LeaseTake:
		m.row.Lease = cairn.Lease{Owner: c.Lease.Owner, Token: m.row.Lease.Token + 1}
	case store.LeaseRelease:
		m.row.Lease.Owner = ""
	}
	if c.DropStaged {
		m.staged = nil
	}
	if c.Checkpoint != nil {
		m.numbers++
		m.checkpoints = append(m.checkpoints, modelCheckpoint{ID: c.Checkpoint.ID, StepID: c.Checkpoint.StepID, ParentID: m.row.CheckpointID,
			Number: m.numbers, Turn: m.row.Turn, MessageCount: len(m.messages), StatePosition: m.row.State.Position, state: m.state})
		m.row.CheckpointID = c.Checkpoint.ID
	}
	return nil
}

// branch returns the session that a branch makes.
func (m *modelSession) branch(at store.BranchPoint, id string) *modelSession {
	switch {
	case at.CheckpointID != "":
		i := slices.IndexFunc(m.checkpoints, func(cp modelCheckpoint) bool { return cp.ID == at.CheckpointID })
		cp := m.checkpoints[i]
		return newModelSession(id, cp.state, m.messages[:cp.MessageCount])
	case at.Messages != nil:
		state := m.initial
		for _, cp := range m.checkpoints {
			if cp.MessageCount <= *at.Messages {
				state = cp.state
			}
		}
		return newModelSession(id, state, m.messages[:*at.Messages])
	}
	return newModelSession(id, m.state, m.messages)
}

func (m *modelSession) prune(keep int) int {
	n := max(0, len(m.checkpoints)-keep)
	m.checkpoints = slices.Clone(m.checkpoints[n:])
	m.pruned = m.pruned || n > 0
	return n
}

// compare checks a store's session against the model; deep does so for the state at each checkpoint too.
func (h *harness) compare(m *modelSession, what string, deep bool) {
	h.Helper()
	id := m.row.ID
	row := h.load(id)
	want := m.row
	want.CreatedAt, want.UpdatedAt, want.Lease.Until = row.CreatedAt, row.UpdatedAt, row.Lease.Until
	want.State.KeyframeBytes, want.State.ChangeBytes = row.State.KeyframeBytes, row.State.ChangeBytes
	same(h.T, what+": row", row, &want)
	same(h.T, what+": messages", h.texts(id), m.messages)
	same(h.T, what+": state", h.state(id, ""), m.state)
	var checkpoints []modelCheckpoint
	for _, cp := range h.checkpoints(id) {
		checkpoints = append(checkpoints, modelCheckpoint{ID: cp.ID, ParentID: cp.ParentID, StepID: cp.StepID, Number: cp.Number, Turn: cp.Turn,
			MessageCount: cp.MessageCount, StatePosition: cp.StatePosition})
	}
	same(h.T, what+": checkpoints", checkpoints, m.checkpoints)
	var runs []modelRun
	for _, r := range h.runs(id) {
		runs = append(runs, modelRun{ID: r.ID, Turn: r.Turn, Status: r.Status, FirstMessage: r.FirstMessage})
	}
	same(h.T, what+": runs", runs, m.runs)
	staged, err := h.st.Staged(h.Context(), id, "")
	h.must(err)
	same(h.T, what+": staged", staged, m.staged)
	if deep {
		for _, cp := range m.checkpoints {
			same(h.T, fmt.Sprintf("%s: state at %s", what, cp.ID), h.state(id, cp.ID), cp.state)
		}
	}
}
