package workspace

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var (
	_ cairn.Workspace       = (*Workspace)(nil)
	_ cairn.Keeper          = (*Workspace)(nil)
	_ cairn.RequiredToolset = (*Workspace)(nil)
	_ cairn.ReservedToolset = (*Workspace)(nil)
	_ cairn.RestatedToolset = (*Workspace)(nil)
)

// Name implements [cairn.Toolset].
func (w *Workspace) Name() string { return toolsetName }

// Required implements [cairn.RequiredToolset]: no turn begins without its workspace.
func (w *Workspace) Required() bool { return true }

// ReservedTools implements [cairn.ReservedToolset].
func (w *Workspace) ReservedTools() (names []string) {
	for _, name := range w.tools {
		names = append(names, prefix+name)
	}
	return names
}

// Offer implements [cairn.Toolset]. The first offer stores the files that the session begins with.
func (w *Workspace) Offer(ctx context.Context, step *cairn.Step, before json.RawMessage) (*cairn.Offer, error) {
	p := pinned{Tools: w.tools}
	if before != nil {
		var had pinned
		if err := json.Unmarshal(before, &had); err != nil {
			return nil, cairn.Errorf(cairn.ErrCorrupt, "the pinned offer of the workspace: %w", err)
		}
		if slices.Equal(had.Tools, p.Tools) {
			return nil, nil
		}
		p.Base = had.Base
	} else {
		base, err := w.begin(ctx, driver.BlobOwner{Root: step.RootID, Incarnation: step.Incarnation})
		if err != nil {
			return nil, err
		}
		p.Base = base
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	return &cairn.Offer{Pinned: raw, Note: w.note()}, nil
}

// note describes the workspace for the model.
func (w *Workspace) note() string {
	text := "You have a workspace, a directory of files that is kept with this conversation. Paths are relative to it."
	if w.info.Commands() {
		text += fmt.Sprintf(" Commands see it as %s; what they write elsewhere may be lost at any time.", w.info.Root)
	}
	for _, r := range w.opts.Manifest.Repositories {
		text += fmt.Sprintf(" %s is a clone of a git repository.", r.Path)
	}
	return text
}

// Restate implements [cairn.RestatedToolset].
func (w *Workspace) Restate(json.RawMessage) (string, error) { return w.note(), nil }

// Tools implements [cairn.Toolset].
func (w *Workspace) Tools(raw json.RawMessage) ([]cairn.Tool, error) {
	var p pinned
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, cairn.Errorf(cairn.ErrCorrupt, "the pinned offer of the workspace: %w", err)
	}
	makers := map[string]func(pinned) cairn.Tool{
		"read": w.readTool, "list": w.listTool, "search": w.searchTool, "write": w.writeTool, "edit": w.editTool, "remove": w.removeTool,
		"snapshot": w.snapshotTool, "restore": w.restoreTool, "publish": w.publishTool, "shell": w.shellTool, "processes": w.processesTool, "run": w.runTool,
	}
	var list []cairn.Tool
	for _, name := range p.Tools {
		if make, ok := makers[name]; ok && slices.Contains(w.tools, name) {
			list = append(list, make(p))
		}
	}
	return list, nil
}
