package cairn

import "context"

// Hooks observe and steer a run. Any of them may be nil. For one tool call the order is BeforeTool, the tool,
// OnStateChange, OnMessage, AfterTool; OnMessage and AfterTool are called after the whole batch, in call order.
// State that a hook writes through its handle is part of the step's commit. Hooks of the engine come before those of
// the agent. After a crash a hook may be called again for the same event.
//
// An error from a Before hook vetoes what it precedes; other hooks cannot fail a run. A hook that panics, ends its
// goroutine or takes longer than the engine's Options.HookTimeout has failed with an error. Hooks are given copies:
// changes to them have no effect, except to the request of BeforeModel.
type Hooks struct {
	// RunStart is called before the run's first step, when the run is recorded;
	// RunResumed instead of it when a run resumes or retries another.
	RunStart   func(ctx context.Context, step *Step)
	RunResumed func(ctx context.Context, step *Step, previousRunID string)
	// RunComplete and RunFail are called after the commit that ended the run. Their handle can read state, not write
	// it.
	RunComplete func(ctx context.Context, step *Step, r *Result)
	RunFail     func(ctx context.Context, step *Step, r *Result)

	// RunInterrupt is called after the commit that ended the run as interrupted: because it was stopped, or because its
	// process died and another turn took its place. Its handle can read state, not write it.
	//
	// A run that was suspended, or whose process died, is ended by another process. The hooks for its end are called
	// there, if that process knows the agent; so are OnMessage and AfterTool for the calls that are closed with it.
	// They can only read.
	RunInterrupt func(ctx context.Context, step *Step, r *Result)

	// RunSuspended is called after the commit that suspended the run. Its handle can read state, not write it.
	RunSuspended func(ctx context.Context, step *Step, r *Result)

	// StepContext returns texts that are added to the transcript as hidden messages ahead of the step's model call.
	StepContext func(ctx context.Context, step *Step) ([]string, error)
	// BeforeModel may change the request; an error fails the run.
	BeforeModel func(ctx context.Context, step *Step, req *Request) error
	// AfterModel is given the complete reply.
	AfterModel func(ctx context.Context, step *Step, reply *Message, usage Usage)
	// TextDelta is called for each piece of text as it arrives.
	TextDelta func(ctx context.Context, step *Step, text string)

	// BeforeTool is called with the validated arguments, also of calls that consult other agents; an error becomes
	// the call's result.
	BeforeTool func(ctx context.Context, call *Call) error
	// OnStateChange is called after a tool that wrote state.
	OnStateChange func(ctx context.Context, call *Call, ops []Op)
	// OnMessage is called for the reply and for each tool result.
	OnMessage func(ctx context.Context, step *Step, m *Message)
	// AfterTool is given each call's result.
	AfterTool func(ctx context.Context, call *Call, result *ToolResult)

	// BeforeSubAgent is called before a sub-agent's session is begun; an error becomes the call's result.
	// AfterSubAgent is given the result once it has ended.
	BeforeSubAgent func(ctx context.Context, call *Call, agent string) error
	AfterSubAgent  func(ctx context.Context, call *Call, agent string, result *ToolResult)
}
