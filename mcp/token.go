package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/cairn-agents/cairn/internal/ids"
)

// grant is what a user has authorised: a token, and where it is refreshed.
type grant struct {
	Access   string    `json:"access"`
	Type     string    `json:"type,omitempty"`
	Refresh  string    `json:"refresh,omitempty"`
	Expiry   time.Time `json:"expiry,omitzero"`
	TokenURL string    `json:"token_url"`
	Client   string    `json:"client"`
	Resource string    `json:"resource"`
	// version is the version of the record.
	version int64
}

// early is how long before its expiry a token is refreshed.
const early = 30 * time.Second

func (g *grant) good() bool { return g.Expiry.IsZero() || time.Until(g.Expiry) > early }

// key returns the key of the record of a user's grant.
func (o *connection) key(user string) string { return ids.Derive("grant", o.server, o.address, user) }

// token returns a user's grant, refreshed if it is due; nil if there is none, or if it is no longer valid.
func (o *connection) token(ctx context.Context, user string) (*grant, error) {
	for try := 0; ; try++ {
		g := new(grant)
		version, err := o.c.records.get(ctx, aToken, o.key(user), g)
		if err != nil || version == 0 {
			return nil, err
		}
		if g.version = version; g.good() {
			return g, nil
		}
		if g.Refresh == "" {
			return nil, o.forget(ctx, user, g)
		}
		next, err := o.refresh(ctx, g)
		var refused *oauth2.RetrieveError
		switch {
		case err == nil:
			return next, o.keep(ctx, user, next)
		case errors.As(err, &refused) && refused.Response != nil && refused.Response.StatusCode < 500:
			// If two processes refresh at once, one may be refused: the other has kept a newer grant.
			again := new(grant)
			if v, err := o.c.records.get(ctx, aToken, o.key(user), again); err == nil && v != version && try < 3 {
				continue
			}
			return nil, o.forget(ctx, user, g)
		default:
			return nil, fmt.Errorf("the token for %s cannot be refreshed at the moment", o.server) // the error may contain tokens
		}
	}
}

// refresh requests a new token.
func (o *connection) refresh(ctx context.Context, g *grant) (*grant, error) {
	ctx = context.WithValue(ctx, oauth2.HTTPClient, o.c.opts.HTTPClient)
	cfg := &oauth2.Config{ClientID: g.Client, ClientSecret: o.client.Secret, Endpoint: oauth2.Endpoint{TokenURL: g.TokenURL}}
	t, err := cfg.TokenSource(ctx, &oauth2.Token{RefreshToken: g.Refresh}).Token()
	if err != nil {
		return nil, err
	}
	next := *g
	next.Access, next.Type, next.Expiry = t.AccessToken, t.TokenType, t.Expiry
	if t.RefreshToken != "" {
		next.Refresh = t.RefreshToken
	}
	return &next, nil
}

func (o *connection) keep(ctx context.Context, user string, g *grant) error {
	return o.c.records.put(ctx, aToken, o.key(user), user, g, 0)
}

// forget removes a grant that is no longer valid, unless a newer one has replaced it.
func (o *connection) forget(ctx context.Context, user string, g *grant) error {
	_, err := o.c.records.take(ctx, aToken, o.key(user), g.version)
	return err
}

// Disconnect removes a user's grant for a server. A missing grant is not an error.
func (c *Connector) Disconnect(ctx context.Context, server, user string) error {
	c.mu.Lock()
	o := c.connections[server]
	c.mu.Unlock()
	if o == nil {
		return nil
	}
	_, err := c.records.take(ctx, aToken, o.key(user), -1)
	return err
}

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
	if err != nil || g == nil {
		return nil, err
	}
	return oauth2.StaticTokenSource(&oauth2.Token{AccessToken: g.Access, TokenType: g.Type}), nil
}

// Authorize implements auth.OAuthHandler. It removes a token that the server rejects, and reports that the user has
// to connect.
func (h *userHandler) Authorize(ctx context.Context, req *http.Request, resp *http.Response) error {
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	_ = resp.Body.Close()
	_, sent, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	if g, err := h.o.token(ctx, h.user); err == nil && g != nil {
		if g.Access != sent { // it was refreshed concurrently
			return nil
		}
		if err := h.o.forget(ctx, h.user, g); err != nil {
			return err
		}
	}
	return errConnect
}
