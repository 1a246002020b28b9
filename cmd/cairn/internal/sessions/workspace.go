package sessions

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/pages"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

type workspaceCmd struct {
	one
	Path      string `arg:"" optional:"" help:"Write the content of this file to standard output."`
	Snapshot  string `placeholder:"ID" help:"List or read the files of this snapshot. Default: the current ones."`
	Prefix    string `help:"Only files whose paths begin with this."`
	Snapshots bool   `xor:"what" help:"List the snapshots instead of the files, oldest first. The last one is current."`
	Restore   string `xor:"what" placeholder:"ID" help:"Restore the files to this snapshot, between turns."`
}

// Help returns the details for --help.
func (workspaceCmd) Help() string {
	return `Lists the files of the last committed snapshot. A running call may have changed files since.
They are read from the store, so the directory may be on another machine. A restoration is part of the transcript: the
agent reads a note about it, and a rewind undoes it.`
}

// Run lists files or snapshots, writes the content of a file, or restores a snapshot.
func (cmd *workspaceCmd) Run(a *cli.App, all *flags) error {
	if (cmd.Snapshots || cmd.Restore != "") && cmp.Or(cmd.Path, cmd.Snapshot, cmd.Prefix) != "" {
		return cli.Misuse("--snapshots and --restore take no path, --snapshot or --prefix")
	}
	return all.inspectStore(a, &cmd.Session, func(ctx context.Context, st store.Importer, eng *engine.Engine) error {
		switch {
		case cmd.Snapshots:
			snapshots := pages.All(func(cursor string) (store.Page[cairn.WorkspaceSnapshot], error) {
				return eng.WorkspaceSnapshots(ctx, cmd.Session, store.PageQuery{Cursor: cursor})
			})
			return output.List(a.Stdout, all.JSON, snapshots, []string{"SNAPSHOT", "MESSAGE", "BY", "WRITTEN"}, func(s *cairn.WorkspaceSnapshot) []string {
				return []string{s.ID, fmt.Sprint(s.Message), cmp.Or(s.Tool, "restoration"), output.Stamp(s.CreatedAt)}
			})
		case cmd.Restore != "":
			row, err := eng.RestoreWorkspace(ctx, cmd.Session, cmd.Restore)
			if err != nil {
				return err
			}
			return all.report(a, row, "Restored the workspace of session %s to snapshot %s.", row.ID, cmd.Restore)
		}
		at := engine.WorkspaceAt{Snapshot: cmd.Snapshot}
		var err error
		if at.Reader, err = workspaceReader(st); err != nil {
			return err
		}
		if cmd.Path != "" {
			_, content, err := eng.OpenWorkspaceFile(ctx, cmd.Session, at, cmd.Path)
			if err == nil {
				_, err = io.Copy(a.Stdout, content)
			}
			return err
		}
		files := pages.All(func(cursor string) (store.Page[cairn.WorkspaceFile], error) {
			return eng.WorkspaceFiles(ctx, cmd.Session, at, cmd.Prefix, store.PageQuery{Cursor: cursor, Limit: 1000})
		})
		return output.List(a.Stdout, all.JSON, files, []string{"TYPE", "BYTES", "PATH"}, func(f *cairn.WorkspaceFile) []string {
			kind, path := string(f.Type), output.OneLine(f.Path, 0)
			if f.Executable {
				kind = "program"
			}
			if f.Target != "" {
				path += " → " + output.OneLine(f.Target, 0)
			}
			return []string{kind, fmt.Sprint(f.Size), path}
		})
	})
}
