// Package sessions holds the commands that show and change stored sessions. None of them runs an agent.
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
	Checkpoints checkpointsCmd `cmd:"" help:"List a session's checkpoints."`
	Checkpoint  checkpointCmd  `cmd:"" help:"Make a checkpoint of a session between turns."`
	Cache       cacheCmd       `cmd:"" help:"List the tool results that a session keeps, or remove them."`
	State       stateCmd       `cmd:"" help:"Print a session's state as JSON."`
	Set         setCmd         `cmd:"" help:"Change a session's user, title, tags, metadata or expiry."`
	Archive     archiveCmd     `cmd:"" help:"Archive a session with its thread: lists leave it out until its user's next message."`
	Unarchive   unarchiveCmd   `cmd:"" help:"Make an archived session with its thread current again."`
	Branch      branchCmd      `cmd:"" help:"Make a new session from an existing one."`
	Rewind      rewindCmd      `cmd:"" help:"Rewind a session to one of its checkpoints."`
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
