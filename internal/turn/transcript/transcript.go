// Package transcript holds the rules of a session's messages. Every tool use has exactly one result, right after the
// reply that asks for it, before the model is called again. The package pairs uses with results, finds uses without a
// result, and answers them.
//
// The package is pure: it does no I/O, knows neither the store nor the agent, and never modifies a message that it is
// given.
package transcript

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/limits"
)

// Balanced reports whether every tool use has its result right after it.
func Balanced(messages []cairn.Message) bool {
	for i := range messages {
		if messages[i].Role != cairn.RoleAssistant {
			continue
		}
		uses := messages[i].ToolUses()
		if len(uses) == 0 {
			continue
		}
		var results []*cairn.ToolResult
		if i+1 < len(messages) {
			results = messages[i+1].ToolResults()
		}
		for _, use := range uses {
			if !slices.ContainsFunc(results, func(r *cairn.ToolResult) bool { return r.CallID == use.CallID }) {
				return false
			}
		}
	}
	return true
}

// Heal returns the transcript with every tool use answered right after it: by its result, wherever that was, or by one
// saying that the call was not executed. Results without a use are dropped.
func Heal(messages []cairn.Message) []cairn.Message {
	results := map[string]*cairn.ToolResult{}
	for i := range messages {
		for _, r := range messages[i].ToolResults() {
			if _, dup := results[r.CallID]; !dup {
				results[r.CallID] = r
			}
		}
	}
	healed := make([]cairn.Message, 0, len(messages)+1)
	for i := range messages {
		m := messages[i]
		if m.Role == cairn.RoleTool {
			continue
		}
		healed = append(healed, m)
		uses := m.ToolUses()
		if m.Role != cairn.RoleAssistant || len(uses) == 0 {
			continue
		}
		answer := cairn.Message{ID: m.ID + "/results", Role: cairn.RoleTool, RunID: m.RunID, CreatedAt: m.CreatedAt}
		for _, use := range uses {
			r := results[use.CallID]
			if r == nil {
				r = NotExecuted(use, "the call was not executed")
			}
			answer.Parts = append(answer.Parts, cairn.Part{Type: cairn.PartToolResult, Result: r})
		}
		healed = append(healed, answer)
	}
	return healed
}

// Unanswered returns the last reply of a transcript, and those of its tool uses that have no result yet.
func Unanswered(messages []cairn.Message) (reply *cairn.Message, open []*cairn.ToolUse) {
	last := len(messages) - 1
	for last >= 0 && messages[last].Role != cairn.RoleAssistant {
		last--
	}
	if last < 0 {
		return nil, nil
	}
	answered := map[string]bool{}
	for _, r := range Answered(messages) {
		answered[r.CallID] = true
	}
	for _, use := range messages[last].ToolUses() {
		if !answered[use.CallID] {
			open = append(open, use)
		}
	}
	return &messages[last], open
}

// Answered returns the results of the last reply of a transcript, in the order in which they came.
func Answered(messages []cairn.Message) (results []*cairn.ToolResult) {
	last := len(messages) - 1
	for last >= 0 && messages[last].Role != cairn.RoleAssistant {
		last--
	}
	for i := last + 1; i < len(messages); i++ {
		results = append(results, messages[i].ToolResults()...)
	}
	return results
}

// Closing returns the message that answers the open tool uses of a transcript's last reply as not executed, or nil if
// there are none.
func Closing(messages []cairn.Message) *cairn.Message {
	reply, open := Unanswered(messages)
	if len(open) == 0 {
		return nil
	}
	m := &cairn.Message{ID: reply.ID + "/closed", Role: cairn.RoleTool, Origin: cairn.OriginWithdrawn, RunID: reply.RunID}
	for _, use := range open {
		m.Parts = append(m.Parts, cairn.Part{Type: cairn.PartToolResult, Result: NotExecuted(use, "the call was not executed")})
	}
	return m
}

// Use returns the use that a result answers. If the transcript lacks it, Use returns one with only the call's id and
// tool.
func Use(messages []cairn.Message, r *cairn.ToolResult) *cairn.ToolUse {
	for _, m := range slices.Backward(messages) {
		for _, use := range m.ToolUses() {
			if use.CallID == r.CallID {
				return use
			}
		}
	}
	return &cairn.ToolUse{CallID: r.CallID, Tool: r.Tool}
}

// MustFinish reports whether the model must call the finish tool, because the run was notified that its turn ends.
func MustFinish(messages []cairn.Message, runID string) bool {
	for i := len(messages) - 1; i >= 0 && messages[i].RunID == runID; i-- {
		if messages[i].Origin == cairn.OriginMustFinish {
			return true
		}
	}
	return false
}

// RepliesWhile counts the last replies of a run for which a condition holds.
func RepliesWhile(messages []cairn.Message, runID string, holds func(*cairn.Message) bool) (n int) {
	for i := len(messages) - 1; i >= 0 && messages[i].RunID == runID; i-- {
		if messages[i].Role != cairn.RoleAssistant {
			continue
		}
		if !holds(&messages[i]) {
			break
		}
		n++
	}
	return n
}

// NotExecuted returns the result of a call that was not executed.
func NotExecuted(use *cairn.ToolUse, why string) *cairn.ToolResult {
	return Failed(use, cairn.ErrNotExecuted, why)
}

// Stopped returns the result of a call that was running when its run was stopped.
func Stopped(use *cairn.ToolUse) *cairn.ToolResult {
	return Failed(use, cairn.ErrStopped, "stopped while running; it may have had effects")
}

// Failed returns a result that is an error.
func Failed(use *cairn.ToolUse, code cairn.Code, text string) *cairn.ToolResult {
	raw, _ := json.Marshal(limits.Words(text)) // a string always encodes
	return &cairn.ToolResult{CallID: use.CallID, Tool: use.Tool, Output: raw, IsError: true, Code: code}
}

// Sent returns the transcript in the form that a model is sent. A deferred tool appears as the call of [cairn.CallTool]
// that the model made, and its result as that tool's. A result whose tool ran with arguments edited by a reviewer
// begins with a note of it, because the arguments in the transcript stay as the model wrote them. Parts for pages are
// left out, or given as JSON in a message that has no others. The note of a toolset comes before the user's messages that
// it follows in the transcript, so that the model's last message is the user's. Sent is idempotent.
func Sent(messages []cairn.Message) []cairn.Message {
	sent := slices.Clone(messages)
	for i := range sent {
		if notes(&sent[i]) {
			lead(sent[:i+1])
		}
	}
	wrapped := map[string]bool{}
	otherwise := func(p cairn.Part) bool {
		return p.Data != nil || edited(p) || p.ToolUse != nil && p.ToolUse.Deferred || p.Result != nil && wrapped[p.Result.CallID]
	}
	for i := range sent {
		m := &sent[i]
		if !slices.ContainsFunc(m.Parts, otherwise) {
			continue
		}
		m.Parts = withoutData(m.Parts)
		for j := range m.Parts {
			p := &m.Parts[j]
			switch {
			case !otherwise(*p):
			case p.ToolUse != nil:
				wrapped[p.ToolUse.CallID] = true
				p.ToolUse = define.Wrap(p.ToolUse)
			default:
				r := *p.Result
				if edited(*p) {
					r.Output, r.Edited = withNote(&r), nil
				}
				if wrapped[r.CallID] {
					r.Tool = cairn.CallTool
				}
				p.Result = &r
			}
		}
	}
	return sent
}

// notes reports whether a message is the note of a toolset. A summary restates such notes.
func notes(m *cairn.Message) bool { return len(m.Pinned) > 0 && m.Summary == nil }

// lead moves the last message before the first of the user's messages that directly precede it, if there are any. Hidden
// messages among these move with them.
func lead(list []cairn.Message) {
	last := len(list) - 1
	to := last
	for i := last - 1; i >= 0 && list[i].Role == cairn.RoleUser && list[i].Summary == nil && !notes(&list[i]); i-- {
		if !list[i].Hidden {
			to = i
		}
	}
	note := list[last]
	copy(list[to+1:], list[to:last])
	list[to] = note
}

// withoutData returns a copy of a message's parts without those for pages. If there are no others they become text.
func withoutData(parts []cairn.Part) []cairn.Part {
	rest := slices.DeleteFunc(slices.Clone(parts), func(p cairn.Part) bool { return p.Data != nil })
	if len(rest) > 0 {
		return rest
	}
	for i := range parts {
		raw, _ := json.Marshal(parts[i].Data) // the JSON is valid
		rest = append(rest, cairn.TextPart(string(raw)))
	}
	return rest
}

func edited(p cairn.Part) bool { return p.Type == cairn.PartToolResult && len(p.Result.Edited) > 0 }

// withNote returns the output of a result with edited arguments as the model reads it. A JSON object stays an object.
func withNote(r *cairn.ToolResult) json.RawMessage {
	output := bytes.TrimSpace(r.Output)
	if members, object := bytes.CutPrefix(output, []byte("{")); object && !r.IsError {
		sent := append([]byte(`{"arguments_edited_by_reviewer":`), r.Edited...)
		if !bytes.HasPrefix(bytes.TrimSpace(members), []byte("}")) {
			sent = append(sent, ',')
		}
		return append(sent, members...)
	}
	var text string
	if json.Unmarshal(output, &text) != nil || string(output) == "null" {
		text = string(output)
	}
	head := "Its result: "
	if r.IsError {
		head = "It failed: "
	}
	// A string always encodes.
	raw, _ := json.Marshal("The reviewer edited the arguments; the tool ran with " + string(r.Edited) + ". " + head + text)
	return raw
}
