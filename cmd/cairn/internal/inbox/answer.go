package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/calls"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/engine"
)

type approveCmd struct {
	aCall
	Input    *string `placeholder:"JSON" help:"Run the tool with these arguments instead of those of the call."`
	Reviewer string  `placeholder:"NAME" help:"The reviewer; required for a call that is assigned or claimed."`
	Notes    string  `placeholder:"TEXT" help:"A comment for the audit trail."`
}

// Run approves a call.
func (cmd *approveCmd) Run(a *cli.App, all *flags) error {
	if cmd.Input != nil && *cmd.Input == "" {
		return cli.Misuse("--input: is empty")
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
	Reason   string `placeholder:"TEXT" help:"The reason, which the agent sees."`
	Reviewer string `placeholder:"NAME" help:"The reviewer; required for a call that is assigned or claimed."`
}

// Run denies a call.
func (cmd *denyCmd) Run(a *cli.App, all *flags) error {
	return all.submit(a, cmd.Call, cairn.CallApproval, func(c cairn.CallRef) cairn.Submission { return cairn.Deny(c, cmd.Reason).By(cmd.Reviewer) })
}

type answerCmd struct {
	aCall
	Result   *string `placeholder:"JSON" required:"" xor:"outcome" help:"The result, or the answer to a question."`
	Error    *string `placeholder:"TEXT" required:"" xor:"outcome" help:"The error, which the agent sees."`
	Reviewer string  `placeholder:"NAME" help:"The reviewer; required for a call that is assigned or claimed."`
}

// Run answers a call.
func (cmd *answerCmd) Run(a *cli.App, all *flags) error {
	return all.submit(a, cmd.Call, cairn.CallClientTool, func(c cairn.CallRef) cairn.Submission {
		if cmd.Error != nil {
			return cairn.AnswerError(c, *cmd.Error).By(cmd.Reviewer)
		}
		s := cairn.Submission{Type: cairn.SubmitResult, CallID: c.ID, Reviewer: cmd.Reviewer}
		if c.Kind.Asked() {
			s.Type, s.Value = cairn.SubmitAnswer, []byte(*cmd.Result)
		} else {
			s.Result = []byte(*cmd.Result)
		}
		return s
	})
}

type raiseCmd struct {
	aCall
	By       float64 `placeholder:"AMOUNT" help:"How much to add, in the unit of the budget: dollars, tokens, model calls or seconds. Default: as much as the budget had at first."`
	Reviewer string  `placeholder:"NAME" help:"The reviewer; required for a call that is assigned or claimed."`
}

// Run raises the budget that a call asks about.
func (cmd *raiseCmd) Run(a *cli.App, all *flags) error {
	if cmd.By < 0 {
		return cli.Misuse("--by: %v is negative", cmd.By)
	}
	return all.submit(a, cmd.Call, cairn.CallBudget, func(c cairn.CallRef) cairn.Submission { return cairn.RaiseBudget(c, cmd.By).By(cmd.Reviewer) })
}

type endCmd struct {
	aCall
	Reviewer string `placeholder:"NAME" help:"The reviewer; required for a call that is assigned or claimed."`
}

// Run ends a turn whose budget is used up.
func (cmd *endCmd) Run(a *cli.App, all *flags) error {
	return all.submit(a, cmd.Call, cairn.CallBudget, func(c cairn.CallRef) cairn.Submission { return cairn.EndTurn(c).By(cmd.Reviewer) })
}

// submit answers a call of the given kind and prints what became of the answer. CallClientTool includes questions.
func (all *flags) submit(a *cli.App, id string, kind cairn.CallKind, answer func(cairn.CallRef) cairn.Submission) error {
	return all.At.Inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		var receipt cairn.Receipt
		call, err := calls.Find(ctx, eng, all.At.Selected(), id)
		if err == nil && call.Kind != kind && !(call.Kind.Asked() && kind == cairn.CallClientTool) {
			err = cairn.Invalid("call", "%q is waiting for %s", call.ID, calls.Missing(call.Kind))
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
			err = errors.Join(err, output.JSON(a.Stdout, receipt))
		} else if err == nil {
			_, err = fmt.Fprintln(a.Stdout, calls.Sentence(receipt))
		}
		if err == nil && receipt.Outcome != cairn.OutcomeAccepted {
			return cli.ErrDecided
		}
		return err
	})
}
