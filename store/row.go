package store

import (
	"time"

	"github.com/cairn-agents/cairn"
)

// NewRow returns the row of a session that c creates.
func (c *Commit) NewRow(id string, now time.Time) *cairn.Session {
	from := c.Create
	row := &cairn.Session{
		ID: id, Agent: from.Agent, Status: cairn.SessionIdle,
		UserID: from.UserID, Tags: from.Tags, Metadata: from.Metadata,
		ExpiresAt: from.ExpiresAt, TraceParent: from.TraceParent,
		ParentID: from.ParentID, RootID: from.RootID,
		CreatedAt: now, UpdatedAt: now,
	}
	if row.RootID == "" {
		row.RootID = id
	}
	return row
}

// Effect is what a commit adds beside the row: the store's part of it is filled in.
type Effect struct {
	// FirstMessage is the index of the first of Commit.Messages.
	FirstMessage int
	StartRun     *cairn.Run
	EndRun       *cairn.Run
	Checkpoint   *cairn.Checkpoint
}

// Advance applies c to a copy of an existing row, whose guard has been checked and whose Rewind, if any, has been
// done, and returns the new row with what is to be written beside it. stateBytes is the size of the stored form of
// c.State. number is the number of checkpoints ever written before; it is only used with c.Checkpoint.
// It is the one definition of a commit's meaning for stores that compute in Go.
func (c *Commit) Advance(old *cairn.Session, now time.Time, stateBytes int, number int64) (*cairn.Session, Effect) {
	row := *old
	row.Version++
	row.UpdatedAt = now
	fx := Effect{FirstMessage: row.MessageCount}

	if c.EndRun != nil {
		run := *c.EndRun
		run.SessionID = row.ID
		if run.Status != cairn.RunRunning {
			run.EndedAt = now
		}
		fx.EndRun = &run
	}
	if c.StartRun != nil {
		run := *c.StartRun
		row.Turn++
		row.RunID, row.Step, row.Recoveries, row.RunUsage = run.ID, 0, 0, cairn.Usage{}
		run.SessionID, run.Turn, run.StartedAt, run.FirstMessage = row.ID, row.Turn, now, row.MessageCount
		fx.StartRun = &run
	}
	row.MessageCount += len(c.Messages)
	if c.State != nil {
		row.State = Advance(row.State, c.State.Keyframe != nil, stateBytes)
	}
	if c.Step > 0 {
		row.Step, row.Recoveries = c.Step, 0
	}
	if c.Recovered {
		row.Recoveries++
	}
	if c.Status != "" {
		row.Status = c.Status
	}
	row.LogSequence = max(row.LogSequence, c.LogSequence)
	row.Usage, row.RunUsage = row.Usage.Add(c.Usage), row.RunUsage.Add(c.Usage)
	switch c.Lease.Action {
	case LeaseTake:
		row.Lease = cairn.Lease{Owner: c.Lease.Owner, Token: row.Lease.Token + 1, Until: now.Add(c.Lease.TTL)}
	case LeaseRenew:
		row.Lease.Until = now.Add(c.Lease.TTL)
	case LeaseRelease:
		row.Lease = cairn.Lease{Token: row.Lease.Token}
	}
	if c.Context != nil {
		c.Context.Apply(&row)
	}
	if c.Checkpoint != nil {
		cp := *c.Checkpoint
		cp.SessionID, cp.Turn, cp.Number, cp.ParentID = row.ID, row.Turn, number+1, row.CheckpointID
		cp.MessageCount, cp.StatePosition, cp.CreatedAt = row.MessageCount, row.State.Position, now
		row.CheckpointID = cp.ID
		fx.Checkpoint = &cp
	}
	return &row, fx
}
