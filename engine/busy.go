package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/lifecycle"
	"github.com/cairn-agents/cairn/store/driver"
)

// placeOnce is place, except that a turn whose message was given before is not begun: it returns that turn's run.
func (e *Engine) placeOnce(ctx context.Context, in lifecycle.Turn, input *cairn.Input, o *runOptions) (*Run, error) {
	for {
		run, err := e.place(ctx, in, input, o)
		var repeated *lifecycle.RepeatedError
		if !errors.As(err, &repeated) {
			return run, err
		}
		before := *o
		before.runID = repeated.RunID
		if there, err := e.named(ctx, in.SessionID, &before); there != nil || err != nil { // else it was taken back meanwhile
			return there, err
		}
	}
}

// place begins a turn, or queues it or makes room for it if a run or a wait holds its session, as the options say.
// Other callers may do the same concurrently: it retries until the turn has begun or is queued, or ctx is done.
func (e *Engine) place(ctx context.Context, in lifecycle.Turn, input *cairn.Input, o *runOptions) (*Run, error) {
	for try := 0; ; try++ {
		if err := e.pause(ctx, try); err != nil {
			return nil, err
		}
		run, err := e.beginTurn(ctx, in, input)
		dead := died(err)
		if err != nil && o.runID != "" { // the run in the way may be its own
			if there, err := e.named(ctx, in.SessionID, o); there != nil || err != nil {
				if there != nil && dead {
					e.recoverSoon(in.SessionID)
				}
				return there, err
			}
		}
		switch {
		case dead && o.busy != BusyInterrupt && o.busy != BusyRollback:
			run, err = e.behindDead(ctx, in.SessionID, input, o)
		case errors.Is(err, cairn.ErrWaiting):
			run, err = e.wait(ctx, &in, input, o)
		case dead, o.busy != BusyReject && errors.Is(err, cairn.ErrAlreadyRunning):
			run, err = e.makeRoom(ctx, &in, input, o, try > 0)
		case !outrun(err):
			return run, err
		default:
			continue
		}
		// Look again if another caller was faster or the session is gone.
		over := err != nil && !isConflict(err) && !outrun(err) && !errors.Is(err, cairn.ErrNotFound)
		if run != nil || over || errors.Is(err, cairn.ErrWaiting) || dead && errors.Is(err, cairn.ErrAlreadyRunning) {
			return run, err
		}
	}
}

// makeRoom applies the options to a session that another run holds. If it returns neither a run nor an error, the turn
// may be able to begin.
func (e *Engine) makeRoom(ctx context.Context, in *lifecycle.Turn, input *cairn.Input, o *runOptions, asked bool) (*Run, error) {
	switch o.busy {
	case BusyInterrupt:
		_, err := e.interruptCurrent(ctx, in, o)
		return nil, err
	case BusyRollback:
		return nil, e.rollback(ctx, in, o)
	}
	return e.enqueue(ctx, in.SessionID, input, o, o.busy == BusySteer, func(row *cairn.Session, _ *driver.Commit) (bool, error) {
		return row.Running(row.AsOf) || asked && row.Status == cairn.SessionActive, nil
	})
}

// behindDead queues a turn behind the run of a process that has died, and takes the run over. If this process dies in
// between, a worker does. A turn that cannot be queued is refused as long as the run holds the session.
func (e *Engine) behindDead(ctx context.Context, sessionID string, input *cairn.Input, o *runOptions) (*Run, error) {
	if err := o.storable(); err != nil {
		e.recoverSoon(sessionID)
		return nil, cairn.Errorf(cairn.ErrAlreadyRunning, "session %q: cannot queue the turn while the run of a dead process is being recovered: %w", sessionID, err)
	}
	run, err := e.enqueue(ctx, sessionID, input, o, false, func(row *cairn.Session, _ *driver.Commit) (bool, error) {
		return row.Crashed(row.AsOf), nil
	})
	if run != nil && err == nil {
		e.recoverSoon(sessionID)
	}
	return run, err
}

// outrun reports whether a turn could not begin because another caller was faster, without showing what holds the
// session now.
func outrun(err error) bool {
	return errors.Is(err, cairn.ErrExists) || errors.Is(err, cairn.ErrFenced) || errors.Is(err, cairn.ErrStale)
}

// slowestTry is the longest pause before another attempt to begin a turn.
const slowestTry = 250 * time.Millisecond

// pause waits before each attempt except the first two, for a random time below a bound that doubles each time.
func (e *Engine) pause(ctx context.Context, try int) error {
	if try < 2 {
		return ctx.Err()
	}
	timer := time.NewTimer(rand.N(min(time.Millisecond<<min(try, 10), slowestTry)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-e.ctx.Done():
		return errClosed()
	}
}

// interruptCurrent interrupts the run of the session that a turn is for, and returns its id, which is empty if it is the
// run that the options name. The error is a RepeatedError if the session has got the turn's message meanwhile.
func (e *Engine) interruptCurrent(ctx context.Context, in *lifecycle.Turn, o *runOptions) (string, error) {
	row, err := driver.Load(ctx, e.store, in.SessionID)
	if err != nil || row.RunID == o.runID {
		return "", err
	}
	if err := e.runs.CheckNext(ctx, row, in); err != nil {
		return "", err
	}
	stop := cairn.Stop{RunID: row.RunID, Kind: cairn.StopInterrupt, Reason: "replaced by another turn"}
	return row.RunID, e.stopRun(ctx, in.SessionID, stop)
}

// rollback stops a session's run and undoes it. It adds the tools that the run had called to those that in names.
func (e *Engine) rollback(ctx context.Context, in *lifecycle.Turn, o *runOptions) error {
	runID, err := e.interruptCurrent(ctx, in, o)
	if runID == "" || err != nil && !isConflict(err) { // a run in conflict may have been interrupted by another caller
		return err
	}
	for try := 0; ; try++ {
		if err := e.pause(ctx, try); err != nil {
			return err
		}
		err := e.undo(ctx, in, runID)
		if !errors.Is(err, cairn.ErrStale) { // else the row has changed, though perhaps by no turn
			return err
		}
	}
}

// undo removes a session's interrupted run, unless another one has begun since or the run had ended by itself. The error
// is ErrStale if the session changes meanwhile.
func (e *Engine) undo(ctx context.Context, in *lifecycle.Turn, runID string) error {
	sessionID := in.SessionID
	row, err := driver.Load(ctx, e.store, sessionID)
	if err != nil || row.RunID != runID || row.Status != cairn.SessionInterrupted {
		return err
	}
	called, err := e.called(ctx, sessionID, runID)
	if err != nil {
		return err
	}
	run, err := driver.FindRun(ctx, e.store, sessionID, runID)
	if err != nil {
		return err
	}
	status, err := driver.StatusAt(ctx, e.store, sessionID, run.FirstMessage)
	if err != nil {
		return err
	}
	before := row
	_, err = e.runs.Write(ctx, sessionID, row, &driver.Commit{Guard: driver.Guard{Version: row.Version, Idle: true},
		RewindRun: runID, DropStaged: true, Status: status, Suspend: &driver.Suspend{},
		Events: e.runs.Marks(row, "", lifecycle.Rewound(cairn.Event{RunID: runID, MessageCount: run.FirstMessage}))})
	if err != nil {
		return err
	}
	e.dropCopy(ctx, before)
	in.RolledBack = append(in.RolledBack, called...)
	return nil
}

// called returns the names of the tools that a session's last run has called, each once, in the order of their results.
// Calls that were closed without being executed do not count.
func (e *Engine) called(ctx context.Context, sessionID, runID string) (names []string, err error) {
	run, err := driver.FindRun(ctx, e.store, sessionID, runID)
	if err != nil {
		return nil, err
	}
	const size = 100
	for at := run.FirstMessage; ; at += size {
		page, err := driver.Messages(ctx, e.store, sessionID, at, size)
		if err != nil {
			return nil, err
		}
		for i := range page {
			for _, r := range page[i].ToolResults() {
				if page[i].RunID == runID && mayHaveRun(r) && !slices.Contains(names, r.Tool) {
					names = append(names, r.Tool)
				}
			}
		}
		if len(page) < size {
			return names, nil
		}
	}
}

// mayHaveRun reports whether the tool of a result was executed, or may have been.
func mayHaveRun(r *cairn.ToolResult) bool {
	switch r.Code {
	case cairn.ErrNotExecuted, cairn.ErrDenied, cairn.ErrUnknownTool, cairn.ErrToolOff, cairn.ErrArguments:
		return false
	}
	return true
}
