package cairn

import (
	"context"
	"encoding/json"
	"iter"
)

// Hooks observe and steer a run. Any of them may be nil. For one tool call the order is BeforeTool, the tool,
// OnStateChange, OnMessage, AfterTool; OnMessage and AfterTool are called after the whole batch, in call order. State
// that a hook writes through its handle is part of the step's commit. Hooks of the engine are called before the agent's
// hooks. After a crash, a hook may be called again for the same event.
//
// An error from a Before hook vetoes the call or event that the hook precedes. An error from an Around hook counts as
// an error of the wrapped call. Other hooks cannot fail a run. A hook fails with an error if it panics, ends its
// goroutine or takes longer than the engine's Options.HookTimeout. Hooks get copies: changes to them have no effect,
// except to the request of BeforeModel.
type Hooks struct {
	// RunStart is called before the run's first step, after the run was recorded. For a run that resumes or retries
	// another, RunResumed is called instead.
	RunStart func(ctx context.Context, step *Step)
	// RunResumed is called when a run replaces a previous one, which was suspended, interrupted or retried.
	RunResumed func(ctx context.Context, step *Step, previousRunID string)
	// RunComplete and RunFail are called after the commit that ended the run. Their handle can read state but not
	// write it.
	RunComplete func(ctx context.Context, step *Step, r *Result)
	RunFail     func(ctx context.Context, step *Step, r *Result)

	// RunInterrupt is called after the commit that ended the run as interrupted, because it was stopped, or because
	// its process died and another turn replaced it. Its handle can read state but not write it.
	//
	// A suspended run, or one whose process died, is ended by another process. That process calls the hooks for its
	// end if it has the agent, and OnMessage and AfterTool for the calls that are closed with it. They can only
	// read.
	RunInterrupt func(ctx context.Context, step *Step, r *Result)

	// RunSuspended is called after the commit that suspended the run. Its handle can read state but not write it.
	RunSuspended func(ctx context.Context, step *Step, r *Result)

	// StepContext returns texts that are added to the transcript as hidden messages before the step's model call.
	StepContext func(ctx context.Context, step *Step) ([]string, error)
	// BeforeModel may change the request; an error fails the run.
	BeforeModel func(ctx context.Context, step *Step, req *Request) error
	// AroundModel wraps each attempt at the model call, retries included. next calls the model, or the next inner hook.
	// The hook returns the reply as a stream of chunks: next's stream or its own. It may pass next a context derived
	// from its own, for tracing, or not call next at all, for caching. The first hook in the order of composition is
	// the outermost. The request must not be modified; that is for BeforeModel. The hook and its stream are part of the
	// model call: an error, a panic or silence counts as one of the model, and a retryable error causes another
	// attempt. Chunks come in the order of [Model.Stream] and end with ChunkFinish. The handle is valid until the
	// stream has ended.
	AroundModel func(ctx context.Context, step *Step, req *Request, next func(context.Context) iter.Seq2[Chunk, error]) iter.Seq2[Chunk, error]
	// AfterModel is called with the complete reply.
	AfterModel func(ctx context.Context, step *Step, reply *Message, usage Usage)
	// TextDelta is called for each piece of text as it arrives.
	TextDelta func(ctx context.Context, step *Step, text string)

	// BeforeTool is called with the validated arguments, also for calls that consult other agents; an error becomes
	// the call's result. Its writes take effect with that result, or with the step in which the call begins to wait
	// for people or another agent. For a call that needs approval, it is called once the approval is given.
	BeforeTool func(ctx context.Context, call *Call) error
	// AroundTool wraps each attempt at the function of a tool, after BeforeTool. next calls the function, or the next
	// inner hook. The hook returns the result as JSON: next's result or its own. It may pass next a context derived
	// from its own, for tracing, or not call next at all, for caching. The first hook in the order of composition is
	// the outermost. The hook is part of the call: the tool's [Timeout] limits both, an error is the tool's, a panic
	// counts as one of the tool, and each attempt of [Retry] is wrapped. Calls that run no function here are not
	// wrapped: calls of [FinishTool], of client-executed tools, of sub-agents and companions, and calls answered by
	// [Cache].
	AroundTool func(ctx context.Context, call *Call, next func(context.Context) (json.RawMessage, error)) (json.RawMessage, error)
	// OnStateChange is called after a tool that wrote state, with its writes. Its handle can read state but not write
	// it.
	OnStateChange func(ctx context.Context, call *Call, ops []Op)
	// OnMessage is called for the reply and for each tool result.
	OnMessage func(ctx context.Context, step *Step, m *Message)
	// AfterTool is called with the result of each call.
	AfterTool func(ctx context.Context, call *Call, result *ToolResult)

	// BeforeSubAgent is called before a sub-agent's session is begun; an error becomes the call's result.
	BeforeSubAgent func(ctx context.Context, call *Call, agent string) error
	// AfterSubAgent is called when the consultation of another agent has ended, with the result of the call.
	AfterSubAgent func(ctx context.Context, call *Call, agent string, result *ToolResult)
}
