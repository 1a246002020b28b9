package plan

import (
	"errors"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// Seen is a store's data of a session when it plans a commit, all of it from one point in time.
type Seen struct {
	// ID is the session's.
	ID string
	// Row is the session's row; nil if the session does not exist. It is read only.
	Row *cairn.Session
	// Checkpoints is the number of the last checkpoint that the session was ever given; 0 if it never had one.
	Checkpoints int64
	// Doubt asks for everything that the conditions of a write would detect as well. It is set after a write whose
	// conditions did not hold, and in stores where a read is cheaper than such a write.
	Doubt bool

	// The following fields answer Needs and stay zero where nothing was asked.

	// Happened answers Needs.Happened.
	Happened bool
	// Runs are the existing runs of Needs.Runs, by id.
	Runs map[string]*cairn.Run
	// Checkpoint is the requested checkpoint; nil if it does not exist.
	Checkpoint *cairn.Checkpoint
	// State is the requested position with its sizes; nil if it is not kept.
	State *cairn.StatePosition
	// Queue holds the ids of the turns in the session's queue.
	Queue []string
	// Calls are the existing calls of Needs.Calls, by id.
	Calls map[string]CallSeen

	asked Needs
}

// CallSeen is the part of a pending call's row that a plan needs.
type CallSeen struct {
	SessionID string
	Version   int64
}

// Needs lists the data that a store must read for a commit in addition to the row. The zero value needs nothing.
type Needs struct {
	// Happened asks whether the session has a run with the id RunID or a checkpoint of the step StepID; an empty id is
	// ignored.
	Happened      bool
	RunID, StepID string
	// Runs asks for the runs with these ids.
	Runs []string
	// Checkpoint asks for the checkpoint with that id.
	Checkpoint string
	// State asks for the sizes of the state at Position: the size of the last keyframe up to it, and the size of the
	// changes from that keyframe to it.
	State    bool
	Position int64
	// Queue asks for the ids of the turns in the queue.
	Queue bool
	// Calls asks for the calls of the tree Root with these ids.
	Root  string
	Calls []string
}

func (n *Needs) none() bool {
	return !n.Happened && len(n.Runs) == 0 && n.Checkpoint == "" && !n.State && !n.Queue && len(n.Calls) == 0
}

// Work makes the delta of a commit. It calls read with the data to read, and read sets the answers in seen; it calls
// read again if an answer raises another question. No delta and no error mean that the commit was applied before.
func Work(c *driver.Commit, seen *Seen, read func(Needs) error) (*Delta, error) {
	for {
		n := missing(c, seen)
		if n.none() {
			return of(c, seen)
		}
		if err := read(n); err != nil {
			return nil, err
		}
		seen.asked.add(n)
	}
}

// Try makes the delta of a commit from a row that may be out of date. It returns nil if the commit does not fit the row
// or more must be read; [Work] with the current row must then decide.
func Try(c *driver.Commit, seen *Seen) *Delta {
	if n := missing(c, seen); !n.none() {
		return nil
	}
	d, err := of(c, seen)
	if err != nil {
		return nil
	}
	return d
}

func (n *Needs) add(m Needs) {
	n.Happened = n.Happened || m.Happened
	n.State, n.Queue = n.State || m.State, n.Queue || m.Queue
	n.Runs = append(n.Runs, m.Runs...)
	if m.Checkpoint != "" {
		n.Checkpoint = m.Checkpoint
	}
	if len(m.Calls) > 0 {
		n.Calls = m.Calls
	}
}

// missing returns what must be read next.
func missing(c *driver.Commit, seen *Seen) (n Needs) {
	row := seen.Row
	if row == nil {
		if seen.Doubt && c.Create != nil { // calls belong to the tree
			n.calls(c, rootOf(c, seen.ID), seen)
		}
		return n
	}
	conflict := refuses(c, row)
	if errors.Is(conflict, cairn.ErrFenced) && !c.Took(row) {
		return n
	}
	if run, step := keys(c); (run != "" || step != "") && (conflict != nil || seen.Doubt || refusable(c, row)) && !seen.asked.Happened {
		n.Happened, n.RunID, n.StepID = true, run, step
		return n
	}
	if conflict != nil || seen.Happened {
		return n
	}
	n.past(c, seen)
	n.Queue = (c.Enqueue != nil || len(c.Dequeue) > 0) && row.Queued > 0 && !seen.asked.Queue
	if seen.Doubt {
		n.calls(c, row.RootID, seen)
	}
	return n
}

// past asks for the commit's rewind point, and for the run that it ends.
func (n *Needs) past(c *driver.Commit, seen *Seen) {
	ask := func(run string) {
		if !slices.Contains(seen.asked.Runs, run) && !slices.Contains(n.Runs, run) {
			n.Runs = append(n.Runs, run)
		}
	}
	if c.EndRun != nil && c.EndRun.ID != seen.Row.RunID {
		ask(c.EndRun.ID)
	}
	at := c.Rewind
	if c.RewindRun != "" {
		ask(c.RewindRun)
		run := seen.Runs[c.RewindRun]
		if run == nil {
			return
		}
		at = run.Before.CheckpointID
	}
	if at != "" && seen.asked.Checkpoint != at {
		n.Checkpoint = at
	}
	if position, ok := target(c, seen); ok && !seen.asked.State {
		n.State, n.Position = true, position
	}
}

// target returns the state position of a commit's rewind point, once it is known.
func target(c *driver.Commit, seen *Seen) (position int64, ok bool) {
	switch {
	case c.RewindRun != "":
		return seen.Runs[c.RewindRun].Before.StatePosition, true
	case c.Rewind != "" && seen.Checkpoint != nil:
		return seen.Checkpoint.StatePosition, true
	}
	return 0, false
}

func (n *Needs) calls(c *driver.Commit, root string, seen *Seen) {
	if len(c.Calls) == 0 || seen.asked.Calls != nil {
		return
	}
	n.Root = root
	for i := range c.Calls {
		n.Calls = append(n.Calls, c.Calls[i].Call.ID)
	}
}

// keys returns the run and the step by which a repeated commit is recognised; empty for none.
func keys(c *driver.Commit) (run, step string) {
	if c.StartRun != nil {
		run = c.StartRun.ID
	}
	if c.Checkpoint != nil {
		step = c.Checkpoint.StepID
	}
	return run, step
}

// refusable reports whether a commit whose guard holds may still be refused, so that it must be known whether the
// commit was applied before.
func refusable(c *driver.Commit, row *cairn.Session) bool {
	return c.Rewind != "" || c.RewindRun != "" || len(c.Dequeue) > 0 || c.EndRun != nil && c.EndRun.ID != row.RunID
}

// rootOf returns the root of a session that a commit creates.
func rootOf(c *driver.Commit, id string) string {
	if c.Create.RootID != "" {
		return c.Create.RootID
	}
	return id
}
