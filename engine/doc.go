// Package engine runs agents: it holds the verbs. An [Engine] executes, resumes, retries and stops runs of durable
// sessions on top of a store, in goroutines of its process; a worker continues what a dead process left behind.
//
// The methods of Engine, by what they are for:
//
//   - Turns: [Engine.Execute], [Engine.Resume] and [Engine.Retry] begin runs, with options ([WithUser],
//     [WithOnBusy], [WithHooks] and so on); [Engine.CanResume] says which of them would. [Engine.Create] makes a
//     session ahead of its first turn. [Engine.Interrupt] and [Engine.Abort] stop a run.
//   - Turns that follow: [WithOnBusy] and [WithOnWaiting] say what becomes of a turn while another one runs, or the
//     session waits for people. [Engine.Queue] lists the turns that are to follow, [Engine.Dequeue] cancels one.
//   - A run: [Run.Text] is what it says, [Run.Events] all that happens, [Run.Wait] its outcome. [Engine.Attach]
//     and [Engine.Run] give a handle on a run that another process began.
//   - People: [Engine.Inbox] lists the calls that wait, [Engine.Call] has one with its trail, [Engine.Submit]
//     answers it, [Engine.Claim] and [Engine.Release] say who is at it.
//   - Reading: [Engine.Session], [Engine.Sessions], [Engine.Messages], [Engine.AllMessages], [Engine.State],
//     [StateAs], [Engine.Runs], [Engine.Checkpoints], [Engine.TreeUsage], [Run.TreeUsage].
//   - Events: [Engine.Events] follows a session across its runs, [Engine.History] reads what there is.
//     [Engine.Snapshot] is a transcript with the place in the log that belongs to it.
//   - Time travel: [Engine.Branch] begins another session at a checkpoint, [Engine.Rewind] takes a session back to
//     one, [Engine.Prune] removes old ones.
//   - Changes between turns: [Engine.SetContext], [Engine.AddContext], [Engine.SwitchTools], [Engine.Replace];
//     [Engine.Agents] says which agents there are.
//   - Workers: [Engine.Serve] is the whole life of a process that serves sessions; [Engine.Work] and
//     [Engine.Close] are its parts. [Engine.Workers] and [Engine.Unserved] say who serves what, [Engine.Abandoned]
//     how much user code hangs.
//   - The end of sessions: [Engine.Delete], [Engine.Restore], [Engine.Erase], [Engine.EraseUser], [Engine.Sweep],
//     [Engine.TrimEvents].
//
// [Drive], [GivenUp], [Engine.Effect], [Engine.Hold] and [Engine.ReleaseRun] are for a [Host], which drives runs in
// place of the process's goroutines. Programs that only use one do not call them.
package engine
