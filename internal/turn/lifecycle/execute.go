package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/store/driver"
)

// Turn asks for the next turn of a session.
type Turn struct {
	NewRun
	// Agent is the agent's name. It may be empty for a session that exists.
	Agent string
	// Create is the context of the session, which is created if it does not exist. Nil means that it must exist.
	Create *cairn.Session
	// State is the state of a session that is created; empty for the agent's initial one.
	State json.RawMessage
	// Dequeue lists the queued turns that this turn removes from the session's queue.
	Dequeue []string
	// Withdraw allows the turn to cancel the session's wait if no call has been answered. The open calls are closed as
	// not executed.
	Withdraw bool
	// Once, if not empty, is the id of a message of the user: if the last turn of an existing session has it, or its
	// queue, the turn is not begun, and the error is a RepeatedError.
	Once string
	// Seen, if not empty, is a run of the session: if its messages are no longer part of the transcript, the turn is not
	// begun, and the error is ErrOutdated.
	Seen string
	// RolledBack are the tools that runs had called which were undone for this turn.
	RolledBack []string
}

// Execute begins the next turn in one write, which takes the lease, records the run and adds its messages. It reads
// nothing if this process drove the session last.
func (r *Runs) Execute(ctx context.Context, in Turn) (turn.Begun, error) {
	var create func() (*session.Live, error)
	if in.Create != nil {
		create = func() (*session.Live, error) { return r.create(ctx, in) }
	}
	return r.begin(ctx, &in.NewRun, func(l *session.Live, cached bool) error { return r.execute(ctx, l, in, cached) }, create)
}

func (r *Runs) execute(ctx context.Context, l *session.Live, in Turn, cached bool) error {
	b, err := r.admitTurn(ctx, l, &in, cached)
	if err != nil {
		return err
	}
	if err := r.endWaitFirst(ctx, b); err != nil {
		return err
	}
	if err := r.draft(ctx, b); err != nil {
		return err
	}
	b.commit.Dequeue, b.commit.StartRun.RolledBack = in.Dequeue, in.RolledBack
	return r.commence(ctx, b)
}

// commence commits the drafted run in place of the session's wait, if there is one, and begins it.
func (r *Runs) commence(ctx context.Context, b *beginning) error {
	if err := r.cancelWait(ctx, b); err != nil {
		return err
	}
	if err := r.write(ctx, b); err != nil {
		return err
	}
	r.closePast(ctx, b)
	r.started(ctx, b)
	return nil
}

// admitTurn admits a turn unless a run holds the session, or it is paused and the turn may not withdraw its calls. It
// admits a turn to a session whose wait is being ended.
func (r *Runs) admitTurn(ctx context.Context, l *session.Live, in *Turn, cached bool) (*beginning, error) {
	if err := in.mayBegin(l.Row); err != nil {
		return nil, err
	}
	if err := r.checkNext(ctx, &held{row: l.Row, first: l.First(), messages: l.Messages, run: l.Run, cached: cached}, in); err != nil {
		return nil, err
	}
	b, err := r.admit(ctx, l, &in.NewRun, in.Agent, cairn.RunExecute)
	if err != nil {
		return nil, err
	}
	if !in.Child && b.row.Status == cairn.SessionPaused && b.row.Ending == nil && (!in.Withdraw || slices.ContainsFunc(l.Calls(), answered)) {
		return nil, driver.Conflict(cairn.ErrWaiting, b.row, "session %q is waiting for answers or has unused ones", b.row.ID)
	}
	return b, nil
}

// endWaitFirst ends the sub-agents of the paused session in whose place of the wait a turn begins. If the process dies
// before the turn has begun, the next turn begins in its place, or a worker ends the wait. If the wait is being ended by
// another stop, endWaitFirst continues that; the error is then ErrStale, and the begin is repeated on the session that
// is left.
func (r *Runs) endWaitFirst(ctx context.Context, b *beginning) error {
	row := b.row
	switch {
	case row.Status != cairn.SessionPaused:
		return nil
	case row.Ending != nil && *row.Ending != continuing(row):
		if err := r.CancelWait(ctx, row.ID, *row.Ending); err != nil && !errors.Is(err, cairn.ErrNotRunning) {
			return err
		}
		return driver.Conflict(cairn.ErrStale, row, "session %q has changed: its wait has ended", row.ID)
	}
	row, err := r.endBelow(ctx, row, continuing(row), Leaving)
	if err != nil || row.Ending == nil {
		return err
	}
	b.live.Sees(row, r.Now())
	b.row = row
	return nil
}

// continuing returns the stop of a session's wait that ends because a turn begins in its place. Its time is that of the
// recorded stop, if there is one.
func continuing(row *cairn.Session) cairn.Stop {
	stop := cairn.Stop{RunID: row.RunID, Kind: cairn.StopInterrupt, Reason: ReasonContinued}
	if row.Ending != nil {
		stop.At = row.Ending.At
	}
	return stop
}

// cancelWait adds to the commit that begins a run what cancels the session's wait, ahead of the run's own messages.
func (r *Runs) cancelWait(ctx context.Context, b *beginning) error {
	if b.row.SuspendedStep == "" {
		return nil
	}
	own := b.commit.Messages
	b.commit.Messages = nil
	if err := r.CancelCalls(ctx, b.commit, b.row, b.live.Messages, b.live.Calls(), ReasonContinued); err != nil {
		return err
	}
	b.commit.Messages = append(b.commit.Messages, own...)
	return nil
}

// Create begins the first run of a session that does not exist. It returns ErrExists if the session exists.
func (r *Runs) Create(ctx context.Context, in Turn) (turn.Begun, error) {
	defer r.Cache.Expect(in.SessionID, in.RunID)()
	l, err := r.create(ctx, in)
	return r.part(ctx, l, err)
}

func (r *Runs) create(ctx context.Context, in Turn) (*session.Live, error) {
	b := &beginning{NewRun: &in.NewRun, kind: cairn.RunExecute, agent: in.Known}
	var err error
	if b.agent == nil {
		if b.agent, err = r.Agent(in.Agent, ""); err != nil {
			return nil, err
		}
	}
	c := r.first(b, in.Agent, in.Messages, in.LogLast)
	c.Guard, c.Create, c.Dequeue, c.StartRun.RolledBack = driver.Guard{New: true}, in.Create, in.Dequeue, in.RolledBack
	if c.StartRun.Model, err = r.chooseModel(ctx, b); err != nil {
		return nil, err
	}
	if c.InitialState = in.State; b.agent.State != nil && len(in.State) == 0 {
		c.InitialState = b.agent.State.Initial()
	}
	b.commit = c
	c.Events = r.begins(b, &cairn.Session{ID: in.SessionID, Agent: in.Agent}, 0)
	row, err := r.commitBegin(ctx, in.SessionID, nil, c)
	if errors.Is(err, cairn.ErrAlreadyRunning) {
		return nil, driver.Conflict(cairn.ErrExists, driver.Seen(err), "session %q already exists", in.SessionID)
	}
	if err != nil {
		return nil, err
	}
	if row.Version != 1 { // the session was made by a commit of this run whose answer was lost, and has changed since
		return nil, driver.Conflict(cairn.ErrExists, row, "session %q already exists", in.SessionID)
	}
	session.Dated(c.Messages, row)
	messages := append(make([]cairn.Message, 0, max(4, len(c.Messages))), c.Messages...)
	l, err := session.New(&driver.Contents{Session: row, State: c.InitialState, Messages: messages}, r.Now())
	if err != nil {
		return nil, err
	}
	b.live = l
	r.started(ctx, b)
	return l, nil
}

// Replace begins a turn in place of an earlier run. The same write rewinds the session to where that run began, so a
// crash leaves both done or neither. The session must be neither active nor paused, and must have the version seen
// unless that is 0.
func (r *Runs) Replace(ctx context.Context, in Turn, replaced string, seen int64) (turn.Begun, error) {
	defer r.Cache.Expect(in.SessionID, in.RunID)()
	l, err := r.replace(ctx, in, replaced, seen)
	return r.part(ctx, l, err)
}

func (r *Runs) replace(ctx context.Context, in Turn, replacedID string, seen int64) (*session.Live, error) {
	l, err := r.read(ctx, in.SessionID, nil)
	if err != nil {
		return nil, err
	}
	b, err := r.admitTurn(ctx, l, &in, false)
	if err != nil {
		return nil, err
	}
	row := b.row
	if row.SuspendedStep != "" || seen != 0 && seen != row.Version {
		return nil, driver.Conflict(cairn.ErrStale, row, "session %q has changed", row.ID)
	}
	replaced, err := driver.FindRun(ctx, r.Store, row.ID, replacedID)
	if err != nil {
		return nil, err
	}
	messages := in.Messages
	switch closing, err := r.closingAt(ctx, l, replaced.FirstMessage); {
	case err != nil:
		return nil, err
	case closing != nil:
		messages = append([]cairn.Message{*closing}, messages...)
	}
	c := r.first(b, row.Agent, messages, max(row.LogSequence, in.LogLast))
	if c.StartRun.Model, err = r.chooseModel(ctx, b); err != nil {
		return nil, err
	}
	c.Guard = driver.Guard{Token: row.Lease.Token, Version: row.Version, Idle: true}
	c.RewindRun, c.DropStaged, c.Dequeue = replacedID, true, in.Dequeue
	b.commit = c
	c.Events = append(r.Marks(row, "", Rewound(cairn.Event{RunID: replacedID, MessageCount: replaced.FirstMessage})), r.begins(b, row, replaced.FirstMessage)...)
	if _, err := r.commitBegin(ctx, row.ID, row, c); err != nil {
		return nil, err
	}
	if l, err = r.read(ctx, row.ID, nil); err != nil {
		return nil, err // the run's lease lapses, and a worker takes the run over
	}
	b.live = l
	r.started(ctx, b)
	return l, nil
}

// closingAt returns the message that closes the calls that are open after a session's first n messages; nil if there
// are none. The run that closed them may be the one that is replaced.
func (r *Runs) closingAt(ctx context.Context, l *session.Live, n int) (*cairn.Message, error) {
	if n > l.First() {
		return transcript.Closing(l.Messages[:min(n-l.First(), len(l.Messages))]), nil
	}
	var before []cairn.Message // covered by a summary; back to the last reply
	for isReply := func(m cairn.Message) bool { return m.Role == cairn.RoleAssistant }; n > 0 && !slices.ContainsFunc(before, isReply); {
		size := min(n, 100)
		page, err := driver.Messages(ctx, r.Store, l.Row.ID, n-size, size)
		if err != nil {
			return nil, err
		}
		n -= size
		before = append(page, before...)
	}
	return transcript.Closing(before), nil
}
