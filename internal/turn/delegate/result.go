package delegate

import (
	"encoding/json"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
)

// Result returns the result of a call whose agent's run has ended. The reason of a failure is private, like the error
// of a tool, since it may quote a provider. That a run was lost is not private.
func Result(use *cairn.ToolUse, agent string, run *cairn.Run) *cairn.ToolResult {
	switch {
	case run.Status == cairn.RunCompleted && len(run.Output) > 0:
		return &cairn.ToolResult{CallID: use.CallID, Tool: use.Tool, Output: run.Output}
	case run.Status == cairn.RunCompleted:
		text, _ := json.Marshal(run.Text) // a string always encodes
		return &cairn.ToolResult{CallID: use.CallID, Tool: use.Tool, Output: text}
	case run.Error != nil:
		r := transcript.Failed(use, run.Error.Code, "agent "+agent+" failed: "+run.Error.Message)
		r.Private = run.Error.Code != cairn.ErrLost
		return r
	}
	return transcript.Failed(use, cairn.ErrStopped, "agent "+agent+" was stopped before it finished")
}

// Report returns the text that the model reads about a background companion whose run has ended.
func Report(name string, run *cairn.Run) string {
	switch {
	case run.Status == cairn.RunCompleted && len(run.Output) > 0:
		return fmt.Sprintf("Companion %s is done: %s", name, run.Output)
	case run.Status == cairn.RunCompleted:
		return fmt.Sprintf("Companion %s is done: %s", name, run.Text)
	case run.Error != nil:
		return fmt.Sprintf("Companion %s failed: %s", name, run.Error.Message)
	}
	return fmt.Sprintf("Companion %s was stopped before it finished.", name)
}
