package server

import (
	"context"
	"errors"

	"cmp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/ids"
)

// Input is what a user says.
type Input struct {
	// Text is what the user says.
	Text string `json:"text,omitempty"`
	// Files are what the user shows.
	Files []InputFile `json:"files,omitempty"`
}

// InputFile is a file of a user's message.
type InputFile struct {
	// Name is the file's.
	Name string `json:"name,omitempty"`
	// MediaType is what the file is, as "image/png".
	MediaType string `json:"media_type,omitempty"`
	// URL is a "data:" URL, or the address that the model's provider fetches the file from.
	URL string `json:"url"`
}

// message returns the input as a message.
func (in *Input) message() (cairn.Message, error) {
	var parts []cairn.Part
	if in.Text != "" {
		parts = append(parts, cairn.TextPart(in.Text))
	}
	for _, f := range in.Files {
		file := cairn.File{Name: f.Name, MediaType: f.MediaType, URL: f.URL}
		if len(f.URL) >= 5 && f.URL[:5] == "data:" {
			var err error
			if file, err = cairn.FileFromDataURL(f.Name, f.URL); err != nil {
				return cairn.Message{}, err
			}
		}
		parts = append(parts, cairn.FilePart(file))
	}
	if len(parts) == 0 {
		return cairn.Message{}, cairn.Invalid("input", "has neither text nor files")
	}
	return cairn.User(parts...), nil
}

func (in *Input) input() (cairn.Input, error) {
	m, err := in.message()
	if err != nil {
		return cairn.Input{}, err
	}
	return cairn.Messages(m), nil
}

// Started names a run that has begun, or is queued.
type Started struct {
	// SessionID is the session's id.
	SessionID string `json:"session_id"`
	// RunID is the id of the run that has begun, or is queued.
	RunID string `json:"run_id"`
	// Turn is the run's number in its session; 0 for one that is queued.
	Turn int `json:"turn"`
}

func started(run *engine.Run, err error) (*Started, error) {
	if err != nil {
		return nil, err
	}
	return &Started{SessionID: run.SessionID(), RunID: run.ID(), Turn: run.Turn()}, nil
}

type startIn struct {
	// SessionID is the session's; empty makes a new one.
	SessionID string `json:"session_id,omitempty" query:"session_id"`
	// Agent is the agent's name. The default is the session's own or, for a new session, the engine's, if it has only one.
	Agent string `json:"agent,omitempty"`
	// Input is what the user says.
	Input Input `json:"input"`
	// RunID makes the request idempotent: a start that names a run which the session has had starts nothing and answers with
	// that run. Any text that is an id serves: it becomes the run's id together with the session's.
	RunID string `json:"run_id,omitempty"`
	Context
	Unready
	Choice
}

// Choice says which model a run asks.
type Choice struct {
	// Model is the name of one of the agent's models, or empty for its first one: see [engine.WithModel]. Without it a run that
	// resumes or retries another asks the model of that, and any other the first one.
	Model *string `json:"model,omitempty"`
}

func (x *Choice) options(list ...engine.RunOption) []engine.RunOption {
	if x.Model != nil {
		list = append(list, engine.WithModel(*x.Model))
	}
	return list
}

func start(c *request, in *startIn) (*Started, error) {
	input, err := in.Input.input()
	if err != nil {
		return nil, err
	}
	if in.RunID != "" && in.SessionID == "" {
		return nil, cairn.Invalid("run_id", "needs a session_id")
	}
	options := func(agent string) ([]engine.RunOption, error) {
		opts, err := c.unready(agent, in.Unready)
		return in.Choice.options(opts...), err
	}
	if agent := cmp.Or(in.Agent, c.only()); agent != "" { // what is refused makes no session
		opts, err := options(agent)
		if err == nil {
			err = c.h.eng.Validate(agent, input, opts...)
		}
		if err != nil {
			return nil, err
		}
	}
	row, err := c.openOrCreate(in.SessionID, in.Agent, &in.Context)
	if err != nil {
		return nil, err
	}
	agent := cmp.Or(in.Agent, row.Agent)
	opts, err := options(agent)
	if err != nil {
		return nil, err
	}
	if in.RunID != "" {
		opts = append(opts, engine.WithRunID(ids.Derive("run", in.SessionID, in.RunID)))
	} else {
		opts = c.named(opts...)
	}
	return started(c.h.eng.Execute(c.ctx, row.ID, agent, input, opts...))
}

type resumeIn struct {
	SessionID string `json:"session_id,omitempty" query:"session_id"`
	// Input is said to the model first, if there is any.
	Input *Input `json:"input,omitempty"`
	// CheckpointID is where the session goes back to first; empty for where it is.
	CheckpointID string `json:"checkpoint_id,omitempty"`
	Choice
}

func resume(c *request, in *resumeIn) (*Started, error) {
	opts := in.Choice.options()
	if in.CheckpointID != "" {
		opts = append(opts, engine.FromCheckpoint(in.CheckpointID))
	}
	if in.Input != nil {
		input, err := in.Input.input()
		if err != nil {
			return nil, err
		}
		opts = append(opts, engine.WithInput(input))
	}
	if _, err := c.open(in.SessionID, ActionRun); err != nil {
		return nil, err
	}
	return started(c.h.eng.Resume(c.ctx, in.SessionID, c.named(opts...)...))
}

type sessionIn struct {
	SessionID string `json:"session_id,omitempty" query:"session_id"`
}

type retryIn struct {
	SessionID string `json:"session_id,omitempty" query:"session_id"`
	Choice
}

func retry(c *request, in *retryIn) (*Started, error) {
	if _, err := c.open(in.SessionID, ActionRun); err != nil {
		return nil, err
	}
	return started(c.h.eng.Retry(c.ctx, in.SessionID, c.named(in.Choice.options()...)...))
}

// Status is how a session stands.
type Status struct {
	// Session is the session as it is now.
	Session *cairn.Session `json:"session"`
	// Resumable says whether and how it can be continued.
	Resumable engine.Resumability `json:"resumable"`
	// Calls are the pending calls of its tree that are open.
	Calls []cairn.PendingCall `json:"calls"`
}

func status(c *request, in *sessionIn) (*Status, error) {
	row, err := c.open(in.SessionID, ActionRead)
	if err != nil {
		return nil, err
	}
	out := &Status{Session: public(row)}
	if out.Resumable, err = c.h.eng.CanResume(c.ctx, row.ID); err != nil {
		return nil, err
	}
	out.Calls, err = c.openCalls(row.ID)
	return out, err
}

type stopIn struct {
	SessionID string `json:"session_id,omitempty" query:"session_id"`
	// RunID is the run to stop; empty for the one that the session has now. A client that names the run it saw never stops
	// the one after it.
	RunID string `json:"run_id,omitempty"`
	// Reason is kept with the run.
	Reason string `json:"reason,omitempty"`
}

func interrupt(c *request, in *stopIn) (*cairn.Session, error) {
	return stop(c, in, (*engine.Run).Interrupt)
}

func abort(c *request, in *stopIn) (*cairn.Session, error) { return stop(c, in, (*engine.Run).Abort) }

// stop stops a run, and answers with how its session stands then.
func stop(c *request, in *stopIn, how func(r *engine.Run, ctx context.Context, reason string) error) (*cairn.Session, error) {
	if _, err := c.open(in.SessionID, ActionRun); err != nil {
		return nil, err
	}
	run, err := c.h.eng.Attach(c.ctx, in.SessionID)
	if err != nil {
		return nil, err
	}
	if in.RunID == "" {
		if in.RunID, err = c.first(run.ID()); err != nil {
			return nil, err
		}
	}
	if in.RunID != run.ID() {
		if run, err = c.h.eng.Run(c.ctx, in.SessionID, in.RunID); err != nil {
			return nil, err
		}
	}
	err = how(run, c.ctx, in.Reason)
	if err != nil && !(c.repeated() && errors.Is(err, cairn.ErrNotRunning)) { // else it has stopped the run already
		return nil, err
	}
	row, err := c.h.eng.Session(c.ctx, in.SessionID)
	return public(row), err
}

// unready returns the options of a turn of an agent: what the request says, else what the server's options do.
func (c *request) unready(agent string, u Unready) ([]engine.RunOption, error) {
	if usual := c.h.opts.Unready; usual != nil {
		d := usual(agent)
		u.OnBusy, u.OnWaiting = cmp.Or(u.OnBusy, d.OnBusy), cmp.Or(u.OnWaiting, d.OnWaiting)
	}
	return u.options()
}
