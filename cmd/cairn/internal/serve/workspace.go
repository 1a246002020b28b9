//go:build !demo

package serve

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/workspace"
)

// defaultWorkspaces is the path of workspaces.
const defaultWorkspaces = "cairn-workspaces"

// newWorkspace returns the workspaces that a file declares, with snapshots in the store of the sessions.
func newWorkspace(w *config.Workspace, st store.Store, logger *slog.Logger) (cairn.Workspace, error) {
	provider, err := newProvider(w)
	if err != nil {
		return nil, err
	}
	opts := &workspace.Options{Tools: w.Tools, Interpreters: w.Interpreters, Approve: w.Approve, Logger: logger,
		Limits: workspace.Limits{MaxTime: time.Duration(w.MaxTime), SnapshotBytes: w.MaxBytes}, Manifest: workspace.Manifest{Environment: w.Environment}}
	if opts.Limits.MaxTime > 0 {
		opts.Limits.Time = min(opts.Limits.MaxTime, workspace.DefaultTime)
	}
	for _, r := range w.Repositories {
		opts.Manifest.Repositories = append(opts.Manifest.Repositories, workspace.Repository(r))
	}
	for _, m := range w.Mounts {
		opts.Manifest.Mounts = append(opts.Manifest.Mounts, workspace.Mount(m))
	}
	return workspace.New(st, provider, opts)
}

func newProvider(w *config.Workspace) (workspace.Provider, error) {
	path := cmp.Or(w.Path, defaultWorkspaces)
	bounds := workspace.Bounds{Memory: w.MaxMemory, Processes: w.MaxProcesses}
	switch w.Provider {
	case "memory":
		return workspace.Memory(), nil
	case "dir":
		return workspace.Dir(path)
	case "bubblewrap":
		return workspace.Bubblewrap(path, &workspace.BubblewrapOptions{Network: w.Network, Bounds: bounds})
	}
	return workspace.Container(path, &workspace.ContainerOptions{Image: w.Image, Network: w.Network, Bounds: bounds})
}
