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
	"github.com/cairn-agents/cairn/store/driver"
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
			var replaced string
			var kept *cairn.Session
			if replaced, err = e.begunWith(ctx, row, *o.from); err == nil && o.keep && row.Status != cairn.SessionActive { // which begin refuses
				kept, err = e.keepReplaced(ctx, row, *o.from)
			}
			if err == nil {
				var run *Run
				run, err = e.begin(ctx, &in.NewRun, input, func() (host.Run, error) { return e.runs.Replace(ctx, in, replaced, row.Version) })
				if err == nil {
					e.replaced(ctx, row, kept)
					return run, nil
				}
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
	row, err := driver.Load(ctx, e.store, id)
	if err != nil {
		return nil, err
	}
	if err := o.mayUse(row); err != nil {
		return nil, err
	}
	if row.RootID != id { // before anything of it is stopped
		return nil, driver.NotRoot(row)
	}
	const why = "replaced by another turn"
	if o.runID != "" && row.RunID == o.runID {
		return nil, driver.Conflict(cairn.ErrAlreadyRunning, row, "session %q already has run %q", id, o.runID)
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
	if err == nil || isConflict(err) && !ending(err) {
		err = errBusy
	}
	return nil, err
}

// keepReplaced copies a session to a new one below it, before message n of it is replaced. A repeated call makes no second
// copy of the same version; one of an earlier version, left by a dead process, is replaced. A turn that is refused leaves
// the copy: another call may be about to begin the turn with it.
func (e *Engine) keepReplaced(ctx context.Context, row *cairn.Session, n int) (kept *cairn.Session, err error) {
	first, err := driver.Messages(ctx, e.store, row.ID, n, 1)
	if err != nil {
		return nil, err
	}
	status, err := e.branchStatus(ctx, row.ID, row.MessageCount)
	if err != nil {
		return nil, err
	}
	id := copyOf(row)
	secret := ids.Derive("secret", row.Secret, id, strconv.FormatInt(row.Version, 10)) // names the version, too
	branch := func() (*cairn.Session, error) {
		return e.store.Branch(ctx, row.ID, driver.BranchPoint{}, &cairn.Session{ID: id, Agent: row.Agent, UserID: row.UserID, Status: status,
			Title: row.Title, Opening: row.Opening, OpeningAt: row.OpeningAt, Tags: row.Tags, Metadata: row.Metadata, Depth: row.Depth + 1,
			ParentID: row.ID, RootID: row.RootID, Incarnation: row.Incarnation, Kind: cairn.ChildReplaced, Name: first[0].ID, Secret: secret})
	}
	if kept, err = branch(); !errors.Is(err, cairn.ErrExists) {
		return kept, err
	}
	if kept, err = driver.Load(ctx, e.store, id); err == nil && kept.Secret == secret {
		return kept, nil
	}
	if err == nil || errors.Is(err, cairn.ErrNotFound) {
		if err = e.forget(ctx, id); err == nil {
			return branch()
		}
	}
	return nil, err
}

// replaced completes a replacement, which has begun: the copy of what was replaced is announced, and the oldest ones beyond
// Options.MaxReplaced are removed. kept is nil without [KeepReplaced].
func (e *Engine) replaced(ctx context.Context, row, kept *cairn.Session) {
	ctx = context.WithoutCancel(ctx)
	if kept == nil {
		e.dropCopy(ctx, row)
		return
	}
	e.upkeep.publish(ctx, row.Log(), cairn.Event{Type: cairn.EventBranched, SessionID: row.ID, Agent: row.Agent, ChildID: kept.ID,
		MessageCount: kept.MessageCount})
	if e.opts.MaxReplaced < 0 {
		return
	}
	var list []cairn.Session
	for s, err := range store.All(func(cursor string) (store.Page[cairn.Session], error) {
		return e.store.List(ctx, store.SessionQuery{ParentID: row.ID, Limit: 1000, Cursor: cursor})
	}) {
		if err != nil {
			e.opts.Logger.Warn("cannot count earlier versions of a session", "session", row.ID, "error", err)
			return
		}
		if s.Kind == cairn.ChildReplaced && s.ID != kept.ID {
			list = append(list, *s)
		}
	}
	slices.SortFunc(list, func(a, b cairn.Session) int { return b.CreatedAt.Compare(a.CreatedAt) }) // newest first
	for _, old := range list[min(len(list), e.opts.MaxReplaced-1):] {
		if err := e.forget(ctx, old.ID); err != nil {
			e.opts.Logger.Warn("earlier version of a session not deleted", "session", old.ID, "error", err)
		}
	}
}

// begunWith returns the id of the run that began with message n of a session: the first message of its user in that
// run.
func (e *Engine) begunWith(ctx context.Context, row *cairn.Session, n int) (runID string, err error) {
	no := cairn.Invalid("options", "FromMessage: no turn of session %q began with message %d", row.ID, n)
	list, err := driver.Messages(ctx, e.store, row.ID, n, 1)
	if err != nil {
		return "", err
	}
	if len(list) == 0 || !said(&list[0]) {
		return "", no
	}
	run, err := driver.FindRun(ctx, e.store, row.ID, list[0].RunID)
	if errors.Is(err, cairn.ErrNotFound) { // it belongs to the session that this one was branched from
		return "", no
	}
	if err != nil {
		return "", err
	}
	for at := run.FirstMessage; at < n; at += len(list) {
		if list, err = driver.Messages(ctx, e.store, row.ID, at, n-at); err != nil {
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
