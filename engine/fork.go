package engine

import (
	"context"

	"github.com/cairn-agents/cairn"
)

// Fork branches a session as [Engine.Branch] does, with the same options, and begins a run that continues the branch
// from its point. So two sessions show the difference that another model, other instructions or another answer make. The
// other session is not changed, and its run continues. The run of the branch uses the model that the other session used
// there, unless [WithBranchModel] names one.
//
// The branch is one write. If the process dies before its run begins, Resume begins it; so it does if Fork returns an
// error of the begin. At the end of a completed turn there is nothing to continue: the error is ErrInvalid, and no
// branch is made.
func (e *Engine) Fork(ctx context.Context, from, to string, opts ...BranchOption) (*Run, error) {
	row, to, err := e.branchable(ctx, from, to)
	if err != nil {
		return nil, err
	}
	p, err := e.planBranch(ctx, row, opts)
	switch {
	case err != nil:
		return nil, err
	case e.agent(row.Agent) == nil:
		return nil, unknownAgent(row.Agent)
	case p.status == cairn.SessionCompleted:
		return nil, cairn.Invalid("options", "the turn of session %q is complete after %d messages; select a point within a turn", from, p.messages)
	case p.messages == 0:
		return nil, cairn.Invalid("options", "session %q has no message before that point", from)
	}
	var o []RunOption
	if p.ran != "" {
		o = append(o, WithModel(p.ran))
	}
	if _, err := e.branch(ctx, row, to, p); err != nil {
		return nil, err
	}
	run, err := e.Resume(ctx, to, o...)
	if err != nil {
		if there, _ := e.Attach(ctx, to); there != nil { // a worker was faster
			return there, nil
		}
	}
	return run, err
}
