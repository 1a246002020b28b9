package server

import (
	"context"
	"errors"

	"cmp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/ids"
)

// inputBody is what a user says.
type inputBody struct {
	// Text is what the user says.
	Text string `json:"text,omitempty"`
	// Files are attached to the message.
	Files []inputFileBody `json:"files,omitempty"`
}

// inputFileBody is a file of a user's message.
type inputFileBody struct {
	// Name is the name of the file.
	Name string `json:"name,omitempty"`
	// MediaType is the type of the file, such as "image/png".
	MediaType string `json:"media_type,omitempty"`
	// URL is a "data:" URL, or the address from which the model's provider fetches the file.
	URL string `json:"url"`
}

// message returns the input as a message.
func (in *inputBody) message() (cairn.Message, error) {
	var parts []cairn.Part
	if in.Text != "" {
		parts = append(parts, cairn.TextPart(in.Text))
	}
	for _, f := range in.Files {
		file := cairn.File{Name: f.Name, MediaType: f.MediaType, URL: f.URL}
		if cairn.IsDataURL(f.URL) {
			var err error
			if file, err = cairn.FileFromDataURL(f.Name, f.URL); err != nil {
				return cairn.Message{}, err
			}
		}
		parts = append(parts, cairn.FilePart(file))
	}
	if len(parts) == 0 {
		return cairn.Message{}, cairn.Invalid("input", "must have text or files")
	}
	return cairn.User(parts...), nil
}

func (in *inputBody) input() (cairn.Input, error) {
	m, err := in.message()
	if err != nil {
		return cairn.Input{}, err
	}
	return cairn.Messages(m), nil
}

// startedBody names a run that has begun, or is queued.
type startedBody struct {
	// SessionID is the session's id.
	SessionID string `json:"session_id"`
	// RunID is the id of the run that has begun, or is queued.
	RunID string `json:"run_id"`
	// Turn is the run's number in its session; 0 for one that is queued.
	Turn int `json:"turn"`
}

func started(run *engine.Run, err error) (*startedBody, error) {
	if err != nil {
		return nil, err
	}
	return &startedBody{SessionID: run.SessionID(), RunID: run.ID(), Turn: run.Turn()}, nil
}

type startIn struct {
	// SessionID is the id of the session; empty creates a new one.
	SessionID string `json:"session_id,omitempty" query:"session_id"`
	// Agent is the agent's name. It defaults to the session's agent or, for a new session, to the engine's only
	// agent.
	Agent string `json:"agent,omitempty"`
	agentAliases
	// Input is what the user says.
	Input inputBody `json:"input"`
	// RunID makes the request idempotent: if the session already has this run, no run begins and the response names
	// the existing one. Any valid id serves: the run's id is derived from it and the session's id.
	RunID string `json:"run_id,omitempty"`
	// FromMessage is the index of a message with which a turn of the session began. The new turn takes its place, in one
	// write, and everything from there on is gone from the session: see [engine.FromMessage].
	FromMessage *int `json:"from_message,omitempty"`
	// KeepReplaced keeps what FromMessage removes, as a session below: see [engine.KeepReplaced].
	KeepReplaced bool `json:"keep_replaced,omitempty"`
	contextBody
	Unready
	choiceBody
}

// place returns the options of a turn in place of another one.
func (in *startIn) place() ([]engine.RunOption, error) {
	switch {
	case in.FromMessage == nil && in.KeepReplaced:
		return nil, cairn.Invalid("keep_replaced", "requires from_message")
	case in.FromMessage == nil:
		return nil, nil
	case in.SessionID == "":
		return nil, cairn.Invalid("from_message", "requires a session_id")
	case *in.FromMessage < 0:
		return nil, cairn.Invalid("from_message", "%d is negative", *in.FromMessage)
	case in.KeepReplaced:
		return []engine.RunOption{engine.FromMessage(*in.FromMessage), engine.KeepReplaced()}, nil
	}
	return []engine.RunOption{engine.FromMessage(*in.FromMessage)}, nil
}

// choiceBody selects the model of a run.
type choiceBody struct {
	// Model is the name of one of the agent's models, or empty for its first one: see [engine.WithModel]. Without
	// it, a run that resumes or retries another uses the model of that run, and any other run uses the first one.
	Model *string `json:"model,omitempty"`
}

func (x *choiceBody) options(list ...engine.RunOption) []engine.RunOption {
	if x.Model != nil {
		list = append(list, engine.WithModel(*x.Model))
	}
	return list
}

func start(c *request, in *startIn) (*startedBody, error) {
	input, err := in.Input.input()
	if err != nil {
		return nil, err
	}
	named, err := in.name(in.Agent)
	if err != nil {
		return nil, err
	}
	if in.RunID != "" && in.SessionID == "" {
		return nil, cairn.Invalid("run_id", "requires a session_id")
	}
	replaces, err := in.place()
	if err != nil {
		return nil, err
	}
	if err := c.mayRun(in.SessionID); err != nil {
		return nil, err
	}
	options := func(agent string) ([]engine.RunOption, error) {
		opts, err := c.unready(agent, in.Unready, "")
		return in.choiceBody.options(append(opts, replaces...)...), err
	}
	if agent := cmp.Or(named, c.only()); agent != "" { // a refused request creates no session
		opts, err := options(agent)
		if err == nil {
			err = c.h.eng.Validate(agent, input, opts...)
		}
		if err != nil {
			return nil, err
		}
	}
	begin := func(at *place) (*engine.Run, error) {
		agent := cmp.Or(named, at.row.Agent)
		opts, err := options(agent)
		if err != nil {
			return nil, err
		}
		if in.RunID != "" {
			opts = append(opts, engine.WithRunID(ids.Derive("run", in.SessionID, in.RunID)))
		} else {
			opts = c.named(opts...)
		}
		return c.execute(at, agent, input, opts)
	}
	if replaces != nil { // there must be a session
		row, err := c.openRoot(in.SessionID, ActionRun)
		if err != nil {
			return nil, err
		}
		return started(begin(&place{row: row}))
	}
	_, run, err := c.forMessage(in.goal(c, named), begin)
	return started(run, err)
}

// goal returns the session that a turn is for: the one with the id or, if that has expired or does not exist, the latest
// one of the thread.
func (in *startIn) goal(c *request, agent string) *goal {
	id, unknown := in.SessionID, in.SessionID == ""
	if unknown {
		id = c.newID()
	}
	return &goal{id: id, agent: agent, x: &in.contextBody, open: func(again bool) (*cairn.Session, error) {
		if unknown && !again {
			return nil, notFound(id)
		}
		row, err := c.openRoot(id, ActionRun)
		if err == nil || row != nil && !errors.Is(err, cairn.ErrExpired) {
			return row, err
		}
		if latest, err := c.latest(id, ActionRun); latest != nil || !errors.Is(err, cairn.ErrNotFound) {
			return latest, err
		}
		return row, err
	}}
}

type resumeIn struct {
	SessionID string `json:"session_id,omitempty" query:"session_id"`
	// Input is an optional message to the model, which precedes the run.
	Input *inputBody `json:"input,omitempty"`
	// CheckpointID is the checkpoint to rewind to first; empty means none.
	CheckpointID string `json:"checkpoint_id,omitempty"`
	choiceBody
}

func resume(c *request, in *resumeIn) (*startedBody, error) {
	opts := in.choiceBody.options()
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
	if _, err := c.openRoot(in.SessionID, ActionRun); err != nil {
		return nil, err
	}
	return started(c.h.eng.Resume(c.ctx, in.SessionID, c.named(opts...)...))
}

type sessionIn struct {
	SessionID string `json:"session_id,omitempty" query:"session_id"`
}

type retryIn struct {
	SessionID string `json:"session_id,omitempty" query:"session_id"`
	choiceBody
}

func retry(c *request, in *retryIn) (*startedBody, error) {
	if _, err := c.openRoot(in.SessionID, ActionRun); err != nil {
		return nil, err
	}
	if err := c.mayRun(in.SessionID); err != nil {
		return nil, err
	}
	return started(c.h.eng.Retry(c.ctx, in.SessionID, c.named(in.choiceBody.options()...)...))
}

// statusBody describes a session, whether it can be resumed, and its open calls.
type statusBody struct {
	// Session is the session as it is now.
	Session *cairn.Session `json:"session"`
	// Resumable says whether and how it can be resumed.
	Resumable engine.Resumability `json:"resumable"`
	// Calls are its open pending calls and those of the sessions below it. A reviewer who may not read the session sees
	// those that it may decide.
	Calls []cairn.PendingCall `json:"calls"`
	// Error is why the last run failed, if the session has failed: its code, with words that are meant for users. An
	// operator gets the whole error.
	Error *cairn.Error `json:"error,omitempty"`
}

func status(c *request, in *sessionIn) (*statusBody, error) {
	part, err := c.openExcerpt(in.SessionID)
	if err != nil {
		return nil, err
	}
	row := part.row
	out := &statusBody{Session: public(row), Calls: part.calls}
	if out.Resumable, err = c.h.eng.CanResume(c.ctx, row.ID); err != nil {
		return nil, err
	}
	if part.whole() {
		if out.Calls, err = c.openCalls(row); err != nil {
			return nil, err
		}
	}
	if row.Status == cairn.SessionFailed {
		out.Error, err = c.failure(row)
	}
	return out, err
}

// failure returns why the last run of a session failed, as the principal may read it.
func (c *request) failure(row *cairn.Session) (*cairn.Error, error) {
	run, err := c.h.eng.Run(c.ctx, row.ID, row.RunID)
	if err != nil {
		return nil, err
	}
	record, err := run.Record(c.ctx)
	if err != nil {
		return nil, err
	}
	if c.wholeErrors() {
		return record.Error, nil
	}
	return record.Error.Public(), nil
}

type stopIn struct {
	SessionID string `json:"session_id,omitempty" query:"session_id"`
	// RunID is the run to stop; empty means the session's current one. A client that names the run it saw never
	// stops a later one.
	RunID string `json:"run_id,omitempty"`
	// Reason is kept with the run.
	Reason string `json:"reason,omitempty"`
}

func interrupt(c *request, in *stopIn) (*cairn.Session, error) {
	return stop(c, in, (*engine.Run).Interrupt)
}

func abort(c *request, in *stopIn) (*cairn.Session, error) { return stop(c, in, (*engine.Run).Abort) }

// stop stops a run and returns its session.
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
	if err != nil && !(c.repeated() && errors.Is(err, cairn.ErrNotRunning)) { // a request that is repeated has stopped the run already
		return nil, err
	}
	row, err := c.h.eng.Session(c.ctx, in.SessionID)
	return public(row), err
}

// unready returns the options for a session that is not ready: those of the request, else those of the server. busy is
// OnBusy if neither names one.
func (c *request) unready(agent string, u Unready, busy string) ([]engine.RunOption, error) {
	if usual := c.h.opts.Unready; usual != nil {
		d := usual(agent)
		u.OnBusy, u.OnWaiting = cmp.Or(u.OnBusy, d.OnBusy), cmp.Or(u.OnWaiting, d.OnWaiting)
	}
	u.OnBusy = cmp.Or(u.OnBusy, busy)
	return u.options()
}
