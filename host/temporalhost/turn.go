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
)

// turnInput is what a workflow is started with.
type turnInput struct {
	engine.Begun
	// Call is the run that the call began which this one is a part of.
	Call string `json:"call"`
}

// effectInput is what an activity is started with.
type effectInput struct {
	Call string          `json:"call"`
	In   json.RawMessage `json:"in"`
}

// turn is the workflow.
func (h *Host) turn(ctx workflow.Context, in turnInput) (cairn.RunStatus, error) {
	work, cancelWork := workflow.NewDisconnectedContext(ctx)
	defer cancelWork()
	// A cancelled workflow is a stop request: the turn ends as interrupted, as any other way of stopping it does.
	workflow.Go(work, func(work workflow.Context) {
		if ctx.Done().Receive(work, nil); ctx.Err() != nil {
			_ = workflow.ExecuteActivity(workflow.WithActivityOptions(work, h.opts.Activity), interruptActivity, in.SessionID).Get(work, nil)
		}
	})
	status, err := engine.Drive(&scheduler{h, work, in}, in.Begun)
	var more *continues
	if errors.As(err, &more) {
		in.Step = more.step
		return "", workflow.NewContinueAsNewError(ctx, TurnWorkflow, in)
	}
	if err != nil {
		h.release(work, in.Position)
	}
	return status, outward(context.Background(), err)
}

// release lets a worker take over at once what this workflow can do no more for. If it fails the lease runs out all the same.
func (h *Host) release(ctx workflow.Context, at engine.Position) {
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

// continues says that the rest of a turn is for the next run of the workflow.
type continues struct{ step int }

func (c *continues) Error() string { return "the turn continues as new" }

func (s *scheduler) Do(e engine.Effect) error {
	if at, ok := e.In.(engine.Position); ok && e.Name == engine.EffectPlan && s.full(at) {
		return &continues{at.Step - 1}
	}
	if e.Name == engine.EffectCommit {
		return s.soon(e)
	}
	err := s.carry(e, s.h.opts.Activity)
	if err == nil || errors.Is(err, cairn.ErrFenced) {
		return err
	}
	if instead, ok := engine.GivenUp(e, cairn.AsError(err)); ok {
		return s.soon(instead)
	}
	return err
}

// soon carries an effect that is short out in this process, if it can.
func (s *scheduler) soon(e engine.Effect) error {
	in, err := s.input(e)
	if err != nil {
		return err
	}
	opts := s.h.opts.Commit
	err = inward(workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(s.ctx, opts), activityName(e.Name), in).Get(s.ctx, e.Out))
	if err == nil || errors.Is(err, cairn.ErrFenced) || errors.Is(err, cairn.ErrInvalid) {
		return err
	}
	// As an activity it can wait for as long as it takes, and go to another process.
	try := cmp.Or(opts.StartToCloseTimeout, opts.ScheduleToCloseTimeout)
	return s.carry(e, workflow.ActivityOptions{StartToCloseTimeout: try, HeartbeatTimeout: s.h.opts.Activity.HeartbeatTimeout, RetryPolicy: opts.RetryPolicy})
}

// carry carries an effect out as an activity. Where no worker has the agent yet, it waits for one.
func (s *scheduler) carry(e engine.Effect, opts workflow.ActivityOptions) error {
	in, err := s.input(e)
	if err != nil {
		return err
	}
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

func (s *scheduler) input(e engine.Effect) (effectInput, error) {
	raw, err := json.Marshal(e.In)
	return effectInput{s.in.Call, raw}, err
}

// full reports whether the workflow's history has become long enough before a step.
func (s *scheduler) full(at engine.Position) bool {
	steps := at.Step - 1 - s.in.Step
	if s.h.opts.StepsPerRun > 0 {
		return steps >= s.h.opts.StepsPerRun
	}
	return steps > 0 && workflow.GetInfo(s.ctx).GetContinueAsNewSuggested()
}

func (s *scheduler) All(n int, branch func(engine.Scheduler, int) error) error {
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

// Child drives a child's run. If this workflow is terminated because somebody has taken its run over, the child's goes on:
// whoever has the run finds it where it stands. If the child's is terminated, the child's session tells what is to be done.
func (s *scheduler) Child(_ engine.ToolIn, b engine.Begun) error {
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
	// releaseActivity lets go of a run that a workflow can drive no longer.
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
	out, err := e.eng.Effect(e.h.values.under(ctx, in.Call), e.name, in.In)
	if err == nil && (e.name == engine.EffectCommit || e.name == engine.EffectTell) {
		e.h.ended(in.Call, e.name, in.In, out)
	}
	return out, outward(ctx, err)
}

// ended lets go of the values of a call whose run has ended, once hooks have heard of that.
func (h *Host) ended(call, effect string, in, out json.RawMessage) {
	var at engine.Position
	var end engine.Committed
	if json.Unmarshal(in, &at) != nil || json.Unmarshal(out, &end) != nil || at.RunID != call {
		return
	}
	if effect == engine.EffectTell || end.Ended && !end.Tell {
		h.values.drop(call)
	}
}

// beat tells the server that the activity is alive.
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

// unknownAgent is the type of the error of an activity whose process does not have the agent: another one may.
const unknownAgent = "unknown_agent"

// outward makes an error one of Temporal's, of the type that is its code. Where it is no use to try again, or not here, it is
// not retried.
func outward(ctx context.Context, err error) error {
	var e *cairn.Error
	if !errors.As(err, &e) {
		return err
	}
	kind, local := string(e.Code), activity.IsActivity(ctx) && activity.GetInfo(ctx).IsLocalActivity
	final := e.Code == cairn.CodeFenced || e.Code == cairn.CodeInvalid || local && e.Code == cairn.CodeClosed
	switch {
	case e.Code == cairn.CodeNotFound && e.Field == "session": // it was deleted: there is nothing left to drive
		kind, final = string(cairn.CodeFenced), true
	case e.Code == cairn.CodeNotFound && e.Field == "agent":
		kind, final = unknownAgent, local
	}
	return temporal.NewApplicationErrorWithOptions(err.Error(), kind, temporal.ApplicationErrorOptions{NonRetryable: final})
}

// inward makes an error of Temporal's that stands for one of Cairn's that again.
func inward(err error) error {
	var app *temporal.ApplicationError
	var late *temporal.TimeoutError
	switch {
	case errors.As(err, &app):
		return &cairn.Error{Code: cairn.Code(app.Type()), Message: app.Message(), Cause: err}
	case errors.As(err, &late):
		return cairn.Errorf(cairn.CodeTimeout, "it did not end in time: %w", err)
	}
	return err
}
