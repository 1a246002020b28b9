package server

import (
	"context"
	"mime"
	"path"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/wire"
	"github.com/cairn-agents/cairn/store"
)

type workspaceIn struct {
	ID string `path:"id"`
	// Snapshot is the id of a snapshot, whose files are listed instead of the current ones.
	Snapshot string `query:"snapshot"`
	// Prefix is the beginning of the paths that are listed, such as src/.
	Prefix string `query:"prefix"`
	Limit  int    `query:"limit"`
	Offset int    `query:"offset"`
	Cursor string `query:"cursor"`
}

// listWorkspace lists the files of a workspace.
func listWorkspace(c *request, in *workspaceIn) (*pageBody[cairn.WorkspaceFile], error) {
	if _, err := c.open(in.ID, ActionRead); err != nil {
		return nil, err
	}
	return read(c.ctx, paging{in.Limit, in.Offset, in.Cursor}, store.PageQuery{},
		func(q *store.PageQuery, cursor string, limit int) { q.Cursor, q.Limit = cursor, limit },
		func(ctx context.Context, q store.PageQuery) (store.Page[cairn.WorkspaceFile], error) {
			return c.h.eng.WorkspaceFiles(ctx, in.ID, engine.WorkspaceAt{Snapshot: in.Snapshot}, in.Prefix, q)
		})
}

type workspaceFileIn struct {
	ID string `path:"id"`
	// Path is the file's path in the workspace.
	Path string `query:"path"`
	// Snapshot is the id of a snapshot, whose file is read instead of the current one.
	Snapshot string `query:"snapshot"`
}

// getWorkspaceFile responds with a file of a workspace.
func getWorkspaceFile(c *request, in *workspaceFileIn) error {
	if _, err := c.open(in.ID, ActionRead); err != nil {
		return err
	}
	f, content, err := c.h.eng.OpenWorkspaceFile(c.ctx, in.ID, engine.WorkspaceAt{Snapshot: in.Snapshot}, in.Path)
	if err != nil {
		return err
	}
	return c.send(&served{name: path.Base(f.Path), mediaType: mime.TypeByExtension(path.Ext(f.Path)), content: content, version: f.Version})
}

func listWorkspaceSnapshots(c *request, in *pageIn) (*pageBody[cairn.WorkspaceSnapshot], error) {
	return of(c, in, c.h.eng.WorkspaceSnapshots)
}

type restoreWorkspaceIn struct {
	ID string `path:"id" json:"-"`
	wire.RestoreWorkspace
}

// restoreWorkspace restores the files of a workspace.
func restoreWorkspace(c *request, in *restoreWorkspaceIn) (*cairn.Session, error) {
	row, err := c.open(in.ID, ActionChange)
	if err != nil {
		return nil, err
	}
	if changed, err := c.changed(row.Version); changed || err != nil {
		return public(row), err
	}
	row, err = c.h.eng.RestoreWorkspace(c.ctx, row.ID, in.Snapshot)
	return public(row), err
}
