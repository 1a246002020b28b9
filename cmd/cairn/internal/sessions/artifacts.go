package sessions

import (
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

type artifactsCmd struct {
	one
	Read string `placeholder:"NAME" help:"Write the content of the newest artifact of this name to standard output."`
}

// Run lists artifacts, or writes the content of one.
func (cmd *artifactsCmd) Run(a *cli.App, all *flags) error {
	return all.inspect(a, &cmd.Session, func(ctx context.Context, eng *engine.Engine) error {
		artifacts := pages.All(func(cursor string) (store.Page[cairn.PublishedArtifact], error) {
			return eng.Artifacts(ctx, cmd.Session, store.PageQuery{Cursor: cursor})
		})
		if cmd.Read == "" {
			return output.List(a.Stdout, all.JSON, artifacts, []string{"NAME", "TYPE", "BYTES", "TOOL", "WRITTEN"},
				func(f *cairn.PublishedArtifact) []string {
					return []string{f.Name, f.MediaType, fmt.Sprint(f.Size), f.Tool, output.Stamp(f.CreatedAt)}
				})
		}
		var newest *cairn.PublishedArtifact
		for f, err := range artifacts {
			if err != nil {
				return err
			}
			if f.Name == cmd.Read {
				newest = &f
			}
		}
		if newest == nil {
			return &cairn.Error{Code: cairn.ErrNotFound, Field: "read", Message: fmt.Sprintf("artifact %q of session %q not found", cmd.Read, cmd.Session)}
		}
		_, content, err := eng.OpenArtifact(ctx, cmd.Session, newest.Message, newest.File)
		if err == nil {
			_, err = io.Copy(a.Stdout, content)
		}
		return err
	})
}
