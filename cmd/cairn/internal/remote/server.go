// Package remote has what commands share that talk to a server: its address and the token for it.
package remote

import (
	"cmp"
	"fmt"

	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
)

// Server has the flags that name a server.
type Server struct {
	URL   string `name:"url" placeholder:"URL" help:"The server's address, such as http://localhost:8420. Default: CAIRN_URL."`
	Token string `placeholder:"TOKEN" help:"The token for the server. Default: CAIRN_TOKEN, which other users of this machine cannot see."`
}

// Client returns a client of the server, and the server's address. tenant is the tenant as which to act; empty for that of
// the token.
func (s *Server) Client(a *cli.App, tenant string) (c *client.Client, address string, err error) {
	address = cmp.Or(s.URL, a.Env["CAIRN_URL"])
	if address == "" {
		return nil, "", cli.Misuse("--url: is required, such as http://localhost:8420")
	}
	c, err = client.New(address, &client.Options{Tenant: tenant, Token: cmp.Or(s.Token, a.Env["CAIRN_TOKEN"])})
	if err != nil {
		return nil, "", fmt.Errorf("--url: %w", err)
	}
	return c, address, nil
}
