package serve

import (
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/server"
)

// Token prints a new token.
type Token struct {
	User   string   `placeholder:"NAME" help:"Print the configuration file's entry for a user, not only the token."`
	Tenant string   `placeholder:"NAME" help:"The user's tenant; * for an operator of the platform. Default: none."`
	Roles  []string `placeholder:"ROLE" enum:"user,reviewer,operator,admin" default:"user" help:"The user's roles, separated by commas: user, reviewer, operator, admin."`
}

// Run prints a random token that cannot be guessed.
func (cmd *Token) Run(a *cli.App) error {
	token := "cairn_" + rand.Text()
	if cmd.User == "" {
		_, err := fmt.Fprintln(a.Stdout, token)
		return err
	}
	if ids.Check(cmd.User) != "" || strings.Contains(cmd.User, ids.Separator) {
		return cli.Misuse("--user: invalid name %q", cmd.User)
	}
	tenant := ""
	if cmd.Tenant != "" {
		if cmd.Tenant != server.AllTenants && ids.CheckTenant(cmd.Tenant) != "" {
			return cli.Misuse("--tenant: %s, or be %s", ids.CheckTenant(cmd.Tenant), server.AllTenants)
		}
		tenant = fmt.Sprintf("  tenant: %q\n", cmd.Tenant)
	}
	_, err := fmt.Fprintf(a.Stdout, "- token: %s\n  user: %q\n%s  roles: [%s]\n", token, cmd.User, tenant, strings.Join(cmd.Roles, ", "))
	return err
}
