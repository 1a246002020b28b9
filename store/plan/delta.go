package plan

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// Delta is one commit as rows. It is written all or nothing, and only if every condition holds.
//
// The store's times are open: see [Delta.At] for stores that know the time before they write, and [Time] for stores
// whose server sets it. In every delta these are open: the row's UpdatedAt and AsOf, the StartedAt of StartRun, the
// CreatedAt of Checkpoint, of messages without one and of new calls, and the UpdatedAt of calls.
type Delta struct {
	// The conditions. New requires that no session with the id exists, live or removed. Any other delta requires the
	// row at Version and lease token Token, which together name one state of one session.
	New            bool
	Version, Token int64
	// Lapsed requires that the lease is not [cairn.Lease.Held] at the store's now.
	Lapsed bool
	// OnceRun and OnceStep, unless empty, require that the session has no run with that id and no checkpoint of that
	// step; a store enforces this by unique keys or by a lookup. The id of Checkpoint is unique as well.
	OnceRun, OnceStep string

	// Row is the next row. In a new session's row CreatedAt is open, and Lease.Token counts from the microseconds of
	// that time.
	Row *cairn.Session
	// Checkpoints is the number of the last checkpoint that the session was ever given; it is stored with the row.
	Checkpoints int64
	// LeaseUntil and ArchivedAt are the times of the row's fields Lease.Until and ArchivedAt. If LeaseUntil is Kept, the
	// stored Lease.TTL stays, too.
	LeaseUntil, ArchivedAt Time
	// Due is the row's DueKindOf, and DueAt the time from which it applies; both are stored with the row.
	Due   driver.DueKind
	DueAt Time
	// SweepAt is the time from which a root may have expired; it is stored with the row.
	SweepAt Time
	// Context reports whether the user context or the opening has changed: UserID, Title, Tags, Metadata, ExpiresAt,
	// ArchivedAt, Opening, OpeningAt.
	Context bool
	// DropStop removes the session's stop request if the request is for the run with that id.
	DropStop string

	// Cut, if not nil, is applied before anything is inserted.
	Cut *Cut
	// Initial is the keyframe at position 0 of a new session.
	Initial json.RawMessage
	// Messages are inserted starting at the index FirstMessage.
	FirstMessage int
	Messages     []cairn.Message
	// State, if not nil, is inserted.
	State *StatePiece
	// EndRun updates the run with its ID: all fields except Turn, StartedAt, StartSequence, FirstMessage and Before,
	// see [Delta.Ended]. If RunOver is set, its EndedAt is open.
	EndRun  *cairn.Run
	RunOver bool
	// TextAt, unless 0, is how many messages the session has up to the one with the text of EndRun, which is among
	// Messages. A store may keep this number instead of the text, see [WithoutText]; it then gives the run its text
	// before it cuts that message. The numbers of a session's runs increase with their turns.
	TextAt int
	// StartRun and Checkpoint are inserted.
	StartRun   *cairn.Run
	Checkpoint *cairn.Checkpoint
	// Calls are inserted or updated.
	Calls []Call
	// Enqueue is appended to the queue; Dequeue names queued turns to remove.
	Enqueue *driver.QueuedTurn
	Dequeue []string
	// Cache replaces the entries with the same keys. The entries of CacheDrop are then removed.
	Cache     []driver.CacheEntry
	CacheDrop []string
	// Usage is appended to the usage rows by a store that is a driver.UsageProvider; nil for a commit without usage. Its
	// At is open.
	Usage *cairn.UsageRow
	// DropStaged removes all staged pieces of the session.
	DropStaged bool
	// Statements are executed after everything else is written. A store that executes none has already refused the
	// commit.
	Statements []driver.Statement
	// Events are appended to the log Row.Log() with everything else. They are the commit's own and are not changed: a
	// log stores [Delta.Finished], or copies that [Delta.Finish] has completed. If Fence is set, the row's token
	// becomes the log's token for the session, and lower ones are refused from then on. Unless Beside is set, other
	// rows get the log's position, too: see [Delta.Places].
	Events []cairn.Event
	Fence  bool
	// Beside reports that the events do not belong to the run under way, which continues: the row keeps the place on
	// the log where the run's open step begins.
	Beside bool

	undated  []cairn.Message  // Messages before dating, if some have no time
	finished []cairn.Event    // see Finished
	boxed    []cairn.Event    // the commit's events for the row's outbox
	now      time.Time        // see At
	holders  int64            // number of holders of a new session's lease so far
	made     cairn.Checkpoint // target of Checkpoint
}

// Cut removes the history after a rewind point: the messages from the index Messages on, the state pieces after the
// position State, and the checkpoints with a number above Checkpoint. The piece at State must still exist when the cut
// is written, since pruning does not change the version.
type Cut struct {
	Messages   int
	State      int64
	Checkpoint int64
}

// StatePiece is one position of a session's state.
type StatePiece struct {
	Position int64 `json:"position"`
	Keyframe bool  `json:"keyframe,omitempty"`
	// Data is the whole state, or the operations, as JSON. The sizes on the row count its bytes.
	Data json.RawMessage `json:"data"`
	// Ops are the operations, unless the piece is a keyframe; nil if they must be read from Data, see Changes.
	Ops []cairn.Op `json:"-"`
}

// PieceOf returns the piece at a position for a change of state.
func PieceOf(position int64, change *driver.StateChange) (*StatePiece, error) {
	if change.Keyframe != nil {
		return &StatePiece{Position: position, Keyframe: true, Data: change.Keyframe}, nil
	}
	raw, err := json.Marshal(change.Ops)
	if err != nil {
		return nil, cairn.Errorf(cairn.ErrState, "state: %w", err)
	}
	return &StatePiece{Position: position, Data: raw, Ops: change.Ops}, nil
}

// Changes returns the operations of a piece that is not a keyframe.
func (p *StatePiece) Changes() ([]cairn.Op, error) {
	if p.Ops != nil {
		return p.Ops, nil
	}
	var list []cairn.Op
	if err := json.Unmarshal(p.Data, &list); err != nil {
		return nil, cairn.Errorf(cairn.ErrCorrupt, "decode stored state change: %w", err)
	}
	return list, nil
}

// Call is the row of a pending call. Its key is RootID and ID.
type Call struct {
	Row cairn.PendingCall
	// Seen is a condition: the version of the existing row, which must belong to the same session; 0 requires that no
	// row exists. An existing row keeps its CreatedAt, see [Call.On].
	Seen int64
}

// On returns the row that replaces old, which is nil for a new call.
func (c *Call) On(old *cairn.PendingCall) *cairn.PendingCall {
	row := c.Row
	if old != nil {
		row.CreatedAt = old.CreatedAt
	}
	return &row
}

// Ended returns the run that replaces old when EndRun updates it.
func (d *Delta) Ended(old *cairn.Run) *cairn.Run {
	run := *d.EndRun
	run.Turn, run.StartedAt, run.StartSequence = old.Turn, old.StartedAt, old.StartSequence
	run.FirstMessage, run.Before = old.FirstMessage, old.Before
	return &run
}

// Time is a time that a delta writes. The zero value writes no time.
type Time struct {
	// Kept keeps the stored time, which may have changed since the row was read.
	Kept bool
	// At is a known time; zero for none.
	At time.Time
	// Open selects the store's now + In, or At if that is set and earlier.
	Open bool
	In   time.Duration
}

// On returns the time to write when the store's time is now and the stored time is was.
func (t Time) On(now, was time.Time) time.Time {
	if t.Kept {
		return was
	}
	if !t.Open {
		return t.At
	}
	at := stored(now.Add(t.In))
	if t.At.IsZero() || at.Before(t.At) {
		return at
	}
	return t.At
}

// stored returns a time as stores keep it: in UTC, truncated to microseconds.
func stored(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// micros returns a duration as stores keep it: in whole microseconds.
func micros(d time.Duration) cairn.Duration { return cairn.Duration(d.Truncate(time.Microsecond)) }

// At sets every open time to the store's time now and returns Row, which is the answer to the commit once the delta is
// written. It may be called again with another time. If LeaseUntil is Kept, the row has the lease's end as it was read;
// a store in which the lease may have been renewed since sets the stored end itself.
func (d *Delta) At(now time.Time) *cairn.Session {
	now = stored(now)
	row := d.RowAt(now)
	if d.undated != nil {
		d.Messages = dated(d.undated, now)
	}
	d.now = now
	for i := range d.boxed {
		if d.boxed[i].Time.IsZero() {
			row.Outbox.Events[i].Time = now
		}
	}
	if d.StartRun != nil {
		d.StartRun.StartedAt = now
	}
	if d.RunOver {
		d.EndRun.EndedAt = now
	}
	if d.Usage != nil {
		d.Usage.At = now
	}
	if d.Checkpoint != nil {
		d.Checkpoint.CreatedAt = now
	}
	for i := range d.Calls {
		c := &d.Calls[i]
		c.Row.UpdatedAt = now
		if c.Seen == 0 {
			c.Row.CreatedAt = now
		}
	}
	return row
}

// Places reports whether the row, the checkpoint and the run that begins get their places on the log from where Events
// are appended, see [Delta.Logged].
func (d *Delta) Places() bool { return len(d.Events) > 0 && !d.Beside }

// Finish sets the fields of a copy of one of Events that the commit decides: the row's version, if the event states
// one, and the time of the commit, if it has none. Before [Delta.At] that time is open.
func (d *Delta) Finish(ev *cairn.Event) {
	if ev.Version != 0 {
		ev.Version = d.Row.Version
	}
	if ev.Time.IsZero() {
		ev.Time = d.now
	}
}

// Finished returns copies of Events that are finished. It returns the same ones each time, so that they are copied
// once.
func (d *Delta) Finished() []cairn.Event {
	if d.finished == nil {
		d.finished = slices.Clone(d.Events)
	}
	for i := range d.finished {
		d.finished[i].Time = d.Events[i].Time
		d.Finish(&d.finished[i])
	}
	return d.finished
}

// Logged sets the sequences of the row and the checkpoint, and the place on the log where the run that begins starts.
// before is the sequence of the log's last event before Events. It does nothing unless the delta [Delta.Places]. It may
// be called again.
func (d *Delta) Logged(before int64) {
	if !d.Places() {
		return
	}
	last := before + int64(len(d.Events))
	d.Row.LogSequence = last
	if d.Checkpoint != nil {
		d.Checkpoint.LogSequence = last
	}
	if d.StartRun != nil {
		d.StartRun.StartSequence = before
	}
}

// RowAt is At for only the row, for stores whose server sets all other times.
func (d *Delta) RowAt(now time.Time) *cairn.Session {
	now = stored(now)
	row := d.Row
	row.UpdatedAt, row.AsOf = now, now
	if d.New {
		row.CreatedAt = now
		row.Lease.Token = d.holders + now.UnixMicro()
	}
	row.Lease.Until = d.LeaseUntil.On(now, row.Lease.Until)
	row.ArchivedAt = d.ArchivedAt.On(now, row.ArchivedAt)
	return row
}

// Archived reports whether the next row has an archived session. Its ArchivedAt may still be open.
func (d *Delta) Archived() bool { return d.ArchivedAt.Open || !d.ArchivedAt.At.IsZero() }

// dated sets the time of messages that have none.
func dated(list []cairn.Message, now time.Time) []cairn.Message {
	list = slices.Clone(list)
	for i := range list {
		if list[i].CreatedAt.IsZero() {
			list[i].CreatedAt = now
		}
	}
	return list
}
