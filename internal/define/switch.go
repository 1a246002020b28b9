package define

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
)

// ToolSwitch returns a hidden message that switches tools on (true) and off (false), by name, from there on, with a
// note to the model. It returns ErrInvalid if no tool is named, for invalid tool names, and for tools that cannot be
// switched.
func ToolSwitch(tools map[string]bool) (cairn.Message, error) {
	if len(tools) == 0 {
		return cairn.Message{}, cairn.Invalid("tools", "no tools given")
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		switch {
		case name == cairn.FinishTool || name == cairn.FindTools || name == cairn.CallTool:
			return cairn.Message{}, cairn.Invalid("tools", "%s cannot be switched", name)
		case !ids.Tool(name):
			return cairn.Message{}, cairn.Invalid("tools", "%q is not a valid tool name", name)
		case tools[name]:
			lines = append(lines, fmt.Sprintf("The tool %q is available again.", name))
		default:
			lines = append(lines, fmt.Sprintf("The tool %q is not available from now on.", name))
		}
	}
	m := cairn.Context(strings.Join(lines, "\n"))
	m.Tools = maps.Clone(tools)
	return m, nil
}
