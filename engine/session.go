package engine

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/tail"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// Sessions pages through sessions, newest first; archived ones, too, unless q.Archived leaves them out. A page may have
// fewer than the query's limit: a copy for a turn that has not begun, see [KeepReplaced], is left out.
func (e *Engine) Sessions(ctx context.Context, q store.SessionQuery) (store.Page[cairn.Session], error) {
	page, err := e.store.List(ctx, q)
	if err != nil {
		return page, err
	}
	page.Items, err = e.withoutCopies(ctx, page.Items)
	return page, err
}

// Messages returns at most limit messages of a session from index from on; limit 0 means 100.
func (e *Engine) Messages(ctx context.Context, id string, from, limit int) ([]cairn.Message, error) {
	return driver.Messages(ctx, e.store, id, from, limit)
}

// State returns a session's state, as of a checkpoint if checkpointID is not empty.
func (e *Engine) State(ctx context.Context, id, checkpointID string) (json.RawMessage, error) {
	return driver.State(ctx, e.store, id, checkpointID)
}

// Runs pages through a session's runs by turn. For a run under way, steps and usage are as of its last commit.
func (e *Engine) Runs(ctx context.Context, id string, q store.PageQuery) (store.Page[cairn.Run], error) {
	return e.reader.runs(ctx, id, q)
}

// Checkpoints pages through a session's checkpoints in order of writing.
func (e *Engine) Checkpoints(ctx context.Context, id string, q store.PageQuery) (store.Page[cairn.Checkpoint], error) {
	return e.store.Checkpoints(ctx, id, q)
}

// Snapshot is a transcript coupled to a place in the event log. Messages holds everything up to Sequence, and of later
// events only messages whose events have an Index below Session.MessageCount. A reader that shows Messages, and then
// follows the events after Sequence without those, shows each word once. docs/EVENTS.md has the rules. As JSON it is
// the public view, see [Snapshot.Public].
type Snapshot struct {
	// Session is the session's row, as of the last commit.
	Session *cairn.Session `json:"session"`
	// Messages is the whole transcript, including hidden messages; of [Engine.SnapshotFrom], the end of it.
	Messages []cairn.Message `json:"messages"`
	// State is the session's custom state as JSON, of the type of Agent.State.
	State json.RawMessage `json:"state"`
	// Queue holds the queued turns in the order in which they will begin.
	Queue []store.QueuedTurn `json:"queue,omitempty"`
	// Sequence is the place in the event log that belongs to the snapshot: see [Snapshot.Cursor].
	Sequence int64 `json:"sequence"`
}

// Cursor returns the place in the log that belongs to the snapshot.
func (s *Snapshot) Cursor() cairn.Cursor {
	return cairn.Cursor{Incarnation: s.Session.Incarnation, Sequence: s.Sequence}
}

// MarshalJSON implements json.Marshaler.
func (s *Snapshot) MarshalJSON() ([]byte, error) {
	type plain Snapshot
	return json.Marshal(plain(s.Public()))
}

// Public returns the snapshot as the user of the conversation may see it: the public views of its session and messages,
// without hidden messages. Session.MessageCount includes hidden messages: an event of a message with a lower Index
// repeats a message of the snapshot.
func (s *Snapshot) Public() Snapshot {
	out := *s
	if s.Session != nil {
		row := s.Session.Public()
		out.Session = &row
	}
	out.Messages = visible(s.Messages)
	out.Queue = slices.Clone(s.Queue)
	for i := range out.Queue {
		out.Queue[i].TraceParent = ""
		out.Queue[i].Messages = visible(out.Queue[i].Messages)
	}
	return out
}

// visible returns the public views of the messages that are not hidden.
func visible(messages []cairn.Message) []cairn.Message {
	list := make([]cairn.Message, 0, len(messages))
	for i := range messages {
		if m := &messages[i]; !m.Hidden {
			list = append(list, m.Public())
		}
	}
	return list
}

// Snapshot returns a session's transcript and state together with their place in its log. The events after that place
// exist, even if the log was trimmed: a reader that got ErrTrimmed starts again here.
func (e *Engine) Snapshot(ctx context.Context, id string) (*Snapshot, error) {
	return e.SnapshotFrom(ctx, id, 0)
}

// SnapshotFrom is [Engine.Snapshot] with the messages from index from on. It is for readers that show the end of a long
// transcript. A from beyond the transcript gets no messages.
func (e *Engine) SnapshotFrom(ctx context.Context, id string, from int) (*Snapshot, error) {
	if err := cairn.CheckSessionID(id); err != nil {
		return nil, err
	}
	want := driver.ToDrive(from)
	want.Recent, want.Queue = false, true
	snap, err := e.store.Read(ctx, id, want)
	if err != nil {
		return nil, err
	}
	at, err := e.Cursor(ctx, snap.Session)
	if err != nil {
		return nil, err
	}
	return &Snapshot{Session: snap.Session, Messages: snap.Messages, State: snap.State, Queue: turnsOf(snap.Queue), Sequence: at.Sequence}, nil
}

// Cursor returns the place in the log that belongs to a session's row and the messages it counts, as for a [Snapshot].
// It is for readers that show only a part of a long transcript.
func (e *Engine) Cursor(ctx context.Context, row *cairn.Session) (cairn.Cursor, error) {
	first, _, err := e.log.Bounds(ctx, row.Log())
	if err != nil {
		return cairn.Cursor{}, err
	}
	// For trimmed events, the transcript and the status of the row are enough.
	return cairn.Cursor{Incarnation: row.Incarnation, Sequence: max(row.LogSequence, first-1)}, nil
}

// Events yields the events of a session and of the sessions below it after a cursor, past and future, across runs. For
// a root these are the events of the whole tree, for a sub-agent's session only its own part of them. It ends only with
// an error: ctx's when it is done, ErrDeleted or ErrExpired when the session is gone, and ErrClosed when the engine was
// closed. It ends with ErrTrimmed if the log no longer holds the events, see [Engine.Snapshot], and at once with
// ErrDeleted if the cursor belongs to an earlier session of that id.
func (e *Engine) Events(ctx context.Context, id string, after cairn.Cursor) iter.Seq2[cairn.Event, error] {
	return func(yield func(cairn.Event, error) bool) {
		row, err := e.at(ctx, id, after)
		if err != nil {
			tail.Fail(yield, err)
			return
		}
		e.reader.follow(ctx, id, row.RootID, row.Incarnation, after.Sequence)(yield)
	}
}

// at returns a session's row, or an error if a cursor belongs to an earlier session of that id.
func (e *Engine) at(ctx context.Context, id string, after cairn.Cursor) (*cairn.Session, error) {
	row, err := e.Session(ctx, id)
	if err == nil && after.Incarnation != "" && after.Incarnation != row.Incarnation {
		err = cairn.Errorf(cairn.ErrDeleted, "session %q: cursor %s belongs to a deleted session with this id", id, after)
	}
	return row, err
}

// History returns at most limit of the events that Events yields after a cursor, without waiting for more; limit 0
// means 1000. Fewer mean that there are no more. It returns the same errors as Events.
func (e *Engine) History(ctx context.Context, id string, after cairn.Cursor, limit int) ([]cairn.Event, error) {
	row, err := e.at(ctx, id, after)
	if err != nil {
		return nil, err
	}
	if limit == 0 {
		limit = historyLimit
	}
	size := limit
	if id != row.RootID { // most of the log may be of other sessions
		size = max(size, historyLimit)
	}
	own := e.reader.within(id, row.RootID)
	var list []cairn.Event
	for len(list) < limit {
		page, err := e.log.Read(ctx, row.Log(), after.Sequence, size)
		if err != nil {
			return nil, err
		}
		list = slices.Grow(list, min(len(page), limit))
		for _, ev := range page { // a copy: readers of one log in one process may share it
			after.Sequence, ev.Incarnation = ev.Sequence, row.Incarnation
			mine := true
			if own != nil {
				if mine, err = own(ctx, ev.Type, ev.SessionID); err != nil {
					return nil, err
				}
			}
			if mine && len(list) < limit {
				list = append(list, ev)
			}
		}
		if len(page) < size {
			break
		}
	}
	return list, nil
}

// historyLimit is how many events History returns if the caller does not say.
const historyLimit = 1000

// AddContext adds hidden messages to a session, whether or not it is running. A chat does not show them. The transcript
// keeps the order in which the model saw it. A run under way appends the messages behind its step, with the step's
// commit and regardless of the agent's durability. So the model reads them from its next call on, and the provider's
// cached prefix stays valid. They are durable when AddContext returns, and on the transcript and the event log once
// that commit is made. Until then they are an entry of the session's queue: the error is ErrQueueFull if that has no
// room, see [Options.MaxQueue].
func (e *Engine) AddContext(ctx context.Context, id string, texts ...string) error {
	if err := cairn.CheckSessionID(id); err != nil {
		return err
	}
	in := cairn.Input{}
	for _, text := range texts {
		m := cairn.Context(text)
		m.ID = e.opts.NewID("msg")
		in.Messages = append(in.Messages, m)
	}
	if err := in.Validate(); err != nil {
		return err
	}
	_, err := e.runs.Change(ctx, id, func(row *cairn.Session) (*driver.Commit, error) {
		return e.addition(row, in.Messages)
	})
	return err
}

// ClearTaint ends the taint of a session, see [cairn.Step.Taint]: a person has found the untrusted text harmless. It adds a
// hidden message with the notes, as AddContext does. A session that is not tainted gets it as well.
func (e *Engine) ClearTaint(ctx context.Context, id, notes string) error {
	if err := cairn.CheckSessionID(id); err != nil {
		return err
	}
	m := cairn.Context(notes)
	m.ID, m.Trust = e.opts.NewID("msg"), cairn.TrustCleared
	in := cairn.Input{Messages: []cairn.Message{m}}
	if notes == "" {
		return cairn.Invalid("notes", "is empty")
	}
	if err := in.Validate(); err != nil {
		return err
	}
	_, err := e.runs.Change(ctx, id, func(row *cairn.Session) (*driver.Commit, error) {
		return e.addition(row, in.Messages)
	})
	return err
}

// Rewind takes a session that is not running back to one of its checkpoints: later messages, state and checkpoints are
// gone, its runs and events stay. It cancels the session's pending calls first. Within a turn the session is then
// interrupted, and Resume continues from there; at the end of a completed turn it is completed, as it was then. Execute
// begins a new turn there. The error is ErrNotFound for a checkpoint that is not the session's, ErrAlreadyRunning while
// a run holds the session.
func (e *Engine) Rewind(ctx context.Context, id, checkpointID string) (*cairn.Session, error) {
	if err := cairn.CheckSessionID(id); err != nil {
		return nil, err
	}
	if checkpointID == "" {
		return nil, cairn.Invalid("checkpoint", "id is empty")
	}
	if _, err := driver.FindCheckpoint(ctx, e.store, id, checkpointID); err != nil {
		return nil, err
	}
	for {
		row, err := e.rewind(ctx, id, checkpointID)
		if !errors.Is(err, errSuspended) {
			return row, err
		}
		if row, err = driver.Load(ctx, e.store, id); err != nil {
			return nil, err
		}
		err = e.stopOne(ctx, row, &cairn.Stop{RunID: row.RunID, Kind: cairn.StopInterrupt, Reason: "the session was rewound"}, true)
		if err != nil && !errors.Is(err, cairn.ErrNotRunning) {
			return nil, err
		}
	}
}

// errSuspended says that a session has pending calls that must be cancelled first.
var errSuspended = errors.New("the session is suspended")

// rewind takes a session that is at rest back. The error is errSuspended if it was suspended in the meantime.
func (e *Engine) rewind(ctx context.Context, id, checkpointID string) (*cairn.Session, error) {
	var before *cairn.Session
	row, err := e.runs.Change(ctx, id, func(row *cairn.Session) (*driver.Commit, error) {
		before = row
		if row.Status == cairn.SessionPaused {
			return nil, errSuspended
		}
		cp, err := driver.FindCheckpoint(ctx, e.store, id, checkpointID)
		if err != nil {
			return nil, err
		}
		c, err := driver.RewindTo(ctx, e.store, id, cp)
		if err != nil {
			return nil, err
		}
		c.Events = []cairn.Event{lifecycle.Rewound(cairn.Event{CheckpointID: checkpointID, MessageCount: cp.MessageCount})}
		return c, nil
	})
	if err == nil {
		e.dropCopy(ctx, before)
	}
	return row, err
}

// Prune removes all but the newest keep checkpoints of a session and returns how many it removed.
func (e *Engine) Prune(ctx context.Context, id string, keep int) (int, error) {
	return e.store.Prune(ctx, id, keep)
}
