package aisdk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
)

// logOf parses a log in the form of the tests: one event per line, with the words that its type needs.
func logOf(t *testing.T, lines string) []cairn.Event {
	t.Helper()
	var list []cairn.Event
	run, step := "r1", 0
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		f := strings.Fields(line)
		ev := cairn.Event{Sequence: int64(len(list) + 1), Type: cairn.EventType(f[0]), SessionID: "s"}
		if strings.HasPrefix(line, "child ") {
			f = f[1:]
			ev.Type, ev.SessionID = cairn.EventType(f[0]), "child"
		}
		arg := func(i int) string {
			if i < len(f) {
				return strings.ReplaceAll(f[i], "_", " ")
			}
			return ""
		}
		switch ev.Type {
		case cairn.EventRunStart, cairn.EventRunResumed:
			run = f[1]
			ev.Name = arg(2)
		case cairn.EventRunEnd:
			ev.Status = cairn.RunStatus(f[1])
			if reason, ok := strings.CutPrefix(f[1], "suspended_"); ok {
				ev.Status, ev.Reason = cairn.RunSuspended, cairn.Reason(reason)
			}
			if ev.Status == cairn.RunFailed {
				ev.Error = &cairn.Error{Code: cairn.ErrMaxSteps, Message: "secret words"}
			}
		case cairn.EventStepStart:
			fmt.Sscan(f[1], &step)
		case cairn.EventTextDelta, cairn.EventThinking:
			ev.Text = arg(1)
		case cairn.EventSources:
			for i := range f[1:] {
				ev.Sources = append(ev.Sources, cairn.Source{URL: f[i+1], Title: "A page"})
			}
		case cairn.EventFiles:
			ev.MessageID = "m"
			fmt.Sscan(f[1], &ev.Index)
			for i := range f[2:] {
				ref := cairn.FileRef{MediaType: "image/png", Size: 3}
				if strings.Contains(f[i+2], ":") {
					ref.Size, ref.URL = 0, f[i+2]
				}
				ev.Files = append(ev.Files, ref)
			}
		case cairn.EventCustom:
			ev.Name, ev.Data, ev.DataID = f[1], json.RawMessage(f[2]), arg(3)
		case cairn.EventToolArgDelta:
			ev.CallID, ev.Text = f[1], f[2]
		case cairn.EventToolArgStart:
			ev.CallID, ev.Tool = f[1], f[2]
		case "question": // of a tool call
			ev.Type, ev.CallID, ev.ToolCallID, ev.Tool, ev.Prompt = cairn.EventToolPending, f[1], f[2], f[3], arg(4)
			ev.Data = json.RawMessage("{}")
		case cairn.EventToolEnd:
			ev.CallID, ev.Tool, ev.Data, ev.IsError = f[1], f[2], json.RawMessage(f[3]), arg(4) == "error" || arg(4) == "denied"
			if arg(4) == "denied" {
				ev.Code = cairn.ErrDenied
			}
		case cairn.EventToolStart, cairn.EventToolArgEnd, cairn.EventToolPending, cairn.EventToolApproval:
			ev.CallID, ev.Tool, ev.Data = f[1], f[2], json.RawMessage(f[3])
			if ev.Type == cairn.EventToolApproval {
				ev.ApprovalID = "a-" + f[1]
			}
			if arg(4) == "edited" {
				ev.Edited = ev.Data
			}
		}
		ev.RunID, ev.Step = run, step
		if len(f) > 1 && (ev.Type == cairn.EventStepDiscarded || ev.Type == cairn.EventStepCommitted) {
			fmt.Sscan(f[1], &ev.Step)
		}
		if ev.SessionID == "child" {
			ev.RunID = "rc"
		}
		list = append(list, ev)
	}
	return list
}

// client reduces frames as the client does, and rejects what the client rejects.
type client struct {
	t     *testing.T
	lines []string       // the parts of the message
	open  map[string]int // text and reasoning, by id
	calls map[string]int
	asked map[string]string // the calls of approval requests
	// inputs are the inputs of calls, as of now.
	inputs map[string]string
	step   int // index of the first part of the current step
	end    string
	run    string // last run that it has seen
}

func (c *client) take(frames []byte) {
	c.t.Helper()
	for frame := range bytes.SplitSeq(bytes.TrimSuffix(frames, []byte("\n\n")), []byte("\n\n")) {
		body, ok := bytes.CutPrefix(frame, []byte("data: "))
		switch {
		case len(frame) == 0:
			continue
		case !ok:
			c.t.Fatalf("a frame is %q", frame)
		case c.end == "[DONE]":
			c.t.Fatalf("behind the end is %q", frame)
		case string(body) == "[DONE]":
			c.end = "[DONE]"
			continue
		}
		var chunk map[string]any
		if err := json.Unmarshal(body, &chunk); err != nil {
			c.t.Fatalf("a chunk is %s: %v", body, err)
		}
		c.chunk(chunk)
	}
}

func (c *client) chunk(m map[string]any) {
	c.t.Helper()
	str := func(key string) string { s, _ := m[key].(string); return s }
	kind, id := str("type"), str("id")
	call := str("toolCallId")
	if _, known := c.calls[call]; call != "" && !known && kind != "tool-input-start" && kind != "tool-input-available" {
		c.t.Errorf("%s of a call that was not shown", kind)
	}
	add := func(text string) int { c.lines = append(c.lines, text); return len(c.lines) - 1 }
	switch kind {
	case "start", "message-metadata":
		if kind == "start" {
			*c = *reducer(c.t)
		}
		c.run, _ = m["messageMetadata"].(map[string]any)["run_id"].(string)
	case "start-step":
		c.step = len(c.lines)
	case "reset-step":
		c.lines, c.open = c.lines[:c.step], map[string]int{}
		for id, i := range c.calls {
			if i >= c.step {
				delete(c.calls, id)
			}
		}
	case "text-start", "reasoning-start":
		c.open[id] = add(strings.TrimSuffix(kind, "-start") + ":")
	case "text-delta", "reasoning-delta", "text-end", "reasoning-end":
		i, ok := c.open[id]
		if !ok {
			c.t.Errorf("%s of a part that is not open", kind)
			return
		}
		if c.lines[i] += str("delta"); strings.HasSuffix(kind, "-end") {
			delete(c.open, id)
		}
	case "tool-input-start":
		if _, twice := c.calls[call]; twice {
			c.t.Errorf("call %s is shown twice", call)
		}
		c.calls[call] = add(str("toolName") + "#" + call)
	case "tool-input-available":
		raw, _ := json.Marshal(m["input"])
		c.inputs[call] = string(raw)
		c.set(call, "input "+string(raw))
	case "tool-input-delta":
		c.inputs[call] += str("inputTextDelta")
	case "tool-approval-request":
		c.asked[str("approvalId")] = call
		c.set(call, "asks "+str("approvalId"))
	case "tool-output-available":
		raw, _ := json.Marshal(m["output"])
		c.set(call, "output "+string(raw))
	case "tool-output-error":
		c.set(call, "error "+str("errorText"))
	case "tool-output-denied":
		c.set(call, "denied")
	case "tool-approval-response":
		if c.asked[str("approvalId")] == "" {
			c.t.Errorf("%s to a request that was not shown", kind)
		}
	case "finish-step", "abort":
		if len(c.open) > 0 {
			c.t.Errorf("%s with an open part", kind)
		}
	case "finish":
		c.end = str("finishReason")
	case "error":
		c.end = str("errorText")
	case "steering-message":
		add(kind + " " + id)
	case "file":
		add(kind + " " + str("url") + " " + str("mediaType"))
	case "source-url", "source-document":
		add(kind + " " + str("sourceId") + " " + str("url") + " " + str("title"))
	default:
		if !strings.HasPrefix(kind, "data-") {
			c.t.Errorf("an unknown chunk: %s", kind)
		}
		raw, _ := json.Marshal(m["data"])
		line := kind + " " + string(raw)
		if i, again := c.calls[kind+id]; id != "" && again {
			c.lines[i] = line
		} else {
			c.calls[kind+id] = add(line)
		}
	}
}

func (c *client) set(call, state string) {
	head, _, _ := strings.Cut(c.lines[c.calls[call]], " ")
	c.lines[c.calls[call]] = head + " " + state
}

func (c *client) String() string { return strings.Join(c.lines, "\n") }
