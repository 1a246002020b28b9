package aisdk

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
)

// The history shows decided approvals as the client that made the decisions does, and open ones in the client's way.
func TestDecisionsInTheHistory(t *testing.T) {
	use := func(id string) cairn.Part {
		return cairn.Part{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{CallID: id, Tool: "pay", Input: json.RawMessage(`{"cents":100}`)}}
	}
	call := func(id string, status cairn.CallStatus, answer *cairn.CallAnswer) cairn.PendingCall {
		return cairn.PendingCall{CallRef: cairn.CallRef{ID: id, ApprovalID: "a-" + id, Kind: cairn.CallApproval, Tool: "pay",
			Input: json.RawMessage(`{"cents":100}`)}, Status: status, Answer: answer}
	}
	list := []cairn.Message{
		{ID: "u", RunID: "r1", Role: cairn.RoleUser, Parts: []cairn.Part{cairn.TextPart("pay")}},
		{ID: "m", RunID: "r1", Role: cairn.RoleAssistant, Parts: []cairn.Part{use("c1"), use("c2"), use("c3"), use("c4")}},
		{ID: "n", RunID: "r1", Role: cairn.RoleTool, Parts: []cairn.Part{
			{Type: cairn.PartToolResult, Result: &cairn.ToolResult{CallID: "c1", Output: json.RawMessage(`"paid"`), Edited: json.RawMessage(`{"cents":50}`)}},
			{Type: cairn.PartToolResult, Result: &cairn.ToolResult{CallID: "c2", Output: json.RawMessage(`"no"`), IsError: true, Code: cairn.ErrDenied}}}}}
	decided := []cairn.PendingCall{
		call("c1", cairn.CallSettled, &cairn.CallAnswer{Kind: cairn.DecisionApproved, Text: "fine"}),
		call("c2", cairn.CallSettled, &cairn.CallAnswer{Kind: cairn.DecisionDenied, Text: "never"}),
		call("c3", cairn.CallAnswered, &cairn.CallAnswer{Kind: cairn.DecisionApproved})}
	runs := []cairn.Run{{ID: "r1", Status: cairn.RunSuspended, Reason: cairn.ReasonCalls}}
	for v, want := range map[Version]string{
		V5: `output-available {"cents":50}, output-error {"cents":100}, input-available {"cents":100}, input-available {"cents":100}, data-approval a-c4`,
		V6: `output-available {"cents":50} a-c1 true fine, output-denied {"cents":100} a-c2 false never, approval-responded {"cents":100} a-c3 true , approval-requested {"cents":100} a-c4`,
	} {
		var parts []string
		row := &cairn.Session{ID: "s", RunID: "r1", Status: cairn.SessionPaused}
		for _, p := range Messages(v, row, list, "", []cairn.PendingCall{call("c4", cairn.CallOpen, nil)}, decided, runs, nil)[1].Parts {
			switch by := p.Approval; {
			case p.Type == "data-approval":
				var a asked
				if err := json.Unmarshal(p.Data, &a); err != nil {
					t.Fatal(err)
				}
				parts = append(parts, p.Type+" "+a.ApprovalID)
			case p.CallID == "":
			case by == nil:
				parts = append(parts, fmt.Sprintf("%s %s", p.State, p.Input))
			case by.Approved == nil:
				parts = append(parts, fmt.Sprintf("%s %s %s", p.State, p.Input, by.ID))
			default:
				parts = append(parts, fmt.Sprintf("%s %s %s %t %s", p.State, p.Input, by.ID, *by.Approved, by.Reason))
			}
		}
		if got := strings.Join(parts, ", "); got != want {
			t.Errorf("version %d shows\n%s\nwant\n%s", v, got, want)
		}
	}
}
