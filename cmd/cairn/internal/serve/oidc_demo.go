//go:build demo

package serve

import (
	"log/slog"
	"net/http"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
	"github.com/cairn-agents/cairn/server"
)

// newSignIn returns an error: this program was built without OpenID Connect.
func newSignIn(*server.Handler, *config.OIDC, *slog.Logger) (http.Handler, error) {
	return nil, cli.Lacks("OpenID Connect")
}
