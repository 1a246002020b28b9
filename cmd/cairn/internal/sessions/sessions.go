// Package sessions holds the commands that show and change stored sessions. None of them runs an agent: forks run on a server.
package sessions

import "github.com/alecthomas/kong"

// Commands are the commands about sessions.
type Commands struct {
	Shared flags `embed:""`

	List        listCmd        `cmd:"" help:"List sessions, newest first."`
	Show        showCmd        `cmd:"" help:"Show one session."`
	Runs        runsCmd        `cmd:"" help:"List a session's runs."`
	Messages    messagesCmd    `cmd:"" help:"Print a session's transcript."`
	Request     requestCmd     `cmd:"" help:"Print the request that a reply answered, or what has changed since an earlier one."`
	Events      eventsCmd      `cmd:"" help:"Print a session's event log."`
	Stream      streamCmd      `cmd:"" help:"Print the extent of a session's event log, and whether it has ended."`
	Emit        emitCmd        `cmd:"" help:"Publish a custom event on a session's log."`
	Decisions   decisionsCmd   `cmd:"" help:"List the decisions about a session's pending calls."`
	Usage       usageCmd       `cmd:"" help:"Print the usage and cost of a session, its runs and its sub-agents."`
	Score       scoreCmd       `cmd:"" help:"Keep a score of a session, a run or a message."`
	Scores      scoresCmd      `cmd:"" help:"List a session's scores."`
	Checkpoints checkpointsCmd `cmd:"" help:"List a session's checkpoints."`
	Artifacts   artifactsCmd   `cmd:"" help:"List the files that a session made for its user, or read one."`
	Workspace   workspaceCmd   `cmd:"" help:"List the files of a session's workspace, read one, or restore a snapshot."`
	Export      exportCmd      `cmd:"" help:"Write sessions as JSON lines, or one as an HTML page."`
	Checkpoint  checkpointCmd  `cmd:"" help:"Make a checkpoint of a session between turns."`
	Cache       cacheCmd       `cmd:"" help:"List the tool results that a session keeps, or remove them."`
	State       stateCmd       `cmd:"" help:"Print a session's state as JSON."`
	Set         setCmd         `cmd:"" help:"Change a session's user, title, tags, metadata or expiry."`
	Archive     archiveCmd     `cmd:"" help:"Archive a session with its thread: lists leave it out until its user's next message."`
	Unarchive   unarchiveCmd   `cmd:"" help:"Make an archived session with its thread current again."`
	Branch      branchCmd      `cmd:"" help:"Make a new session from an existing one."`
	Fork        forkCmd        `cmd:"" help:"Fork a session: continue a copy from a point with something changed, on a server."`
	Rewind      rewindCmd      `cmd:"" help:"Rewind a session to one of its checkpoints."`
	ClearTaint  clearTaintCmd  `cmd:"" help:"End the taint of a session whose model has read text of strangers."`
	Delete      deleteCmd      `cmd:"" help:"Delete a session with its tree, after stopping it."`
	Restore     restoreCmd     `cmd:"" help:"Restore a session that was deleted or has expired."`
	Compact     compactCmd     `cmd:"" help:"Summarize the older part of a session's history now."`
	Trim        trimCmd        `cmd:"" help:"Remove the oldest events of a session's log."`
	Stop        stopCmd        `cmd:"" help:"Stop a session's run, in any process."`
	Queue       queueCmd       `cmd:"" help:"List a session's queued turns."`
	Dequeue     dequeueCmd     `cmd:"" help:"Remove a turn from the queue."`
}

// AfterApply binds the shared flags for each command.
func (c *Commands) AfterApply(k *kong.Context) error {
	k.Bind(&c.Shared)
	return nil
}
