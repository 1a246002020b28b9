package engine

import (
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
)

// RunOption is an option of Execute, Resume or Retry. An option that the verb does not support is refused with
// ErrInvalid, which names it.
type RunOption func(*runOptions)

type runOptions struct {
	// created holds the names of the options that describe a session that Execute creates.
	created    []string
	create     cairn.Session
	state      any // of a session that Execute creates, if stated
	stated     bool
	hooks      *cairn.Hooks
	input      *cairn.Input
	checkpoint string
	paused     bool
	model      *string
	from       *int
	keep       bool
	busy       OnBusy
	waiting    OnWaiting
	runID      string
	fresh      bool // see OnlyNew
	once       bool
	seen       string
	// user is set if WithUser names create.UserID, and anyOwner if that user may act for others.
	user, anyOwner bool
}

// owner returns the user that an existing session must belong to; nil for any.
func (o *runOptions) owner() *string {
	if !o.user || o.anyOwner {
		return nil
	}
	return &o.create.UserID
}

// mayUse returns ErrNotFound if the options name a user and the session is not that user's.
func (o *runOptions) mayUse(row *cairn.Session) error {
	return lifecycle.CheckOwner(row, o.owner())
}

// ofCreation returns an option that describes a session that Execute creates.
func ofCreation(name string, set func(*cairn.Session)) RunOption {
	return func(o *runOptions) {
		o.created = append(o.created, name)
		set(&o.create)
	}
}

// WithUser names the user for whom Execute, Resume, Retry or Create acts. A session that the verb creates belongs to
// that user. An existing session must belong to that user. Otherwise nothing happens, and the error is ErrNotFound, as
// for a session that does not exist: an id that comes from a client cannot reach the session of another user. A session
// without a user belongs to the empty name only. See [ActForOwner].
//
// For a tenant's session, the name belongs to a user of the tenant: see [cairn.InTenant]. The error is ErrInvalid for a
// user of another tenant.
func WithUser(id string) RunOption {
	return func(o *runOptions) { o.create.UserID, o.user = id, true }
}

// ActForOwner lets the user of [WithUser] act on an existing session of any user, for that session's owner, who stays
// the same. It is for callers that have checked the user's right to do so, such as a support desk.
func ActForOwner() RunOption { return func(o *runOptions) { o.anyOwner = true } }

// WithTags sets the tags of a session that Execute creates. An existing session keeps its tags.
func WithTags(tags ...string) RunOption {
	return ofCreation("WithTags", func(s *cairn.Session) { s.Tags = tags })
}

// WithMetadata sets the metadata of a session that Execute creates: a [cairn.Metadata], or a map with values of one
// type, such as a map[string]string.
func WithMetadata[V any](metadata map[string]V) RunOption {
	return ofCreation("WithMetadata", func(s *cairn.Session) {
		s.Metadata = make(cairn.Metadata, len(metadata))
		for key, value := range metadata {
			s.Metadata[key] = value
		}
	})
}

// WithTraceParent makes the turn that Execute begins, and a session that it creates, part of a W3C trace: traceParent is
// the caller's traceparent. Package traces then exports the turn as part of that trace, if the caller has sampled it.
func WithTraceParent(traceParent string) RunOption {
	return ofCreation("WithTraceParent", func(s *cairn.Session) { s.TraceParent = traceParent })
}

// WithThread makes a session that Execute or Create creates one of the sessions of a thread, instead of the first of
// its own: see [cairn.Session.ThreadID] and [Engine.Thread]. For a tenant's session, the id belongs to a thread of the
// tenant. The error is ErrInvalid for an id that breaks the rules of [cairn.CheckSessionID] or has another tenant.
func WithThread(id string) RunOption {
	return ofCreation("WithThread", func(s *cairn.Session) { s.ThreadID = id })
}

// WithDepth sets the depth of a session that Execute creates for an agent of another server: the depth of the session
// there that it represents, see [cairn.Session]. So agents that consult each other in a cycle of servers come to the
// limit of one of them. The error is ErrTooLarge for more than Options.MaxDepth, and ErrInvalid for a number that is
// negative or above 1,000.
func WithDepth(n int) RunOption {
	return ofCreation("WithDepth", func(s *cairn.Session) { s.Depth = n })
}

// WithExpiry sets when a session that Execute creates expires, unless it has been idle for too long before: see
// [cairn.Session.Expiry].
func WithExpiry(at time.Time) RunOption {
	return ofCreation("WithExpiry", func(s *cairn.Session) { s.ExpiresAt = at })
}

// WithState sets the initial state of a session that Execute or Create creates, instead of the agent's: a value of the
// agent's state type, or its JSON as a json.RawMessage. An existing session keeps its state, see [Engine.SetState]. For
// a state that does not fit, it returns the same errors as SetState.
func WithState(state any) RunOption {
	return func(o *runOptions) {
		ofCreation("WithState", func(*cairn.Session) {})(o)
		o.state, o.stated = state, true
	}
}

// WithHooks adds hooks for this run, called after the engine's and the agent's. They are not stored: a process that
// takes the run over does not have them. Therefore a turn that has to be queued, see [BusyEnqueue] and [WithOnWaiting],
// cannot have any: the error is ErrInvalid, or ErrAlreadyRunning while the run of a process that died is driven to its
// end.
func WithHooks(h *cairn.Hooks) RunOption { return func(o *runOptions) { o.hooks = h } }

// WithInput gives a Resume or Retry new messages, which the model reads first.
func WithInput(in cairn.Input) RunOption { return func(o *runOptions) { o.input = &in } }

// WithModel selects the model of the run: the entry of [cairn.Agent].Models with that name, or Agent.Model if the name
// is empty. It is stored with the run, and with a queued turn; messages that may join the turn under way, see
// [BusySteer], cannot have one. A Resume or Retry without it uses the model of the run that it continues; any other
// turn uses Agent.Model, as do the runs of sub-agents. A Resume with it of a session whose process died stops the dead
// run as [Engine.Interrupt] does and begins another. The error is ErrInvalid for a name that the agent does not have.
// If the agent has lost the name since, Agent.Model is used.
func WithModel(name string) RunOption { return func(o *runOptions) { o.model = &name } }

// FromCheckpoint makes Resume first rewind to one of the session's checkpoints, as [Engine.Rewind] does.
func FromCheckpoint(id string) RunOption { return func(o *runOptions) { o.checkpoint = id } }

// OnlyPaused makes Resume continue nothing but a session that waits for answers and has them all. It is refused with
// ErrNotRunning if the session was stopped or has ended in the meantime.
func OnlyPaused() RunOption { return func(o *runOptions) { o.paused = true } }

// FromMessage makes Execute first go back to before message n of the session, with which a turn began, and begin the
// new turn there in the same write. It lets a user rephrase a message, or have the answer made again. n is the
// message's index. Everything from there on is gone from the session; the records and events of its runs stay, and so
// do earlier checkpoints. Calls that the session waits for are closed as not executed. The error of Execute is
// ErrInvalid if no turn began with message n, or if the checkpoint before it was pruned. Such a turn cannot be queued.
func FromMessage(n int) RunOption { return func(o *runOptions) { o.from = &n } }

// KeepReplaced makes FromMessage keep the messages that it removes: the session's transcript and state before the
// change go to a session of kind [cairn.ChildReplaced] below it, which lives and is deleted with it. A query with
// store.SessionQuery.ParentID lists these. Each copies the messages. They do not count against Options.MaxTreeSessions;
// Options.MaxReplaced limits them. The copy is listed from the write on that begins the new turn: if the process dies
// before, or the turn is refused, there is none.
func KeepReplaced() RunOption { return func(o *runOptions) { o.keep = true } }

func options(list []RunOption) *runOptions {
	o := &runOptions{}
	for _, opt := range list {
		opt(o)
	}
	return o
}

// storable refuses options that cannot be stored with a queued turn.
func (o *runOptions) storable() error {
	if o.hooks != nil {
		return cairn.Invalid("options", "WithHooks: queued turns cannot have hooks, which are not stored")
	}
	if o.from != nil {
		return cairn.Invalid("options", "FromMessage: a turn that replaces another cannot be queued")
	}
	return nil
}

// WithRunID names the run and makes an Execute, Resume or Retry idempotent. The call returns an existing run, and does
// nothing else, if the session has had a run of that id, has it queued, or had its messages join another run, see
// [BusySteer]. This holds across processes and for concurrent calls. Runs of different sessions may have one id. A
// Resume that takes over a run whose process died keeps that run's id. The error is ErrInvalid for an id that breaks
// the rules of [cairn.CheckSessionID].
func WithRunID(id string) RunOption { return func(o *runOptions) { o.runID = id } }

// OnlyNew makes Execute begin nothing but the first turn of a session that does not exist. It reads nothing first: one
// write creates the session and begins its turn. Exactly one of several concurrent callers succeeds; for the others,
// and for a session that exists, the error is ErrExists. It is ErrDeleted or ErrExpired while a removed session
// reserves the id. With [WithRunID], a repeated call returns the run that the first one began.
func OnlyNew() RunOption { return func(o *runOptions) { o.fresh = true } }

// OncePerMessage makes Execute idempotent by the id of its first message, which the caller sets. If the last turn of
// the session, or a queued one, has a message of the user with that id, the call begins nothing. It returns the Run of
// that turn, see [Run.Found]. It is for clients that repeat their requests. It works across processes and for
// concurrent calls, and costs no read unless a summary replaces a part of the last turn. Earlier turns do not count: a
// message that is sent again after a rewind begins a turn.
func OncePerMessage() RunOption { return func(o *runOptions) { o.once = true } }

// HavingSeen names a run of an earlier turn of the session that the caller has seen. The error is ErrOutdated, and
// nothing happens, if the messages of that run are no longer part of the transcript when Execute would begin the turn
// or queue it: another caller has replaced them or rewound the session. A run that the session never had is accepted:
// it may be of another session of the thread. An empty id adds no condition.
func HavingSeen(runID string) RunOption { return func(o *runOptions) { o.seen = runID } }

// follows returns the message that a turn with an input must not repeat, and the run that it must follow; empty for
// any.
func (o *runOptions) follows(in *cairn.Input) (once, seen string) {
	if o.once {
		once = in.Messages[0].ID
	}
	return once, o.seen
}

// expects returns the name of an option that says what Execute has to find, or empty.
func (o *runOptions) expects() string {
	switch {
	case o.fresh:
		return "OnlyNew"
	case o.once:
		return "OncePerMessage"
	case o.seen != "":
		return "HavingSeen"
	}
	return ""
}

// OnBusy is the behaviour of Execute while another run holds the session.
type OnBusy int

const (
	// BusyReject refuses with ErrAlreadyRunning. The default.
	BusyReject OnBusy = iota
	// BusyEnqueue keeps the turn in the store and begins it when the turns before it have ended. A session that waits
	// for people is not busy, see [WithOnWaiting]; while it waits, the queue waits too. The process that drives the
	// previous turn begins it; if that process dies, a worker does.
	BusyEnqueue
	// BusyInterrupt stops the run as [Engine.Interrupt] does, keeping its commits, and begins the turn.
	BusyInterrupt
	// BusyRollback stops the run, undoes its changes of the session's messages and state, and begins the turn. Effects
	// of its tools on the outside world stay, and so does the run's record; [cairn.Run].RolledBack of the new run names
	// those tools. A run that ended in time is kept.
	BusyRollback
	// BusySteer makes the messages join the turn under way: they are kept in the store, and the model reads them at the
	// next step that begins after its results are committed. If the turn ends first, they become the next turn, ahead
	// of other queued turns. A wait for people does not end the turn. The returned Run is the one under way until that
	// has ended without the messages, and the next turn's from then on, see [Run.Wait].
	BusySteer
)

// WithOnBusy sets the behaviour of Execute while another run holds the session.
func WithOnBusy(b OnBusy) RunOption { return func(o *runOptions) { o.busy = b } }

// OnWaiting is the behaviour of Execute while the session waits for calls that are still open.
type OnWaiting int

const (
	// WaitingRefuse refuses with ErrWaiting, which names the open calls. The default.
	WaitingRefuse OnWaiting = iota
	// WaitingWithdraw closes the open calls as not executed. If none was answered, the suspended run ends, and the turn
	// begins at once. Otherwise the answers count: the suspended run is resumed with them, its approved tools run, and
	// the turn follows from the queue. Open calls of sub-agents that the session waits for are closed as well.
	WaitingWithdraw
	// WaitingEnqueue keeps the turn in the store, as [BusyEnqueue] does, and begins it when the wait is over and the
	// run that was suspended has ended.
	WaitingEnqueue
)

// WithOnWaiting sets the behaviour of Execute while the session waits for calls that are still open. It does not matter
// once all calls are answered: the suspended run is then resumed first, see [Engine.Execute].
func WithOnWaiting(w OnWaiting) RunOption { return func(o *runOptions) { o.waiting = w } }

// placeable refuses options that a turn which replaces another one does not support.
func (o *runOptions) placeable() error {
	switch {
	case *o.from < 0:
		return cairn.Invalid("options", "FromMessage: %d is negative", *o.from)
	case o.busy != BusyReject && o.busy != BusyInterrupt:
		return cairn.Invalid("options", "WithOnBusy: FromMessage supports only BusyReject and BusyInterrupt")
	case o.expects() != "":
		return cairn.Invalid("options", "%s: cannot be combined with FromMessage", o.expects())
	case o.waiting != WaitingRefuse:
		return cairn.Invalid("options", "WithOnWaiting: cannot be combined with FromMessage, which cancels pending calls")
	}
	return nil
}
