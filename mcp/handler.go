package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/ids"
	"github.com/cairn-agents/cairn/store"
)

// Handler serves the pages where users connect their accounts. Mount it at Address. It has "start", which a pending
// call leads to, "callback", where authorisation servers send users back to, and "client", the document about this
// program. Connecting an account answers the call, and the engine resumes the run if no other call is pending.
func (c *Connector) Handler(eng *engine.Engine) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Referrer-Policy", "no-referrer")
		if r.Method != http.MethodGet {
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		if path.Base(r.URL.Path) == "client" {
			c.describe(w)
			return
		}
		user, err := c.opts.Authenticate(r)
		switch {
		case err != nil:
			c.opts.Logger.Error("cannot authenticate a user", "error", err)
			page(w, http.StatusServiceUnavailable, "You cannot be signed in at the moment. Please try again later.")
		case user == "":
			page(w, http.StatusUnauthorized, "Please sign in first, then open the link again.")
		case path.Base(r.URL.Path) == "start":
			c.start(w, r, eng, user)
		case path.Base(r.URL.Path) == "callback":
			c.callback(w, r, eng, user)
		default:
			http.NotFound(w, r)
		}
	})
}

// page responds with a sentence for the user.
func page(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "<!doctype html><title>Connect</title><p>"+html.EscapeString(text)+"</p>\n")
}

// describe serves the document about this program.
func (c *Connector) describe(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"client_id": c.opts.Address + "client", "client_name": "Cairn", "redirect_uris": []string{c.redirect()},
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"}, "token_endpoint_auth_method": "none",
	})
}

func (c *Connector) redirect() string { return c.opts.Address + "callback" }

// ticketOf returns the ticket of an address, if it is the user's.
func (c *Connector) ticketOf(ctx context.Context, id, user string) (*ticket, *connection, error) {
	t := new(ticket)
	if cairn.CheckSessionID(id) != nil {
		return nil, nil, nil
	}
	version, err := c.records.get(ctx, aTicket, id, t)
	if err != nil || version == 0 || t.User != user {
		return nil, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return t, c.connections[t.Server], nil
}

// flow is the sign-in of a user at an authorisation server.
type flow struct {
	Ticket   string `json:"ticket"`
	User     string `json:"user"`
	Verifier string `json:"verifier"`
	Issuer   string `json:"issuer"`
	// HasIssuer reports that the server identifies itself when it sends the user back.
	HasIssuer bool   `json:"has_issuer,omitempty"`
	TokenURL  string `json:"token_url"`
	Client    string `json:"client"`
	// Post reports that the client's secret is sent in the body of a request, not in its header.
	Post     bool     `json:"post,omitempty"`
	Resource string   `json:"resource"`
	Scopes   []string `json:"scopes,omitempty"`
	// Raised are those of Scopes that the server has demanded with the refusal of a call.
	Raised []string `json:"raised,omitempty"`
}

const gone = "This link has expired or belongs to another user."

// start sends a user to the authorisation server.
func (c *Connector) start(w http.ResponseWriter, r *http.Request, eng *engine.Engine, user string) {
	id := r.URL.Query().Get("ticket")
	t, o, err := c.ticketOf(r.Context(), id, user)
	if err != nil || t == nil || o == nil {
		c.refuse(w, err, gone)
		return
	}
	g, err := o.token(r.Context(), user)
	if err == nil && g != nil && len(g.Need) == 0 {
		c.connected(w, r, eng, t)
		return
	}
	f, cfg, err := o.begin(r.Context(), g)
	if err != nil {
		c.refuse(w, err, "The server's sign-in page is unavailable.")
		return
	}
	f.Ticket, f.User, f.Verifier = id, user, oauth2.GenerateVerifier()
	state := ids.New("state")
	if err := c.records.put(r.Context(), aFlow, state, user, f, flowTTL); err != nil {
		c.refuse(w, err, "")
		return
	}
	address := cfg.AuthCodeURL(state, oauth2.S256ChallengeOption(f.Verifier), oauth2.SetAuthURLParam("resource", f.Resource))
	http.Redirect(w, r, address, http.StatusFound)
}

// refuse responds to a request that failed.
func (c *Connector) refuse(w http.ResponseWriter, err error, text string) {
	if err == nil {
		page(w, http.StatusNotFound, text)
		return
	}
	c.opts.Logger.Warn("account not connected", "error", err)
	if text == "" || text == gone {
		text = "That did not work. Please try again later."
	}
	page(w, http.StatusBadGateway, text)
}

// begin determines where a user is to be sent, to authorise what a former grant, if any, covers and what it lacks.
func (o *connection) begin(ctx context.Context, former *grant) (*flow, *oauth2.Config, error) {
	prm, demanded, err := o.discover(ctx)
	if err != nil {
		return nil, nil, err
	}
	issuer := o.client.Issuer
	if issuer == "" {
		if len(prm.AuthorizationServers) == 0 {
			return nil, nil, fmt.Errorf("%s names no authorisation server", o.server)
		}
		issuer = prm.AuthorizationServers[0]
	} else if !slices.Contains(prm.AuthorizationServers, issuer) {
		return nil, nil, fmt.Errorf("%s does not name the authorisation server where its client is registered", o.server)
	}
	meta, err := auth.GetAuthServerMetadata(ctx, issuer, o.c.opts.HTTPClient)
	if err != nil || meta == nil {
		return nil, nil, cmpErr(err, fmt.Errorf("the authorisation server of %s has no metadata", o.server))
	}
	client := o.client.ID
	if client == "" {
		if !meta.ClientIDMetadataDocumentSupported {
			return nil, nil, fmt.Errorf("the authorisation server of %s requires a registered client", o.server)
		}
		client = o.c.opts.Address + "client"
	}
	scopes := o.client.Scopes
	if scopes == nil {
		scopes = demanded
	}
	if len(scopes) == 0 && o.client.Scopes == nil {
		scopes = prm.ScopesSupported
	}
	if slices.Contains(meta.ScopesSupported, offline) {
		scopes = union(scopes, []string{offline})
	}
	f := &flow{Issuer: meta.Issuer, HasIssuer: meta.AuthorizationResponseIssParameterSupported, TokenURL: meta.TokenEndpoint, Client: client,
		Post: methodOf(o.client.Secret, meta.TokenEndpointAuthMethodsSupported) == oauth2.AuthStyleInParams, Resource: prm.Resource}
	if former != nil {
		scopes, f.Raised = union(union(former.Scopes, scopes), former.Need), union(former.Raised, former.Need)
	}
	f.Scopes = scopes
	return f, &oauth2.Config{ClientID: client, RedirectURL: o.c.redirect(), Scopes: scopes, Endpoint: oauth2.Endpoint{AuthURL: meta.AuthorizationEndpoint}}, nil
}

// offline is the scope by which an authorisation server that lists it issues refresh tokens.
const offline = "offline_access"

// discover asks the server which authorisation server authorises its users, and which scopes it demands.
func (o *connection) discover(ctx context.Context) (*oauthex.ProtectedResourceMetadata, []string, error) {
	u, err := url.Parse(o.address)
	if err != nil {
		return nil, nil, err
	}
	root := url.URL{Scheme: u.Scheme, Host: u.Host}
	type place struct{ metadata, resource string }
	list := []place{
		{root.String() + "/.well-known/oauth-protected-resource/" + strings.TrimLeft(u.Path, "/"), o.address},
		{root.String() + "/.well-known/oauth-protected-resource", root.String()}}
	named, scopes := o.challenge(ctx)
	if named != "" {
		list = append([]place{{named, o.address}}, list...)
	}
	var errs []error
	for _, p := range list {
		prm, err := oauthex.GetProtectedResourceMetadata(ctx, p.metadata, p.resource, o.c.opts.HTTPClient)
		if err == nil {
			return prm, scopes, nil
		}
		errs = append(errs, err)
	}
	return nil, nil, errors.Join(errs...)
}

// challenge returns the address at which the server says that its metadata is, "" if it names none, and the scopes that
// it demands.
func (o *connection) challenge(ctx context.Context) (metadata string, scopes []string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.address, strings.NewReader("{}"))
	if err != nil {
		return "", nil
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := o.c.opts.HTTPClient.Do(req)
	if err != nil {
		return "", nil
	}
	defer resp.Body.Close()
	challenges, err := oauthex.ParseWWWAuthenticate(resp.Header.Values("WWW-Authenticate"))
	if err != nil {
		return "", nil
	}
	for _, ch := range challenges {
		if named := ch.Params["resource_metadata"]; named != "" || ch.Params["scope"] != "" {
			return named, scopeList(ch.Params["scope"])
		}
	}
	return "", nil
}

// callback receives a user who comes back. The state is valid once, and for the user who was sent away with it.
func (c *Connector) callback(w http.ResponseWriter, r *http.Request, eng *engine.Engine, user string) {
	ctx, q := r.Context(), r.URL.Query()
	f := new(flow)
	state := q.Get("state")
	if cairn.CheckSessionID(state) != nil {
		page(w, http.StatusNotFound, gone)
		return
	}
	version, err := c.records.get(ctx, aFlow, state, f)
	if err != nil || version == 0 || f.User != user {
		c.refuse(w, err, gone)
		return
	}
	if ours, err := c.records.take(ctx, aFlow, state, version); err != nil || !ours {
		c.refuse(w, err, gone)
		return
	}
	t, o, err := c.ticketOf(ctx, f.Ticket, user)
	if err != nil || t == nil || o == nil {
		c.refuse(w, err, gone)
		return
	}
	switch iss := q.Get("iss"); {
	case iss != "" && iss != f.Issuer || iss == "" && f.HasIssuer:
		page(w, http.StatusBadRequest, "The response came from an unexpected sign-in server.")
		return
	case q.Get("error") != "" || q.Get("code") == "":
		page(w, http.StatusOK, "No account was connected. You can open the link again.")
		return
	}
	cfg := &oauth2.Config{ClientID: f.Client, ClientSecret: o.client.Secret, RedirectURL: c.redirect(), Endpoint: oauth2.Endpoint{TokenURL: f.TokenURL, AuthStyle: oauth2.AuthStyleInHeader}}
	if f.Post {
		cfg.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	token, err := cfg.Exchange(context.WithValue(ctx, oauth2.HTTPClient, c.opts.HTTPClient), q.Get("code"),
		oauth2.VerifierOption(f.Verifier), oauth2.SetAuthURLParam("resource", f.Resource))
	if err != nil { // its text may contain tokens
		c.refuse(w, fmt.Errorf("the authorisation server of %s refuses the code", t.Server), "The server's sign-in did not complete.")
		return
	}
	g := &grant{Access: token.AccessToken, Type: token.TokenType, Refresh: token.RefreshToken, Expiry: token.Expiry,
		TokenURL: f.TokenURL, Client: f.Client, Post: f.Post, Resource: f.Resource, Scopes: f.Scopes, Raised: f.Raised}
	if err := o.keep(ctx, user, g); err != nil {
		c.refuse(w, err, "")
		return
	}
	c.connected(w, r, eng, t)
}

// connected answers the call that asked for an account, and resumes its run.
func (c *Connector) connected(w http.ResponseWriter, r *http.Request, eng *engine.Engine, t *ticket) {
	ctx := context.WithoutCancel(r.Context())
	if err := answerCalls(ctx, eng, t); err != nil {
		c.refuse(w, err, "Your account is connected, but the conversation was not notified. Please open the link again.")
		return
	}
	page(w, http.StatusOK, "Your account with "+t.Server+" is connected. You can close this page.")
}

func answerCalls(ctx context.Context, eng *engine.Engine, t *ticket) error {
	page, err := eng.Inbox(ctx, store.CallQuery{RootID: t.Root, SessionID: t.Session, Kind: cairn.CallConnect})
	if err != nil {
		return err
	}
	for i := range page.Items {
		if page.Items[i].ToolCallID != t.Call {
			continue
		}
		receipt, err := eng.Submit(ctx, t.Root, cairn.Answer(page.Items[i].CallRef, true))
		if err != nil {
			return err
		}
		if !receipt.Ready {
			continue
		}
		if _, err := eng.Resume(ctx, t.Root); err != nil && !errors.Is(err, cairn.ErrNotResumable) && !errors.Is(err, cairn.ErrAlreadyRunning) {
			return err
		}
	}
	return nil
}
