package sessions

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/calls"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/remote"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/stores"
)

type forkCmd struct {
	From string `arg:"" help:"The session to fork, by its id."`
	To   string `arg:"" optional:"" help:"The id of the fork. Default: a new one."`

	remote.Server

	Checkpoint string `placeholder:"ID" xor:"at" help:"Fork from this checkpoint."`
	Message    *int   `placeholder:"N" xor:"at" help:"Fork after the first N messages."`
	Approve    string `placeholder:"CALL" xor:"at" help:"Approve this call, where the session waited for it."`
	Deny       string `placeholder:"CALL" xor:"at" help:"Deny this call, where the session waited for it."`
	Answer     string `placeholder:"CALL" xor:"at" help:"Give this client tool or question another answer, with --value or --error."`
	Result     string `placeholder:"CALL" xor:"at" help:"Give this call of a tool another result, with --value or --error. For administrators."`

	Input  *string `placeholder:"JSON" help:"With --approve: run the tool with these arguments instead of those of the call."`
	Reason *string `placeholder:"TEXT" help:"With --deny: the reason, which the agent sees."`
	Value  *string `placeholder:"JSON" xor:"outcome" help:"With --answer or --result: the answer or result."`
	Error  *string `placeholder:"TEXT" xor:"outcome" help:"With --answer or --result: the error, which the agent sees."`

	Model            *string `placeholder:"NAME" help:"The model of the fork's turns, by its name among the agent's models; empty for the agent's own. Default: the one that the session used there."`
	InstructionsFile string  `placeholder:"FILE" help:"A file with the fork's system prompt, in place of the agent's. For administrators."`
}

// Help returns the details for --help.
func (forkCmd) Help() string {
	return `A fork is a copy of a session that continues from a point with something changed. The session stays as it is. The
server that has the session's agent makes the fork and begins its run. Effectful calls ask for approval first.`
}

// Run forks a session.
func (cmd *forkCmd) Run(a *cli.App, all *flags) error {
	if all.At.Flags != (stores.Flags{}) {
		return cli.Misuse("fork: a server makes the fork; set --url, not --store or --db")
	}
	if err := cmd.check(); err != nil {
		return err
	}
	if err := stores.CheckTenant(all.At.Tenant); err != nil {
		return err
	}
	c, _, err := cmd.Client(a, all.At.Tenant)
	if err != nil {
		return err
	}
	ctx, stop := cli.UntilStopped()
	defer stop()
	in, err := cmd.changes(ctx, c)
	if err != nil {
		return err
	}
	s, err := c.Fork(ctx, cmd.From, in)
	if err != nil {
		return err
	}
	return all.report(a, s, "Session %s continues %s after %s.", s.ID, cmd.From, output.Count(s.Branch.Messages, "message"))
}

// check refuses flags without the flag that they belong to.
func (cmd *forkCmd) check() error {
	outcome := cmd.Value != nil || cmd.Error != nil
	switch {
	case cmd.Message != nil && *cmd.Message < 0:
		return cli.Misuse("--message: %d is negative", *cmd.Message)
	case cmd.Input != nil && cmd.Approve == "":
		return cli.Misuse("--input: requires --approve")
	case cmd.Reason != nil && cmd.Deny == "":
		return cli.Misuse("--reason: requires --deny")
	case outcome && cmd.Answer == "" && cmd.Result == "":
		return cli.Misuse("--value and --error: require --answer or --result")
	case !outcome && cmd.Answer != "":
		return cli.Misuse("--answer: requires --value or --error")
	case !outcome && cmd.Result != "":
		return cli.Misuse("--result: requires --value or --error")
	}
	for flag, text := range map[string]*string{"--input": cmd.Input, "--value": cmd.Value} {
		if text != nil && !json.Valid([]byte(*text)) {
			return cli.Misuse("%s: is not JSON", flag)
		}
	}
	return nil
}

// changes returns where the fork begins, and the changes made there.
func (cmd *forkCmd) changes(ctx context.Context, c *client.Client) (client.Forking, error) {
	in := client.Forking{Branching: client.Branching{SessionID: cmd.To, CheckpointID: cmd.Checkpoint, Messages: cmd.Message}, Model: cmd.Model}
	if cmd.InstructionsFile != "" {
		text, err := os.ReadFile(cmd.InstructionsFile)
		if err != nil {
			return in, fmt.Errorf("--instructions-file: %w", err)
		}
		in.Instructions = new(string(text))
	}
	if cmd.Result != "" {
		in.Result = &client.ForkResult{CallID: cmd.Result}
		if cmd.Error != nil {
			in.Result.Error = *cmd.Error
		} else {
			in.Result.Output = json.RawMessage(*cmd.Value)
		}
	}
	id := cmp.Or(cmd.Approve, cmd.Deny, cmd.Answer)
	if id == "" {
		return in, nil
	}
	from, err := c.Session(ctx, cmd.From)
	if err != nil {
		return in, err
	}
	call, err := c.Call(ctx, from.RootID, id)
	if err != nil {
		return in, err
	}
	if (call.Kind == cairn.CallApproval) == (cmd.Answer != "") {
		return in, cairn.Invalid("call", "%q waited for %s", call.ID, calls.Missing(call.Kind))
	}
	in.Answer = new(cmd.submission(call.CallRef))
	return in, nil
}

// submission returns the other answer to a call.
func (cmd *forkCmd) submission(call cairn.CallRef) cairn.Submission {
	switch {
	case cmd.Approve != "":
		s := cairn.Approve(call)
		if cmd.Input != nil {
			s.Input = json.RawMessage(*cmd.Input)
		}
		return s
	case cmd.Deny != "":
		return cairn.Deny(call, *cmp.Or(cmd.Reason, new(string)))
	case cmd.Error != nil:
		return cairn.AnswerError(call, *cmd.Error)
	}
	return cairn.Answer(call, json.RawMessage(*cmd.Value))
}
