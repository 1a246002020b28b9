package main

import (
	"fmt"
	"os"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
)

type modelsCmd struct {
	Table string `placeholder:"FILE" help:"Your own table instead, as JSON."`
	JSON  bool   `name:"json" help:"Print JSON, as --table reads it."`
}

// Run prints the table of models.
func (cmd *modelsCmd) Run(a *cli.App) error {
	table := cairn.DefaultModels()
	if cmd.Table != "" {
		raw, err := os.ReadFile(cmd.Table)
		if err != nil {
			return cli.Misuse("--table: %v", err)
		}
		if table, err = cairn.ParseModels(raw); err != nil {
			return err
		}
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
		rows := [][]string{append(append([]string{e.Provider + ":" + e.Name, window}, prices(e.Price)...), e.AsOf)}
		if e.Long != nil {
			rows = append(rows, append(append([]string{fmt.Sprintf("  over %d", e.Long.Over), ""}, prices(e.Long.Price)...), ""))
		}
		return rows
	})
}

// prices returns the cells of a price, in dollars per million tokens.
func prices(p cairn.Price) []string {
	or := func(d cairn.Dollars) string {
		if d == 0 {
			d = p.Input
		}
		return "$" + d.String()
	}
	return []string{or(p.Input), or(p.CacheRead), or(p.CacheWrite), or(p.Output)}
}
