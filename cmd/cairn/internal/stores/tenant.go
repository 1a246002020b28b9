package stores

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store"
)

// Tenanted select where sessions are, and the tenant whose names a command is given.
type Tenanted struct {
	Flags
	Tenant string `placeholder:"NAME" help:"The tenant of the sessions and people that are named. Lists show only its own. Default: none is added to names, and lists show all."`
}

// ID returns the id of a session or person that a flag or an argument names.
func (t *Tenanted) ID(flag, name string) (string, error) { return IDIn(t.Tenant, flag, name) }

// Selected returns the tenant that lists are restricted to; nil for all.
func (t *Tenanted) Selected() *string {
	if t.Tenant == "" {
		return nil
	}
	return &t.Tenant
}

// Inspect is [Flags.Inspect], unless no tenant can have the name.
func (t *Tenanted) Inspect(a *cli.App, do func(context.Context, *engine.Engine) error) error {
	if err := CheckTenant(t.Tenant); err != nil {
		return err
	}
	return t.Flags.Inspect(a, do)
}

// InspectStore is [Flags.InspectStore], unless no tenant can have the name.
func (t *Tenanted) InspectStore(a *cli.App, do func(context.Context, store.Importer, *engine.Engine) error) error {
	if err := CheckTenant(t.Tenant); err != nil {
		return err
	}
	return t.Flags.InspectStore(a, do)
}

// CheckTenant returns an error of usage unless --tenant is empty or names a tenant.
func CheckTenant(tenant string) error {
	if problem := ids.CheckTenant(tenant); tenant != "" && problem != "" {
		return cli.Misuse("--tenant: %s", problem)
	}
	return nil
}

// IDIn returns the id of a name that a flag or an argument gives, in a tenant; empty for none. The name may have the
// tenant already.
func IDIn(tenant, flag, name string) (string, error) {
	if err := CheckTenant(tenant); err != nil || tenant == "" {
		return name, err
	}
	of, bare := cairn.SplitTenant(name)
	if of != "" && of != tenant {
		return "", cli.Misuse("%s: %q belongs to another tenant than --tenant", flag, name)
	}
	return cairn.InTenant(tenant, bare), nil
}
