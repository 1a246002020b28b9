// Package oidcauth signs browsers in by an OpenID Connect provider, with the authorization code flow, PKCE, state and
// nonce. A sign-in ends in the cookie of package server's SignIn: the provider's tokens are neither kept nor sent to the
// browser.
package oidcauth

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/server/jwtauth"
)

// Options say which provider signs users in. Issuer, ClientID and RedirectURL are required.
type Options struct {
	// Issuer is the address of the provider, as in the "iss" of its tokens: https, or http on this machine. The provider
	// describes itself below it, at /.well-known/openid-configuration.
	Issuer string
	// ClientID and ClientSecret are the credentials of this server at the provider. A public client has no secret.
	ClientID     string
	ClientSecret string
	// RedirectURL is the address of the handler's callback, as browsers reach it and as the provider has it registered:
	// https, or http on this machine. Its path ends with "/callback". The console is one level above the handler: with
	// https://example.com/console/oidc/callback, a sign-in leads to https://example.com/console/.
	RedirectURL string
	// Scopes are asked for in addition to openid; nil means profile and email.
	Scopes []string
	// Claims say whom the claims of an ID token name: UserClaim, TenantClaim, RolesClaim, Roles, Default and Everyone. The
	// other fields are not used.
	Claims jwtauth.Options
	// Client makes the requests to the provider; nil means one with a timeout of ten seconds.
	Client *http.Client
	// Logger gets the reasons of sign-ins that have failed, without codes and tokens; nil is silent.
	Logger *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

const (
	// pendingTime is how long a user may take at the provider.
	pendingTime = 10 * time.Minute
	// pendingCookie is the cookie of a sign-in that has begun. With https, its prefix keeps other hosts of the domain
	// from setting it.
	pendingCookie = "cairn_oidc"
	// maxNext is the maximum length of the address that a sign-in leads to.
	maxNext = 2000
)

// pending is a sign-in that has begun, in a cookie of the browser. The browser of another user does not have it, and the
// provider's answer is of no use without it.
type pending struct {
	State    string    `json:"s"`
	Nonce    string    `json:"n"`
	Verifier string    `json:"v"`
	Next     string    `json:"to,omitempty"`
	Until    time.Time `json:"until"`
}

// New returns the handler of the sign-in: GET /begin leads to the provider, and the provider back to GET /callback. Mount
// it below the path of RedirectURL with [http.StripPrefix]:
//
//	mux.Handle("/console/oidc/", http.StripPrefix("/console/oidc", signIn))
//
// The parameter next of /begin is an address relative to the console, such as "inbox"; an address of another place is
// ignored. A sign-in that fails leads to the console with ?sign_in=failed, or ?sign_in=unavailable if the provider is
// not reached. The provider is asked for its addresses and keys when the first browser signs in. Any process with the same
// options may serve either request. The error is ErrInvalid and names the option that is missing or wrong.
func New(h *server.Handler, opts *Options) (http.Handler, error) {
	s := &signIn{server: h}
	if opts != nil {
		s.opts = *opts
	}
	o := &s.opts
	for _, required := range []struct{ field, value string }{{"Issuer", o.Issuer}, {"ClientID", o.ClientID}, {"RedirectURL", o.RedirectURL}} {
		if required.value == "" {
			return nil, cairn.Invalid(required.field, "is required")
		}
	}
	back, err := address(o.RedirectURL)
	if err != nil || path.Base(back.Path) != "callback" || back.RawQuery != "" {
		return nil, cairn.Invalid("RedirectURL", "must be an https URL whose path ends with /callback")
	}
	if _, err := address(o.Issuer); err != nil {
		return nil, cairn.Invalid("Issuer", "must be an https URL")
	}
	if s.cookie = pendingCookie; back.Scheme == "https" {
		s.cookie, s.secure = "__Host-"+pendingCookie, true
	}
	if o.Scopes == nil {
		o.Scopes = []string{"profile", "email"}
	}
	if o.Client == nil {
		o.Client = &http.Client{Timeout: 10 * time.Second}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /begin", s.begin)
	mux.HandleFunc("GET /callback", s.callback)
	return mux, nil
}

// address parses the address of a provider or of a callback: https, or http on this machine.
func address(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	ip := net.ParseIP(u.Hostname())
	own := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	if u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !own) || u.User != nil || u.Fragment != "" {
		return nil, errors.New("not an https URL")
	}
	return u, nil
}

// signIn is the handler of a provider's sign-ins.
type signIn struct {
	server *server.Handler
	opts   Options
	cookie string
	secure bool

	mu       sync.Mutex
	provider *oidc.Provider // nil until it is known
}

// known returns the provider, which it asks for its addresses unless they are known.
func (s *signIn) known(ctx context.Context) (*oidc.Provider, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.provider != nil {
		return s.provider, nil
	}
	// The provider keeps the context for later requests, of its keys.
	p, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), s.opts.Client), s.opts.Issuer)
	if err == nil {
		s.provider = p
	}
	return p, err
}

func (s *signIn) config(p *oidc.Provider) *oauth2.Config {
	scopes := append([]string{oidc.ScopeOpenID}, slices.DeleteFunc(slices.Clone(s.opts.Scopes), func(name string) bool { return name == oidc.ScopeOpenID })...)
	return &oauth2.Config{ClientID: s.opts.ClientID, ClientSecret: s.opts.ClientSecret, Endpoint: p.Endpoint(), RedirectURL: s.opts.RedirectURL, Scopes: scopes}
}

// begin leads a browser to the provider.
func (s *signIn) begin(w http.ResponseWriter, r *http.Request) {
	p, err := s.known(r.Context())
	if err != nil {
		s.fail(w, "unavailable", fmt.Errorf("ask the provider: %w", err))
		return
	}
	began := pending{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Next: within(r.URL.Query().Get("next")),
		Until: s.opts.Now().Add(pendingTime)}
	text, err := json.Marshal(&began)
	if err != nil {
		s.fail(w, "failed", err)
		return
	}
	s.keep(w, base64.RawURLEncoding.EncodeToString(text), int(pendingTime/time.Second))
	to := s.config(p).AuthCodeURL(began.State, oidc.Nonce(began.Nonce), oauth2.S256ChallengeOption(began.Verifier))
	redirect(w, to)
}

// keep sets the cookie of a sign-in that has begun for some seconds; a negative number removes it. The provider's answer
// comes from another site, so the cookie is not a strict one.
func (s *signIn) keep(w http.ResponseWriter, value string, seconds int) {
	http.SetCookie(w, &http.Cookie{Name: s.cookie, Value: value, Path: "/", MaxAge: seconds, HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteLaxMode})
}

// callback signs the browser in with the provider's answer, which it accepts once.
func (s *signIn) callback(w http.ResponseWriter, r *http.Request) {
	began, err := s.began(r)
	s.keep(w, "", -1)
	if err != nil {
		s.fail(w, "failed", err)
		return
	}
	p, err := s.known(r.Context())
	if err != nil {
		s.fail(w, "unavailable", fmt.Errorf("ask the provider: %w", err))
		return
	}
	who, err := s.principal(r, p, began)
	if err == nil {
		err = s.server.SignIn(w, r, who)
	}
	if err != nil {
		s.fail(w, "failed", err)
		return
	}
	s.opts.Logger.Info("signed in", "user", who.User, "tenant", who.Tenant)
	redirect(w, "../"+began.Next)
}

// began returns the sign-in that a request's browser has begun and that the request answers.
func (s *signIn) began(r *http.Request) (*pending, error) {
	cookie, err := r.Cookie(s.cookie)
	if err != nil {
		return nil, errors.New("the browser has begun no sign-in, or took too long")
	}
	var began pending
	text, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err == nil {
		err = json.Unmarshal(text, &began)
	}
	q := r.URL.Query()
	switch state := q.Get("state"); {
	case err != nil || began.State == "" || began.Nonce == "" || began.Verifier == "":
		return nil, errors.New("the cookie of the sign-in is invalid")
	case subtle.ConstantTimeCompare([]byte(state), []byte(began.State)) != 1:
		return nil, errors.New("the state is not that of the browser's sign-in")
	case !s.opts.Now().Before(began.Until):
		return nil, errors.New("the sign-in took too long")
	case q.Get("error") != "":
		return nil, fmt.Errorf("the provider refused: %.200q", q.Get("error"))
	case q.Get("code") == "":
		return nil, errors.New("the provider's answer has no code")
	case q.Has("iss") && q.Get("iss") != s.opts.Issuer: // RFC 9207
		return nil, errors.New("the answer is of another provider")
	}
	began.Next = within(began.Next)
	return &began, nil
}

// principal exchanges the code of a provider's answer for an ID token, and returns whom that names.
func (s *signIn) principal(r *http.Request, p *oidc.Provider, began *pending) (*server.Principal, error) {
	ctx := oidc.ClientContext(r.Context(), s.opts.Client)
	tokens, err := s.config(p).Exchange(ctx, r.URL.Query().Get("code"), oauth2.VerifierOption(began.Verifier))
	if err != nil {
		var refused *oauth2.RetrieveError
		if errors.As(err, &refused) { // its text has the whole response
			return nil, fmt.Errorf("exchange the code: status %s, %.200q", refused.Response.Status, refused.ErrorCode)
		}
		return nil, fmt.Errorf("exchange the code: %w", err)
	}
	raw, ok := tokens.Extra("id_token").(string)
	if !ok {
		return nil, errors.New("the provider has sent no ID token")
	}
	id, err := p.VerifierContext(ctx, &oidc.Config{ClientID: s.opts.ClientID, Now: s.opts.Now}).Verify(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("verify the ID token: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(began.Nonce)) != 1 {
		return nil, errors.New("the nonce of the ID token is not that of the browser's sign-in")
	}
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		return nil, fmt.Errorf("decode the ID token: %w", err)
	}
	who := s.opts.Claims.Principal(claims)
	if who == nil {
		return nil, errors.New("the claims of the ID token name no user or tenant")
	}
	return who, nil
}

// fail leads a browser whose sign-in has failed to the console, which says so.
func (s *signIn) fail(w http.ResponseWriter, how string, why error) {
	s.opts.Logger.Warn("sign-in failed", "error", why)
	redirect(w, "../?sign_in="+how)
}

// redirect leads a browser to an address that may be relative, whatever path the handler is mounted below.
func redirect(w http.ResponseWriter, to string) {
	h := w.Header()
	h.Set("Location", to)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(http.StatusSeeOther)
}

// within returns an address relative to the console, or "" for an address that leads elsewhere.
func within(next string) string {
	u, err := url.Parse(next)
	if err != nil || len(next) > maxNext || u.Scheme != "" || u.Host != "" || u.Opaque != "" || u.User != nil || strings.HasPrefix(u.Path, "/") ||
		strings.ContainsFunc(u.Path, func(r rune) bool { return r == '\\' || r < ' ' }) || slices.Contains(strings.Split(u.Path, "/"), "..") {
		return ""
	}
	return u.String()
}
