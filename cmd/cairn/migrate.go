package main

import (
	"fmt"

	"github.com/cairn-agents/cairn/store"
)

// migrateCmd holds what its commands have in common.
type migrateCmd struct {
	storeFlags
	JSON bool `name:"json" help:"Print the migrations as a JSON array."`

	Up     migrateUpCmd     `cmd:"" help:"Make the tables, or bring them up to date."`
	Status migrateStatusCmd `cmd:"" help:"Tell which migrations are applied and which are pending."`
}

// Help is what --help adds.
func (migrateCmd) Help() string {
	return `PostgreSQL and SQLite have numbered migrations, which only go forward; any number of processes may run them at once.
Redis has one version of its keys' layout. The demo and the worker migrate by themselves; commands that look at a server's
sessions do not.`
}

type migrateUpCmd struct{}

// Run migrates.
func (migrateUpCmd) Run(a *app, all *migrateCmd) error {
	at, err := all.address(a)
	if err != nil {
		return err
	}
	ctx, stop := untilStopped()
	defer stop()
	before, err := at.migrations(ctx)
	if err != nil {
		return err
	}
	st, err := at.open(ctx, a)
	if err != nil {
		return err
	}
	if err := st.Close(); err != nil {
		return at.explain(err)
	}
	after, err := at.migrations(ctx)
	if err != nil {
		return err
	}
	if all.JSON {
		return printArray(a.stdout, items(after...))
	}
	version := countApplied(after)
	if n := version - countApplied(before); n > 0 {
		_, err = fmt.Fprintf(a.stdout, "Applied %s to %s: its schema has version %d.\n", count(n, "migration"), at, version)
	} else {
		_, err = fmt.Fprintf(a.stdout, "Nothing to do: the schema of %s has version %d.\n", at, version)
	}
	return err
}

type migrateStatusCmd struct{}

// Run tells how far the schema is.
func (migrateStatusCmd) Run(a *app, all *migrateCmd) error {
	at, err := all.address(a)
	if err != nil {
		return err
	}
	ctx, stop := untilStopped()
	defer stop()
	migrations, err := at.migrations(ctx)
	if err != nil {
		return err
	}
	return list(a, all.JSON, items(migrations...), []string{"VERSION", "NAME", "STATUS", "APPLIED"},
		func(m *store.Migration) []string {
			status, when := "pending", ""
			if m.Applied {
				status = "applied"
			}
			if !m.AppliedAt.IsZero() {
				when = stamp(m.AppliedAt)
			}
			return []string{fmt.Sprint(m.Version), m.Name, status, when}
		})
}
