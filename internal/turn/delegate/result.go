package delegate

import (
	"encoding/json"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
)

// Result returns what a call comes to whose agent's run has ended. Why it failed is private, as an error of a tool is: it may
// be in the words of a provider. That it was lost is not.
func Result(use *cairn.ToolUse, agent string, run *cairn.Run) *cairn.ToolResult {
	switch {
	case run.Status == cairn.RunCompleted && len(run.Output) > 0:
		return &cairn.ToolResult{CallID: use.CallID, Tool: use.Tool, Output: run.Output}
	case run.Status == cairn.RunCompleted:
		text, _ := json.Marshal(run.Text) // a string always encodes
		return &cairn.ToolResult{CallID: use.CallID, Tool: use.Tool, Output: text}
	case run.Error != nil:
		r := transcript.Failed(use, run.Error.Code, "agent "+agent+" failed: "+run.Error.Message)
		r.Private = run.Error.Code != cairn.CodeLost
		return r
	}
	return transcript.Failed(use, cairn.CodeStopped, "agent "+agent+" was stopped before it came to an end")
}

// Report returns what the model reads of a companion in the background whose run has ended.
func Report(name string, run *cairn.Run) string {
	switch {
	case run.Status == cairn.RunCompleted && len(run.Output) > 0:
		return fmt.Sprintf("Companion %s is done: %s", name, run.Output)
	case run.Status == cairn.RunCompleted:
		return fmt.Sprintf("Companion %s is done: %s", name, run.Text)
	case run.Error != nil:
		return fmt.Sprintf("Companion %s failed: %s", name, run.Error.Message)
	}
	return fmt.Sprintf("Companion %s was stopped before it came to an end.", name)
}
