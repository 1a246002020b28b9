package engine

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/turn/effects"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/store"
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

// Execute starts a turn: it creates the session, or adds to it, whatever became of the turn before. It returns once
// the turn has begun, which is one write; the run continues in the background and does not end with ctx.
//
// A session that waits for calls is not added to before they are answered: the error is ErrWaiting, whose
// [cairn.Error.Calls] are the open ones (see [WithOnWaiting]). Once all are answered Execute queues the turn, resumes the
// run that waited, and returns the queued turn's Run: an answer that was accepted is used before anything else is said.
//
// The other errors are ErrInvalid or ErrTooLarge for bad input, ErrNotFound for an unknown agent, ErrAlreadyRunning while
// another run holds the session (see [WithOnBusy]), ErrClosed after Close.
func (e *Engine) Execute(ctx context.Context, sessionID, agent string, in cairn.Input, opts ...RunOption) (*Run, error) {
	o := options(opts)
	if err := cairn.CheckSessionID(sessionID); err != nil {
		return nil, err
	}
	if err := e.checkModel(agent, o); err != nil {
		return nil, err
	}
	if err := in.Validate(); err != nil {
		return nil, err
	}
	switch {
	case o.input != nil:
		return nil, cairn.Invalid("options", "WithInput is for Resume and Retry")
	case o.checkpoint != "":
		return nil, cairn.Invalid("options", "FromCheckpoint is for Resume")
	case o.busy < BusyReject || o.busy > BusySteer:
		return nil, cairn.Invalid("options", "WithOnBusy: %d is none of the choices", o.busy)
	case o.busy == BusySteer && o.model != nil:
		return nil, cairn.Invalid("options", "WithModel: the model of the turn under way reads messages that join it")
	case o.waiting < WaitingRefuse || o.waiting > WaitingEnqueue:
		return nil, cairn.Invalid("options", "WithOnWaiting: %d is none of the choices", o.waiting)
	case o.busy == BusyEnqueue || o.busy == BusySteer || o.waiting == WaitingEnqueue:
		if err := o.storable(); err != nil {
			return nil, err
		}
	}
	o.create.ID, o.create.Agent, o.create.TTL = sessionID, agent, e.ttl(agent)
	if err := o.create.ValidateContext(); err != nil {
		return nil, err
	}
	begin := lifecycle.BeginIn{SessionID: sessionID, Agent: agent, Kind: cairn.RunExecute, Create: &o.create}
	return e.once(ctx, sessionID, o, func() (*Run, error) {
		if o.from != nil {
			return e.replace(ctx, begin, &in, o)
		}
		return e.place(ctx, begin, &in, o)
	})
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

func (e *Engine) begin(ctx context.Context, in lifecycle.BeginIn, input *cairn.Input, o *runOptions) (*Run, error) {
	in.Hooks, in.Model = o.hooks, o.model
	if input != nil {
		in.Messages = append(in.Messages, input.Messages...)
	}
	return e.beginAs(ctx, o.runID, in)
}

// beginAs begins a run of a given id, or a new one.
func (e *Engine) beginAs(ctx context.Context, id string, in lifecycle.BeginIn) (*Run, error) {
	if err := e.enter(); err != nil {
		return nil, err
	}
	if in.RunID = id; id == "" {
		in.RunID = e.opts.NewID("run")
	}
	release, err := e.reserve(in.SessionID, in.RunID)
	if err != nil {
		e.driven.Done()
		return nil, err
	}
	defer release()
	asked := time.Now()
	b, err := e.runs.Begin(ctx, in)
	if err != nil {
		e.driven.Done()
		return nil, err
	}
	if e.opts.Host != nil {
		ctx = effects.WithHooks(ctx, in.Hooks)
	}
	return e.drive(ctx, b, asked), nil
}

// reserve keeps a run from being begun twice at once in this process: to the store, whose writes are idempotent, both would
// be the same.
func (e *Engine) reserve(sessionID, runID string) (release func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, twice := e.beginning[runID]; twice || e.driving[runID] != nil {
		return nil, cairn.Errorf(cairn.CodeRunning, "session %q: run %q has been begun already", sessionID, runID)
	}
	e.beginning[runID] = struct{}{}
	return func() {
		e.mu.Lock()
		delete(e.beginning, runID)
		e.mu.Unlock()
	}, nil
}

// Resume continues a session that was interrupted or is paused, in a new run, or one whose process died, in the run
// that it left behind. WithInput adds messages first, FromCheckpoint goes back first. The error is ErrNotResumable
// where there is nothing to continue (see [Engine.CanResume]), ErrAlreadyRunning while a run holds the session.
func (e *Engine) Resume(ctx context.Context, sessionID string, opts ...RunOption) (*Run, error) {
	o := options(opts)
	if err := e.check(ctx, sessionID, o); err != nil {
		return nil, err
	}
	return e.once(ctx, sessionID, o, func() (*Run, error) { return e.resume(ctx, sessionID, o) })
}

func (e *Engine) resume(ctx context.Context, sessionID string, o *runOptions) (*Run, error) {
	if o.checkpoint != "" {
		if err := e.goBack(ctx, sessionID, o.checkpoint); err != nil {
			return nil, err
		}
	} else if o.input == nil && o.model == nil {
		row, err := store.Load(ctx, e.store, sessionID)
		if err != nil {
			return nil, err
		}
		if row.Crashed(row.AsOf) && row.ParentID == "" {
			return e.recover(ctx, sessionID, o.hooks)
		}
	}
	run, err := e.begin(ctx, lifecycle.BeginIn{SessionID: sessionID, Kind: cairn.RunResume}, o.input, o)
	var died *lifecycle.DiedError
	if errors.As(err, &died) { // since we looked
		return e.recover(ctx, sessionID, o.hooks)
	}
	return run, err
}

// goBack rewinds a session so that a run can begin there. It makes sure first that one can; a dead run in its way is
// closed.
func (e *Engine) goBack(ctx context.Context, sessionID, checkpointID string) error {
	e.mu.Lock()
	closed := e.closed
	e.mu.Unlock()
	if closed {
		return errClosed()
	}
	row, err := store.Load(ctx, e.store, sessionID)
	if err != nil {
		return err
	}
	if e.agent(row.Agent) == nil {
		return unknownAgent(row.Agent)
	}
	if row.Crashed(row.AsOf) {
		if err := e.runs.Kept(ctx, row); err != nil {
			return err
		}
		if _, err := store.FindCheckpoint(ctx, e.store, sessionID, checkpointID); err != nil {
			return err
		}
		if err := e.runs.Abandon(ctx, row); err != nil {
			return err
		}
	}
	_, err = e.Rewind(ctx, sessionID, checkpointID)
	return err
}

func unknownAgent(name string) error {
	return &cairn.Error{Code: cairn.CodeNotFound, Field: "agent", Message: "agent \"" + name + "\" is not registered"}
}

// Retry runs a failed turn again from its last committed step, with a fresh budget of steps. The error is
// ErrNotResumable if the session's last run did not fail.
func (e *Engine) Retry(ctx context.Context, sessionID string, opts ...RunOption) (*Run, error) {
	o := options(opts)
	if err := e.check(ctx, sessionID, o); err != nil {
		return nil, err
	}
	if o.checkpoint != "" {
		return nil, cairn.Invalid("options", "FromCheckpoint is for Resume")
	}
	return e.once(ctx, sessionID, o, func() (*Run, error) {
		return e.begin(ctx, lifecycle.BeginIn{SessionID: sessionID, Kind: cairn.RunRetry}, o.input, o)
	})
}

func (e *Engine) check(ctx context.Context, sessionID string, o *runOptions) error {
	switch {
	case o.busy != BusyReject:
		return cairn.Invalid("options", "WithOnBusy is for Execute")
	case o.waiting != WaitingRefuse:
		return cairn.Invalid("options", "WithOnWaiting is for Execute")
	case o.from != nil:
		return cairn.Invalid("options", "FromMessage is for Execute")
	case len(o.created) > 0:
		return cairn.Invalid("options", "%s is for an Execute that creates the session", o.created[0])
	}
	if err := cairn.CheckSessionID(sessionID); err != nil {
		return err
	}
	if o.input != nil {
		if err := o.input.Validate(); err != nil {
			return err
		}
	}
	if o.model == nil {
		return nil
	}
	row, err := store.Load(ctx, e.store, sessionID)
	if err != nil {
		return err
	}
	return e.checkModel(row.Agent, o)
}

// checkModel reports an agent that is not registered, or that does not have the model of a run's options.
func (e *Engine) checkModel(agent string, o *runOptions) error {
	a := e.agent(agent)
	if a == nil {
		return unknownAgent(agent)
	}
	if o.model == nil {
		return nil
	}
	if _, known := define.Model(a, *o.model); !known {
		return cairn.Invalid("model", "agent %q has no model %q; its models are: %s", agent, *o.model, cmp.Or(strings.Join(slices.Sorted(maps.Keys(a.Models)), ", "), "none"))
	}
	return nil
}

// recover takes over a run whose process died.
func (e *Engine) recover(ctx context.Context, sessionID string, hooks *cairn.Hooks) (*Run, error) {
	if err := e.enter(); err != nil {
		return nil, err
	}
	asked := time.Now()
	b, err := e.runs.Recover(ctx, sessionID, hooks)
	if err == nil && b.RunID == "" {
		err = cairn.Errorf(cairn.CodeCrashLoop, "session %q: its run was taken over too often and has been failed", sessionID)
	}
	if err != nil {
		e.driven.Done()
		return nil, err
	}
	if e.opts.Host != nil { // the context may be of another run
		ctx = effects.WithHooks(ctx, hooks)
	}
	return e.drive(ctx, b, asked), nil
}

// Resumability says how a session can be continued.
type Resumability struct {
	// Resume and Retry say which verb continues it; at most one is true.
	Resume bool `json:"resume"`
	Retry  bool `json:"retry"`
	// Reason says why, in words.
	Reason string `json:"reason"`
}

// CanResume says whether and why a session can be resumed or retried.
func (e *Engine) CanResume(ctx context.Context, sessionID string) (Resumability, error) {
	row, err := e.Session(ctx, sessionID)
	if err != nil {
		return Resumability{}, err
	}
	switch {
	case row.ParentID != "":
		return Resumability{Reason: "it is a sub-agent's; its root continues it"}, nil
	case row.Running(row.AsOf):
		return Resumability{Reason: "a run holds it"}, nil
	case row.Status == cairn.SessionActive:
		switch err := e.runs.Kept(ctx, row); {
		case errors.Is(err, cairn.ErrAlreadyRunning):
			return Resumability{Reason: "its host drives a run"}, nil
		case err != nil:
			return Resumability{}, err
		}
		return Resumability{Resume: true, Reason: "the process that ran it is gone"}, nil
	case row.Status == cairn.SessionFailed:
		return Resumability{Retry: true, Reason: "its last run failed"}, nil
	}
	ok, why := lifecycle.Resumable(row)
	if ok && row.Status == cairn.SessionPaused {
		what, err := e.runs.WaitsFor(ctx, row)
		if err != nil {
			return Resumability{}, err
		}
		if what != "" {
			return Resumability{Reason: "it waits for " + what}, nil
		}
	}
	if ok {
		why = "it is " + string(row.Status)
	}
	return Resumability{Resume: ok, Reason: why}, nil
}
