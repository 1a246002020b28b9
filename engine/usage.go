package engine

import (
	"cmp"
	"context"

	"github.com/cairn-agents/cairn"
)

// TreeUsage returns the usage of a session and of every session below it: its sub-agents and companions, and theirs.
// [cairn.Session].Usage is the session's own alone. TreeUsage reads the rows of the session's tree. The error is
// ErrNotFound if there is no such session.
func (e *Engine) TreeUsage(ctx context.Context, id string) (cairn.Usage, error) {
	row, err := e.Session(ctx, id)
	if err != nil {
		return cairn.Usage{}, err
	}
	below, err := e.reader.below(ctx, row.RootID, id)
	if err != nil {
		return cairn.Usage{}, err
	}
	sum := row.Usage
	for _, s := range below {
		sum = sum.Add(s.Usage)
	}
	return sum, nil
}

// TreeUsage returns the usage of a run and of its sub-agents and companions, at any depth: every run of a session below
// its own that began after it and before its session's next run. The runs of a session therefore add up to
// [Engine.TreeUsage], whichever processes drove them. If a turn is suspended, usage up to then belongs to the suspended
// run, and the rest to the run that resumes it. A background companion that is still running counts for the run that
// was the latest when it began. For runs under way, usage is as of their last commit.
//
// [cairn.Result].Usage and [cairn.Run].Usage are the run's own alone. TreeUsage reads the rows of the session's tree.
// The error is ErrNotFound for a queued turn that has not begun.
func (r *Run) TreeUsage(ctx context.Context) (cairn.Usage, error) {
	record, err := r.Record(ctx)
	if err != nil {
		return cairn.Usage{}, err
	}
	var next *cairn.Run
	for run, err := range r.in.newest(ctx, r.session) {
		if err != nil {
			return cairn.Usage{}, err
		}
		if run.Turn <= record.Turn {
			break
		}
		next = run
	}
	below, err := r.in.below(ctx, r.root, r.session)
	if err != nil {
		return cairn.Usage{}, err
	}
	sum := record.Usage
	for _, s := range below {
		for run, err := range r.in.newest(ctx, s.ID) {
			if err != nil {
				return cairn.Usage{}, err
			}
			if began(run, record) < 0 {
				break
			}
			if next == nil || began(run, next) < 0 {
				sum = sum.Add(run.Usage)
			}
		}
	}
	return sum, nil
}

// began compares when runs of a tree began: by the store's clock and, for equal times, by their place in the log.
func began(a, b *cairn.Run) int {
	return cmp.Or(a.StartedAt.Compare(b.StartedAt), cmp.Compare(a.StartSequence, b.StartSequence))
}
