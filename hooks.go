package cairn

import (
	"context"
	"encoding/json"
	"iter"
)

// Hooks observe and steer a run. Any of them may be nil. For one tool call the order is BeforeTool, the tool,
// OnStateChange, OnMessage, AfterTool; OnMessage and AfterTool are called after the whole batch, in call order.
// State that a hook writes through its handle is part of the step's commit. Hooks of the engine come before those of
// the agent. After a crash a hook may be called again for the same event.
//
// An error from a Before hook vetoes what it precedes; an Around hook stands for what it wraps; other hooks cannot fail a run. A hook that panics, ends its
// goroutine or takes longer than the engine's Options.HookTimeout has failed with an error. Hooks are given copies:
// changes to them have no effect, except to the request of BeforeModel.
type Hooks struct {
	// RunStart is called before the run's first step, when the run is recorded;
	// RunResumed instead of it when a run resumes or retries another.
	RunStart func(ctx context.Context, step *Step)
	// RunResumed is called when a run begins in place of another one, which was suspended, interrupted or retried.
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
	// AroundModel wraps one attempt at the model call, retries included each: next asks the model, or the hook inside of this
	// one, and the hook returns the reply as a stream of chunks, that of next or one of its own. It may give next a context
	// that is made from its own, for tracing, or not call it at all, for caching. The first hook in the order of composition
	// is the outermost. The request must not be changed; that is for BeforeModel. The hook and its stream are part of the
	// model call: an error, a panic or silence is one of the model, and an error that is retryable has the call tried again.
	// Chunks are in [Model.Stream]'s order and end with ChunkFinish. The handle is valid until the stream has ended.
	AroundModel func(ctx context.Context, step *Step, req *Request, next func(context.Context) iter.Seq2[Chunk, error]) iter.Seq2[Chunk, error]
	// AfterModel is given the complete reply.
	AfterModel func(ctx context.Context, step *Step, reply *Message, usage Usage)
	// TextDelta is called for each piece of text as it arrives.
	TextDelta func(ctx context.Context, step *Step, text string)

	// BeforeTool is called with the validated arguments, also of calls that consult other agents; an error becomes
	// the call's result. What it writes counts with that, or with the step in which the call begins to wait for people or
	// another agent. Before a call that needs approval it is called once that is given.
	BeforeTool func(ctx context.Context, call *Call) error
	// AroundTool wraps one attempt at the function of a tool, after BeforeTool: next calls the function, or the hook inside of
	// this one, and the hook returns the result as JSON, that of next or one of its own. It may give next a context that is made
	// from its own, for tracing, or not call it at all, for caching. The first hook in the order of composition is the outermost.
	// The hook is part of the call: the tool's [Timeout] bounds both, an error is the tool's, a panic counts as one of the tool,
	// and each attempt of [Retry] is wrapped. Calls that run no function here are not wrapped: of [FinishTool], of client-executed
	// tools, of sub-agents and companions, and those that [Cache] answers.
	AroundTool func(ctx context.Context, call *Call, next func(context.Context) (json.RawMessage, error)) (json.RawMessage, error)
	// OnStateChange is called after a tool that wrote state.
	OnStateChange func(ctx context.Context, call *Call, ops []Op)
	// OnMessage is called for the reply and for each tool result.
	OnMessage func(ctx context.Context, step *Step, m *Message)
	// AfterTool is given each call's result.
	AfterTool func(ctx context.Context, call *Call, result *ToolResult)

	// BeforeSubAgent is called before a sub-agent's session is begun; an error becomes the call's result.
	// AfterSubAgent is given the result once it has ended.
	BeforeSubAgent func(ctx context.Context, call *Call, agent string) error
	// AfterSubAgent is called when the consultation of another agent has ended, with the result of the call.
	AfterSubAgent func(ctx context.Context, call *Call, agent string, result *ToolResult)
}
