package engine

import (
	"time"

	"github.com/cairn-agents/cairn"
)

// RunOption adds to an Execute, Resume or Retry. One that the verb cannot honour is refused with ErrInvalid, which names it.
type RunOption func(*runOptions)

type runOptions struct {
	// created are the names of the options that say what a session is like that Execute creates.
	created    []string
	create     cairn.Session
	hooks      *cairn.Hooks
	input      *cairn.Input
	checkpoint string
	model      *string
	from       *int
	busy       OnBusy
	waiting    OnWaiting
	runID      string
}

// ofCreation is an option that says what a session is like that Execute creates.
func ofCreation(name string, set func(*cairn.Session)) RunOption {
	return func(o *runOptions) {
		o.created = append(o.created, name)
		set(&o.create)
	}
}

// WithUser says whose a session is that Execute creates. One that is there stays whose it is.
func WithUser(id string) RunOption {
	return ofCreation("WithUser", func(s *cairn.Session) { s.UserID = id })
}

// WithTags gives tags to a session that Execute creates. One that is there keeps its own.
func WithTags(tags ...string) RunOption {
	return ofCreation("WithTags", func(s *cairn.Session) { s.Tags = tags })
}

// WithMetadata gives metadata to a session that Execute creates.
func WithMetadata(metadata map[string]string) RunOption {
	return ofCreation("WithMetadata", func(s *cairn.Session) { s.Metadata = metadata })
}

// WithTraceParent puts a session that Execute creates into a W3C trace.
func WithTraceParent(traceParent string) RunOption {
	return ofCreation("WithTraceParent", func(s *cairn.Session) { s.TraceParent = traceParent })
}

// WithExpiry makes a session that Execute creates expire at a time, if it is not idle for too long before: see
// [cairn.Session.Expiry].
func WithExpiry(at time.Time) RunOption {
	return ofCreation("WithExpiry", func(s *cairn.Session) { s.ExpiresAt = at })
}

// WithHooks adds hooks for this run, called after the engine's and the agent's. They are not stored: a process that
// takes the run over does not have them. So a turn that has to be queued, see [BusyEnqueue] and [WithOnWaiting], cannot
// have any: the error is ErrInvalid.
func WithHooks(h *cairn.Hooks) RunOption { return func(o *runOptions) { o.hooks = h } }

// WithInput gives a Resume or Retry something new to say to the model first.
func WithInput(in cairn.Input) RunOption { return func(o *runOptions) { o.input = &in } }

// WithModel has the run ask the one of [cairn.Agent].Models that has the name, or Agent.Model for an empty one. It is stored
// with the run, and with a queued turn; messages that may join the turn under way, see [BusySteer], cannot have one. A
// Resume or Retry without it asks the model of the run that it continues; any other turn asks Agent.Model, as do the runs
// of sub-agents. A Resume with it of a session whose process died ends the dead run and begins another. The error is
// ErrInvalid for a name that the agent does not have. Should the agent have lost the name since, its own model is asked.
func WithModel(name string) RunOption { return func(o *runOptions) { o.model = &name } }

// FromCheckpoint makes Resume go back to one of the session's checkpoints first, as [Engine.Rewind] does.
func FromCheckpoint(id string) RunOption { return func(o *runOptions) { o.checkpoint = id } }

// FromMessage makes Execute go back first to before one of the session's messages, with which a turn began, and start the
// turn there in the same write: a page lets its user say something else, or have the answer made again. n is the message's
// index. What came after it is gone from the session; the records of its runs and their events stay, and checkpoints before
// it do. What the session waits for is closed as not executed. The error of Execute is ErrInvalid if no turn began with
// message n, or if the checkpoint before it was pruned. Such a turn cannot be queued.
func FromMessage(n int) RunOption { return func(o *runOptions) { o.from = &n } }

func options(list []RunOption) *runOptions {
	o := &runOptions{}
	for _, opt := range list {
		opt(o)
	}
	return o
}

// storable refuses what cannot be kept with a turn that is queued.
func (o *runOptions) storable() error {
	if o.hooks != nil {
		return cairn.Invalid("options", "WithHooks: hooks are not stored, so a turn that is queued cannot have them")
	}
	if o.from != nil {
		return cairn.Invalid("options", "FromMessage: a turn that takes the place of another one cannot be queued")
	}
	return nil
}

// WithRunID names the run and makes an Execute, Resume or Retry idempotent: if the session has had a run of that id, has it
// queued, or had its messages join another run, see [BusySteer], that is returned and nothing else is done. It holds in any
// process, and for calls at the same time. No other run of any session may have the id. A Resume that takes over a run whose
// process died keeps that run's id. The error is ErrInvalid for an id that breaks the rules of [cairn.CheckSessionID].
func WithRunID(id string) RunOption { return func(o *runOptions) { o.runID = id } }

// OnBusy says what Execute does while another run holds the session.
type OnBusy int

const (
	// BusyReject refuses with ErrAlreadyRunning. The default.
	BusyReject OnBusy = iota
	// BusyEnqueue keeps the turn in the store and begins it when the turns before it have come to their end. A session that
	// waits for people is not busy, see [WithOnWaiting], and while it waits the queue does. The process that drives the
	// turn before begins it; if that dies a worker does.
	BusyEnqueue
	// BusyInterrupt stops the run as [Engine.Interrupt] does, keeping what was committed, and begins the turn.
	BusyInterrupt
	// BusyRollback stops the run, undoes what it did to the session's messages and state, and begins the turn. What its
	// tools did to the world stays, and so does the record of the run. A run that came to its end in time is kept.
	BusyRollback
	// BusySteer has the messages join the turn under way: they are kept in the store, and the model reads them at the next
	// step that begins after its results are committed. If the turn ends first they become the next turn, before others
	// that are queued. A wait for people does not end the turn. The Run that is returned is the one under way until that
	// has ended without the messages, and the next turn's from then on, see [Run.Wait].
	BusySteer
)

// WithOnBusy says what Execute does while another run holds the session.
func WithOnBusy(b OnBusy) RunOption { return func(o *runOptions) { o.busy = b } }

// OnWaiting says what Execute does while the session waits for calls that nobody has answered yet.
type OnWaiting int

const (
	// WaitingRefuse refuses with ErrWaiting, which names the open calls. The default.
	WaitingRefuse OnWaiting = iota
	// WaitingWithdraw closes the open calls as not executed. If none was answered the run that waited is over, and the
	// turn begins at once. Otherwise the answers count: the run that waited is resumed with them, its approved tools run,
	// and the turn follows it from the queue. Open calls of sub-agents that the session waits for are closed as well.
	WaitingWithdraw
	// WaitingEnqueue keeps the turn in the store, as [BusyEnqueue] does, and begins it when the wait is over and the run
	// that waited has come to its end.
	WaitingEnqueue
)

// WithOnWaiting says what Execute does while the session waits for calls that nobody has answered yet. On a session whose
// calls are all answered it says nothing: the run that waited is resumed first, see [Engine.Execute].
func WithOnWaiting(w OnWaiting) RunOption { return func(o *runOptions) { o.waiting = w } }

// placeable refuses what a turn in the place of another one cannot honour.
func (o *runOptions) placeable() error {
	switch {
	case *o.from < 0:
		return cairn.Invalid("options", "FromMessage: %d is negative", *o.from)
	case o.busy != BusyReject && o.busy != BusyInterrupt:
		return cairn.Invalid("options", "WithOnBusy: with FromMessage a turn under way is refused or interrupted")
	case o.waiting != WaitingRefuse:
		return cairn.Invalid("options", "WithOnWaiting: FromMessage closes what the session waits for")
	}
	return nil
}
