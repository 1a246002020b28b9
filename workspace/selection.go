package workspace

import (
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
)

// toolsetName is the name of the toolset.
const toolsetName = "workspace"

// The tools, in the order of requests: those for files, and those that a Runner has besides.
var (
	fileTools    = []string{"read", "list", "search", "write", "edit", "remove", "snapshot", "restore", "publish"}
	commandTools = []string{"shell", "processes"}
	allTools     = slices.Concat(fileTools, commandTools, []string{"run"})
)

// selectTools returns the names of the tools that agents get.
func selectTools(o *Options, info Info) ([]string, error) {
	for name := range o.ToolOptions {
		if !slices.Contains(allTools, name) {
			return nil, cairn.Invalid("tool_options", "unknown tool %q: want one of %s", name, strings.Join(allTools, ", "))
		}
	}
	if len(o.Interpreters) > 0 && !info.Commands() {
		return nil, cairn.Invalid("interpreters", "the provider %q runs no commands", info.Name)
	}
	if o.Tools == nil {
		list := slices.Clone(fileTools)
		if info.Commands() {
			list = append(list, "shell")
			if o.Limits.Background > 0 {
				list = append(list, "processes")
			}
		}
		if len(o.Interpreters) > 0 {
			list = append(list, "run")
		}
		return list, nil
	}
	var list []string
	for _, name := range allTools { // in this order
		if slices.Contains(o.Tools, name) {
			list = append(list, name)
		}
	}
	for i, name := range o.Tools {
		switch {
		case !slices.Contains(allTools, name):
			return nil, cairn.Invalid("tools", "unknown tool %q: want one of %s", name, strings.Join(allTools, ", "))
		case slices.Contains(o.Tools[:i], name):
			return nil, cairn.Invalid("tools", "duplicate tool %q", name)
		case !slices.Contains(fileTools, name) && !info.Commands():
			return nil, cairn.Invalid("tools", "%q runs commands, which the provider %q does not", name, info.Name)
		case name == "run" && len(o.Interpreters) == 0:
			return nil, cairn.Invalid("interpreters", "is empty: %q needs one", name)
		}
	}
	if len(list) == 0 {
		return nil, cairn.Invalid("tools", "is empty")
	}
	return list, nil
}
