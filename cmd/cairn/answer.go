package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
)

// errDecided says that an answer was not the one that counts.
var errDecided = errors.New("decided otherwise")

type approveCmd struct {
	aCall
	Input    *string `placeholder:"JSON" help:"Run the tool with these arguments instead of those of the call."`
	Reviewer string  `placeholder:"NAME" help:"Who answers; needed for a call that is assigned or claimed."`
	Notes    string  `placeholder:"TEXT" help:"Words for the record."`
}

// Run approves.
func (cmd *approveCmd) Run(a *app, all *inboxCmd) error {
	if cmd.Input != nil && *cmd.Input == "" {
		return misuse("--input: is empty")
	}
	return all.submit(a, cmd.Call, cairn.CallApproval, func(c cairn.CallRef) cairn.Submission {
		s := cairn.Approve(c).By(cmd.Reviewer)
		s.Reason = cmd.Notes
		if cmd.Input != nil {
			s.Input = []byte(*cmd.Input)
		}
		return s
	})
}

type denyCmd struct {
	aCall
	Reason   string `placeholder:"TEXT" help:"Why; the agent is told."`
	Reviewer string `placeholder:"NAME" help:"Who answers; needed for a call that is assigned or claimed."`
}

// Run denies.
func (cmd *denyCmd) Run(a *app, all *inboxCmd) error {
	return all.submit(a, cmd.Call, cairn.CallApproval, func(c cairn.CallRef) cairn.Submission { return cairn.Deny(c, cmd.Reason).By(cmd.Reviewer) })
}

type answerCmd struct {
	aCall
	Result   *string `placeholder:"JSON" required:"" xor:"outcome" help:"The result."`
	Error    *string `placeholder:"TEXT" required:"" xor:"outcome" help:"What went wrong; the agent is told."`
	Reviewer string  `placeholder:"NAME" help:"Who answers; needed for a call that is assigned or claimed."`
}

// Run answers.
func (cmd *answerCmd) Run(a *app, all *inboxCmd) error {
	return all.submit(a, cmd.Call, cairn.CallClientTool, func(c cairn.CallRef) cairn.Submission {
		s := cairn.Submission{Type: cairn.SubmitResult, CallID: c.ID, Reviewer: cmd.Reviewer}
		if cmd.Error != nil {
			s.Error = *cmd.Error
		} else {
			s.Result = []byte(*cmd.Result)
		}
		return s
	})
}

// submit answers a call of some kind and prints what became of the answer.
func (all *inboxCmd) submit(a *app, id string, kind cairn.CallKind, answer func(cairn.CallRef) cairn.Submission) error {
	return all.inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		var receipt cairn.Receipt
		call, err := findCall(ctx, eng, id)
		if err == nil && call.Kind != kind {
			err = cairn.Invalid("call", "%q waits for %s", call.ID, missing(call.Kind))
		}
		switch {
		case errors.Is(err, cairn.ErrNotFound):
			receipt.Outcome = cairn.OutcomeUnknownCall
		case errors.Is(err, cairn.ErrInvalid):
			receipt.Outcome = cairn.OutcomeInvalid
		case err == nil:
			receipt, err = eng.Submit(ctx, call.RootID, answer(call.CallRef))
		}
		if all.JSON && receipt.Outcome != "" {
			err = errors.Join(err, printJSON(a.stdout, receipt))
		} else if err == nil {
			_, err = fmt.Fprintln(a.stdout, sentence(receipt))
		}
		if err == nil && receipt.Outcome != cairn.OutcomeAccepted {
			return errDecided
		}
		return err
	})
}

// sentence says what became of an answer that fitted its call.
func sentence(r cairn.Receipt) string {
	c := r.Call
	what := fmt.Sprintf("%s of session %s", c.Tool, c.RootID)
	switch {
	case r.Outcome == cairn.OutcomeLate:
		return fmt.Sprintf("Too late: the deadline of %s passed on %s. The agent is told of the answer, which changes nothing.", what, stamp(c.Deadline))
	case r.Outcome == cairn.OutcomeAlreadyCompleted && c.Answer == nil:
		return fmt.Sprintf("Nothing was changed: you have voted on %s before, and other reviewers have not yet.", what)
	case r.Outcome == cairn.OutcomeAlreadyCompleted:
		return fmt.Sprintf("Nothing was changed: %s was %s.", what, decision(c))
	case c.Answer == nil:
		return fmt.Sprintf("Your vote on %s is counted. Others have to vote too: %s.", what, assigned(c))
	case !r.Ready:
		return fmt.Sprintf("%s: %s. The session waits for other calls too.", what, decision(c))
	}
	return fmt.Sprintf("%s: %s. The session can go on now.", what, decision(c))
}

type claimCmd struct {
	aCall
	Reviewer string        `placeholder:"NAME" required:"" help:"Who has it."`
	For      time.Duration `placeholder:"DURATION" default:"10m" help:"For how long. Default: 10m."`
}

// Run claims.
func (cmd *claimCmd) Run(a *app, all *inboxCmd) error {
	return all.change(a, cmd.Call, func(ctx context.Context, eng *engine.Engine, root, id string) (*cairn.PendingCall, error) {
		return eng.Claim(ctx, root, id, cmd.Reviewer, cmd.For)
	})
}

type releaseCmd struct {
	aCall
	Reviewer string `placeholder:"NAME" required:"" help:"Who has it."`
}

// Run releases.
func (cmd *releaseCmd) Run(a *app, all *inboxCmd) error {
	return all.change(a, cmd.Call, func(ctx context.Context, eng *engine.Engine, root, id string) (*cairn.PendingCall, error) {
		return eng.Release(ctx, root, id, cmd.Reviewer)
	})
}

// change changes who has a call and prints it: as JSON, or in words.
func (all *inboxCmd) change(a *app, id string, do func(ctx context.Context, eng *engine.Engine, root, id string) (*cairn.PendingCall, error)) error {
	return all.inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		call, err := findCall(ctx, eng, id)
		if err == nil {
			call, err = do(ctx, eng, call.RootID, call.ID)
		}
		switch {
		case err != nil:
			return err
		case all.JSON:
			return printJSON(a.stdout, call)
		}
		who := "anybody's"
		if call.ClaimedBy != "" {
			who = call.ClaimedBy + "'s until " + stamp(call.ClaimedUntil)
		}
		_, err = fmt.Fprintf(a.stdout, "%s of session %s is %s.\n", call.Tool, call.RootID, who)
		return err
	})
}
