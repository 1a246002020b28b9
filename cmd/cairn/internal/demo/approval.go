package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/calls"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/support"
)

// reviewer is the name under which answers are given here.
const reviewer = "demo"

// choices are the answers to a question.
const choices = "? [y]es / [n]o / [e]dit / [l]ater: "

const choicesHelp = `  y           let it happen
  n [REASON]  do not; the agent sees the reason
  e [JSON]    let it happen with other arguments
  l           leave it for later, or for another reviewer`

func (c *chat) openCalls(ctx context.Context) ([]cairn.PendingCall, error) {
	return calls.Open(ctx, c.eng, c.session, c.session)
}

// showWaiting shows what the session waits for, and counts what came before as shown.
func (c *chat) showWaiting(ctx context.Context) error {
	for ev, err := range c.unseen(ctx) {
		if err != nil {
			return err
		}
		c.screen.seen = ev.Sequence
	}
	open, err := c.openCalls(ctx)
	if err == nil && len(open) == 0 {
		c.screen.note("What the last answer waited for has been decided: resuming it.")
	}
	for i := range open {
		call := &open[i]
		c.screen.print(c.screen.waits(call.Kind, call.Tool, call.Input, call.Deadline))
	}
	return err
}

// catchUp shows the events of another process, if one drove the session meanwhile.
func (c *chat) catchUp(ctx context.Context) error {
	if !c.behind {
		return nil
	}
	c.behind = false
	if err := c.skipDiscarded(ctx); err != nil {
		return err
	}
	for ev, err := range c.unseen(ctx) {
		if err != nil {
			return err
		}
		c.screen.show(ev)
	}
	c.screen.newline()
	return nil
}

// decide asks about the first call that the session waits for. If it stays open the error is errLeft.
func (c *chat) decide(ctx context.Context) error {
	open, err := c.openCalls(ctx)
	if err != nil || len(open) == 0 { // answered in this moment
		return err
	}
	call := &open[0]
	answer, ok, err := c.question(ctx, call)
	if err != nil && !errors.Is(err, errLeft) {
		return err
	}
	if !ok {
		return c.unanswered(ctx, err)
	}
	receipt, err := c.eng.Submit(ctx, c.session, answer)
	if errors.Is(err, cairn.ErrUnavailable) || ctx.Err() != nil {
		return err
	}
	_ = c.report(err)
	switch {
	case err != nil && (c.yes || !c.prompting):
		return errLeft
	case err != nil: // settle asks again, if the call is still pending
	case receipt.Outcome != cairn.OutcomeAccepted:
		c.behind = true
		c.screen.note(calls.Sentence(receipt))
	case c.yes:
		c.screen.note(indent + "approved: --yes")
	}
	return nil
}

// question asks whether a call may happen until the answer is understood. ok is false if the call stays
// pending.
func (c *chat) question(ctx context.Context, call *cairn.PendingCall) (answer cairn.Submission, ok bool, err error) {
	if call.Kind != cairn.CallApproval { // of another agent: its result cannot be given here
		return answer, false, errLeft
	}
	answer = cairn.Approve(call.CallRef).By(reviewer)
	if c.yes {
		return answer, true, nil
	}
	question := "Approve " + support.Describe(ctx, c.desk.Shop, call) + choices
	for {
		line, ok, err := c.ask(ctx, question)
		if err != nil || !ok {
			return answer, false, err
		}
		word, rest, _ := strings.Cut(line, " ")
		word, rest = strings.ToLower(word), strings.TrimSpace(rest)
		switch {
		case rest == "" && (word == "y" || word == "yes"):
			return answer, true, nil
		case word == "n" || word == "no":
			return cairn.Deny(call.CallRef, rest).By(reviewer), true, nil
		case rest == "" && (word == "e" || word == "edit"):
			c.screen.note(indent + "the arguments are " + output.OneLine(string(call.Input), 0))
			if rest, ok, err = c.ask(ctx, "New arguments: "); err != nil || !ok {
				return answer, false, err
			}
			fallthrough
		case word == "e" || word == "edit":
			answer.Input = json.RawMessage(rest)
			return answer, true, nil
		case rest == "" && (word == "l" || word == "later" || word == "/quit" || word == "/exit"):
			return answer, false, errLeft
		case c.prompting || line == "/help":
			c.screen.note(choicesHelp)
		default:
			c.screen.note(fmt.Sprintf("%q is neither y, n, e nor l, and the call has to be decided first.", output.OneLine(line, output.Width)))
			return answer, false, errLeft
		}
	}
}

// unanswered returns why no answer was given. If that is the end of the input, and the calls were answered elsewhere,
// the conversation continues.
func (c *chat) unanswered(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	open, err := c.openCalls(ctx)
	if err == nil && len(open) > 0 {
		err = errLeft
	}
	c.behind = true
	return err
}

// farewell prints how to answer the pending calls and resume the session without this process, if there are any.
func (c *chat) farewell(ctx context.Context) {
	open, err := c.openCalls(context.WithoutCancel(ctx))
	if err != nil || len(open) == 0 { // an error has no better place than the one that ended the conversation
		return
	}
	at := c.desk.At.Option()
	c.screen.note("Nothing has to run while it is pending. Approve it from any terminal (or deny it) and start the demo again:")
	for i := range open {
		verb := "approve"
		if open[i].Kind != cairn.CallApproval {
			verb = "answer"
		}
		c.screen.print(fmt.Sprintf("  %s inbox %s %s%s\n", c.program, verb, open[i].ID, at))
	}
	demo := c.program + " demo"
	if c.session != DefaultSession {
		demo += " --session " + cli.Quoted(c.session)
	}
	c.screen.print("  " + demo + at + c.desk.Host.Option() + "\n")
	if !c.prompting && !c.yes {
		c.screen.note("With --yes the demo approves everything by itself.")
	}
}
