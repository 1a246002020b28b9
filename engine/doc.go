// Package engine runs agents: it holds the verbs. An [Engine] executes, resumes, retries and stops runs of durable
// sessions on top of a store, in goroutines of its process; a worker continues what a dead process left behind.
//
// The methods of Engine, by purpose:
//
//   - Turns: [Engine.Execute], [Engine.Resume] and [Engine.Retry] begin runs, with options ([WithUser], [WithOnBusy],
//     [WithHooks] and so on); [Engine.CanResume] reports which of them would. [Engine.Create] creates a session ahead
//     of its first turn. [Engine.Interrupt] and [Engine.Abort] stop a run.
//   - Turns that follow: [WithOnBusy] and [WithOnWaiting] decide how a turn is handled while another one runs, or
//     while the session waits for people. [Engine.Queue] lists the queued turns, [Engine.Dequeue] cancels one.
//   - A run: [Run.Text] is what it says, [Run.Events] all that happens, [Run.Wait] its outcome. [Engine.Attach] and
//     [Engine.Run] return a handle on a run that another process began.
//   - People: [Engine.Inbox] lists pending calls, [Engine.Call] returns one with its audit trail, [Engine.Submit]
//     answers it, [Engine.Claim] reserves it for a reviewer, and [Engine.Release] gives it back.
//   - Reading: [Engine.Session], [Engine.Sessions], [Engine.Messages], [Engine.AllMessages], [Engine.State], [StateAs],
//     [Engine.Runs], [Engine.Checkpoints], [Engine.TreeUsage], [Run.TreeUsage].
//   - Events: [Engine.Events] follows a session across its runs, [Engine.History] reads the events so far.
//     [Engine.Snapshot] is a transcript with its place in the log.
//   - Time travel: [Engine.Branch] begins another session at a checkpoint, [Engine.Rewind] takes a session back to one,
//     [Engine.Prune] removes old ones.
//   - Changes between turns: [Engine.SetContext], [Engine.AddContext], [Engine.SwitchTools], [Engine.Replace];
//     [Engine.Agents] lists the agents.
//   - Workers: [Engine.Serve] is the whole life of a process that serves sessions; [Engine.Work] and [Engine.Close] are
//     its parts. [Engine.Workers] lists the workers, [Engine.Unserved] what none of them serves, and [Engine.Abandoned]
//     counts user code that hangs.
//   - The end of sessions: [Engine.Delete], [Engine.Restore], [Engine.Erase], [Engine.EraseUser], [Engine.Sweep],
//     [Engine.TrimEvents].
//
// [Engine.ForHost] is for a host, which drives runs in place of the process's goroutines.
package engine
