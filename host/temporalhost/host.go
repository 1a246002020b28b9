// Package temporalhost runs turns on Temporal: each as a workflow whose activities are the turn's effects, a model call, a
// tool call, a sub-agent's beginning or a commit. Sub-agents are child workflows. A turn that waits for people ends its
// workflow; the answer begins the next one, so nothing waits on the server.
//
//	c, err := client.Dial(client.Options{})
//	host, err := temporalhost.New(c, nil)
//	eng, err := engine.New(st, agents, &engine.Options{Host: host})
//	w := host.Worker(eng, worker.Options{})
//	err = w.Start()
//
// Everything stays in the store: histories hold ids and numbers only. So a process needs no worker to begin turns, answer
// or read, and processes with a worker, with another host and with none at all share sessions. Run [engine.Engine.Work]
// somewhere: it keeps people's deadlines, and begins again what could not be started.
package temporalhost

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/valued"
)

// Options tune a Host. The zero value and nil mean the defaults.
type Options struct {
	// TaskQueue is where workflows and activities are queued; empty means "cairn".
	TaskQueue string
	// Prefix begins the ids of workflows, which are {Prefix}/{agent}/{session}/{turn}; empty means "cairn". Stores that share a
	// namespace have a prefix each.
	Prefix string
	// SearchAttributes says that the server has the search attributes [SessionAttribute] and [AgentAttribute], keywords both,
	// and that workflows are to have them.
	SearchAttributes bool
	// Activity is how model calls, tools and sub-agents are run. Where it has no timeout, an activity may take 24 hours; where it
	// has no HeartbeatTimeout, a worker that has died is missed after 10 seconds. An activity is tried again until it
	// succeeds, after a second at first and a minute at most, unless RetryPolicy says otherwise. HeartbeatTimeout and the
	// policy's InitialInterval must together be less than the engine's LeaseTTL.
	//
	// A tool call or model call that has had all the tries that the policy allows has failed: the model is told that of the
	// tool, with the code timeout if it was that; the run fails with the model's error. A try whose worker has died counts.
	Activity workflow.ActivityOptions
	// Commit is how commits, which are short, are run: first as local activities. Where it has no timeout, one try may take a
	// minute, and so may all of them. They are tried again as activities are, after 100 milliseconds at first. A commit that
	// has not succeeded then becomes an activity, which any worker may have, under the same RetryPolicy and StartToCloseTimeout,
	// however long that takes.
	Commit workflow.LocalActivityOptions
	// StepsPerRun is after how many steps a turn continues as a new run of its workflow; 0 means when the server suggests it.
	StepsPerRun int
}

// The search attributes of workflows.
var (
	SessionAttribute = temporal.NewSearchAttributeKeyKeyword("CairnSession")
	AgentAttribute   = temporal.NewSearchAttributeKeyKeyword("CairnAgent")
)

// TurnWorkflow is the type of the workflows.
const TurnWorkflow = "cairn.Turn"

// Host is an [engine.Host]. It is safe for concurrent use.
type Host struct {
	client client.Client
	opts   Options
	values values
}

// New returns a host that starts workflows by a client, which stays the caller's to close. The error names the option that
// is wrong.
func New(c client.Client, opts *Options) (*Host, error) {
	if c == nil {
		return nil, cairn.Invalid("client", "is required")
	}
	h := &Host{client: c}
	if opts != nil {
		h.opts = *opts
	}
	o := &h.opts
	if o.StepsPerRun < 0 {
		return nil, cairn.Invalid("steps_per_run", "%d is negative", o.StepsPerRun)
	}
	if o.TaskQueue == "" {
		o.TaskQueue = "cairn"
	}
	if o.Prefix == "" {
		o.Prefix = "cairn"
	}
	if o.Activity.StartToCloseTimeout == 0 && o.Activity.ScheduleToCloseTimeout == 0 {
		o.Activity.StartToCloseTimeout = 24 * time.Hour
	}
	if o.Activity.HeartbeatTimeout == 0 {
		o.Activity.HeartbeatTimeout = 10 * time.Second
	}
	o.Activity.RetryPolicy = retries(o.Activity.RetryPolicy, time.Second)
	if o.Commit.StartToCloseTimeout == 0 && o.Commit.ScheduleToCloseTimeout == 0 {
		o.Commit.StartToCloseTimeout = time.Minute
	}
	o.Commit.RetryPolicy = retries(o.Commit.RetryPolicy, 100*time.Millisecond)
	return h, nil
}

// retries returns a copy of a retry policy with what it leaves out.
func retries(given *temporal.RetryPolicy, first time.Duration) *temporal.RetryPolicy {
	p := temporal.RetryPolicy{MaximumInterval: time.Minute}
	if given != nil {
		p = *given
	}
	if p.InitialInterval == 0 {
		p.InitialInterval = first
	}
	return &p
}

// Worker returns a worker of the host's task queue for the agents of an engine, which must have this host. The caller
// starts it, and stops it before the engine is closed.
//
// Unless opts say otherwise, heartbeats of activities are sent three times in Activity.HeartbeatTimeout, and what a dead process
// has kept of a workflow is waited for two seconds.
func (h *Host) Worker(eng *engine.Engine, opts worker.Options) worker.Worker {
	if opts.MaxHeartbeatThrottleInterval == 0 {
		opts.MaxHeartbeatThrottleInterval = h.opts.Activity.HeartbeatTimeout / 3
	}
	if opts.StickyScheduleToStartTimeout == 0 {
		opts.StickyScheduleToStartTimeout = 2 * time.Second
	}
	w := worker.New(h.client, h.opts.TaskQueue, opts)
	h.Register(w, eng)
	return w
}

// Register adds what turns need to a worker of the caller's own.
func (h *Host) Register(r worker.Registry, eng *engine.Engine) {
	r.RegisterWorkflowWithOptions(h.turn, workflow.RegisterOptions{Name: TurnWorkflow})
	r.RegisterActivityWithOptions(func(ctx context.Context, at engine.Position) error {
		return outward(ctx, eng.ReleaseRun(ctx, at))
	}, activity.RegisterOptions{Name: releaseActivity})
	for _, name := range []string{engine.EffectPlan, engine.EffectTool, engine.EffectChild, engine.EffectJudge, engine.EffectCommit, engine.EffectTell} {
		e := effect{h, eng, name}
		r.RegisterActivityWithOptions(e.run, activity.RegisterOptions{Name: activityName(name)})
	}
	r.RegisterActivityWithOptions(func(ctx context.Context, session string) error {
		return outward(ctx, eng.Interrupt(ctx, session, "its workflow was cancelled"))
	}, activity.RegisterOptions{Name: interruptActivity})
}

// Name implements [engine.Keeper]. Hosts of one prefix are taken for one.
func (h *Host) Name() string { return "temporal/" + strings.ReplaceAll(h.opts.Prefix, "@", "_") }

// CheckLease implements [engine.Keeper].
func (h *Host) CheckLease(ttl time.Duration) error {
	beat, wait := h.opts.Activity.HeartbeatTimeout, h.opts.Activity.RetryPolicy.InitialInterval
	if beat+wait >= ttl {
		return cairn.Invalid("lease_ttl", "%s is not longer than it takes Temporal to try again what a dead process did: "+
			"a heartbeat timeout of %s and a retry interval of %s", ttl, beat, wait)
	}
	return nil
}

// Driving implements [engine.Keeper]. A workflow that runs needs nobody's help, however long it waits for a worker, unless its
// code has failed too often, as where that no longer fits its history.
func (h *Host) Driving(ctx context.Context, b engine.Begun) (bool, error) {
	d, err := h.client.DescribeWorkflow(ctx, h.workflowID(b), "")
	var gone *serviceerror.NotFound
	if errors.As(err, &gone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var token int64
	if d.Status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING || d.GetMemoValue(tokenMemo, &token) != nil || token != b.Token {
		return false, nil
	}
	raw, err := h.client.DescribeWorkflowExecution(ctx, h.workflowID(b), d.WorkflowExecution.RunID)
	if err != nil {
		return false, err
	}
	return raw.GetPendingWorkflowTask().GetAttempt() <= maxReplays, nil
}

// maxReplays is how often the code of a workflow may fail, one time after the other, before its run is taken over.
const maxReplays = 10

// Start implements engine.Host. A workflow that drives the run already is terminated: it has lost the lease. The error is
// ErrFenced if it is this process that has.
func (h *Host) Start(ctx context.Context, b engine.Begun) (func(context.Context) error, error) {
	h.values.put(b.RunID, ctx)
	run, err := h.start(ctx, b)
	if err != nil {
		h.values.drop(b.RunID)
		return nil, err
	}
	return func(ctx context.Context) error {
		err := run.Get(ctx, nil)
		var terminated *temporal.TerminatedError
		var gone *serviceerror.NotFound
		if errors.As(err, &terminated) || errors.As(err, &gone) { // the run was taken over, or all of it is long past
			return nil
		}
		return inward(err)
	}, nil
}

// start starts the workflow of a run in place of those that drove it under earlier leases.
func (h *Host) start(ctx context.Context, b engine.Begun) (client.WorkflowRun, error) {
	opts := client.StartWorkflowOptions{
		ID: h.workflowID(b), TaskQueue: h.opts.TaskQueue,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		TypedSearchAttributes:                    h.attributes(b),
		Memo:                                     memo(b),
	}
	for {
		run, err := h.client.ExecuteWorkflow(ctx, opts, TurnWorkflow, turnInput{Begun: b, Call: b.RunID})
		var there *serviceerror.WorkflowExecutionAlreadyStarted
		if errors.As(err, &there) {
			if err = h.overtake(ctx, b, there.RunId); err == nil {
				continue
			}
		}
		if err == nil || errors.Is(err, cairn.ErrFenced) {
			return run, err
		}
		return nil, cairn.Errorf(cairn.CodeUnavailable, "session %q: workflow %s was not started: %w", b.SessionID, opts.ID, err)
	}
}

// overtake terminates a run of the workflow, unless that drives under a later lease.
func (h *Host) overtake(ctx context.Context, b engine.Begun, run string) error {
	var gone *serviceerror.NotFound
	d, err := h.client.DescribeWorkflow(ctx, h.workflowID(b), run)
	if err == nil {
		var token int64
		if d.GetMemoValue(tokenMemo, &token) == nil && token > b.Token { // one that has none was started by an earlier version
			return cairn.Errorf(cairn.CodeFenced, "session %q: run %s was taken over by another process", b.SessionID, b.RunID)
		}
		err = h.client.TerminateWorkflow(ctx, h.workflowID(b), run, "the run was taken over")
	}
	if errors.As(err, &gone) { // it has just ended
		return nil
	}
	return err
}

// tokenMemo is the memo of workflows that has the fencing token of the lease under which they drive.
const tokenMemo = "cairn.token"

func memo(b engine.Begun) map[string]any { return map[string]any{tokenMemo: b.Token} }

// workflowID is the same whenever a run is started, so that no two workflows drive it.
func (h *Host) workflowID(b engine.Begun) string {
	return fmt.Sprintf("%s/%s/%s/%s", h.opts.Prefix, b.Agent, b.SessionID, strconv.Itoa(b.Turn))
}

func (h *Host) attributes(b engine.Begun) temporal.SearchAttributes {
	if !h.opts.SearchAttributes {
		return temporal.NewSearchAttributes()
	}
	return temporal.NewSearchAttributes(SessionAttribute.ValueSet(b.SessionID), AgentAttribute.ValueSet(b.Agent))
}

// maxValues bounds of how many runs that this process began the values are kept, if they end elsewhere.
const maxValues = 1024

// values are those of the contexts of calls that began runs, by run, for effects that are carried out in this process.
type values struct {
	mu    sync.Mutex
	by    map[string]context.Context
	order []string
}

func (v *values) put(run string, ctx context.Context) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.by == nil {
		v.by = map[string]context.Context{}
	}
	if _, there := v.by[run]; !there {
		v.order = append(v.order, run)
	}
	v.by[run] = ctx
	if len(v.order) > maxValues {
		delete(v.by, v.order[0])
		v.order = v.order[1:]
	}
}

func (v *values) drop(run string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.by, run)
	if i := slices.Index(v.order, run); i >= 0 {
		v.order = slices.Delete(v.order, i, i+1)
	}
}

// under returns ctx with the values of the call that began a run, if this process did.
func (v *values) under(ctx context.Context, run string) context.Context {
	v.mu.Lock()
	defer v.mu.Unlock()
	if call, ok := v.by[run]; ok {
		return valued.Join(ctx, call)
	}
	return ctx
}
