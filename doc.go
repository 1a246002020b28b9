// Package cairn defines the types of durable agent sessions: agents and their tools, sessions, runs, messages, state,
// events, models, hooks and errors. It does no I/O. Package engine has the operations on them.
//
// An [Agent] is a plain value. To run it, pass it to an engine together with a store (packages store/sqlitestore,
// store/pgstore, store/redisstore, store/memstore):
//
//	eng, err := engine.New(st, []*cairn.Agent{support}, nil)
//	run, err := eng.Execute(ctx, "session-1", "support", cairn.Text("Order 42 arrived broken."))
//	for text, err := range run.Text(ctx) {
//		…
//	}
//	res, err := run.Wait(ctx)
//
// A [Session] is one conversation; all stored data belongs to one. A [Run] is one attempt to drive a turn of a session.
// A step is one model call with the tool calls of its reply. Each step is one atomic commit, so a process may die at
// any instant, and another one continues from the last step. docs/GUIDE.md in the repository leads from the first agent
// to several workers.
//
// # Agents
//
//   - [Agent] has the instructions, the [Model] with its [Settings] and [RetryPolicy], the tools, and the rules that
//     end a turn: [Agent].MaxSteps, StopWhen and Guard, whose [Verdict] is [Accept], [SendBack] or [Fail].
//   - [Func] makes a [Tool] from a Go function, [RawFunc] from a function whose schema is only known at run time.
//     [ClientTool] makes a tool that a browser or another program executes. Options: [Timeout], [Retry], [Cache],
//     [FinishWith], [ErrorText].
//   - [StateOf] declares the session's typed state. [OutputOf] declares a typed output, which [OutputAs] decodes.
//   - [SubAgent] and [SubAgentOf] make a tool from another agent. A [Companion] is an agent whose session is kept
//     between calls.
//   - [Hooks] observe and steer runs. [PerStep], [PerTool], [Interval] and [Manual] determine when steps are
//     committed.
//
// # Handles for user code
//
//   - A tool is passed a [Call], a hook or a guard a [Step]; a Call embeds a Step. Both can add context, emit
//     events, record usage and switch tools.
//   - [State] and [UpdateState] read and change the session's typed state. [Step.Append], [Step.Set] and
//     [Step.Delete] write a single member of a large state. Writes are recorded as [Op] values.
//   - [InputAs] decodes a call's arguments.
//
// # Human in the loop
//
//   - With [RequireApproval] or [RequireApprovalIf], a tool's calls need a person's approval. [AssignTo] names the
//     reviewers, and [WaitAtMost] sets the deadline.
//   - A run with pending calls ends with [RunSuspended]. The [Suspension] of its [Result] lists the calls. The inbox
//     lists each call as a [PendingCall] with its trail of [Decision] values.
//   - [Approve], [Deny], [Answer] and [AnswerError] make the [Submission] that answers a call. A [Receipt] is the
//     outcome of a submission.
//
// # Input and output
//
//   - [Text] and [Messages] make the [Input] of a turn. A [Message] has [Part] values: text, a [File], a [ToolUse],
//     a [ToolResult].
//   - A [Run] ends with a [Result]: its [RunStatus], its [Reason], the text or output, and [Usage].
//   - An [Event] is one entry of the session's log. A [Cursor] is a position in the log, from which a reader continues,
//     for example after a page was reloaded.
//   - A [Checkpoint] is a point to branch from or to rewind to.
//
// # Errors
//
// Every error is an [Error] with a [Code]. The code determines its [Category], its HTTP status and whether a retry can
// succeed. Compare errors with the sentinels ([ErrNotFound], [ErrAlreadyRunning] and so on) by errors.Is; [AsError]
// returns the details.
//
// # Models
//
// A [Model] streams [Chunk] values for a [Request]. The packages below model are adapters for providers. To add another
// provider, implement the interface.
package cairn
