package temporalhost

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/host/loop"
)

// turnInput is a workflow's input.
type turnInput struct {
	host.Run
	// Call names the run that the user's call began, see callOf; in a child workflow it is an ancestor of the child's run.
	Call string `json:"call"`
}

// effectInput is an activity's input.
type effectInput struct {
	Call string          `json:"call"`
	In   json.RawMessage `json:"in"`
}

// turn is the workflow.
func (h *Host) turn(ctx workflow.Context, in turnInput) (cairn.RunStatus, error) {
	work, cancelWork := workflow.NewDisconnectedContext(ctx)
	defer cancelWork()
	// Cancelling the workflow is a stop request: the turn ends as interrupted, as by any other stop.
	workflow.Go(work, func(work workflow.Context) {
		if ctx.Done().Receive(work, nil); ctx.Err() != nil {
			_ = workflow.ExecuteActivity(workflow.WithActivityOptions(work, h.opts.Activity), interruptActivity, in.SessionID).Get(work, nil)
		}
	})
	status, err := loop.Drive(&scheduler{h, work, in}, in.Run)
	var more *continues
	if errors.As(err, &more) {
		in.Step = more.step
		return "", workflow.NewContinueAsNewError(ctx, TurnWorkflow, in)
	}
	if err != nil {
		h.release(work, in.Position)
	}
	if h.opts.SearchAttributes {
		// What cannot be upserted, such as an attribute that the server lost, must not keep the workflow open.
		_ = workflow.UpsertTypedSearchAttributes(work, StatusAttribute.ValueSet(cmp.Or(string(status), StatusReleased)))
	}
	return status, outward(context.Background(), err)
}

// release releases the lease of a run that this workflow can no longer drive, so that a worker takes over at once. If
// that fails, the lease lapses.
func (h *Host) release(ctx workflow.Context, at host.Position) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: h.opts.Activity.HeartbeatTimeout,
		ScheduleToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, MaximumAttempts: 3}})
	_ = workflow.ExecuteActivity(ctx, releaseActivity, at).Get(ctx, nil)
}

// scheduler is the loop's view of a workflow, or of one of its coroutines.
type scheduler struct {
	h   *Host
	ctx workflow.Context
	in  turnInput
}

// continues moves the rest of a turn to the next run of the workflow.
type continues struct{ step int }

func (c *continues) Error() string { return "the turn continues as new" }

func (s *scheduler) Do(e host.Effect) error {
	if at, ok := e.In.(host.Position); ok && e.Name == host.EffectPlan && s.full(at) {
		return &continues{at.Step - 1}
	}
	if e.Name == host.EffectCommit {
		return s.soon(e)
	}
	err := s.carry(e, s.h.opts.Activity)
	if err == nil || errors.Is(err, cairn.ErrFenced) {
		return err
	}
	if instead, ok := loop.Instead(e, cairn.AsError(err)); ok {
		return s.soon(instead)
	}
	return err
}

// soon carries out a short effect as a local activity in this process; if that fails, as an activity.
func (s *scheduler) soon(e host.Effect) error {
	in, err := s.input(e)
	if err != nil {
		return err
	}
	opts := s.h.opts.Commit
	err = inward(workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(s.ctx, opts), activityName(e.Name), in).Get(s.ctx, e.Out))
	if err == nil || errors.Is(err, cairn.ErrFenced) || errors.Is(err, cairn.ErrInvalid) {
		return err
	}
	// An activity may take as long as needed, and may move to another process.
	try := cmp.Or(opts.StartToCloseTimeout, opts.ScheduleToCloseTimeout)
	return s.carry(e, workflow.ActivityOptions{StartToCloseTimeout: try, HeartbeatTimeout: s.h.opts.Activity.HeartbeatTimeout, RetryPolicy: opts.RetryPolicy})
}

// carry carries out an effect as an activity. It waits while no worker has the agent.
func (s *scheduler) carry(e host.Effect, opts workflow.ActivityOptions) error {
	in, err := s.input(e)
	if err != nil {
		return err
	}
	opts.Summary = e.Tool
	ctx := workflow.WithActivityOptions(s.ctx, opts)
	for wait := opts.RetryPolicy.InitialInterval; ; wait = min(2*wait, time.Minute) {
		err := workflow.ExecuteActivity(ctx, activityName(e.Name), in).Get(ctx, e.Out)
		var app *temporal.ApplicationError
		if !errors.As(err, &app) || app.Type() != unknownAgent {
			return inward(err)
		}
		if err := workflow.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

func (s *scheduler) input(e host.Effect) (effectInput, error) {
	raw, err := json.Marshal(e.In)
	return effectInput{s.in.Call, raw}, err
}

// full reports whether the workflow should continue as new before this step.
func (s *scheduler) full(at host.Position) bool {
	steps := at.Step - 1 - s.in.Step
	if s.h.opts.StepsPerRun > 0 {
		return steps >= s.h.opts.StepsPerRun
	}
	return steps > 0 && workflow.GetInfo(s.ctx).GetContinueAsNewSuggested()
}

func (s *scheduler) All(n int, branch func(host.Scheduler, int) error) error {
	errs := make([]error, n)
	branches := workflow.NewWaitGroup(s.ctx)
	for i := range n {
		branches.Add(1)
		workflow.Go(s.ctx, func(ctx workflow.Context) {
			defer branches.Done()
			errs[i] = branch(&scheduler{s.h, ctx, s.in}, i)
		})
	}
	branches.Wait(s.ctx)
	return errors.Join(errs...)
}

// Child drives a child's run. If this workflow is terminated because its run was taken over, the child's workflow keeps
// running, and the next lease holder finds it. If the child's workflow is terminated, the parent reads the child's
// session.
func (s *scheduler) Child(_ host.Call, b host.Run) error {
	ctx := workflow.WithChildOptions(s.ctx, workflow.ChildWorkflowOptions{
		WorkflowID: s.h.workflowID(b),
		//lint:ignore SA1019 child workflows have no WorkflowIDConflictPolicy, which is to be used instead
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_TERMINATE_IF_RUNNING,
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_ABANDON,
		TypedSearchAttributes: s.h.attributes(b),
		Memo:                  memo(b),
	})
	err := workflow.ExecuteChildWorkflow(ctx, TurnWorkflow, turnInput{b, s.in.Call}).Get(ctx, nil)
	var terminated *temporal.TerminatedError
	if errors.As(err, &terminated) {
		return nil
	}
	return inward(err)
}

const (
	// interruptActivity stops a run whose workflow was cancelled.
	interruptActivity = "cairn.interrupt"
	// releaseActivity releases the lease of a run that its workflow can no longer drive.
	releaseActivity = "cairn.release"
)

func activityName(effect string) string { return "cairn." + effect }

// effect is an activity.
type effect struct {
	h    *Host
	eng  *engine.Engine
	name string
}

func (e effect) run(ctx context.Context, in effectInput) (json.RawMessage, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if every := activity.GetInfo(ctx).HeartbeatTimeout / 3; every > 0 {
		beating := make(chan struct{})
		go func() {
			defer close(beating)
			beat(ctx, every)
		}()
		defer func() {
			stop()
			<-beating
		}()
	}
	out, err := e.eng.ForHost().Effect(e.h.values.under(ctx, in.Call), e.name, in.In)
	if err == nil && (e.name == host.EffectCommit || e.name == host.EffectNotify) {
		e.h.ended(in.Call, e.name, in.In, out)
	}
	return out, outward(ctx, err)
}

// callOf names a run among those of all sessions.
func callOf(at *host.Position) string { return at.SessionID + "/" + at.RunID }

// ended drops the context values of a call once its run has ended and its hooks have run.
func (h *Host) ended(call, effect string, in, out json.RawMessage) {
	var at host.Position
	var end host.Committed
	if json.Unmarshal(in, &at) != nil || json.Unmarshal(out, &end) != nil || callOf(&at) != call {
		return
	}
	if effect == host.EffectNotify || end.Ended && !end.Notify {
		h.values.drop(call)
	}
}

// beat reports to the server that the activity is alive.
func beat(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			activity.RecordHeartbeat(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// unknownAgent is the error type of an activity whose process does not have the agent; another process may have it.
const unknownAgent = "unknown_agent"

// outward converts an error into one of Temporal's, with its code as the type. An error that a retry cannot cure here
// is not retryable.
func outward(ctx context.Context, err error) error {
	var e *cairn.Error
	switch {
	case errors.As(err, &e):
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil: // the activity says so before Temporal does
		e = errLate(err)
		err = e
	default:
		return err
	}
	kind, local := string(e.Code), activity.IsActivity(ctx) && activity.GetInfo(ctx).IsLocalActivity
	final := errors.Is(e, cairn.ErrFenced) || e.Code == cairn.ErrInvalid || local && e.Code == cairn.ErrClosed
	switch {
	case e.Code == cairn.ErrNotFound && e.Field == "session": // deleted: nothing is left to drive
		kind, final = string(cairn.ErrFenced), true
	case e.Code == cairn.ErrNotFound && e.Field == "agent":
		kind, final = unknownAgent, local
	}
	return temporal.NewApplicationErrorWithOptions(err.Error(), kind, temporal.ApplicationErrorOptions{NonRetryable: final})
}

// sdkLate is the type of the error that Temporal's SDK returns for an activity which ends after its deadline.
const sdkLate = "DeadlineExceeded"

// inward converts an error of Temporal's back into one of Cairn's.
func inward(err error) error {
	var app *temporal.ApplicationError
	var late *temporal.TimeoutError
	switch {
	case errors.As(err, &app) && app.Type() == sdkLate:
		return errLate(err)
	case errors.As(err, &app):
		return &cairn.Error{Code: cairn.Code(app.Type()), Message: app.Message(), Cause: err}
	case errors.As(err, &late):
		return errLate(err)
	}
	return err
}

// errLate returns the error of an activity that did not end in time.
func errLate(err error) *cairn.Error {
	return cairn.Errorf(cairn.ErrTimeout, "timed out: %w", err)
}
