package upkeep

import (
	"fmt"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/pages"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/stores"
	"github.com/cairn-agents/cairn/store"
)

// Migrate holds the flags that its commands share.
type Migrate struct {
	At   stores.Flags `embed:""`
	JSON bool         `name:"json" help:"Print the migrations as JSON."`

	Up     migrateUpCmd     `cmd:"" help:"Create or update the tables."`
	Status migrateStatusCmd `cmd:"" help:"Show which migrations are applied and which are pending."`
}

// Help returns the details for --help.
func (Migrate) Help() string {
	return `PostgreSQL and SQLite have numbered migrations, which only go forward; any number of processes may run them at once.
Redis has one version of its key layout. The demo and the worker migrate by themselves; commands that only read a server's
sessions do not.`
}

type migrateUpCmd struct{}

// Run applies pending migrations.
func (migrateUpCmd) Run(a *cli.App, all *Migrate) error {
	at, err := all.At.Address(a.Env)
	if err != nil {
		return err
	}
	ctx, stop := cli.UntilStopped()
	defer stop()
	before, err := at.Migrations(ctx)
	if err != nil {
		return err
	}
	st, err := at.Open(ctx, a.Engine.Now)
	if err != nil {
		return err
	}
	if err := st.Close(); err != nil {
		return at.Explain(err)
	}
	after, err := at.Migrations(ctx)
	if err != nil {
		return err
	}
	if all.JSON {
		return output.Items(a.Stdout, pages.Of(after...), nil)
	}
	version := stores.Applied(after)
	if n := version - stores.Applied(before); n > 0 {
		_, err = fmt.Fprintf(a.Stdout, "Applied %s to %s: its schema has version %d.\n", output.Count(n, "migration"), at, version)
	} else {
		_, err = fmt.Fprintf(a.Stdout, "Nothing to do: the schema of %s has version %d.\n", at, version)
	}
	return err
}

type migrateStatusCmd struct{}

// Run lists the migrations.
func (migrateStatusCmd) Run(a *cli.App, all *Migrate) error {
	at, err := all.At.Address(a.Env)
	if err != nil {
		return err
	}
	ctx, stop := cli.UntilStopped()
	defer stop()
	migrations, err := at.Migrations(ctx)
	if err != nil {
		return err
	}
	return output.List(a.Stdout, all.JSON, pages.Of(migrations...), []string{"VERSION", "NAME", "FINGERPRINT", "STATUS", "APPLIED"},
		func(m *store.Migration) []string {
			status, when := "pending", ""
			if m.Applied {
				status = "applied"
			}
			if !m.AppliedAt.IsZero() {
				when = output.Stamp(m.AppliedAt)
			}
			return []string{fmt.Sprint(m.Version), m.Name, m.Fingerprint, status, when}
		})
}
