package step

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/ops"
	"github.com/cairn-agents/cairn/internal/turn"
)

// Call is a call of a step: the fold of its facts.
type Call struct {
	Use *cairn.ToolUse
	// Tool is the agent's current tool of that name; nil for an unknown tool, one that is off, and for __finish__.
	Tool *define.Tool
	// Off reports whether the tool was switched off when the model was asked.
	Off bool
	// Round is when the call runs, see [turn.Planned]: after all calls of earlier rounds, whose writes it sees.
	Round int
	// Cut is why the arguments are incomplete; empty if they are complete.
	Cut cairn.FinishReason
	// Row is the row of an approval or of a client tool's call, pending or answered; its Version is 0 until it is
	// committed. Asked lists the rows of the tool's questions, in order.
	Row   *cairn.PendingCall
	Asked []*cairn.PendingCall
	// Effect is the row of an effect whose outcome a person was asked for. Sent is the latest attempt in this run.
	Effect *cairn.PendingCall
	Sent   *Sent
	// Starts lists the starts of the other agent's session, the latest last.
	Starts []*Started
	// Published reports whether this process has published the call's start.
	Published bool
	// Attempts counts the known attempts at its tool.
	Attempts int
	// Wait is why the call has, or had, no result.
	Wait *Wait
	// Moved reports whether the session that the call waits for is no longer suspended, because another call gave it
	// work.
	Moved bool
	// Result is nil until the call has a result.
	Result *Result
}

// Done reports whether the turn ends with the call.
func (c *Call) Done() bool { return c.Result != nil && c.Result.Completion != nil }

// Finishing reports whether the call may end the turn.
func (c *Call) Finishing() bool {
	return c.Use.Tool == cairn.FinishTool || c.Tool != nil && c.Tool.Finishes
}

// Ends reports whether the call of an agent ends the turn if it succeeds.
func (c *Call) Ends(a *cairn.Agent) bool {
	return c.Use.Tool == cairn.FinishTool && a.Output != nil || c.Tool != nil && c.Tool.Finishes
}

// Delegates reports whether the call is one of a sub-agent or a companion.
func (c *Call) Delegates() bool {
	return c.Tool != nil && (c.Tool.Delegates())
}

// Child returns the reference to the session that the call consults.
func (c *Call) Child(sessionID, agent string) *cairn.ChildRef {
	kind := cairn.ChildCompanion
	if c.Tool != nil && c.Tool.Agent != nil {
		kind = cairn.ChildSubAgent
	}
	return &cairn.ChildRef{CallID: c.Use.CallID, SessionID: sessionID, Agent: agent, Kind: kind}
}

// Consults reports whether the call gives an agent work.
func (c *Call) Consults() bool {
	return c.Delegates() && (c.Tool.Agent != nil || ConsultsCompanion(c.Use.Tool))
}

// Started returns the latest start of the consultation, or nil.
func (c *Call) Started() *Started {
	if n := len(c.Starts); n > 0 {
		return c.Starts[n-1]
	}
	return nil
}

// AgentConsulted returns the agent that the call, which has its result, has consulted; empty if it is not known.
func (c *Call) AgentConsulted() string {
	if c.Result.Consulted != nil {
		return c.Result.Consulted.Agent
	}
	if s := c.Started(); s != nil {
		return s.Agent
	}
	return ""
}

// Announced reports whether hooks were called for the consultation and the log has it.
func (c *Call) Announced() bool {
	return slices.ContainsFunc(c.Starts, func(s *Started) bool { return s.Announced })
}

// HandedOver returns the run with the given id that was handed over to be driven, or nil.
func (c *Call) HandedOver(runID string) *turn.Begun {
	for _, s := range c.Starts {
		if s.Run != nil && s.Run.RunID == runID {
			return s.Run
		}
	}
	return nil
}

// Waits reports whether the call has no result because an answer from outside is pending.
func (c *Call) Waits() bool {
	return c.Result == nil && (c.awaitsChild() && !c.Moved || c.Open() != nil)
}

// Continues reports whether the tool was called in an earlier run, whose log has the call's start, and asked a question or
// ended without an outcome.
func (c *Call) Continues() bool {
	return len(c.Asked) > 0 && c.Asked[0].Version > 0 || c.Effect != nil && c.Effect.Version > 0
}

// Unresolved reports whether an attempt at an effectful call began whose outcome is unknown.
func (c *Call) Unresolved() bool { return c.Result == nil && c.Sent != nil && c.Wait == nil }

// Ledger returns the row that the call has in the ledger of effects, in the state that is known of it; nil if its tool was
// not called.
func (c *Call) Ledger() *cairn.PendingCall {
	switch {
	case c.Result != nil && c.Result.Effect != nil:
		return c.Result.Effect
	case c.Sent != nil && c.Wait == nil: // an attempt whose tool asks has ended
		return c.Sent.Row
	}
	return c.Effect
}

// attach makes a row the call's own, or that of one of its questions.
func (c *Call) attach(row *cairn.PendingCall) {
	if row.Kind == cairn.CallEffect {
		c.Effect = row
		return
	}
	if !row.Kind.Asked() {
		c.Row = row
		return
	}
	at, there := slices.BinarySearchFunc(c.Asked, row.Number, func(q *cairn.PendingCall, n int) int { return q.Number - n })
	if there {
		c.Asked[at] = row
	} else {
		c.Asked = slices.Insert(c.Asked, at, row)
	}
}

// Rows returns the rows that the call has in the table of calls, in the order in which they were opened.
func (c *Call) Rows() []*cairn.PendingCall {
	if c.Row == nil && c.Effect == nil {
		return c.Asked
	}
	var list []*cairn.PendingCall
	if c.Row != nil {
		list = append(list, c.Row)
	}
	list = append(list, c.Asked...)
	if c.Effect != nil {
		list = append(list, c.Effect)
	}
	return list
}

// Open returns the row that is still unanswered, or nil. A call has at most one.
func (c *Call) Open() *cairn.PendingCall {
	if c.Effect != nil && c.Effect.Status == cairn.CallOpen {
		return c.Effect
	}
	if n := len(c.Asked); n > 0 && c.Asked[n-1].Status == cairn.CallOpen {
		return c.Asked[n-1]
	}
	if c.Row != nil && c.Row.Status == cairn.CallOpen {
		return c.Row
	}
	return nil
}

// ready reports whether the call has no result yet although its answer has arrived: it came after the call's effect.
func (c *Call) ready() bool {
	return c.Result == nil && (c.Moved || slices.ContainsFunc(c.Rows(), func(p *cairn.PendingCall) bool { return p.Status == cairn.CallAnswered }))
}

// awaitsChild reports whether the call waits, or waited, for a suspended session.
func (c *Call) awaitsChild() bool { return c.Wait != nil && c.Wait.Waiting != nil }

// AwaitsCompanion returns the session id of the companion that the call waits for, or "".
func (c *Call) AwaitsCompanion() string {
	if !c.Waits() || !c.awaitsChild() || c.Tool == nil || !c.Tool.Companion {
		return ""
	}
	return c.Wait.Child.SessionID
}

// AwaitsChild reports whether the call waits for another session.
func (c *Call) AwaitsChild() bool { return c.Result == nil && c.awaitsChild() }

// Input returns the arguments that the call's tool runs with: the model's, unless the approving reviewer changed them.
func (c *Call) Input() json.RawMessage {
	if edited := c.Edited(); edited != nil {
		return edited
	}
	return c.Use.Input
}

// Edited returns the arguments with which the approving reviewer replaced the model's; nil if they are unchanged.
func (c *Call) Edited() json.RawMessage {
	if c.Row == nil || c.Row.Answer == nil || c.Row.Answer.Kind != cairn.DecisionApproved || len(c.Row.Answer.Value) == 0 {
		return nil
	}
	was, err := ops.Canonical(c.Use.Input)
	if is, failed := ops.Canonical(c.Row.Answer.Value); err == nil && failed == nil && bytes.Equal(is, was) {
		return nil
	}
	return c.Row.Answer.Value
}

// Writes returns what the call's hooks and its tool have written so far; nil if nothing.
func (c *Call) Writes() *Writes {
	switch {
	case c.Result != nil:
		return &c.Result.Writes
	case c.Wait != nil:
		return &c.Wait.Writes
	case len(c.Starts) > 0:
		return &c.Started().Writes
	}
	return nil
}
