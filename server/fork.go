package server

import (
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
)

type forkIn struct {
	ID string `path:"id" json:"-"`
	client.Forking
}

// fork continues a copy of a session with something changed. Instructions, and a result that no tool gave, are for
// administrators, as the state of a session is.
func fork(c *request, in *forkIn) (*cairn.Session, error) {
	row, err := c.open(in.ID, ActionChange)
	if err != nil {
		return nil, err
	}
	admin := c.principal.Is(RoleAdmin)
	switch {
	case in.Instructions != nil && !admin:
		return nil, cairn.Invalid("instructions", "may only be given by administrators")
	case in.Result != nil && !admin:
		return nil, cairn.Invalid("result", "may only be given by administrators")
	}
	opts, err := c.forkOptions(in)
	if err != nil {
		return nil, err
	}
	if in.SessionID == "" {
		in.SessionID = c.newID()
	}
	run, err := c.h.eng.Fork(c.ctx, row.ID, in.SessionID, opts...)
	if errors.Is(err, cairn.ErrExists) && c.repeated() {
		made, err := c.open(in.SessionID, ActionRead)
		return c.publicTo(made), err
	}
	if err != nil {
		return nil, err
	}
	made, err := c.h.eng.Session(c.ctx, run.SessionID())
	return c.publicTo(made), err
}

// forkOptions returns what the body of a fork says as options of the engine.
func (c *request) forkOptions(in *forkIn) (opts []engine.BranchOption, err error) {
	opts = branchOptions(&in.Branching)
	if in.Model != nil {
		opts = append(opts, engine.WithBranchModel(*in.Model))
	}
	if in.Instructions != nil {
		opts = append(opts, engine.WithBranchInstructions(*in.Instructions))
	}
	if in.Answer != nil {
		if err := c.reviewAs(&in.Answer.Reviewer); err != nil {
			return nil, err
		}
		opts = append(opts, engine.WithBranchAnswer(*in.Answer))
	}
	if r := in.Result; r != nil {
		switch {
		case (len(r.Output) == 0) == (r.Error == ""):
			return nil, cairn.Invalid("result", "set either an output or an error")
		case r.Error != "":
			opts = append(opts, engine.WithBranchResult(r.CallID, errors.New(r.Error)))
		default:
			opts = append(opts, engine.WithBranchResult(r.CallID, r.Output))
		}
	}
	return opts, nil
}

// branchOptions returns the point of a branch as options of the engine.
func branchOptions(at *client.Branching) (opts []engine.BranchOption) {
	if at.CheckpointID != "" {
		opts = append(opts, engine.AtCheckpoint(at.CheckpointID))
	}
	if at.Messages != nil {
		opts = append(opts, engine.AtMessage(*at.Messages))
	}
	return opts
}
