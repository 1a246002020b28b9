package memories

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/pages"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/memory"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

type exportCmd struct{ scoped }

// Run prints all memories of a scope.
func (cmd *exportCmd) Run(a *cli.App, all *flags) error {
	return cmd.read(a, all, func(ctx context.Context, o *opened) error {
		_, err := o.Export(ctx, o.scope, a.Stdout)
		return err
	})
}

type scopesCmd struct {
	Kind   string `placeholder:"KIND" help:"Only owners of this kind: session, user or group."`
	Limit  int    `default:"50" help:"The maximum number; 0 lists all. Default: 50."`
	Cursor string `help:"Continue an earlier list from its cursor."`
}

// Run lists the scopes in the store.
func (cmd *scopesCmd) Run(a *cli.App, all *flags) error {
	switch {
	case cmd.Limit < 0:
		return cli.Misuse("--limit: %d is negative", cmd.Limit)
	case cmd.Kind != "" && !slices.Contains([]string{"session", "user", "group"}, cmd.Kind):
		return cli.Misuse("--kind: unknown kind %q: want session, user or group", cmd.Kind)
	}
	err := all.At.InspectStore(a, func(ctx context.Context, st store.Importer, _ *engine.Engine) error {
		m, err := memory.New(st, nil)
		if err != nil {
			return err
		}
		next, tenant := "", all.At.Selected()
		scopes := pages.Limited(cmd.Limit, cmd.Cursor, &next, func(cursor string, limit int) (memory.Page[driver.MemoryScopeRow], error) {
			page, err := m.Scopes(ctx, driver.MemoryScopeQuery{Kind: driver.MemoryKind(cmd.Kind), Cursor: cursor, Limit: limit})
			if tenant != nil {
				page.Items = slices.DeleteFunc(page.Items, func(row driver.MemoryScopeRow) bool {
					of, _ := cairn.SplitTenant(row.Name)
					return of != *tenant
				})
			}
			return page, err
		})
		if all.JSON {
			return output.Items(a.Stdout, scopes, &next)
		}
		now := a.Now()
		err = output.List(a.Stdout, false, scopes, []string{"KIND", "NAME", "UPDATED"}, func(row *driver.MemoryScopeRow) []string {
			return []string{string(row.Kind), nameOf(row.MemoryScope), output.Age(now, row.UpdatedAt)}
		})
		return errors.Join(err, a.More("--cursor", next))
	})
	return flagged(err)
}

// nameOf returns the name of a scope's owner: for a session its id, without the incarnation.
func nameOf(scope memory.Scope) string {
	if at := strings.LastIndexByte(scope.Name, '@'); scope.Kind == memory.OfSession && at > 0 {
		return scope.Name[:at]
	}
	return scope.Name
}

type entitiesCmd struct {
	scoped
	Limit  int    `default:"50" help:"The maximum number; 0 lists all. Default: 50."`
	Cursor string `help:"Continue an earlier list from its cursor."`
}

// Run lists the names in a scope.
func (cmd *entitiesCmd) Run(a *cli.App, all *flags) error {
	if cmd.Limit < 0 {
		return cli.Misuse("--limit: %d is negative", cmd.Limit)
	}
	return cmd.read(a, all, func(ctx context.Context, o *opened) error {
		next := ""
		entities := pages.Limited(cmd.Limit, cmd.Cursor, &next, func(cursor string, limit int) (memory.Page[memory.EntityCount], error) {
			return o.Entities(ctx, o.scope, driver.PageQuery{Cursor: cursor, Limit: limit})
		})
		if all.JSON {
			return output.Items(a.Stdout, entities, &next)
		}
		err := output.List(a.Stdout, false, entities, []string{"NAME", "ENTRIES", "SPOKEN"}, func(e *memory.EntityCount) []string {
			return []string{e.Name, fmt.Sprint(e.Entries), fmt.Sprint(e.Spoken)}
		})
		return errors.Join(err, a.More("--cursor", next))
	})
}

type sourcesCmd struct{ scoped }

// Run counts memories by their sources.
func (cmd *sourcesCmd) Run(a *cli.App, all *flags) error {
	return cmd.read(a, all, func(ctx context.Context, o *opened) error {
		counts, err := o.Sources(ctx, o.scope)
		if err != nil {
			return err
		}
		header := []string{"SOURCE", "SAID", "FACTS", "QUARANTINED", "REDACTED"}
		return output.List(a.Stdout, all.JSON, pages.Of(counts...), header, func(c *memory.SourceCount) []string {
			return []string{string(c.Source), fmt.Sprint(c.Said), fmt.Sprint(c.Facts), fmt.Sprint(c.Quarantined), fmt.Sprint(c.Redacted)}
		})
	})
}
