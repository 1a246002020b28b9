package dboshost

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/host/loop"
	"github.com/cairn-agents/cairn/internal/ctxjoin"
	"github.com/cairn-agents/cairn/internal/turn/retry"
)

// outcome is the recorded output of a step or a workflow. Final errors are part of it, so that they keep their codes.
type outcome struct {
	Out json.RawMessage `json:"out,omitempty"`
	Err *cairn.Error    `json:"error,omitempty"`
	// Status is how the run of a workflow ended; empty for a step and for a run that this workflow did not end.
	Status cairn.RunStatus `json:"status,omitempty"`
}

// drive is a workflow that this process drives.
type drive struct {
	done chan struct{} // closed when this process stops driving it
	once sync.Once
	out  outcome
	err  error // why it did not complete
}

func (d *drive) end(out outcome, err error) {
	d.once.Do(func() {
		d.out, d.err = out, err
		close(d.done)
	})
}

// driving returns the drive of a workflow, and adds it if there is none.
func (h *Host) driving(id string) *drive {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.drives[id]
	if d == nil {
		d = &drive{done: make(chan struct{})}
		h.drives[id] = d
	}
	return d
}

func (h *Host) ended(id string, d *drive, out outcome, err error) {
	h.mu.Lock()
	if h.drives[id] == d {
		delete(h.drives, id)
	}
	h.mu.Unlock()
	d.end(out, err)
}

// turn is the workflow.
func (h *Host) turn(ctx dbos.Context, b host.Run) (outcome, error) {
	id, err := dbos.GetWorkflowID(ctx)
	if err != nil {
		return outcome{}, err
	}
	d := h.driving(id)
	status, err := loop.Drive(scheduler{h, ctx, d, b.Position}, b)
	if err != nil && ctx.Err() == nil {
		err = h.release(ctx, b, err)
	}
	out := outcome{Err: cairn.AsError(err), Status: status}
	h.ended(id, d, out, err) // callers need not wait for DBOS
	if ctx.Err() == nil {
		if failed := h.finish(ctx, id, status); failed != nil {
			h.opts.Logger.Warn("status of a workflow not recorded", "workflow", id, "status", status, "error", failed)
		}
	}
	return out, err
}

// release releases the lease of a run that this workflow can no longer drive, so that a worker takes over at once; if
// that fails, the lease lapses. If this process does not have the agent, as in a rolling deploy, the workflow ends
// without an error, because another process has the agent.
func (h *Host) release(ctx context.Context, b host.Run, why error) error {
	if err := h.served().ForHost().ReleaseRun(ctx, b.Position); err != nil {
		h.opts.Logger.Warn("lease not released; it will lapse", "session", b.SessionID, "error", err)
	}
	if unknownAgent(why) {
		h.opts.Logger.Warn("run released for a process that has the agent", "session", b.SessionID, "agent", b.Agent)
		return nil
	}
	return why
}

func unknownAgent(err error) bool {
	var e *cairn.Error
	return errors.As(err, &e) && e.Code == cairn.ErrNotFound && e.Field == "agent"
}

// effect carries out one effect, with as many attempts as it takes. Its output is recorded unless ctx is done.
func (h *Host) effect(ctx context.Context, d *drive, name string, in json.RawMessage) (outcome, error) {
	eng := h.served()
	if began, ok := ctx.Value(valuesKey{}).(context.Context); ok {
		ctx = ctxjoin.Join(ctx, began)
	}
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		out, err := eng.ForHost().Effect(ctx, name, in)
		switch {
		case err == nil:
			return outcome{Out: out}, nil
		case errors.Is(err, cairn.ErrClosed) || ctx.Err() != nil:
			return outcome{}, d.leave(ctx, err)
		case errors.Is(err, cairn.ErrNotFound) && !unknownAgent(err): // deleted: nothing is left to drive
			return outcome{Err: cairn.Errorf(cairn.ErrFenced, "%w", err)}, nil
		case errors.Is(err, cairn.ErrFenced), errors.Is(err, cairn.ErrNotFound), errors.Is(err, cairn.ErrInvalid):
			return outcome{Err: cairn.AsError(err)}, nil
		}
		h.opts.Logger.Warn("effect failed; retrying", "effect", name, "in", in, "error", err, "wait", wait)
		_ = retry.Sleep(ctx, wait)
	}
}

const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// leave leaves a workflow where it stands, because this process can no longer drive it. Callers that wait for it here
// get why as the error. The workflow blocks until the host is closed; DBOS then drops it without recording anything.
func (d *drive) leave(ctx context.Context, why error) error {
	d.end(outcome{}, why)
	<-ctx.Done()
	return context.Cause(ctx)
}

// valuesKey is the key, in a workflow's context, of the context of the call that began the run.
type valuesKey struct{}

// watch waits until a workflow has ended, by d if this process drives it, otherwise by polling the database. The error
// is ctx's, or says that this process can no longer drive it.
func (h *Host) watch(ctx context.Context, id string, d *drive) (outcome, error) {
	var here chan struct{}
	if d != nil {
		here = d.done
	}
	ticker := time.NewTicker(h.opts.PollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-here:
			return d.out, d.err
		case <-ctx.Done():
			return outcome{}, context.Cause(ctx)
		case <-ticker.C:
		}
		found, err := h.list(ctx, dbos.WithFilterWorkflowIDs(id))
		if err != nil || len(found) > 0 && underWay(found[0].Status) {
			continue // the next poll may succeed
		}
		out := h.recorded(id)
		if d != nil {
			h.ended(id, d, out, nil)
		}
		return out, nil
	}
}

func underWay(s dbos.WorkflowStatusType) bool {
	return s == dbos.WorkflowStatusPending || s == dbos.WorkflowStatusEnqueued || s == dbos.WorkflowStatusDelayed
}

// recorded returns the recorded outcome of a workflow that has ended.
func (h *Host) recorded(id string) (out outcome) {
	w, err := dbos.RetrieveWorkflow[outcome](h.dbos, id)
	if err == nil {
		out, err = w.GetResult()
	}
	switch {
	case err == nil || out.Err != nil:
	case errors.Is(err, dbos.ErrAwaitedWorkflowCancelled):
		out.Err = cairn.Errorf(cairn.ErrFenced, "workflow %s was cancelled", id)
	default:
		out.Err = cairn.Errorf(cairn.ErrUnavailable, "workflow %s: %w", id, err)
	}
	return out
}

// wait returns a function that waits for a workflow. If the workflow was cancelled, its run was or will be taken over.
func (h *Host) wait(id string, d *drive) func(context.Context) error {
	return func(ctx context.Context) error {
		out, err := h.watch(ctx, id, d)
		switch {
		case err != nil:
			return err
		case out.Err == nil, errors.Is(out.Err, cairn.ErrFenced):
			return nil
		}
		return out.Err
	}
}

// await waits for the workflow of a sub-agent and renews the lease of the waiting run at position at. Its output is
// recorded unless ctx is done.
func (h *Host) await(ctx context.Context, parent *drive, at host.Position, id string, d *drive) (out outcome, err error) {
	eng := h.served()
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		err = eng.ForHost().Hold(ctx, at, func(ctx context.Context) error {
			var left error
			if out, left = h.watch(ctx, id, d); out.Err != nil {
				return nil
			}
			return left
		})
		switch {
		case err == nil:
			return out, nil
		case ctx.Err() != nil, errors.Is(err, cairn.ErrClosed):
			return outcome{}, parent.leave(ctx, err)
		case errors.Is(err, cairn.ErrFenced), errors.Is(err, cairn.ErrNotFound):
			return outcome{Err: cairn.Errorf(cairn.ErrFenced, "%w", err)}, nil
		}
		h.opts.Logger.Warn("lease of a waiting run not renewed; retrying", "session", at.SessionID, "error", err, "wait", wait)
		if retry.Sleep(ctx, wait) != nil {
			return outcome{}, parent.leave(ctx, err)
		}
	}
}
