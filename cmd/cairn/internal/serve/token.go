package serve

import (
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/internal/ids"
)

// Token prints a new token.
type Token struct {
	User  string   `placeholder:"NAME" help:"Print the configuration file's entry for a user, not only the token."`
	Roles []string `placeholder:"ROLE" enum:"user,reviewer,operator,admin" default:"user" help:"The user's roles, separated by commas: user, reviewer, operator, admin."`
}

// Run prints a random token that cannot be guessed.
func (cmd *Token) Run(a *cli.App) error {
	token := "cairn_" + rand.Text()
	if cmd.User == "" {
		_, err := fmt.Fprintln(a.Stdout, token)
		return err
	}
	if ids.Check(cmd.User) != "" {
		return cli.Misuse("--user: invalid name %q", cmd.User)
	}
	_, err := fmt.Fprintf(a.Stdout, "- token: %s\n  user: %q\n  roles: [%s]\n", token, cmd.User, strings.Join(cmd.Roles, ", "))
	return err
}
