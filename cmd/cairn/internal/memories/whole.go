package memories

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/memory"
)

type importCmd struct {
	scoped
	File string `arg:"" help:"A file that export has printed; - reads the standard input."`
}

// imported is the JSON output of import.
type imported struct {
	Read int `json:"read"`
}

// Run adds the memories of a file.
func (cmd *importCmd) Run(a *cli.App, all *flags) error {
	return cmd.open(a, all, func(ctx context.Context, o *opened) error {
		in := a.Stdin
		if cmd.File != "-" {
			file, err := os.Open(cmd.File)
			if err != nil {
				return err
			}
			defer file.Close()
			in = file
		}
		n, err := o.Import(ctx, o.scope, in)
		switch {
		case err != nil:
			return err
		case all.JSON:
			return output.JSON(a.Stdout, imported{n})
		}
		_, err = fmt.Fprintf(a.Stdout, "Read %s for %s.\n", memories(n), o.owner)
		return err
	})
}

type reindexCmd struct {
	scoped
	Analyzer string `required:"" enum:"english,simple,bigrams" placeholder:"NAME" help:"english, simple or bigrams: the analyzer of the agents that use the memories."`
}

// reindexed is the JSON output of reindex.
type reindexed struct {
	Changed int `json:"changed"`
}

// Run makes the terms of memories anew.
func (cmd *reindexCmd) Run(a *cli.App, all *flags) error {
	return cmd.read(a, all, func(ctx context.Context, o *opened) error {
		own := options
		for _, by := range analyzers {
			if name, _, _ := strings.Cut(by.Name(), "-"); name == cmd.Analyzer {
				own.Analyzer = by
			}
		}
		m, err := memory.New(o.store, &own)
		if err != nil {
			return err
		}
		n, err := m.Reindex(ctx, o.scope)
		switch {
		case err != nil:
			return err
		case all.JSON:
			return output.JSON(a.Stdout, reindexed{n})
		}
		_, err = fmt.Fprintf(a.Stdout, "Indexed %s of %s by %s.\n", memories(n), o.owner, own.Analyzer.Name())
		return err
	})
}

type dropCmd struct {
	scoped
	agreed
}

// Run deletes all memories of a scope.
func (cmd *dropCmd) Run(a *cli.App, all *flags) error {
	return cmd.read(a, all, func(ctx context.Context, o *opened) error {
		if err := cmd.confirm(ctx, a, "drop", fmt.Sprintf("Delete all memories of %s?", o.owner)); err != nil {
			return err
		}
		found, err := o.Drop(ctx, o.scope)
		switch {
		case err != nil:
			return err
		case all.JSON:
			return output.JSON(a.Stdout, dropped{found})
		case !found:
			_, err = fmt.Fprintf(a.Stdout, "Found no memories of %s.\n", o.owner)
		default:
			_, err = fmt.Fprintf(a.Stdout, "Deleted all memories of %s.\n", o.owner)
		}
		return err
	})
}

// dropped is the JSON output of drop.
type dropped struct {
	Found bool `json:"found"`
}

// memories returns a number with its noun.
func memories(n int) string {
	if n == 1 {
		return "1 memory"
	}
	return fmt.Sprintf("%d memories", n)
}
