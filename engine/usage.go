package engine

import (
	"cmp"
	"context"
	"iter"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// TreeUsage returns what a session has used together with every session below it: those of its sub-agents and companions, and
// theirs. [cairn.Session].Usage is the session's own alone. It reads the rows of the session's tree. The error is ErrNotFound
// if there is no such session.
func (e *Engine) TreeUsage(ctx context.Context, id string) (cairn.Usage, error) {
	row, err := e.Session(ctx, id)
	if err != nil {
		return cairn.Usage{}, err
	}
	below, err := e.below(ctx, row.RootID, id)
	if err != nil {
		return cairn.Usage{}, err
	}
	sum := row.Usage
	for _, s := range below {
		sum = sum.Add(s.Usage)
	}
	return sum, nil
}

// TreeUsage returns what a run has used together with what it had sub-agents and companions do, at any depth: with every run of a
// session below its own that began after it and before the session's next run. So the runs of a session add up to
// [Engine.TreeUsage], whichever processes drove them: where a turn waits, what was used up to then belongs to the run that was
// suspended, and the rest to the one that resumes it. A companion in the background that is still at work counts for the run
// that is the last one when it begins. Of runs under way the usage is as of their last commit.
//
// [cairn.Result].Usage and [cairn.Run].Usage are the run's own alone. It reads the rows of the session's tree. The error is
// ErrNotFound for a queued turn that has not begun.
func (r *Run) TreeUsage(ctx context.Context) (cairn.Usage, error) {
	record, err := r.Record(ctx)
	if err != nil {
		return cairn.Usage{}, err
	}
	var next *cairn.Run
	for run, err := range r.eng.newest(ctx, r.session) {
		if err != nil {
			return cairn.Usage{}, err
		}
		if run.Turn <= record.Turn {
			break
		}
		next = run
	}
	below, err := r.eng.below(ctx, r.root, r.session)
	if err != nil {
		return cairn.Usage{}, err
	}
	sum := record.Usage
	for _, s := range below {
		for run, err := range r.eng.newest(ctx, s.ID) {
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

// began compares when runs of a tree began: by the store's clock and, in one moment of that, by their place in the log.
func began(a, b *cairn.Run) int {
	return cmp.Or(a.StartedAt.Compare(b.StartedAt), cmp.Compare(a.StartSequence, b.StartSequence))
}

// newest yields a session's runs, the newest first.
func (e *Engine) newest(ctx context.Context, id string) iter.Seq2[*cairn.Run, error] {
	return func(yield func(*cairn.Run, error) bool) {
		for q := (store.PageQuery{Newest: true}); ; {
			page, err := e.Runs(ctx, id, q)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page.Items {
				if !yield(&page.Items[i], nil) {
					return
				}
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				return
			}
		}
	}
}

// below returns the rows of the sessions below one of a tree.
func (e *Engine) below(ctx context.Context, root, id string) (list []*cairn.Session, err error) {
	rows := map[string]*cairn.Session{}
	for s, err := range e.tree(ctx, root) {
		if err != nil {
			return nil, err
		}
		rows[s.ID] = s
	}
	for _, s := range rows {
		for at := rows[s.ParentID]; at != nil; at = rows[at.ParentID] {
			if at.ID == id {
				list = append(list, s)
				break
			}
		}
	}
	return list, nil
}
