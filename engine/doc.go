// Package engine runs agents. An [Engine] executes, resumes, retries and stops runs of durable sessions on a store, in
// goroutines of its process. A worker takes over the runs of dead processes.
//
// The methods of Engine, by purpose:
//
//   - Turns: [Engine.Execute], [Engine.Resume] and [Engine.Retry] begin runs, with options ([WithUser], [WithOnBusy],
//     [WithHooks] and so on). [Engine.CanResume] reports which of these methods can begin one. [Engine.Create] creates
//     a session ahead of its first turn. [Engine.Interrupt] and [Engine.Abort] stop a run.
//   - Further turns: [WithOnBusy] and [WithOnWaiting] decide whether a new turn is refused, queued or replaces another
//     one while a run is active or calls are pending. [Engine.Queue] lists the queued turns, [Engine.Dequeue] cancels
//     one.
//   - A run: [Run.Text] streams its text, [Run.Events] all its events, and [Run.Wait] returns its result.
//     [Engine.Attach] and [Engine.Run] return a handle on a run that another process began.
//   - People: [Engine.Inbox] lists pending calls, [Engine.Call] returns one with its audit trail, [Engine.Submit]
//     answers it, [Engine.Claim] reserves it for a reviewer, and [Engine.Release] ends the claim.
//   - Reading: [Engine.Session], [Engine.Sessions], [Engine.Messages], [Engine.AllMessages], [Engine.State], [StateAs],
//     [Engine.Runs], [Engine.Checkpoints], [Engine.TreeUsage], [Run.TreeUsage], [Engine.Usage],
//     [Engine.Score], [Engine.Scores].
//   - Events: [Engine.Events] follows a session across its runs, [Engine.History] reads the events so far.
//     [Engine.Snapshot] returns a transcript with its place in the log.
//   - Time travel: [Engine.Branch] creates another session from a checkpoint, [Engine.Rewind] takes a session back to a
//     checkpoint, [Engine.Prune] removes old checkpoints.
//   - Changes between turns: [Engine.SetContext], [Engine.AddContext], [Engine.SwitchTools], [Engine.Replace];
//     [Engine.Agents] lists the agents.
//   - Workers: [Engine.Serve] runs a worker until its context ends, and drains it; [Engine.Work] and [Engine.Close] are
//     its parts. [Engine.Workers] lists the workers, [Engine.Unserved] lists due sessions without a worker, and
//     [Engine.Abandoned] counts abandoned calls of user code.
//   - The end of sessions: [Engine.Delete], [Engine.Restore], [Engine.Erase], [Engine.EraseUser], [Engine.Sweep],
//     [Engine.TrimEvents].
//
// [Engine.ForHost] is for a host that drives runs instead of the process's goroutines.
package engine
