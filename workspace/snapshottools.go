package workspace

import (
	"context"
	"fmt"

	"github.com/cairn-agents/cairn"
)

// snapshotting are the arguments of the tool for snapshots: none.
type snapshotting struct{}

// snapshotTool names the present state of the files. Each call that changes files takes a snapshot anyway, so nothing is
// stored here but what commands in the background have changed.
func (w *Workspace) snapshotTool(p pinned) cairn.Tool {
	return newTool(w, "snapshot", "Get an id of the present state of all files, to restore it later.", true, p, func(ctx context.Context, v *visit, _ snapshotting) (string, error) {
		root, _, err := v.snapshot(ctx)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("The snapshot is %s.", snapshotID(root)), nil
	})
}

// restoring are the arguments of the tool that restores.
type restoring struct {
	Snapshot string `json:"snapshot" jsonschema:"The id of the snapshot." schema:"minLength=1"`
}

// restoreTool restores a snapshot of the session.
func (w *Workspace) restoreTool(p pinned) cairn.Tool {
	return newTool(w, "restore", "Restore all files from a snapshot. Later changes are lost, and commands in the background end.", true, p, func(ctx context.Context, v *visit, in restoring) (string, error) {
		r, err := parseReference(in.Snapshot)
		if err != nil || r.root == "" || r.unsaved != "" {
			return "", cairn.Invalid("snapshot", "%q is not the id of a snapshot", in.Snapshot)
		}
		has, err := v.blobs.Has(ctx, v.owner, r.root)
		if err != nil {
			return "", err
		}
		if !has[0] {
			return "", cairn.Invalid("snapshot", "this session has no snapshot %q", in.Snapshot)
		}
		v.s.end()
		// The model can make a blob that describes a tree of any size: a file.
		if err := v.restore(ctx, r.root, true); err != nil {
			return "", cairn.Errorf(cairn.AsError(err).Code, "restore: %v", err) // with %w it would count as an error about a path
		}
		return "Restored.", nil
	})
}
