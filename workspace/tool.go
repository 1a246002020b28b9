package workspace

import (
	"context"

	"github.com/cairn-agents/cairn"
)

// prefix begins the names of all tools.
const prefix = "workspace_"

// newTool makes a tool of a function that visits the session's files. A tool that may change them is a round by itself,
// and names the snapshot that it takes.
func newTool[In any](w *Workspace, name, description string, changes bool, p pinned, fn func(context.Context, *visit, In) (string, error), opts ...cairn.ToolOption) cairn.Tool {
	if changes {
		opts = append(opts, cairn.Serial())
	}
	return cairn.Func(prefix+name, description, func(ctx context.Context, call *cairn.Call, in In) (string, error) {
		return w.visit(ctx, call, p, changes, func(v *visit) (string, error) { return fn(ctx, v, in) })
	}, append(opts, w.opts.ToolOptions[name]...)...)
}
