package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

// inboxCmd holds what its commands have in common.
type inboxCmd struct {
	storeFlags
	JSON bool `name:"json" help:"Print JSON: a page of calls, a call, or the receipt of an answer."`

	List    inboxListCmd `cmd:"" help:"List calls that wait, the oldest first."`
	Show    inboxShowCmd `cmd:"" help:"Show one call with everything that was decided about it."`
	Approve approveCmd   `cmd:"" help:"Let a call's tool run."`
	Deny    denyCmd      `cmd:"" help:"Keep a call's tool from running."`
	Answer  answerCmd    `cmd:"" help:"Give the result of a call that somebody outside runs."`
	Claim   claimCmd     `cmd:"" help:"Have a call to yourself for a time."`
	Release releaseCmd   `cmd:"" help:"Take a claim back."`
}

// Help is what --help adds.
func (inboxCmd) Help() string {
	return `CALL is a call's id or the beginning of it, if no other call's id begins in the same way.

Answering runs nothing by itself: "cairn work", or whoever resumes the session, goes on with it. No agent needs to be
known for it.

Exit codes: 0 done, 1 failed (also: somebody else has claimed the call), 2 invalid, 3 there is no such call,
4 not what counts: somebody else was faster, or the deadline had passed. The decision that counts is printed.`
}

// aCall is the argument of commands about one call.
type aCall struct {
	Call string `arg:"" help:"The call's id or the beginning of it."`
}

type inboxListCmd struct {
	User     string `help:"Only calls of this user's sessions."`
	Agent    string `help:"Only calls of this agent."`
	Tool     string `help:"Only calls of this tool."`
	Reviewer string `help:"Only calls that this reviewer may answer."`
	Kind     string `placeholder:"KIND" help:"Only calls of this kind: approval or client_tool."`
	All      bool   `help:"Also calls that nobody waits for any more."`
	Limit    int    `default:"50" help:"At most so many, 1 to 1000. Default: 50."`
	Cursor   string `help:"Go on where an earlier list ended."`
}

var everyStatus = []cairn.CallStatus{cairn.CallOpen, cairn.CallAnswered, cairn.CallSettled, cairn.CallDropped}

// Run lists calls.
func (cmd *inboxListCmd) Run(a *app, all *inboxCmd) error {
	q := store.CallQuery{UserID: cmd.User, Agent: cmd.Agent, Tool: cmd.Tool, Reviewer: cmd.Reviewer, Kind: cairn.CallKind(cmd.Kind),
		Cursor: cmd.Cursor, Limit: cmd.Limit}
	switch {
	case cmd.Limit < 1 || cmd.Limit > 1000:
		return misuse("--limit: %d is not between 1 and 1000", cmd.Limit)
	case cmd.Kind != "" && q.Kind != cairn.CallApproval && q.Kind != cairn.CallClientTool:
		return misuse("--kind: %q is neither %s nor %s", cmd.Kind, cairn.CallApproval, cairn.CallClientTool)
	}
	if cmd.All {
		q.Statuses = everyStatus
	}
	return all.inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		page, err := eng.Inbox(ctx, q)
		if err != nil {
			return err
		}
		if all.JSON {
			page.Items = append([]cairn.PendingCall{}, page.Items...) // an empty list is []
			return printJSON(a.stdout, page)
		}
		header := []string{"CALL", "SESSION", "TOOL", "INPUT", "WAITING SINCE", "DEADLINE", "ASSIGNED", "CLAIMED"}
		if cmd.All {
			header = append(header, "STATUS")
		}
		now := a.now()
		err = list(a, false, each(page.Items), header, func(c *cairn.PendingCall) []string { return callRow(c, now)[:len(header)] })
		if err == nil && page.Next != "" {
			_, err = fmt.Fprintf(a.stderr, "There are more: --cursor %s\n", quoted(page.Next))
		}
		return err
	})
}

// each yields the items of a slice as of a list that cannot fail.
func each[T any](items []T) func(func(T, error) bool) {
	return func(yield func(T, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// shortInput is how much of a call's arguments fits a table, in characters.
const shortInput = 40

func callRow(c *cairn.PendingCall, now time.Time) []string {
	return []string{c.ID, c.RootID, c.Tool, oneLine(string(c.Input), shortInput), age(now, c.CreatedAt), deadline(c, now), assigned(c),
		claimed(c, now), callStatus(c)}
}

// deadline returns until when a call can be answered; empty for ever.
func deadline(c *cairn.PendingCall, now time.Time) string {
	switch {
	case c.Deadline.IsZero():
		return ""
	case c.Overdue(now):
		return stamp(c.Deadline) + " (passed)"
	}
	return stamp(c.Deadline)
}

// assigned returns who may answer a call; empty for anybody.
func assigned(c *cairn.PendingCall) string {
	names := strings.Join(c.Reviewers, ", ")
	if c.Quorum != cairn.AnyReviewer {
		names += " (" + string(c.Quorum) + ")"
	}
	return names
}

// claimed returns who has a call to themselves.
func claimed(c *cairn.PendingCall, now time.Time) string {
	if !c.Claimed(now) {
		return ""
	}
	return c.ClaimedBy + " until " + stamp(c.ClaimedUntil)
}

// callStatus returns how far a call is and what was decided.
func callStatus(c *cairn.PendingCall) string {
	if c.Answer == nil {
		return string(c.Status)
	}
	return string(c.Status) + ", " + string(c.Answer.Kind)
}

type inboxShowCmd struct{ aCall }

// Run shows a call.
func (cmd *inboxShowCmd) Run(a *app, all *inboxCmd) error {
	return all.inspect(a, func(ctx context.Context, eng *engine.Engine) error {
		call, err := findCall(ctx, eng, cmd.Call)
		switch {
		case err != nil:
			return err
		case all.JSON:
			return printJSON(a.stdout, call)
		}
		if err := printFields(a.stdout, callFields(call, a.now())); err != nil || len(call.Trail) == 0 {
			return err
		}
		fmt.Fprintln(a.stdout)
		return list(a, false, each(call.Trail), []string{"DECISION", "REVIEWER", "AT", "STEP", "NOTES"}, func(d *cairn.Decision) []string {
			return []string{string(d.Kind), d.Reviewer, stamp(d.At), d.Step, oneLine(d.Notes, 0)}
		})
	})
}

func callFields(c *cairn.PendingCall, now time.Time) [][2]string {
	fields := [][2]string{
		{"call", c.ID}, {"session", c.RootID}, {"kind", string(c.Kind)}, {"tool", c.Tool}, {"input", string(c.Input)}, {"status", callStatus(c)},
		{"agent", c.Agent}, {"user", c.UserID}, {"run", c.RunID}, {"step", c.StepID}, {"waiting since", stamp(c.CreatedAt)},
		{"deadline", deadline(c, now)}, {"assigned to", assigned(c)}, {"claimed by", claimed(c, now)}, {"schema", string(c.Schema)},
	}
	if c.SessionID != c.RootID {
		fields = slices.Insert(fields, 2, [2]string{"sub-agent", c.SessionID})
	}
	if a := c.Answer; a != nil {
		fields = append(fields, [2]string{"answer", decision(c)}, [2]string{"value", string(a.Value)}, [2]string{"words", oneLine(a.Text, 0)})
	}
	return fields
}

// decision says what was decided about a call, by whom and when.
func decision(c *cairn.PendingCall) string {
	words := map[cairn.DecisionKind]string{cairn.DecisionResult: "answered", cairn.DecisionError: "answered with an error", cairn.DecisionTimeout: "out of time"}
	text := orElse(words[c.Answer.Kind], string(c.Answer.Kind))
	if c.Answer.Reviewer != "" {
		text += " by " + c.Answer.Reviewer
	}
	return text + " on " + stamp(c.Answer.At)
}

// findCall returns the call with an id, or else the only one whose id begins so. The error is ErrNotFound if there is
// none, ErrInvalid if there are several.
func findCall(ctx context.Context, eng *engine.Engine, id string) (*cairn.PendingCall, error) {
	if id == "" {
		return nil, cairn.Invalid("call", "the id is empty")
	}
	calls := paged(func(cursor string) (store.Page[cairn.PendingCall], error) {
		return eng.Inbox(ctx, store.CallQuery{Statuses: everyStatus, Cursor: cursor, Limit: 1000})
	})
	var found []cairn.PendingCall
	for call, err := range calls {
		switch {
		case err != nil:
			return nil, err
		case call.ID == id:
			return &call, nil
		case strings.HasPrefix(call.ID, id):
			found = append(found, call)
		}
	}
	switch len(found) {
	case 0:
		return nil, cairn.Errorf(cairn.CodeNotFound, "there is no call %q", id)
	case 1:
		return &found[0], nil
	}
	return nil, cairn.Invalid("call", "%q is the beginning of %s", id, ambiguous(found))
}

// maxNamed is how many of the calls that could be meant are named.
const maxNamed = 10

func ambiguous(calls []cairn.PendingCall) string {
	var names []string
	for i := range calls[:min(len(calls), maxNamed)] {
		names = append(names, calls[i].ID)
	}
	if len(calls) > maxNamed {
		names = append(names, fmt.Sprintf("and %d more", len(calls)-maxNamed))
	}
	return strings.Join(names, ", ")
}
