package server

import (
	"context"
	"errors"

	"cmp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/wire"
)

// inputOf returns what a user says as the input of a turn.
func inputOf(in *client.UserMessage) (cairn.Input, error) {
	var parts []cairn.Part
	if in.Text != "" {
		parts = append(parts, cairn.TextPart(in.Text))
	}
	for _, f := range in.Files {
		file := cairn.File{Name: f.Name, MediaType: f.MediaType, URL: f.URL}
		if cairn.IsDataURL(f.URL) {
			var err error
			if file, err = cairn.FileFromDataURL(f.Name, f.URL); err != nil {
				return cairn.Input{}, err
			}
		}
		parts = append(parts, cairn.FilePart(file))
	}
	if len(parts) == 0 {
		return cairn.Input{}, cairn.Invalid("input", "must have text or files")
	}
	return cairn.Messages(cairn.User(parts...)), nil
}

func started(run *engine.Run, err error) (*client.Started, error) {
	if err != nil {
		return nil, err
	}
	return &client.Started{SessionID: run.SessionID(), RunID: run.ID(), Turn: run.Turn()}, nil
}

type startIn struct {
	client.Turn
	agentAliases
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

// withModel returns options with the one of a model, if a request names one.
func withModel(name *string, list ...engine.RunOption) []engine.RunOption {
	if name != nil {
		list = append(list, engine.WithModel(*name))
	}
	return list
}

func start(c *request, in *startIn) (*client.Started, error) {
	input, err := inputOf(&in.Input)
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
		if in.Model != "" {
			opts = append(opts, engine.WithModel(in.Model))
		}
		return append(opts, replaces...), err
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
			opts = append(opts, engine.WithRunID(ids.Derive("run", c.bareID(in.SessionID), in.RunID)))
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
	return &goal{id: id, agent: agent, x: &in.Context, open: func(again bool) (*cairn.Session, error) {
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
	wire.Retry
	client.Continuation
}

func resume(c *request, in *resumeIn) (*client.Started, error) {
	opts := withModel(in.Model)
	if in.CheckpointID != "" {
		opts = append(opts, engine.FromCheckpoint(in.CheckpointID))
	}
	if in.Input != nil {
		input, err := inputOf(in.Input)
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

type retryIn struct{ wire.Retry }

func retry(c *request, in *retryIn) (*client.Started, error) {
	if _, err := c.openRoot(in.SessionID, ActionRun); err != nil {
		return nil, err
	}
	if err := c.mayRun(in.SessionID); err != nil {
		return nil, err
	}
	return started(c.h.eng.Retry(c.ctx, in.SessionID, c.named(withModel(in.Model)...)...))
}

func status(c *request, in *sessionIn) (*client.Status, error) {
	part, err := c.openExcerpt(in.SessionID)
	if err != nil {
		return nil, err
	}
	row := part.row
	out := &client.Status{Session: c.publicTo(row), Calls: part.calls}
	resumable, err := c.h.eng.CanResume(c.ctx, row.ID)
	if err != nil {
		return nil, err
	}
	out.Resumable = client.Resumability(resumable)
	if part.whole() {
		if out.Calls, err = c.openCalls(row); err != nil {
			return nil, err
		}
	}
	if row.Status == cairn.SessionFailed {
		if out.Error, err = c.failure(row); err != nil {
			return nil, err
		}
	}
	out.Situation, err = c.situation(part)
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

type stopIn struct{ wire.Stop }

func interrupt(c *request, in *stopIn) (*cairn.Session, error) {
	return stop(c, in, (*engine.Run).Interrupt)
}

func abort(c *request, in *stopIn) (*cairn.Session, error) { return stop(c, in, (*engine.Run).Abort) }

// stop stops a run and returns its session.
func stop(c *request, in *stopIn, how func(r *engine.Run, ctx context.Context, reason string, opts ...engine.StopOption) error) (*cairn.Session, error) {
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
	err = how(run, c.ctx, in.Reason, engine.StoppedBy(c.principal.User))
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
	return unreadyOptions(u)
}
