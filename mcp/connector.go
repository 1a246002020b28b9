package mcp

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// ConnectorOptions say how users connect their accounts.
type ConnectorOptions struct {
	// Key encrypts the stored data: 32 bytes, see [KeyFromEnv]. Required.
	Key []byte
	// Address is where a user's browser reaches [Connector.Handler], such as "https://app.example.com/connect/".
	// Required.
	Address string
	// Authenticate returns the id of the user that a browser's request is from, with the tenant if there is one (see
	// [cairn.InTenant]), "" for none. Required: only the user of the session that asks for an account may connect it.
	Authenticate func(*http.Request) (user string, err error)
	// HTTPClient makes requests to authorisation servers. Default: http.DefaultClient.
	HTTPClient *http.Client
	// Logger gets failures, never a token. Default: nothing is logged.
	Logger *slog.Logger
}

// Connector lets users connect accounts of their own with MCP servers, by OAuth. A tool whose server demands it
// suspends the run with a call of [cairn.CallConnect], which has the address that the user opens. Once the user has
// connected the account, the call is answered and the run resumed. Tokens are stored encrypted in the store's
// records, per user and server. They are refreshed, and appear neither in a transcript nor in a log. A Connector is
// safe for concurrent use, and any process with the same store and key may serve any part of the exchange.
type Connector struct {
	opts    ConnectorOptions
	records vault

	mu          sync.Mutex
	connections map[string]*connection // by server
}

// NewConnector returns a connector over a store, which must keep records. The error is ErrInvalid and names the
// field.
func NewConnector(st store.Store, opts ConnectorOptions) (*Connector, error) {
	provider, ok := driver.As[store.RecordProvider](st)
	if !ok {
		return nil, cairn.Invalid("store", "must keep records")
	}
	u, err := url.Parse(opts.Address)
	switch {
	case len(opts.Key) != keyBytes:
		return nil, cairn.Invalid("key", "has %d bytes, want %d", len(opts.Key), keyBytes)
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.Fragment != "":
		return nil, cairn.Invalid("address", "must be an http or https URL")
	case opts.Authenticate == nil:
		return nil, cairn.Invalid("authenticate", "is required")
	}
	if !strings.HasSuffix(opts.Address, "/") {
		opts.Address += "/"
	}
	if opts.HTTPClient == nil {
		opts.HTTPClient = http.DefaultClient
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	sealed, err := newVault(provider.Records(), opts.Key)
	if err != nil {
		return nil, err
	}
	return &Connector{opts: opts, records: sealed, connections: map[string]*connection{}}, nil
}

// KeyFromEnv returns the key in an environment variable: 32 bytes in base64. The error is ErrInvalid and does not
// show the key.
func KeyFromEnv(name string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(os.Getenv(name)))
	if err != nil || len(key) != keyBytes {
		return nil, cairn.Invalid(name, "must be %d bytes in base64, as from: openssl rand -base64 %d", keyBytes, keyBytes)
	}
	return key, nil
}

// Client is this program as registered with an authorisation server. The zero value is for servers that accept the
// address of a document as the id (Client ID Metadata Documents): the Connector's handler serves the document.
type Client struct {
	ID     string
	Secret string
	// Scopes are the requested scopes. Default: the scopes that the MCP server names.
	Scopes []string
	// Issuer is the authorisation server that the client is registered with. If it is set, users are sent to no other
	// one, even if the MCP server names another. Default: the one that the MCP server names.
	Issuer string
}

// Server returns the authorisation for one server, for [Options.Auth].
func (c *Connector) Server(client Client) Auth { return &connection{c: c, client: client} }

// connection is the authorisation for a server by each user.
type connection struct {
	c       *Connector
	client  Client
	server  string
	address string
}

func (o *connection) bind(server, address string) error {
	if o.server != "" {
		return cairn.Invalid("auth", "MCP server %q: authorisation belongs to %q", server, o.server)
	}
	if o.client.ID == "" && o.client.Secret != "" {
		return cairn.Invalid("auth", "MCP server %q: a client secret requires a client ID", server)
	}
	o.server, o.address = server, address
	o.c.mu.Lock()
	defer o.c.mu.Unlock()
	if o.c.connections[server] != nil {
		return cairn.Invalid("auth", "duplicate MCP server %q in the connector", server)
	}
	o.c.connections[server] = o
	return nil
}

func (o *connection) perUser() bool { return true }

func (o *connection) handler(user string) (auth.OAuthHandler, error) {
	return &userHandler{o: o, user: user}, nil
}

// ticket is the record behind the address that a user opens.
type ticket struct {
	Server  string `json:"server"`
	User    string `json:"user"`
	Root    string `json:"root"`
	Session string `json:"session"`
	Call    string `json:"call"`
}

func (o *connection) connect(ctx context.Context, call *cairn.Call) error {
	if call.UserID == "" {
		return fmt.Errorf("MCP server %q: %w: the session has no user", o.server, ErrNotConnected)
	}
	type request struct{ Ticket, Prompt string }
	r, err := cairn.Once(ctx, call, func(ctx context.Context) (*request, error) {
		r := &request{Ticket: ids.New("connect"), Prompt: fmt.Sprintf("Connect your account with %s.", o.server)}
		g, err := o.stored(ctx, call.UserID)
		if err != nil {
			return nil, err
		}
		if g != nil && len(g.Need) > 0 {
			r.Prompt = clean(fmt.Sprintf("Allow more with your account with %s: %s.", o.server, strings.Join(g.Need, ", ")), maxDescription)
		}
		t := ticket{Server: o.server, User: call.UserID, Root: cmp.Or(call.RootID, call.SessionID), Session: call.SessionID, Call: call.ID}
		return r, o.c.records.put(ctx, aTicket, r.Ticket, t.User, t, ticketTTL)
	})
	if err != nil {
		return err
	}
	address := o.c.opts.Address + "start?" + url.Values{"ticket": {r.Ticket}}.Encode()
	if err := call.Connect(ctx, r.Prompt, address); err != nil {
		return err
	}
	if t, err := o.token(ctx, call.UserID); err != nil || t == nil {
		return cmpErr(err, fmt.Errorf("the user has not connected an account with %s", o.server))
	}
	return nil
}

func cmpErr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}
