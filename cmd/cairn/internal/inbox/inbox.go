// Package inbox holds the commands about pending calls: list, show, approve, deny, answer, raise, end, claim, release.
// The texts that describe a call are in package calls.
package inbox

import "github.com/alecthomas/kong"

// Commands are the commands about pending calls.
type Commands struct {
	Shared flags `embed:""`

	List    inboxListCmd `cmd:"" help:"List pending calls, the oldest first."`
	Show    inboxShowCmd `cmd:"" help:"Show a call with its decisions."`
	Approve approveCmd   `cmd:"" help:"Approve a call."`
	Deny    denyCmd      `cmd:"" help:"Deny a call."`
	Answer  answerCmd    `cmd:"" help:"Give the result of a client-executed call, or the answer to a tool's question."`
	Raise   raiseCmd     `cmd:"" help:"Raise a budget that is used up, so that its turn continues."`
	End     endCmd       `cmd:"" help:"End a turn whose budget is used up."`
	Claim   claimCmd     `cmd:"" help:"Reserve a call for a time."`
	Release releaseCmd   `cmd:"" help:"Release a claim."`
}

// Help returns the details for --help.
func (Commands) Help() string {
	return `CALL is a call's id, or a prefix of it that no other call's id has.

Answering runs nothing by itself: "cairn work", or any process that has the agent, resumes the session. The command
needs no agent.

Exit codes: 0 done, 1 failed (also: another reviewer has claimed the call), 2 invalid, 3 not found,
4 too late: the call was already decided, or its deadline has passed. The decision that counts is printed.`
}

// AfterApply binds the shared flags for each command.
func (c *Commands) AfterApply(k *kong.Context) error {
	k.Bind(&c.Shared)
	return nil
}
