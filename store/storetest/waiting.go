package storetest

import (
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// Moves of a random history: those of pending calls and of the queue, and the one that rewinds a run.

// rewindsRun rewinds the latest run of a session, or is refused because the session was rewound or pruned afterwards.
func (g *historian) rewindsRun(m *modelSession) bool {
	if g.active(m) || len(m.runs) == 0 {
		return false
	}
	run := m.runs[len(m.runs)-1]
	c := &driver.Commit{Guard: driver.Guard{Idle: true}, RewindRun: run.ID, Status: cairn.SessionInterrupted, DropStaged: true}
	if g.random.IntN(2) == 0 {
		begin := beginCommit(g.newID("retry"), g.newID("worker"), time.Hour)
		c.StartRun, c.Messages, c.Status, c.Lease = begin.StartRun, begin.Messages, begin.Status, begin.Lease
	}
	lost := run.Before.CheckpointID != "" && m.checkpoint(run.Before.CheckpointID) < 0
	switch {
	case lost, run.FirstMessage > len(m.messages), run.Before.StatePosition >= int64(len(m.states)):
		_, err := g.st.Commit(g.Context(), m.row.ID, c)
		g.wantError(err, cairn.ErrInvalid, "rewind of a run that began in what is gone")
		return true
	case run.Before.StatePosition < m.kept:
		return false // the state of that time may be gone
	}
	return g.write(m, c)
}

// asks suspends a session at some calls.
func (g *historian) asks(m *modelSession) bool {
	if !g.active(m) {
		return false
	}
	c := endCommit(&m.row)
	step := g.newID("step")
	for range 1 + g.random.IntN(3) {
		c.Calls = append(c.Calls, asks(g.newID("call"), step, "ann"))
	}
	c.Suspend = &driver.Suspend{StepID: step, OpenCalls: len(c.Calls)}
	if g.random.IntN(2) == 0 {
		c.Suspend.NextDeadline = at(g.random.IntN(60))
	}
	c.EndRun.Status, c.EndRun.Reason, c.Status = cairn.RunSuspended, cairn.ReasonCalls, cairn.SessionPaused
	return g.write(m, c)
}

// answers writes a call over its current version, or over another one.
func (g *historian) answers(m *modelSession) bool {
	if len(m.calls) == 0 {
		return false
	}
	call := m.calls[g.random.IntN(len(m.calls))]
	w := asks(call.ID, call.StepID)
	w.Seen = call.Version
	w.Call.Status = []cairn.CallStatus{cairn.CallOpen, cairn.CallAnswered, cairn.CallSettled, cairn.CallDropped}[g.random.IntN(4)]
	if g.random.IntN(3) > 0 {
		return g.write(m, &driver.Commit{Calls: []driver.CallWrite{w}, Messages: g.someMessages(1), Suspend: &driver.Suspend{StepID: call.StepID}})
	}
	c := g.everythingBut(&m.row)
	w.Seen += 1 - 2*g.random.Int64N(2)
	c.Calls = append(c.Calls, w)
	_, err := g.st.Commit(g.Context(), m.row.ID, c)
	g.wantConflict(err, cairn.ErrStale, "a call over another version")
	return true
}

// queues adds a turn, new or already queued, or takes one, or both.
func (g *historian) queues(m *modelSession) bool {
	c := &driver.Commit{}
	if turn := g.newID("turn"); g.random.IntN(3) > 0 {
		c.Enqueue = &driver.QueuedTurn{ID: turn}
	}
	if n := len(m.queue); n > 0 {
		some := m.queue[g.random.IntN(n)]
		switch g.random.IntN(4) {
		case 0:
			c.Enqueue = &driver.QueuedTurn{ID: some}
		case 1, 2:
			c.Dequeue = []string{some}
		}
	}
	return g.write(m, c)
}
