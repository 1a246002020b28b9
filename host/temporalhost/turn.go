package temporalhost

import (
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
	return status, outward(err)
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
	raw, err := json.Marshal(e.In)
	if err != nil {
		return err
	}
	in := effectInput{s.in.Call, raw}
	var done workflow.Future
	if e.Name == engine.EffectCommit {
		done = workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(s.ctx, s.h.opts.Commit), activityName(e.Name), in)
	} else {
		done = workflow.ExecuteActivity(workflow.WithActivityOptions(s.ctx, s.h.opts.Activity), activityName(e.Name), in)
	}
	return inward(done.Get(s.ctx, e.Out))
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

// interruptActivity stops a run whose workflow was cancelled.
const interruptActivity = "cairn.interrupt"

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
	if err == nil && e.name == engine.EffectCommit {
		e.h.ended(in.Call, in.In, out)
	}
	return out, outward(err)
}

// ended lets go of the values of a call whose run has ended.
func (h *Host) ended(call string, in, out json.RawMessage) {
	var at engine.Position
	var end struct {
		Ended bool `json:"ended"`
	}
	if json.Unmarshal(in, &at) == nil && json.Unmarshal(out, &end) == nil && end.Ended && at.RunID == call {
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

// outward makes an error one of Temporal's, of the type that is its code.
func outward(err error) error {
	var e *cairn.Error
	if !errors.As(err, &e) {
		return err
	}
	code := e.Code
	if code == cairn.CodeNotFound && e.Field == "session" { // it was deleted: there is nothing left to drive
		code = cairn.CodeFenced
	}
	return temporal.NewApplicationErrorWithOptions(err.Error(), string(code), temporal.ApplicationErrorOptions{
		NonRetryable: code == cairn.CodeFenced || code == cairn.CodeInvalid})
}

// inward makes an error of Temporal's that stands for one of Cairn's that again.
func inward(err error) error {
	var e *temporal.ApplicationError
	if !errors.As(err, &e) {
		return err
	}
	return &cairn.Error{Code: cairn.Code(e.Type()), Message: e.Message(), Cause: err}
}
