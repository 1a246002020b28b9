package effects

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/limits"
	"github.com/cairn-agents/cairn/internal/ops"
	"github.com/cairn-agents/cairn/internal/turn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/internal/turn/step"
	"github.com/cairn-agents/cairn/internal/turn/user"
	"github.com/cairn-agents/cairn/store"
)

// unkeepable reports whether a store or log refuses a value, which it will do again however often it is asked.
func unkeepable(err error) bool {
	return errors.Is(err, cairn.ErrInvalid) || errors.Is(err, cairn.ErrTooLarge)
}

// count adds what a scope recorded as usage. An amount with which a total of the session would not be finite is left out.
func (fx *Effects) count(l *live, out *outcome, w *step.Writes) {
	for name, n := range w.Usage {
		uncommitted := l.deferred.usage.Custom[name] + out.usage.Custom[name] + n
		problem := user.Unaccountable(n, out.usage.Custom[name]+n, uncommitted, l.row.Usage.Custom[name]+uncommitted, l.row.RunUsage.Custom[name]+uncommitted)
		if problem != "" {
			fx.Logger.Warn("usage not recorded: the name "+problem, "session", l.row.ID, "name", name, "amount", n)
			continue
		}
		out.usage = out.usage.Add(cairn.Usage{Custom: map[string]float64{name: n}})
	}
}

// bound leaves the model's counts out of a step's usage if a total of the session would be too large with them.
func (fx *Effects) bound(l *live, out *outcome) {
	sum := l.deferred.usage.Add(out.usage)
	for _, total := range [...]cairn.Usage{l.row.Usage, l.row.RunUsage} {
		total = total.Add(sum)
		if err := total.Validate(); err != nil {
			fx.Logger.Warn("the model's usage is left out", "session", l.row.ID, "error", err)
			u := &out.usage
			u.InputTokens, u.OutputTokens, u.ReasoningTokens, u.CachedTokens, u.CacheWriteTokens = 0, 0, 0, 0, 0
			return
		}
	}
}

// room reports that the state would be too large with some operations. What the store's chain of states holds since its
// last keyframe is no less than the state, so that this costs nothing unless the state is large.
func (l *live) room(out *outcome, list []cairn.Op) error {
	at := l.row.State
	most := at.KeyframeBytes + at.ChangeBytes
	for _, some := range [...][]cairn.Op{l.deferred.ops, out.ops, list} {
		for i := range some {
			most += int64(ops.Size(&some[i]))
		}
	}
	if most <= limits.Bytes {
		return nil
	}
	l.mu.Lock()
	raw, err := ops.Fold(l.doc.Raw(), list)
	l.mu.Unlock()
	if err != nil {
		return nil // the caller meets it, too
	}
	if problem := limits.Size(len(raw)); problem != "" {
		return cairn.Errorf(cairn.CodeTooLarge, "the state %s", problem)
	}
	return nil
}

// include folds what a call wrote, if there is room for its result in the message with those of the step.
func (fx *Effects) include(l *live, out *outcome, results *cairn.Message, f *step.Result) error {
	size := len(f.Result.Output)
	for i := range results.Parts {
		size += len(results.Parts[i].Result.Output)
	}
	if limits.Size(size) != "" {
		return cairn.Errorf(cairn.CodeTooLarge, "the results of the calls of this step have more than %d bytes together", limits.Bytes)
	}
	return fx.fold(l, out, &f.Writes)
}

// forgo fails a run whose step the store refuses to keep, with what was put off before it: it would refuse it whoever took
// the run over.
func (fx *Effects) forgo(ctx context.Context, a *cairn.Agent, l *live, st *step.Step, cause error) (turn.Committed, error) {
	fx.Logger.Error("a step cannot be kept; its run fails", "session", l.row.ID, "run", l.run.ID, "step", st.Number, "error", cause)
	failed := journal.Storable(cairn.AsError(cause))
	for _, n := range append(slices.Clone(l.deferred.steps), st.Number) {
		l.emit.Event(journal.StepDiscarded(n, failed))
	}
	if err := l.emit.Flush(ctx); err != nil {
		return turn.Committed{}, err
	}
	if err := fx.leaveChildren(ctx, l.row, time.Time{}); err != nil {
		return turn.Committed{}, err
	}
	for {
		run := *l.run
		run.Status, run.Reason, run.Error, run.Steps, run.Usage = cairn.RunFailed, cairn.ReasonError, failed, l.row.Step, l.row.RunUsage
		c := &store.Commit{Guard: store.Guard{Token: l.row.Lease.Token, Version: l.row.Version}, EndRun: &run, Status: cairn.SessionFailed,
			Lease: store.LeaseChange{Action: store.LeaseRelease}, LogSequence: l.emit.Position(), DropStaged: true}
		if l.row.SuspendedStep != "" {
			fx.withdraw(c, l.row, l.messages, l.calls, "the run failed")
		}
		var row *cairn.Session
		err := fx.persist(ctx, func() (err error) {
			row, err = fx.Store.Commit(ctx, l.row.ID, c)
			return err
		})
		if errors.Is(err, cairn.ErrStale) { // somebody else added to the session meanwhile
			l.deferred = deferred{}
			if _, err = fx.rebase(ctx, l, nil); err == nil {
				continue
			}
		}
		if err != nil {
			return turn.Committed{}, err
		}
		l.sees(fx, row)
		l.spoiled = true
		tell := fx.ended(ctx, a, l, &run, nil)
		return turn.Committed{Ended: true, Status: run.Status, Tell: tell}, nil
	}
}
