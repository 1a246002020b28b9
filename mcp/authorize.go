package mcp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
)

// userHandler authorises a user's requests.
type userHandler struct {
	o    *connection
	user string
}

// TokenSource implements auth.OAuthHandler.
func (h *userHandler) TokenSource(ctx context.Context) (oauth2.TokenSource, error) {
	if h.user == "" {
		return nil, nil
	}
	g, err := h.o.token(ctx, h.user)
	if err != nil {
		return nil, refusal{err} // before anything was sent
	}
	if g == nil {
		return nil, nil
	}
	return oauth2.StaticTokenSource(&oauth2.Token{AccessToken: g.Access, TokenType: g.Type}), nil
}

// Authorize implements auth.OAuthHandler. It removes a token that the server rejects, and reports that the user has
// to connect. A request that the server does not permit leaves the token, since it is valid.
func (h *userHandler) Authorize(ctx context.Context, req *http.Request, resp *http.Response) error {
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	_ = resp.Body.Close()
	_, sent, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	g, err := h.o.token(ctx, h.user)
	switch {
	case err != nil:
		return refusal{err}
	case g == nil:
		return ErrNotConnected
	case g.Access != sent: // it was refreshed concurrently
		return nil
	case resp.StatusCode == http.StatusForbidden:
		return h.o.permit(ctx, h.user, scopesOf(resp))
	case !g.fresh(): // it has expired earlier than expected, and its refresh has failed
		return refused("%w: %s", errRefresh, h.o.server)
	}
	if err := h.o.forget(ctx, h.user, g); err != nil {
		return err
	}
	return ErrNotConnected
}

// errForbidden reports that the server does not permit the request. The token is valid.
var errForbidden = errors.New("not permitted")

// permit returns the error of a request that the server does not permit. Scopes that the server demands are noted in
// the grant, and the user is to be asked for them; those that the user has been asked for are not asked for again.
func (o *connection) permit(ctx context.Context, user string, demanded []string) error {
	for range 8 { // as often as another process may have changed the grant
		g, err := o.stored(ctx, user)
		switch {
		case err != nil:
			return refusal{err}
		case g == nil:
			return ErrNotConnected
		case !slices.ContainsFunc(demanded, func(s string) bool { return !slices.Contains(g.Raised, s) }):
			return refused("%w by MCP server %q", errForbidden, o.server)
		}
		g.Need = union(g.Need, demanded)
		version, err := o.c.records.swap(ctx, aToken, o.key(user), user, g, g.version, 0)
		if err != nil {
			return refusal{err}
		}
		if version != 0 {
			return ErrNotConnected
		}
	}
	return refused("%w by MCP server %q", errForbidden, o.server)
}

// maxScopes bounds the scopes that a server may demand at once.
const maxScopes = 64

// scopesOf returns the scopes that a server demands with an insufficient_scope challenge (RFC 6750, section 3.1).
func scopesOf(resp *http.Response) []string {
	list, err := oauthex.ParseWWWAuthenticate(resp.Header.Values("WWW-Authenticate"))
	if err != nil {
		return nil
	}
	for _, c := range list {
		if strings.EqualFold(c.Scheme, "bearer") && c.Params["error"] == "insufficient_scope" {
			return scopeList(c.Params["scope"])
		}
	}
	return nil
}

// scopeList splits the value of a scope parameter. Values that cannot be scopes are left out (RFC 6749, section 3.3).
func scopeList(value string) []string {
	list := strings.Fields(value)
	list = slices.DeleteFunc(list, func(s string) bool {
		return len(s) > 256 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
	})
	return list[:min(len(list), maxScopes)]
}
