package server

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// signIn keeps a sign-in of the principal and sets its cookie.
func signIn(c *request, _ *struct{}) (*client.Identity, error) {
	if err := c.signIn(); err != nil {
		return nil, err
	}
	return c.identity(), nil
}

// SignIn signs a browser in as p: it keeps the sign-in and sets its cookie, as POST /console/session does for the
// credentials of a request. It is for handlers that authenticate the user themselves, such as package oidcauth's. It must
// be called before the response has begun. There is an error without Options.SignIn, and for a principal whose
// user or tenant is invalid or whose credentials have expired.
func (h *Handler) SignIn(w http.ResponseWriter, r *http.Request, p *Principal) error {
	c := &request{h: h, w: w, r: r, ctx: r.Context(), caller: p}
	var err error
	if c.principal, err = p.within(r); err != nil {
		return err
	}
	return c.signIn()
}

// signIn keeps a sign-in of the request's caller and sets its cookie.
func (c *request) signIn() error {
	opts := c.h.opts.SignIn
	if opts == nil {
		return noSignIn()
	}
	who := signedIn{User: c.caller.User, Name: c.caller.Name, Roles: c.caller.Roles, Tenant: c.caller.Tenant}
	lifetime := opts.Lifetime
	if end := c.caller.Expires; !end.IsZero() {
		lifetime = min(lifetime, time.Until(end))
	}
	if lifetime < time.Second {
		return &httpError{http.StatusUnauthorized, "unauthorized", "credentials have expired"}
	}
	value, err := json.Marshal(who)
	if err != nil {
		return err
	}
	id := rand.Text()
	rec, err := opts.Records.Put(c.ctx, store.RecordWrite{Namespace: store.UserRecords, Key: signInKey(id),
		Index: driver.UserIndex(who.owner()), Value: value, TTL: lifetime})
	if err != nil {
		return err
	}
	c.setCookie(id, int(lifetime/time.Second))
	c.principal.Expires = rec.ExpiresAt
	return nil
}

// setCookie sets the cookie of a sign-in for some seconds; a negative number removes it.
func (c *request) setCookie(id string, seconds int) {
	secure := c.r.TLS != nil || c.r.Header.Get("X-Forwarded-Proto") == "https" || strings.HasPrefix(c.h.opts.URL, "https:")
	http.SetCookie(c.w, &http.Cookie{Name: c.h.opts.SignIn.Cookie, Value: id, Path: "/", MaxAge: seconds, HttpOnly: true, Secure: secure,
		SameSite: http.SameSiteStrictMode})
}

func noSignIn() error {
	return &httpError{http.StatusNotFound, string(cairn.ErrNotFound), "the server has no sign-in"}
}

// whoAmI returns the principal of the request.
func whoAmI(c *request, _ *struct{}) (*client.Identity, error) { return c.identity(), nil }

func (c *request) identity() *client.Identity {
	p := c.principal
	out := &client.Identity{User: p.User, Name: p.Name, Roles: []string{}, Tenant: p.Tenant, Expires: p.Expires}
	for _, role := range p.Roles {
		out.Roles = append(out.Roles, string(role))
	}
	return out
}

type signOutIn struct {
	// UserID ends all sign-ins of that user instead of the request's own. Only administrators may name another user.
	UserID string `query:"user_id"`
}

// signOut ends the sign-in of the request's cookie, or all of a user.
func signOut(c *request, in *signOutIn) (none, error) {
	if c.h.opts.SignIn == nil {
		return none{}, noSignIn()
	}
	records := c.h.opts.SignIn.Records
	if in.UserID != "" {
		if in.UserID != c.principal.User && !c.principal.Is(RoleAdmin) {
			return none{}, cairn.Invalid("user_id", "may only be set by administrators")
		}
		return none{}, revoke(c.ctx, records, in.UserID)
	}
	if cookie, err := c.r.Cookie(c.h.opts.SignIn.Cookie); err == nil {
		err := records.Delete(c.ctx, store.UserRecords, signInKey(cookie.Value), store.AnyVersion)
		if err != nil && !errors.Is(err, cairn.ErrNotFound) {
			return none{}, err
		}
		c.setCookie("", -1)
	}
	return none{}, nil
}
