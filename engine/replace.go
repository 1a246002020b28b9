package engine

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/store"
)

// replace begins a turn that replaces the one that began with message o.from.
func (e *Engine) replace(ctx context.Context, in lifecycle.Turn, input *cairn.Input, o *runOptions) (*Run, error) {
	if err := o.placeable(); err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		if err := e.pause(ctx, try); err != nil {
			return nil, err
		}
		row, err := e.vacant(ctx, in.SessionID, o)
		if err == nil {
			var replaced, kept string
			if replaced, err = e.begunWith(ctx, row, *o.from); err == nil && o.keep && row.Status != cairn.SessionActive { // which begin refuses
				kept, err = e.keepReplaced(ctx, row, *o.from)
			}
			if err == nil {
				var run *Run
				run, err = e.begin(ctx, &in.NewRun, input, func() (host.Run, error) { return e.runs.Replace(ctx, in, replaced, row.Version) })
				if err == nil {
					return run, nil
				}
				e.dropReplaced(ctx, kept)
			}
		}
		busy := errors.Is(err, errBusy) || o.busy == BusyInterrupt && errors.Is(err, cairn.ErrAlreadyRunning)
		if !busy && !outrun(err) {
			return nil, err
		}
		if o.runID != "" {
			if there, err := e.named(ctx, in.SessionID, o); there != nil || err != nil {
				return there, err
			}
		}
	}
}

// errBusy says that a session was in use and has been asked to make room; the caller looks again.
var errBusy = errors.New("busy")

// vacant returns the row of a session that neither runs nor waits. If it has to end a run or a wait first, the error is
// errBusy.
func (e *Engine) vacant(ctx context.Context, id string, o *runOptions) (*cairn.Session, error) {
	row, err := store.Load(ctx, e.store, id)
	if err != nil {
		return nil, err
	}
	if err := o.mayUse(row); err != nil {
		return nil, err
	}
	if row.RootID != id { // before anything of it is stopped
		return nil, store.NotRoot(row)
	}
	const why = "another turn takes its place"
	if o.runID != "" && row.RunID == o.runID {
		return nil, store.Conflict(cairn.CodeRunning, row, "session %q has run %q", id, o.runID)
	}
	switch {
	case row.Status == cairn.SessionPaused:
		err = e.stopOne(ctx, row, &cairn.Stop{RunID: row.RunID, Kind: cairn.StopInterrupt, Reason: why}, true)
	case row.Crashed(row.AsOf):
		if err = e.runs.CheckKeeper(ctx, row); err == nil {
			err = e.runs.Abandon(ctx, row)
		}
	case row.Status == cairn.SessionActive && o.busy == BusyInterrupt:
		err = e.Interrupt(ctx, id, why)
	default:
		return row, nil // begin refuses a session that a run holds
	}
	if err == nil || isConflict(err) {
		err = errBusy
	}
	return nil, err
}

// keepReplaced copies a session to a new one below it, before message n of it is replaced, and returns its id. The id
// derives from the session's version, so that a repeated call makes no second copy.
func (e *Engine) keepReplaced(ctx context.Context, row *cairn.Session, n int) (id string, err error) {
	first, err := store.Messages(ctx, e.store, row.ID, n, 1)
	if err != nil {
		return "", err
	}
	status, err := e.branchStatus(ctx, row.ID, row.MessageCount)
	if err != nil {
		return "", err
	}
	id = ids.Derive("replaced", row.Secret, row.ID, strconv.FormatInt(row.Version, 10))
	kept, err := e.store.Branch(ctx, row.ID, store.BranchPoint{}, &cairn.Session{ID: id, Agent: row.Agent, UserID: row.UserID, Status: status,
		Title: row.Title, Opening: row.Opening, OpeningAt: row.OpeningAt, Tags: row.Tags, Metadata: row.Metadata, Depth: row.Depth + 1,
		ParentID: row.ID, RootID: row.RootID, Incarnation: row.Incarnation, Kind: cairn.ChildReplaced, Name: first[0].ID,
		Secret: ids.Derive("secret", row.Secret, id)})
	switch {
	case errors.Is(err, cairn.ErrExists):
		return id, nil
	case err != nil:
		return "", err
	}
	e.upkeep.publish(ctx, row.Log(), cairn.Event{Type: cairn.EventBranched, SessionID: row.ID, Agent: row.Agent, ChildID: id,
		MessageCount: kept.MessageCount})
	return id, nil
}

// dropReplaced removes a copy that keepReplaced made for a turn that was not replaced. It may stay.
func (e *Engine) dropReplaced(ctx context.Context, id string) {
	if id == "" {
		return
	}
	if err := e.store.Delete(context.WithoutCancel(ctx), id); err != nil && !errors.Is(err, cairn.ErrNotFound) {
		e.opts.Logger.Warn("copy of a session that was not changed stays", "session", id, "error", err)
	}
}

// begunWith returns the id of the run that began with message n of a session: the first message of its user in that
// run.
func (e *Engine) begunWith(ctx context.Context, row *cairn.Session, n int) (runID string, err error) {
	no := cairn.Invalid("options", "FromMessage: no turn of session %q began with message %d", row.ID, n)
	list, err := store.Messages(ctx, e.store, row.ID, n, 1)
	if err != nil {
		return "", err
	}
	if len(list) == 0 || !said(&list[0]) {
		return "", no
	}
	run, err := store.FindRun(ctx, e.store, row.ID, list[0].RunID)
	if errors.Is(err, cairn.ErrNotFound) { // it belongs to the session that this one was branched from
		return "", no
	}
	if err != nil {
		return "", err
	}
	for at := run.FirstMessage; at < n; at += len(list) {
		if list, err = store.Messages(ctx, e.store, row.ID, at, n-at); err != nil {
			return "", err
		}
		if len(list) == 0 || slices.ContainsFunc(list, func(m cairn.Message) bool { return said(&m) }) {
			return "", no
		}
	}
	return run.ID, nil
}

// said reports whether a message was said by the user.
func said(m *cairn.Message) bool { return m.Role == cairn.RoleUser && !m.Hidden }
