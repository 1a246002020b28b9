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

// Authorize implements auth.OAuthHandler: nil if the request is to be repeated. It refreshes a token that the server
// rejects. It removes the grant, and reports that the user has to connect, if the refreshed token is rejected as well, or
// if the token cannot be refreshed. A request that the server does not permit leaves the grant, since it is valid.
func (h *userHandler) Authorize(ctx context.Context, req *http.Request, resp *http.Response) error {
	discard(resp)
	sent, again := bearer(req), false
	if r := resp.Request; r != nil && r.Context().Value(repeated{}) != nil {
		sent, again = bearer(r), true
	}
	var g *grant
	var err error
	switch {
	case resp.StatusCode == http.StatusForbidden:
		again = false
		g, err = h.o.token(ctx, h.user)
	case again:
		g, err = h.o.stored(ctx, h.user)
	default:
		g, err = h.o.replaced(ctx, h.user, sent)
	}
	switch {
	case err != nil:
		return refusal{err}
	case g == nil:
		return ErrNotConnected
	case g.Access != sent && !again: // it has been refreshed
		return nil
	case resp.StatusCode == http.StatusForbidden:
		return h.o.permit(ctx, h.user, scopesOf(resp))
	}
	if g.Access == sent {
		if err := h.o.forget(ctx, h.user, g); err != nil {
			return err
		}
	}
	return ErrNotConnected
}

// renewing repeats a user's request that the server rejects (401) with a refreshed token: again only if
// another one has replaced that in the meantime. It does so below the
// SDK, which repeats a request once as well, but does not report the response to that to its OAuthHandler.
type renewing struct {
	http.RoundTripper
	h *userHandler
}

// repeated is the key of the context of a request that is repeated with a refreshed token.
type repeated struct{}

// RoundTrip implements http.RoundTripper.
func (t *renewing) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(req)
	sent := bearer(req)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || sent == "" || req.Body != nil && req.GetBody == nil {
		return resp, err
	}
	g, err := t.h.o.replaced(req.Context(), t.h.user, sent)
	for range 3 { // as often as others may replace the grant in the meantime
		if err != nil {
			discard(resp)
			return nil, refusal{err}
		}
		if g == nil {
			return resp, nil
		}
		discard(resp)
		if resp, err = t.repeat(req, g); err != nil {
			return nil, err
		}
		if resp.StatusCode != http.StatusUnauthorized {
			return resp, nil
		}
		sent = g.Access
		if g, err = t.h.o.stored(req.Context(), t.h.user); g != nil && g.Access == sent {
			return resp, nil
		}
	}
	return resp, nil
}

// repeat repeats a request with the token of a grant.
func (t *renewing) repeat(req *http.Request, g *grant) (*http.Response, error) {
	next := req.Clone(context.WithValue(req.Context(), repeated{}, true))
	if req.GetBody != nil {
		var err error
		if next.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	next.Header.Set("Authorization", "Bearer "+g.Access)
	resp, err := t.RoundTripper.RoundTrip(next)
	if err == nil {
		resp.Request = next
	}
	return resp, err
}

// bearer returns the access token of a request; "" if it has none.
func bearer(req *http.Request) string {
	_, token, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	return token
}

// discard ends a response. Its connection can be used again if little is left of it.
func discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	_ = resp.Body.Close()
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
