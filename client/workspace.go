package client

import (
	"context"
	"net/url"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/wire"
)

// WorkspaceFiles lists the files of a session's workspace whose paths begin with a prefix, as of its last snapshot or the
// named one. It returns the errors of engine.WorkspaceFiles.
func (c *Client) WorkspaceFiles(ctx context.Context, id, snapshot, prefix string, limit int, cursor string) (*cairn.Page[cairn.WorkspaceFile], error) {
	query := page(limit, cursor)
	if snapshot != "" {
		query.Set("snapshot", snapshot)
	}
	if prefix != "" {
		query.Set("prefix", prefix)
	}
	return out[cairn.Page[cairn.WorkspaceFile]](c, ctx, "GET", "/sessions/"+url.PathEscape(id)+"/workspace", query, nil)
}

// WorkspaceFile returns a file of a session's workspace, as of its last snapshot or the named one. It returns the errors of engine.OpenWorkspaceFile, and ErrTooLarge for a file beyond Options.MaxBody.
func (c *Client) WorkspaceFile(ctx context.Context, id, snapshot, path string) (*cairn.File, error) {
	query := url.Values{"path": {path}}
	if snapshot != "" {
		query.Set("snapshot", snapshot)
	}
	return c.file(ctx, "/sessions/"+url.PathEscape(id)+"/workspace/file", query)
}

// WorkspaceSnapshots lists the snapshots of a session's workspace, oldest first. The last one is current.
func (c *Client) WorkspaceSnapshots(ctx context.Context, id string, limit int, cursor string) (*cairn.Page[cairn.WorkspaceSnapshot], error) {
	return out[cairn.Page[cairn.WorkspaceSnapshot]](c, ctx, "GET", "/sessions/"+url.PathEscape(id)+"/workspace/snapshots", page(limit, cursor), nil)
}

// RestoreWorkspace restores the files of a session's workspace to a snapshot, between turns. It returns the errors of
// engine.RestoreWorkspace.
func (c *Client) RestoreWorkspace(ctx context.Context, id, snapshot string) (*cairn.Session, error) {
	in := wire.RestoreWorkspace{Snapshot: snapshot}
	return out[cairn.Session](c, ctx, "POST", "/sessions/"+url.PathEscape(id)+"/workspace/restore", nil, in)
}
