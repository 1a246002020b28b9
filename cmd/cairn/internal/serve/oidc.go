//go:build !demo

package serve

import (
	"log/slog"
	"net/http"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/serve/config"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/server/oidcauth"
)

// newSignIn returns the handler of the sign-in by a provider.
func newSignIn(h *server.Handler, o *config.OIDC, log *slog.Logger) (http.Handler, error) {
	return oidcauth.New(h, &oidcauth.Options{Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: o.ClientSecret, RedirectURL: o.RedirectURL,
		Scopes: o.Scopes, Claims: *o.Claims(), Logger: log})
}
