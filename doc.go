// Package cairn holds the nouns of durable agent sessions: agents and their tools, sessions, runs, messages, state,
// events, models, hooks and errors. It does no I/O. The verbs are in package engine.
//
// An [Agent] is a plain value. Give it to an engine together with a store (packages store/sqlitestore,
// store/pgstore, store/redisstore, store/memstore) to run it:
//
//	eng, err := engine.New(st, []*cairn.Agent{support}, nil)
//	run, err := eng.Execute(ctx, "session-1", "support", cairn.Text("Order 42 arrived broken."))
//	for text, err := range run.Text(ctx) {
//		…
//	}
//	res, err := run.Wait(ctx)
//
// A [Session] is the conversation and the primary key of everything. A [Run] is one execution inside it. A step is
// one model call with the tool calls it asked for; each step is one atomic commit, so that a process may die at any
// instant and another one continues from the last step. docs/GUIDE.md of the repository leads from the first agent
// to several workers.
//
// # What an agent is made of
//
//   - [Agent] has the instructions, the [Model] with its [Settings] and [RetryPolicy], the tools, and the rules by
//     which a turn ends: [Agent].MaxSteps, StopWhen and Guard, whose [Verdict] is [Accept], [SendBack] or [Fail].
//   - [Func] makes a [Tool] of a Go function, [RawFunc] of one whose schema is only known when the program runs.
//     [ClientTool] makes one that a browser or another program executes. Options: [Timeout], [Retry],
//     [Cache], [FinishWith], [ErrorText].
//   - [StateOf] declares the session's typed state, [OutputOf] a typed output, which [OutputAs] decodes.
//   - [SubAgent] and [SubAgentOf] make a tool of another agent; a [Companion] is an agent that another one keeps.
//   - [Hooks] watch and change what happens. [PerStep], [PerTool], [Interval] and [Manual] say when steps are
//     committed.
//
// # What user code is given
//
//   - A tool is given a [Call], a hook or a guard a [Step]; a Call embeds one. Both can add context, emit events,
//     record usage and switch tools.
//   - [State] and [UpdateState] read and change the session's state, typed; [Step.Append], [Step.Set] and
//     [Step.Delete] write a member of a large one. Writes are recorded as [Op] values.
//   - [InputAs] decodes a call's arguments.
//
// # What people answer
//
//   - [RequireApproval], [RequireApprovalIf], [AssignTo] and [WaitAtMost] make a tool's calls wait for people.
//   - A [Result] whose status [RunStatus.Suspends] names the calls in its [Suspension]; the inbox lists each as a
//     [PendingCall] with its trail of [Decision] values.
//   - [Approve], [Deny], [Answer] and [AnswerError] make the [Submission] that answers one; a [Receipt] says what
//     became of it.
//
// # What goes in and comes out
//
//   - [Text] and [Messages] make the [Input] of a turn; a [Message] has [Part] values: text, a [File], a
//     [ToolUse], a [ToolResult].
//   - A [Run] ends with a [Result]: its [RunStatus], its [Reason], the text or output, and [Usage].
//   - An [Event] is one entry of the session's log. A [Cursor] is a place in it, to continue reading from, for
//     instance after a page was reloaded.
//   - A [Checkpoint] is a point to branch from or to rewind to.
//
// # What goes wrong
//
// Every error is an [Error] with a [Code], which says its [Category], its HTTP status and whether another attempt
// makes sense. The sentinels ([ErrNotFound], [ErrAlreadyRunning] and so on) are for errors.Is; [AsError] gives the
// details.
//
// # What a model is
//
// A [Model] streams [Chunk] values for a [Request]. Packages below model have adapters; a further
// one implements the interface.
package cairn
