package store

import (
	"fmt"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
)

// NewRow returns the row of a session that c creates.
func (c *Commit) NewRow(id string, now time.Time) *cairn.Session {
	row := &cairn.Session{} // small enough to be inlined: a store that keeps a copy has the row on its stack
	c.newRow(row, id, now)
	return row
}

func (c *Commit) newRow(row *cairn.Session, id string, now time.Time) {
	from := c.Create
	*row = cairn.Session{
		ID: id, Agent: from.Agent, Status: cairn.SessionIdle,
		UserID: from.UserID, Tags: from.Tags, Metadata: from.Metadata,
		ExpiresAt: from.ExpiresAt, TTL: max(from.TTL, 0).Truncate(time.Microsecond), TraceParent: from.TraceParent,
		ParentID: from.ParentID, RootID: from.RootID, Incarnation: from.Incarnation, Kind: from.Kind, Name: from.Name, Secret: from.Secret,
		Lease: cairn.Lease{Token: now.UnixMicro()}, CreatedAt: now, UpdatedAt: now, AsOf: now,
	}
	if row.Secret == "" {
		row.Secret = ids.New("secret")
	}
	if row.RootID == "" {
		row.RootID = id
	}
	if row.Incarnation == "" && row.RootID == id {
		row.Incarnation = ids.Short()
	}
}

// Effect is what a commit adds beside the row: the store's part of it is filled in.
type Effect struct {
	// FirstMessage is the index of the first of Commit.Messages.
	FirstMessage int
	StartRun     *cairn.Run
	EndRun       *cairn.Run
	Checkpoint   *cairn.Checkpoint
	// Calls are in the order of Commit.Calls.
	Calls []cairn.PendingCall
}

// Advance applies c to a copy of an existing row, whose guard has been checked and whose Rewind, if any, has been
// done, and returns the new row with what is to be written beside it. stateBytes is the size of the stored form of
// c.State. number is the number of checkpoints ever written before; it is only used with c.Checkpoint.
// It is the one definition of a commit's meaning for stores that compute in Go.
func (c *Commit) Advance(old *cairn.Session, now time.Time, stateBytes int, number int64) (*cairn.Session, Effect) {
	row := *old
	row.Version++
	row.UpdatedAt, row.AsOf = now, now
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
		run.Before = cairn.RunOrigin{CheckpointID: row.CheckpointID, StatePosition: row.State.Position}
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
		row.Lease = cairn.Lease{Token: row.Lease.Token, Until: now}
	}
	if c.Context != nil {
		c.Context.Apply(&row)
	}
	if c.Suspend != nil {
		row.SuspendedStep, row.OpenCalls, row.NextDeadline = c.Suspend.StepID, c.Suspend.OpenCalls, c.Suspend.Deadline(now)
	}
	fx.Calls = c.calls(&row, now)
	if c.Checkpoint != nil {
		cp := *c.Checkpoint
		cp.SessionID, cp.Turn, cp.Number, cp.ParentID = row.ID, row.Turn, number+1, row.CheckpointID
		cp.MessageCount, cp.StatePosition, cp.CreatedAt = row.MessageCount, row.State.Position, now
		row.CheckpointID = cp.ID
		fx.Checkpoint = &cp
	}
	return &row, fx
}

// calls returns the rows of pending calls that the commit writes.
func (c *Commit) calls(row *cairn.Session, now time.Time) []cairn.PendingCall {
	var list []cairn.PendingCall
	for i := range c.Calls {
		call := c.Calls[i].Call
		call.RootID, call.SessionID, call.UserID, call.Agent = row.RootID, row.ID, row.UserID, row.Agent
		call.Deadline = c.Calls[i].Deadline(now)
		call.Version, call.UpdatedAt = c.Calls[i].Seen+1, now
		if c.Calls[i].Seen == 0 {
			call.CreatedAt = now
		}
		list = append(list, call)
	}
	return list
}

// DueKindOf says why a session that is not active needs a worker, or will when the time has come; empty for never.
func DueKindOf(row *cairn.Session) DueKind {
	switch {
	case row.Ready():
		return DueReady
	case row.Status == cairn.SessionPaused && !row.NextDeadline.IsZero():
		return DueDeadline
	case row.Status != cairn.SessionPaused && row.Status != cairn.SessionActive && row.Queued > 0:
		return DueQueued
	}
	return ""
}

// CallConflict returns the error for a pending call that is not at the version its writer saw.
func CallConflict(row *cairn.Session, id string) error {
	return Conflict(cairn.CodeStale, row, "session %q: call %q has changed", row.ID, id)
}

// UnknownCall returns the error for a call that a session tree does not have.
func UnknownCall(root, id string) error {
	return &cairn.Error{Code: cairn.CodeNotFound, Field: "call_id", Message: fmt.Sprintf("session %q has no pending call %q", root, id)}
}

// RunGone returns the error for a run that can no longer be taken back, because the session was rewound or pruned since.
func RunGone(row *cairn.Session, runID string) error {
	return cairn.Invalid("run", "session %q can no longer go back to where run %q began", row.ID, runID)
}

// Selects reports whether a query, but for its cursor, selects a call at the store's time now.
func (q *CallQuery) Selects(c *cairn.PendingCall, now time.Time) bool {
	return (q.RootID == "" || c.RootID == q.RootID) &&
		(q.ID == "" || c.ID == q.ID) &&
		(q.SessionID == "" || c.SessionID == q.SessionID) &&
		(q.StepID == "" || c.StepID == q.StepID) &&
		(q.UserID == "" || c.UserID == q.UserID) &&
		(q.Agent == "" || c.Agent == q.Agent) &&
		(q.Tool == "" || c.Tool == q.Tool) &&
		(q.Kind == "" || c.Kind == q.Kind) &&
		(len(q.Statuses) == 0 || slices.Contains(q.Statuses, c.Status)) &&
		(q.Reviewer == "" || len(c.Reviewers) == 0 || slices.Contains(c.Reviewers, q.Reviewer)) &&
		(q.Claimed == "" || c.ClaimedBy == q.Claimed && c.Claimed(now)) &&
		(q.DueBefore.IsZero() || !c.Deadline.IsZero() && c.Deadline.Before(q.DueBefore))
}

// Selects reports whether a query, but for its cursor, selects a session.
func (q *SessionQuery) Selects(s *cairn.Session) bool {
	for _, tag := range q.Tags {
		if !slices.Contains(s.Tags, tag) {
			return false
		}
	}
	for k, v := range q.Metadata {
		if have, ok := s.Metadata[k]; !ok || have != v {
			return false
		}
	}
	return (q.UserID == "" || s.UserID == q.UserID) &&
		(q.Agent == "" || s.Agent == q.Agent) &&
		(len(q.Statuses) == 0 || slices.Contains(q.Statuses, s.Status)) &&
		(q.ParentID == "" || s.ParentID == q.ParentID) &&
		(q.RootID == "" || s.RootID == q.RootID) &&
		(!q.RootsOnly || s.ParentID == "") &&
		(q.CreatedAfter.IsZero() || !s.CreatedAt.Before(q.CreatedAfter)) &&
		(q.CreatedBefore.IsZero() || s.CreatedAt.Before(q.CreatedBefore)) &&
		(q.UpdatedAfter.IsZero() || !s.UpdatedAt.Before(q.UpdatedAfter)) &&
		(q.UpdatedBefore.IsZero() || s.UpdatedAt.Before(q.UpdatedBefore))
}
