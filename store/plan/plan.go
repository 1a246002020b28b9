package plan

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// of makes the delta of a commit once nothing is missing from seen.
func of(c *driver.Commit, seen *Seen) (*Delta, error) {
	if seen.Row == nil {
		if c.Create == nil {
			return nil, driver.NotFound(seen.ID)
		}
		return create(c, seen)
	}
	conflict := refuses(c, seen.Row)
	switch {
	case errors.Is(conflict, cairn.ErrFenced) && !c.Took(seen.Row):
		return nil, conflict
	case seen.Happened:
		return nil, nil
	case conflict != nil:
		return nil, conflict
	}
	row := *seen.Row
	d := &Delta{Version: row.Version, Token: row.Lease.Token, Lapsed: c.Guard.Lapsed,
		Row: &row, Checkpoints: seen.Checkpoints}
	if err := d.calls(c, seen); err != nil {
		return nil, err
	}
	if err := d.back(c, seen); err != nil {
		return nil, err
	}
	if c.EndRun != nil && c.EndRun.ID != seen.Row.RunID && seen.Runs[c.EndRun.ID] == nil {
		return nil, driver.UnknownRun(row.ID, c.EndRun.ID)
	}
	if row.Outbox != nil && c.Outbox && len(c.Events) > 0 && c.Drained != row.Outbox.Version {
		return nil, driver.Conflict(cairn.ErrStale, seen.Row, "session %q has unpublished events of version %d", row.ID, row.Outbox.Version)
	}
	if err := d.queue(c, seen); err != nil {
		return nil, err
	}
	if c.Context != nil && c.Context.UserID != nil {
		if err := driver.CheckTenancy(&cairn.Session{ID: row.ID, UserID: *c.Context.UserID}); err != nil {
			return nil, err
		}
	}
	return d, d.advance(c, seen.Row)
}

// refuses returns the conflict of a commit's guard with the row, at the time the row was read.
func refuses(c *driver.Commit, row *cairn.Session) error { return c.Guard.Check(row, row.AsOf) }

// create makes the delta of a commit that creates its session.
func create(c *driver.Commit, seen *Seen) (*Delta, error) {
	row := RowOf(c.Create, seen.ID)
	if err := driver.CheckTenancy(row); err != nil {
		return nil, err
	}
	switch {
	case c.Rewind != "":
		return nil, driver.UnknownCheckpoint(row.ID, c.Rewind)
	case c.RewindRun != "":
		return nil, driver.UnknownRun(row.ID, c.RewindRun)
	case c.EndRun != nil:
		return nil, driver.UnknownRun(row.ID, c.EndRun.ID)
	}
	d := &Delta{New: true, Row: row, Initial: c.InitialState, Context: true, SweepAt: sweepAt(row)}
	if len(d.Initial) == 0 {
		d.Initial = json.RawMessage("{}")
	}
	row.State.KeyframeBytes = int64(len(d.Initial))
	before := *row
	if err := d.calls(c, seen); err != nil {
		return nil, err
	}
	if err := d.queue(c, seen); err != nil {
		return nil, err
	}
	return d, d.advance(c, &before)
}

// back moves the row back to the commit's rewind point, if it has one.
func (d *Delta) back(c *driver.Commit, seen *Seen) error {
	row := d.Row
	switch {
	case c.Rewind != "":
		cp := seen.Checkpoint
		if cp == nil {
			return driver.UnknownCheckpoint(row.ID, c.Rewind)
		}
		d.Cut = &Cut{Messages: cp.MessageCount, State: cp.StatePosition, Checkpoint: cp.Number}
		row.CheckpointID = cp.ID
	case c.RewindRun != "":
		run := seen.Runs[c.RewindRun]
		if run == nil {
			return driver.UnknownRun(row.ID, c.RewindRun)
		}
		before := run.Before
		if run.FirstMessage > row.MessageCount || seen.State == nil || before.CheckpointID != "" && seen.Checkpoint == nil {
			return driver.RunGone(seen.Row, c.RewindRun)
		}
		d.Cut = &Cut{Messages: run.FirstMessage, State: before.StatePosition}
		if seen.Checkpoint != nil {
			d.Cut.Checkpoint = seen.Checkpoint.Number
		}
		row.CheckpointID = before.CheckpointID
	default:
		return nil
	}
	if seen.State == nil {
		return cairn.Errorf(cairn.ErrCorrupt, "session %q has no state at position %d", row.ID, d.Cut.State)
	}
	row.Epoch++
	row.MessageCount, row.State = d.Cut.Messages, *seen.State
	if row.Opening != "" && row.OpeningAt >= row.MessageCount {
		row.Opening, row.OpeningAt, d.Context = "", 0, true
	}
	row.Summary = summaryWithin(row.Summary, row.MessageCount)
	SetTrust(row, trustWithin(row.TrustAt, row.MessageCount))
	return nil
}

// advance computes the rest of a commit, starting from d.Row. before is the row as it was read.
func (d *Delta) advance(c *driver.Commit, before *cairn.Session) error {
	row := d.Row
	row.Version = driver.NextVersion(row.Version)
	d.FirstMessage = row.MessageCount
	d.runs(c, before.RunID)
	d.Messages = c.Messages
	if slices.ContainsFunc(c.Messages, func(m cairn.Message) bool { return m.CreatedAt.IsZero() }) {
		d.undated = c.Messages
	}
	if row.Opening == "" {
		row.Opening, row.OpeningAt = driver.OpeningOf(c.Messages, row.MessageCount)
		d.Context = d.Context || row.Opening != ""
	}
	if err := d.summary(c); err != nil {
		return err
	}
	d.trust(c)
	row.MessageCount += len(c.Messages)
	if err := d.state(c); err != nil {
		return err
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
	d.events(c, before)
	row.Usage, row.RunUsage = row.Usage.Add(c.Usage).Add(c.UsageBeside), row.RunUsage.Add(c.Usage)
	d.lease(c)
	d.archive(c)
	d.context(c)
	d.Usage = driver.UsageRowOf(c, row)
	d.wait(c, before)
	d.fillCalls()
	d.checkpoint(c)
	d.DropStaged, d.Cache, d.CacheDrop, d.Statements = c.DropStaged, c.Cache, c.CacheDrop, c.Statements
	return nil
}

// summary records on the row the place of the last summary among the commit's messages.
func (d *Delta) summary(c *driver.Commit) error {
	for i := range c.Messages {
		s := c.Messages[i].Summary
		if s == nil {
			continue
		}
		place := cairn.SummaryPlace{At: d.FirstMessage + i, From: s.From}
		if place.From > place.At {
			return cairn.Invalid("messages", "summary at %d covers %d messages", place.At, place.From)
		}
		d.Row.Summary = place
	}
	return nil
}

// summaryWithin returns the place of a summary if it is among the first messages of a transcript, and no place
// otherwise.
func summaryWithin(place cairn.SummaryPlace, messages int) cairn.SummaryPlace {
	if place.At < messages {
		return place
	}
	return cairn.SummaryPlace{}
}

// runs adds the run that ends and the one that begins. current is the run of the row as it was read.
func (d *Delta) runs(c *driver.Commit, current string) {
	row := d.Row
	if c.EndRun != nil {
		run := *c.EndRun
		run.SessionID = row.ID
		d.EndRun, d.RunOver, d.DropStop = &run, run.Status != cairn.RunRunning, run.ID
		if run.ID == current {
			d.TextAt = textAt(c, d.FirstMessage)
		}
	}
	if c.StartRun == nil {
		return
	}
	run := *c.StartRun
	row.Turn++
	row.RunID, row.Step, row.Recoveries, row.RunUsage = run.ID, 0, 0, cairn.Usage{}
	run.SessionID, run.Turn, run.FirstMessage = row.ID, row.Turn, row.MessageCount
	run.Before = cairn.RunOrigin{CheckpointID: row.CheckpointID, StatePosition: row.State.Position}
	d.StartRun, d.OnceRun = &run, run.ID
}

func (d *Delta) state(c *driver.Commit) error {
	if c.State == nil {
		return nil
	}
	piece, err := PieceOf(d.Row.State.Position+1, c.State)
	if err != nil {
		return err
	}
	d.State, d.Row.State = piece, driver.Advance(d.Row.State, piece.Keyframe, len(piece.Data))
	return nil
}

func (d *Delta) lease(c *driver.Commit) {
	l := &d.Row.Lease
	switch c.Lease.Action {
	case driver.LeaseTake:
		l.Owner, l.TTL = c.Lease.Owner, micros(c.Lease.TTL)
		// A time, so that the token of a holder is greater than that of each earlier one, whether or not the store still
		// knows of it: it may have lost its last writes.
		l.Token = max(l.Token+1, d.Row.AsOf.UnixMicro())
		d.holders++
		d.LeaseUntil = Time{Open: true, In: c.Lease.TTL}
	case driver.LeaseRenew:
		l.TTL = micros(c.Lease.TTL)
		d.LeaseUntil = Time{Open: true, In: c.Lease.TTL}
	case driver.LeaseRelease:
		l.Owner = ""
		d.LeaseUntil = Time{Open: true}
	default:
		d.LeaseUntil = Time{Kept: !d.New}
	}
}

// archive sets when the session was archived. A message of the user that arrives makes it current: one that was queued
// arrived when it was queued.
func (d *Delta) archive(c *driver.Commit) {
	row := d.Row
	if !row.ArchivedAt.IsZero() && (d.Enqueue != nil && !d.Enqueue.Context || len(c.Dequeue) == 0 && slices.ContainsFunc(c.Messages, ofUser)) {
		row.ArchivedAt, d.Context = time.Time{}, true
	}
	d.ArchivedAt = Time{At: row.ArchivedAt}
	if c.Context == nil || c.Context.Archived == nil {
		return
	}
	if !*c.Context.Archived {
		d.ArchivedAt = Time{}
	} else if row.ArchivedAt.IsZero() {
		d.ArchivedAt = Time{Open: true}
	}
}

// ofUser reports whether the user wrote a message.
func ofUser(m cairn.Message) bool { return m.Role == cairn.RoleUser && !m.Hidden && m.Origin == "" }

func (d *Delta) context(c *driver.Commit) {
	row := d.Row
	if c.Context != nil {
		d.Context = true
		c.Context.Apply(row)
		row.ArchivedAt = d.ArchivedAt.At
	}
	if d.Context {
		row.ExpiresAt = stored(row.ExpiresAt)
		if len(row.Tags) == 0 {
			row.Tags = nil
		}
		row.Metadata = canonical(row.Metadata)
		d.SweepAt = sweepAt(row)
	} else {
		d.SweepAt = Time{Kept: true}
	}
}

// sweepAt returns the time from which a root may have expired. A check that comes too early defers it, by
// [driver.SweepAt].
func sweepAt(row *cairn.Session) Time {
	if row.ID != row.RootID || row.TTL <= 0 && row.ExpiresAt.IsZero() {
		return Time{}
	}
	return Time{At: row.ExpiresAt, Open: row.TTL > 0, In: time.Duration(row.TTL)}
}

// wait sets what the session is suspended for, whether that wait is being ended, and the time from which it is due.
func (d *Delta) wait(c *driver.Commit, before *cairn.Session) {
	row := d.Row
	if c.Ending != nil {
		ending := *c.Ending
		ending.At = stored(ending.At)
		row.Ending = &ending
	}
	if row.Status != cairn.SessionPaused || c.StartRun != nil || c.EndRun != nil {
		row.Ending = nil
	}
	if s := c.Suspend; s != nil {
		row.SuspendedStep, row.OpenCalls, row.NextDeadline = s.StepID, s.OpenCalls, stored(s.NextDeadline)
	}
	switch d.Due = driver.DueKindOf(row); d.Due {
	case "":
	case driver.DueDeadline:
		d.DueAt = Time{At: row.NextDeadline}
	case driver.DueKindOf(before):
		d.DueAt = Time{Kept: true}
	default:
		d.DueAt = Time{Open: true}
	}
}

// calls adds the commit's call writes to the delta. It refuses writes that are based on a version other than the one
// read.
func (d *Delta) calls(c *driver.Commit, seen *Seen) error {
	row := seen.Row
	if row == nil {
		row = d.Row
	}
	for i := range c.Calls {
		w := &c.Calls[i]
		there := seen.Calls[w.Call.ID]
		twice := slices.ContainsFunc(c.Calls[:i], func(o driver.CallWrite) bool { return o.Call.ID == w.Call.ID })
		looked := seen.asked.Calls != nil
		if twice || d.New && w.Seen != 0 || looked && (there.Version != w.Seen || there.Version != 0 && there.SessionID != row.ID) {
			return driver.CallConflict(row, w.Call.ID)
		}
		d.Calls = append(d.Calls, Call{Row: w.Call, Seen: w.Seen})
	}
	return nil
}

// fillCalls sets the fields of calls that come from the session.
func (d *Delta) fillCalls() {
	for i := range d.Calls {
		call := &d.Calls[i].Row
		call.RootID, call.SessionID, call.UserID, call.Agent = d.Row.RootID, d.Row.ID, d.Row.UserID, d.Row.Agent
		call.Tenant = d.Row.Tenant
		call.Deadline, call.ClaimedUntil = stored(call.Deadline), stored(call.ClaimedUntil)
		call.Version = d.Calls[i].Seen + 1
	}
}

// queue adds the commit's changes of the queue to the delta.
func (d *Delta) queue(c *driver.Commit, seen *Seen) error {
	row := d.Row
	there := func(id string) bool { return slices.Contains(seen.Queue, id) }
	if c.Enqueue != nil && !there(c.Enqueue.ID) {
		d.Enqueue = c.Enqueue
		row.Queued++
	}
	for i, id := range c.Dequeue {
		switch {
		case slices.Contains(c.Dequeue[:i], id):
			continue
		case there(id):
			d.Dequeue = append(d.Dequeue, id)
		case d.Enqueue != nil && d.Enqueue.ID == id:
			d.Enqueue = nil
		default:
			at := seen.Row
			if at == nil {
				at = row
			}
			return driver.Conflict(cairn.ErrStale, at, "session %q has no queued turn %q", row.ID, id)
		}
		row.Queued--
	}
	return nil
}

// events adds the commit's events: to the log or to the row's outbox. before is the row as it was read.
func (d *Delta) events(c *driver.Commit, before *cairn.Session) {
	row := d.Row
	if row.Outbox != nil && row.Outbox.Version == c.Drained {
		row.Outbox = nil
	}
	if len(c.Events) == 0 {
		return
	}
	if c.Outbox {
		d.boxed = c.Events
		row.Outbox = &cairn.Outbox{Version: row.Version, Events: slices.Clone(c.Events)}
		for i := range row.Outbox.Events {
			d.Finish(&row.Outbox.Events[i])
		}
		return
	}
	d.Events, d.Fence, d.Beside = c.Events, c.Lease.Action == driver.LeaseTake, beside(c, before, row)
}

// beside reports whether a commit is that of another writer while a run is under way, which continues: it neither has the
// token of the lease nor takes it.
func beside(c *driver.Commit, before, after *cairn.Session) bool {
	return before.Status == cairn.SessionActive && after.Status == cairn.SessionActive &&
		c.Guard.Token == 0 && c.Lease.Action == driver.LeaseKeep && c.StartRun == nil
}

func (d *Delta) checkpoint(c *driver.Commit) {
	if c.Checkpoint == nil {
		return
	}
	d.made = *c.Checkpoint
	row, cp := d.Row, &d.made
	d.Checkpoints++
	cp.SessionID, cp.Turn, cp.Number, cp.ParentID = row.ID, row.Turn, d.Checkpoints, row.CheckpointID
	cp.MessageCount, cp.StatePosition = row.MessageCount, row.State.Position
	row.CheckpointID = cp.ID
	d.Checkpoint, d.OnceStep = cp, cp.StepID
}
