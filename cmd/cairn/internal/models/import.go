package models

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
)

// Import makes a table of a public catalog.
type Import struct {
	File     string   `arg:"" help:"The catalog: api.json of models.dev, or model_prices_and_context_window.json of LiteLLM."`
	Output   string   `short:"o" placeholder:"FILE" help:"Where to write the table; standard output by default."`
	Provider []string `placeholder:"NAME" help:"Take the models of this provider of the catalog as well, under its name; may be repeated. By default only vendors with prices of their own are taken."`
	Only     bool     `help:"Leave out the built-in entries that the catalog does not have."`
	AsOf     string   `placeholder:"DATE" help:"The date of the catalog, YYYY-MM-DD; by default that of the file's last change."`
}

// Run writes the table, and reports on standard error what was taken.
func (cmd *Import) Run(a *cli.App) error {
	date, err := cmd.date()
	if err != nil {
		return err
	}
	file, err := os.Open(cmd.File)
	if err != nil {
		return cli.Misuse("%v", err)
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, maxCatalog+1))
	if err != nil {
		return fmt.Errorf("%s: %w", cmd.File, err)
	}
	c, err := read(raw)
	if err != nil {
		return fmt.Errorf("%s: %w", cmd.File, err)
	}
	table := c.table(cmd.Provider, date)
	if len(table) == 0 {
		return fmt.Errorf("%s: %w", cmd.File, cairn.Invalid("file", "no model of a known vendor in the catalog of %s; import others with --provider", c.name))
	}
	taken := len(table)
	if !cmd.Only {
		table = merged(table, cairn.DefaultModels())
	}
	text, err := encode(table)
	if err != nil {
		return err
	}
	if err := write(a, cmd.Output, text); err != nil {
		return err
	}
	fmt.Fprintf(a.Stderr, "%s of %s, %s of the built-in table.\n", output.Count(taken, "model"), c.name, output.Count(len(table)-taken, "model"))
	for _, reason := range slices.Sorted(maps.Keys(c.skipped)) {
		fmt.Fprintf(a.Stderr, "Skipped %s %s, such as %s.\n", output.Count(c.skipped[reason], "model"), reason, output.OneLine(c.examples[reason], 80))
	}
	return nil
}

// date returns the date of the catalog.
func (cmd *Import) date() (string, error) {
	if cmd.AsOf == "" {
		info, err := os.Stat(cmd.File)
		if err != nil {
			return "", cli.Misuse("%v", err)
		}
		return info.ModTime().UTC().Format(time.DateOnly), nil
	}
	if _, err := time.Parse(time.DateOnly, cmd.AsOf); err != nil {
		return "", cli.Misuse("--as-of: must be a date, YYYY-MM-DD, not %q", cmd.AsOf)
	}
	return cmd.AsOf, nil
}

// table returns the entries of the vendors and of further providers of a catalog. The first of two models of the same
// name stands.
func (c *catalog) table(providers []string, date string) cairn.ModelTable {
	var table cairn.ModelTable
	seen := map[cairn.ModelInfo]bool{}
	for _, l := range c.models {
		e := l.ModelEntry
		e.Provider, e.AsOf = vendors[l.provider], date
		if e.Provider == "" && slices.Contains(providers, l.provider) {
			e.Provider = l.provider
		}
		info := cairn.ModelInfo{Provider: e.Provider, Name: e.Name}
		switch {
		case e.Provider == "":
			c.skip("of other providers", l.provider+":"+e.Name)
			continue
		case seen[info]:
			c.skip("listed twice", info.ID())
			continue
		}
		seen[info] = true
		if e.Provider == "anthropic" && !e.NoPrice {
			hourly(&e.Price)
			if e.Long != nil {
				hourly(&e.Long.Price)
			}
		}
		table = append(table, e)
	}
	return table
}

// hourly adds the price of Anthropic's cache of an hour, which is twice that of input, where a catalog lacks it.
func hourly(p *cairn.Price) {
	if p.CacheWriteHour == 0 && p.CacheWrite > 0 {
		p.CacheWriteHour = 2 * p.Input
	}
}

// merged returns a table with the entries of another one that it lacks. Entries without fees get those of the other
// table's, since no catalog has them with a date.
func merged(table, other cairn.ModelTable) cairn.ModelTable {
	has := map[cairn.ModelInfo]bool{}
	fees := map[cairn.ModelInfo]*cairn.Fees{}
	for _, e := range other {
		fees[cairn.ModelInfo{Provider: e.Provider, Name: e.Name}] = e.Fees
	}
	for i := range table {
		e := &table[i]
		info := cairn.ModelInfo{Provider: e.Provider, Name: e.Name}
		has[info] = true
		if e.Fees == nil && !e.NoPrice {
			e.Fees = fees[info]
		}
	}
	for _, e := range other {
		if !has[cairn.ModelInfo{Provider: e.Provider, Name: e.Name}] {
			table = append(table, e)
		}
	}
	return table
}

// encode returns a table as JSON, an entry a line, after a check that it can be read.
func encode(table cairn.ModelTable) ([]byte, error) {
	lines := make([]string, len(table))
	for i, e := range table {
		line, err := json.Marshal(e)
		if err != nil {
			return nil, err
		}
		lines[i] = "  " + string(line)
	}
	text := []byte("[\n" + strings.Join(lines, ",\n") + "\n]\n")
	if _, err := cairn.ParseModels(text); err != nil {
		return nil, err
	}
	return text, nil
}

// write writes a table to a file, in one step, or to standard output.
func write(a *cli.App, name string, text []byte) error {
	if name == "" {
		_, err := a.Stdout.Write(text)
		return err
	}
	part := name + ".part"
	if err := os.WriteFile(part, text, 0o644); err != nil {
		return cli.Misuse("--output: %v", err)
	}
	return os.Rename(part, name)
}
