// Package models has the commands for the table of models.
package models

import (
	"fmt"
	"os"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
)

// Commands are the commands for the table of models.
type Commands struct {
	List   List   `cmd:"" default:"withargs" help:"List models with their windows and the prices of a million tokens."`
	Show   Show   `cmd:"" help:"Show the table entry for a model name."`
	Import Import `cmd:"" help:"Make a table of the catalog of models.dev or LiteLLM."`
}

// List prints a table.
type List struct {
	Table string `placeholder:"FILE" help:"A table of your own, as JSON, instead of the built-in one."`
	JSON  bool   `name:"json" help:"Print JSON, as --table reads it."`
}

// Run prints the table of models.
func (cmd *List) Run(a *cli.App) error {
	table, err := load(cmd.Table)
	if err != nil {
		return err
	}
	entries := func(yield func(cairn.ModelEntry, error) bool) {
		for _, e := range table {
			if !yield(e, nil) {
				return
			}
		}
	}
	header := []string{"MODEL", "WINDOW", "INPUT", "CACHED", "CACHE WRITE", "OUTPUT", "AS OF"}
	if cmd.JSON {
		return output.Array(a.Stdout, entries)
	}
	return output.Rows(a.Stdout, entries, header, func(e *cairn.ModelEntry) [][]string {
		window := "unknown"
		if e.Window > 0 {
			window = fmt.Sprint(e.Window)
		}
		rows := [][]string{append(append([]string{e.Provider + ":" + e.Name, window}, prices(e.Price, e.NoPrice)...), e.AsOf)}
		if e.Long != nil {
			rows = append(rows, append(append([]string{fmt.Sprintf("  over %d", e.Long.Over), ""}, prices(e.Long.Price, false)...), ""))
		}
		return rows
	})
}

// load reads a table; the built-in one if the name is empty.
func load(name string) (cairn.ModelTable, error) {
	if name == "" {
		return cairn.DefaultModels(), nil
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, cli.Misuse("--table: %v", err)
	}
	table, err := cairn.ParseModels(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return table, nil
}

// Show prints the entry of one model.
type Show struct {
	Model string `arg:"" help:"The model, PROVIDER:NAME as in an agent's definition."`
	Table string `placeholder:"FILE" help:"A table of your own, as JSON, instead of the built-in one."`
}

// Run prints the entry as JSON.
func (cmd *Show) Run(a *cli.App) error {
	table, err := load(cmd.Table)
	if err != nil {
		return err
	}
	provider, name, ok := strings.Cut(cmd.Model, ":")
	if !ok {
		return cli.Misuse("must be PROVIDER:NAME, not %q", cmd.Model)
	}
	e, ok := table.Find(cairn.ModelInfo{Provider: provider, Name: name})
	if !ok {
		return fmt.Errorf("model %q not found in the table: its cost is unknown, and histories are summarised only after the provider rejects one", cmd.Model)
	}
	return output.JSON(a.Stdout, e)
}

// prices returns the cells of a price, in dollars per million tokens.
func prices(p cairn.Price, none bool) []string {
	or := func(d cairn.Dollars) string {
		if none {
			return "unknown"
		}
		if d == 0 {
			d = p.Input
		}
		return "$" + d.String()
	}
	return []string{or(p.Input), or(p.CacheRead), or(p.CacheWrite), or(p.Output)}
}
