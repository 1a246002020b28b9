package mcp

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/auth/extauth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/cairn-agents/cairn"
)

// Auth authorises requests to a server over HTTP: [ClientCredentials], or a [Connection] of a [Connector].
type Auth interface {
	// bind sets the server that the authorisation is for.
	bind(server, address string) error
	// perUser reports whether each user is authorised separately.
	perUser() bool
	// handler returns the handler that authorises the requests of a user.
	handler(user string) (auth.OAuthHandler, error)
	// connect asks the user of a call to authorise it.
	connect(ctx context.Context, call *cairn.Call) error
}

// ErrNotConnected reports that the user has to connect an account first.
var ErrNotConnected = errors.New("the user has not connected an account")

func needsConnect(err error) bool { return errors.Is(err, ErrNotConnected) }

// ClientCredentials authorise this program itself, by the OAuth grant of that name. All users share one token. It
// is requested when the server demands it, and again when it has expired.
type ClientCredentials struct {
	ID     string
	Secret string
	// Issuer is the authorisation server that the credentials are for. If it is set, they are sent to no other one,
	// even if the MCP server names another. Default: the one that the MCP server names.
	Issuer string
	// HTTPClient makes the requests for tokens. Default: http.DefaultClient.
	HTTPClient *http.Client

	mu      sync.Mutex
	current auth.OAuthHandler
}

func (c *ClientCredentials) bind(server, _ string) error {
	if c.ID == "" || c.Secret == "" {
		return cairn.Invalid("auth", "MCP server %q: client credentials require an ID and a Secret", server)
	}
	return nil
}

func (c *ClientCredentials) perUser() bool { return false }

func (c *ClientCredentials) connect(context.Context, *cairn.Call) error { return ErrNotConnected }

func (c *ClientCredentials) handler(string) (auth.OAuthHandler, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != nil {
		return c.current, nil
	}
	h, err := extauth.NewClientCredentialsHandler(&extauth.ClientCredentialsHandlerConfig{
		Credentials: &oauthex.ClientCredentials{ClientID: c.ID, ClientSecretAuth: &oauthex.ClientSecretAuth{ClientSecret: c.Secret}, Issuer: c.Issuer},
		HTTPClient:  c.HTTPClient,
	})
	if err != nil {
		return nil, err
	}
	c.current = &serial{OAuthHandler: h}
	return c.current, nil
}

// serial serializes the use of a handler, and keeps it from asking for the same scopes for ever.
type serial struct {
	auth.OAuthHandler
	mu     sync.Mutex
	raised []string // scopes that were asked for since a server demanded them
}

func (s *serial) TokenSource(ctx context.Context) (oauth2.TokenSource, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.OAuthHandler.TokenSource(ctx)
}

func (s *serial) Authorize(ctx context.Context, req *http.Request, resp *http.Response) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if resp.StatusCode == http.StatusForbidden {
		demanded := scopesOf(resp)
		if all := union(s.raised, demanded); len(all) > len(s.raised) {
			s.raised = all
		} else {
			discard(resp)
			return refused("%w by the MCP server", errForbidden)
		}
	}
	return s.OAuthHandler.Authorize(ctx, req, resp)
}
