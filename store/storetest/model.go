package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// modelSession is what a session must be, in the plainest form: the whole state at every position, every list a slice.
type modelSession struct {
	row         cairn.Session     // without times, sizes and the lease's end
	states      []json.RawMessage // by position
	messages    []string
	checkpoints []modelCheckpoint
	numbers     int64
	runs        []modelRun
	staged      []driver.Staged
	calls       []modelCall
	queue       []string
	kept        int64 // the first position whose state is certain to be kept
	pruned      bool  // checkpoints before the first were removed
}

type modelCheckpoint struct {
	ID, ParentID, StepID string
	Number               int64
	Turn, MessageCount   int
	StatePosition        int64
}

type modelRun struct {
	ID           string
	Turn         int
	Status       cairn.RunStatus
	FirstMessage int
	Before       cairn.RunOrigin
}

type modelCall struct {
	ID, StepID string
	Status     cairn.CallStatus
	Version    int64
}

func newModelSession(id string, state json.RawMessage, messages []string) *modelSession {
	return &modelSession{states: []json.RawMessage{state}, messages: slices.Clone(messages),
		row: cairn.Session{ID: id, Agent: agentName, RootID: id, ThreadID: id, Status: cairn.SessionIdle, Version: 1, MessageCount: len(messages)}}
}

func (m *modelSession) state() json.RawMessage { return m.states[len(m.states)-1] }

// checkpoint returns the index of a checkpoint, or -1.
func (m *modelSession) checkpoint(id string) int {
	return slices.IndexFunc(m.checkpoints, func(cp modelCheckpoint) bool { return cp.ID == id })
}

// back rewinds to a checkpoint, given by its index; -1 is before the first one, with the messages and states that
// remain.
func (m *modelSession) back(checkpoint, messages int, position int64) {
	m.checkpoints, m.row.CheckpointID = m.checkpoints[:checkpoint+1], ""
	if checkpoint >= 0 {
		m.row.CheckpointID = m.checkpoints[checkpoint].ID
	}
	m.messages, m.states = m.messages[:messages], m.states[:position+1]
	m.row.Epoch++
	m.row.MessageCount, m.row.State.Position = messages, position
	if m.row.OpeningAt >= messages {
		m.row.Opening, m.row.OpeningAt = "", 0
	}
}

// add appends messages. The first one of a user becomes the session's opening.
func (m *modelSession) add(list []cairn.Message) {
	for i := range list {
		if msg := &list[i]; m.row.Opening == "" && msg.Role == cairn.RoleUser {
			m.row.Opening, m.row.OpeningAt = msg.Text(), len(m.messages)+i
		}
	}
	m.messages = append(m.messages, textsOf(list)...)
	m.row.MessageCount = len(m.messages)
}

// apply changes the model as a store does for c.
func (m *modelSession) apply(c *driver.Commit) error {
	if c.Rewind != "" {
		i := m.checkpoint(c.Rewind)
		m.back(i, m.checkpoints[i].MessageCount, m.checkpoints[i].StatePosition)
	}
	if c.RewindRun != "" {
		run := m.runs[len(m.runs)-1]
		m.back(m.checkpoint(run.Before.CheckpointID), run.FirstMessage, run.Before.StatePosition)
	}
	if c.EndRun != nil {
		i := slices.IndexFunc(m.runs, func(r modelRun) bool { return r.ID == c.EndRun.ID })
		m.runs[i].Status = c.EndRun.Status
	}
	if c.StartRun != nil {
		m.row.Turn++
		m.row.RunID, m.row.Step, m.row.RunUsage = c.StartRun.ID, 0, cairn.Usage{}
		m.runs = append(m.runs, modelRun{ID: c.StartRun.ID, Turn: m.row.Turn, Status: c.StartRun.Status, FirstMessage: len(m.messages),
			Before: cairn.RunOrigin{CheckpointID: m.row.CheckpointID, StatePosition: m.row.State.Position}})
	}
	m.add(c.Messages)
	if c.State != nil {
		state, err := driver.FoldState(m.state(), [][]cairn.Op{c.State.Ops})
		if err != nil {
			return err
		}
		m.states = append(m.states, state)
		m.row.State.Position++
	}
	if c.Step > 0 {
		m.row.Step = c.Step
	}
	if c.Status != "" {
		m.row.Status = c.Status
	}
	m.row.LogSequence = max(m.row.LogSequence, c.LogSequence)
	m.row.Usage, m.row.RunUsage = m.row.Usage.Add(c.Usage).Add(c.UsageBeside), m.row.RunUsage.Add(c.Usage)
	switch c.Lease.Action {
	case driver.LeaseTake:
		m.row.Lease = cairn.Lease{Owner: c.Lease.Owner, Token: m.row.Lease.Token + 1, TTL: cairn.Duration(c.Lease.TTL)}
	case driver.LeaseRenew:
		m.row.Lease.TTL = cairn.Duration(c.Lease.TTL)
	case driver.LeaseRelease:
		m.row.Lease.Owner = ""
	}
	if c.DropStaged {
		m.staged = nil
	}
	m.waits(c)
	if c.Checkpoint != nil {
		m.numbers++
		m.checkpoints = append(m.checkpoints, modelCheckpoint{ID: c.Checkpoint.ID, StepID: c.Checkpoint.StepID, ParentID: m.row.CheckpointID,
			Number: m.numbers, Turn: m.row.Turn, MessageCount: len(m.messages), StatePosition: m.row.State.Position})
		m.row.CheckpointID = c.Checkpoint.ID
	}
	return nil
}

// waits applies c to the calls and the queue, as a store does.
func (m *modelSession) waits(c *driver.Commit) {
	if c.Suspend != nil {
		m.row.SuspendedStep, m.row.OpenCalls, m.row.NextDeadline = c.Suspend.StepID, c.Suspend.OpenCalls, c.Suspend.NextDeadline
	}
	for _, w := range c.Calls {
		call := modelCall{ID: w.Call.ID, StepID: w.Call.StepID, Status: w.Call.Status, Version: w.Seen + 1}
		if i := slices.IndexFunc(m.calls, func(c modelCall) bool { return c.ID == call.ID }); i >= 0 {
			m.calls[i] = call
		} else {
			m.calls = append(m.calls, call)
		}
	}
	if c.Enqueue != nil && !slices.Contains(m.queue, c.Enqueue.ID) {
		m.queue = append(m.queue, c.Enqueue.ID)
	}
	m.queue = slices.DeleteFunc(m.queue, func(id string) bool { return slices.Contains(c.Dequeue, id) })
	m.row.Queued = len(m.queue)
}

// branch returns the session that a branch makes.
func (m *modelSession) branch(at driver.BranchPoint, id string) *modelSession {
	switch {
	case at.CheckpointID != "":
		cp := m.checkpoints[m.checkpoint(at.CheckpointID)]
		return newModelSession(id, m.states[cp.StatePosition], m.messages[:cp.MessageCount])
	case at.Messages != nil:
		state := m.states[0]
		for _, cp := range m.checkpoints {
			if cp.MessageCount <= *at.Messages {
				state = m.states[cp.StatePosition]
			}
		}
		return newModelSession(id, state, m.messages[:*at.Messages])
	}
	return newModelSession(id, m.state(), m.messages)
}

func (m *modelSession) prune(keep int) int {
	n := max(0, len(m.checkpoints)-keep)
	if m.checkpoints = slices.Clone(m.checkpoints[n:]); n > 0 {
		m.kept, m.pruned = m.checkpoints[0].StatePosition, true
	}
	return n
}

// compare checks a store's session against the model. If deep is set, it also compares the state at each checkpoint.
func (h *harness) compare(m *modelSession, what string, deep bool) {
	h.Helper()
	id := m.row.ID
	row := h.load(id)
	want := m.row
	want.CreatedAt, want.UpdatedAt, want.Lease.Until = row.CreatedAt, row.UpdatedAt, row.Lease.Until
	want.State.KeyframeBytes, want.State.ChangeBytes = row.State.KeyframeBytes, row.State.ChangeBytes
	same(h.T, what+": row", row, &want)
	same(h.T, what+": messages", h.texts(id), m.messages)
	same(h.T, what+": state", h.state(id, ""), m.state())
	var checkpoints []modelCheckpoint
	for _, cp := range h.checkpoints(id) {
		checkpoints = append(checkpoints, modelCheckpoint{ID: cp.ID, ParentID: cp.ParentID, StepID: cp.StepID, Number: cp.Number, Turn: cp.Turn,
			MessageCount: cp.MessageCount, StatePosition: cp.StatePosition})
	}
	same(h.T, what+": checkpoints", checkpoints, m.checkpoints)
	var runs []modelRun
	for _, r := range h.runs(id) {
		runs = append(runs, modelRun{ID: r.ID, Turn: r.Turn, Status: r.Status, FirstMessage: r.FirstMessage, Before: r.Before})
	}
	same(h.T, what+": runs", runs, m.runs)
	staged, err := driver.StagedOf(h.Context(), h.st, id, "")
	h.must(err)
	same(h.T, what+": staged", staged, m.staged)
	h.compareWaits(m, what)
	if deep {
		for _, cp := range m.checkpoints {
			same(h.T, fmt.Sprintf("%s: state at %s", what, cp.ID), h.state(id, cp.ID), m.states[cp.StatePosition])
		}
	}
}

func (h *harness) compareWaits(m *modelSession, what string) {
	h.Helper()
	var calls []modelCall
	for _, c := range h.calls(driver.CallQuery{SessionID: m.row.ID}) {
		calls = append(calls, modelCall{ID: c.ID, StepID: c.StepID, Status: c.Status, Version: c.Version})
	}
	byID := func(a, b modelCall) int { return strings.Compare(a.ID, b.ID) } // also the order of the calls of one commit
	slices.SortFunc(calls, byID)
	same(h.T, what+": calls", calls, slices.SortedFunc(slices.Values(m.calls), byID))
	var queue []string
	for _, turn := range h.queue(m.row.ID) {
		queue = append(queue, turn.ID)
	}
	same(h.T, what+": queue", queue, m.queue)
}
