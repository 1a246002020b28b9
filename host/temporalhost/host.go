// Package temporalhost runs turns on Temporal. A turn is a workflow, and its effects are activities: a model call, a
// tool call, the begin of a sub-agent, a commit. Sub-agents are child workflows. A suspended turn ends its workflow,
// and the answer starts the next workflow, so the server holds nothing for a suspended session.
//
//	c, err := client.Dial(client.Options{})
//	host, err := temporalhost.New(c, nil)
//	eng, err := engine.New(st, agents, &engine.Options{Host: host})
//	w := host.Worker(eng, worker.Options{})
//	err = w.Start()
//
// All data stays in the store; histories hold ids and numbers only. A process needs no worker to begin turns, answer or
// read. Processes with a worker, with another host and with no host can share sessions. Some process must run
// [engine.Engine.Work]: it enforces deadlines of pending calls and starts runs that failed to start.
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
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/internal/ctxjoin"
)

// Options tune a Host. The zero value and nil mean the defaults.
type Options struct {
	// TaskQueue is where workflows and activities are queued; empty means "cairn".
	TaskQueue string
	// Prefix begins the ids of workflows, which are {Prefix}/{agent}/{session}/{turn}; empty means "cairn". Stores that
	// share a namespace need different prefixes.
	Prefix string
	// SearchAttributes sets the search attributes [SessionAttribute], [AgentAttribute] and [StatusAttribute] on
	// workflows. The server must have all three, as keywords.
	SearchAttributes bool
	// Activity configures the activities of model calls, tools and sub-agents. Without a timeout an activity may take
	// 24 hours; without a HeartbeatTimeout a dead worker is detected after 10 seconds. Temporal retries an activity
	// until it succeeds, after one second at first and at most a minute later, unless RetryPolicy says otherwise.
	// HeartbeatTimeout plus the policy's InitialInterval must be less than the engine's LeaseTTL.
	//
	// A tool call or model call fails for good after its last attempt under the policy. A tool's failure goes to the
	// model, with the code timeout if the attempt timed out; a model's fails the run. An attempt whose worker died
	// counts.
	Activity workflow.ActivityOptions
	// Commit configures commits, which are short and run as local activities first. Without a timeout, one attempt may
	// take a minute, and so may all of them together. They are retried like activities, after 100 milliseconds at
	// first. A commit that fails all the same becomes an activity for any worker, with the same RetryPolicy and
	// StartToCloseTimeout and no limit on the total time.
	Commit workflow.LocalActivityOptions
	// StepsPerRun is the number of steps after which a turn continues as a new run of its workflow; 0 means when the
	// server suggests it.
	StepsPerRun int
}

// Search attributes of workflows.
var (
	SessionAttribute = temporal.NewSearchAttributeKeyKeyword("CairnSession")
	AgentAttribute   = temporal.NewSearchAttributeKeyKeyword("CairnAgent")
	// StatusAttribute is the status of the run, which Temporal's own status does not show: a workflow whose turn has
	// failed completes. It is "running" at first and then the run's final status, a [cairn.RunStatus]. It is
	// [StatusReleased] if the workflow ended because another one or another host drives the run.
	StatusAttribute = temporal.NewSearchAttributeKeyKeyword("CairnStatus")
)

// StatusReleased is the [StatusAttribute] of a workflow that ended without the end of its run.
const StatusReleased = "released"

// TurnWorkflow is the workflow type of a turn.
const TurnWorkflow = "cairn.Turn"

// Host is an [host.Host]. It is safe for concurrent use.
type Host struct {
	client client.Client
	opts   Options
	values values
}

// New returns a host that starts workflows through c, which the caller closes. The error names the invalid option.
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

// retries returns a copy of given with defaults for its unset fields.
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

// Worker returns a worker of the host's task queue for the agents of eng, which must have been made with this host. The
// caller starts it, and stops it before closing the engine.
//
// Unless opts say otherwise, activities send three heartbeats per Activity.HeartbeatTimeout, and a workflow that is
// cached by a dead process moves to another one after two seconds.
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

// Register adds the workflow and activities of turns to the caller's own worker.
func (h *Host) Register(r worker.Registry, eng *engine.Engine) {
	r.RegisterWorkflowWithOptions(h.turn, workflow.RegisterOptions{Name: TurnWorkflow})
	r.RegisterActivityWithOptions(func(ctx context.Context, at host.Position) error {
		return outward(ctx, eng.ForHost().ReleaseRun(ctx, at))
	}, activity.RegisterOptions{Name: releaseActivity})
	for _, name := range host.Effects() {
		e := effect{h, eng, name}
		r.RegisterActivityWithOptions(e.run, activity.RegisterOptions{Name: activityName(name)})
	}
	r.RegisterActivityWithOptions(func(ctx context.Context, session string) error {
		return outward(ctx, eng.Interrupt(ctx, session, "its workflow was cancelled"))
	}, activity.RegisterOptions{Name: interruptActivity})
}

// Name implements [host.Keeper]. Hosts with the same prefix count as one.
func (h *Host) Name() string { return "temporal/" + strings.ReplaceAll(h.opts.Prefix, "@", "_") }

// CheckLease implements [host.Keeper].
func (h *Host) CheckLease(ttl time.Duration) error {
	beat, wait := h.opts.Activity.HeartbeatTimeout, h.opts.Activity.RetryPolicy.InitialInterval
	if beat+wait >= ttl {
		return cairn.Invalid("lease_ttl", "%s must be longer than Temporal takes to retry the work of a dead process: "+
			"a heartbeat timeout of %s and a retry interval of %s", ttl, beat, wait)
	}
	return nil
}

// Driving implements [host.Keeper]. Temporal recovers an open workflow by itself, however long it waits for a worker,
// unless its code has failed too often, for instance because it no longer fits the history.
func (h *Host) Driving(ctx context.Context, b host.Run) (bool, error) {
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
	return d.RawResponse.GetPendingWorkflowTask().GetAttempt() <= maxReplays, nil
}

// maxReplays is how many times in a row a workflow's code may fail before its run is taken over.
const maxReplays = 10

// Start implements host.Host. It terminates a workflow that already drives the run, since that one lost the lease.
// The error is ErrFenced if this process has lost the lease.
func (h *Host) Start(ctx context.Context, b host.Run) (func(context.Context) error, error) {
	h.values.put(callOf(&b.Position), ctx)
	run, err := h.start(ctx, b)
	if err != nil {
		h.values.drop(callOf(&b.Position))
		return nil, err
	}
	return func(ctx context.Context) error {
		err := run.Get(ctx, nil)
		var terminated *temporal.TerminatedError
		var gone *serviceerror.NotFound
		if errors.As(err, &terminated) || errors.As(err, &gone) { // taken over, or past its retention
			return nil
		}
		return inward(err)
	}, nil
}

// start starts the workflow of a run in place of those that drive it under earlier leases.
func (h *Host) start(ctx context.Context, b host.Run) (client.WorkflowRun, error) {
	opts := client.StartWorkflowOptions{
		ID: h.workflowID(b), TaskQueue: h.opts.TaskQueue,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		TypedSearchAttributes:                    h.attributes(b),
		Memo:                                     memo(b),
	}
	for {
		run, err := h.client.ExecuteWorkflow(ctx, opts, TurnWorkflow, turnInput{Run: b, Call: callOf(&b.Position)})
		var there *serviceerror.WorkflowExecutionAlreadyStarted
		if errors.As(err, &there) {
			mine, why := h.overtake(ctx, b, there.RunId)
			switch err = why; {
			case mine:
				return h.client.GetWorkflow(ctx, opts.ID, there.RunId), nil
			case err == nil:
				continue
			}
		}
		if err == nil || errors.Is(err, cairn.ErrFenced) {
			return run, err
		}
		return nil, cairn.Errorf(cairn.ErrUnavailable, "session %q: start workflow %s: %w", b.SessionID, opts.ID, err)
	}
}

// overtake terminates a workflow run that drives under an earlier lease. It reports one that drives under the same
// lease, which an earlier call of Start started although its answer was lost.
func (h *Host) overtake(ctx context.Context, b host.Run, run string) (mine bool, err error) {
	var gone *serviceerror.NotFound
	d, err := h.client.DescribeWorkflow(ctx, h.workflowID(b), run)
	if err == nil {
		var token int64
		known := d.GetMemoValue(tokenMemo, &token) == nil // without a memo it is of an earlier version
		switch {
		case known && token > b.Token:
			return false, cairn.Errorf(cairn.ErrFenced, "session %q: run %s was taken over by another process", b.SessionID, b.RunID)
		case known && token == b.Token:
			return true, nil
		}
		err = h.client.TerminateWorkflow(ctx, h.workflowID(b), run, "the run was taken over")
	}
	if errors.As(err, &gone) { // it has just ended
		return false, nil
	}
	return false, err
}

// tokenMemo is the workflow memo that holds the fencing token of its lease.
const tokenMemo = "cairn.token"

func memo(b host.Run) map[string]any { return map[string]any{tokenMemo: b.Token} }

// workflowID is the same for every start of a run, so that no two workflows drive it.
func (h *Host) workflowID(b host.Run) string {
	return fmt.Sprintf("%s/%s/%s/%s", h.opts.Prefix, b.Agent, b.SessionID, strconv.Itoa(b.Turn))
}

func (h *Host) attributes(b host.Run) temporal.SearchAttributes {
	if !h.opts.SearchAttributes {
		return temporal.NewSearchAttributes()
	}
	return temporal.NewSearchAttributes(SessionAttribute.ValueSet(b.SessionID), AgentAttribute.ValueSet(b.Agent),
		StatusAttribute.ValueSet(string(cairn.RunRunning)))
}

// maxValues bounds the number of runs begun by this process for which values are kept, since runs may end in another
// process.
const maxValues = 1024

// values holds the context values of the calls that began runs, by run, for effects that this process carries out.
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

// under returns ctx with the values of the call that began the run, if this process made that call.
func (v *values) under(ctx context.Context, run string) context.Context {
	v.mu.Lock()
	defer v.mu.Unlock()
	if call, ok := v.by[run]; ok {
		return ctxjoin.Join(ctx, call)
	}
	return ctx
}
