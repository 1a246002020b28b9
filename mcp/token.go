package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	// Post reports that the client's secret is sent in the body of a request, not in its header.
	Post     bool   `json:"post,omitempty"`
	Resource string `json:"resource"`
	// Scopes are the scopes that the user was asked for.
	Scopes []string `json:"scopes,omitempty"`
	// Raised are those of Scopes that were asked for since the server refused a call without them.
	Raised []string `json:"raised,omitempty"`
	// Need are scopes that the server demands, and that the user has not been asked for.
	Need []string `json:"need,omitempty"`
	// version is the version of the record.
	version int64
}

// early is how long before its expiry a token is refreshed.
const early = 30 * time.Second

// fresh reports whether the token need not be refreshed yet, valid whether it has not expired.
func (g *grant) fresh() bool { return g.Expiry.IsZero() || time.Until(g.Expiry) > early }
func (g *grant) valid() bool { return g.Expiry.IsZero() || time.Until(g.Expiry) > 0 }

// errRefresh reports that the authorisation server issues no new token at the moment.
var errRefresh = errors.New("cannot refresh the token")

// key returns the key of the records of a user's grant.
func (o *connection) key(user string) string { return ids.Derive("grant", o.server, o.address, user) }

// stored returns a user's grant as it is stored; nil if there is none.
func (o *connection) stored(ctx context.Context, user string) (*grant, error) {
	g := new(grant)
	version, err := o.c.records.get(ctx, aToken, o.key(user), g)
	if err != nil || version == 0 {
		return nil, err
	}
	g.version = version
	return g, nil
}

// token returns a user's grant, refreshed if it is due; nil if there is none, or if it is no longer valid. While another
// process refreshes it, a token that has not expired is used, and for any other the call waits.
func (o *connection) token(ctx context.Context, user string) (*grant, error) {
	return o.replaced(ctx, user, "")
}

// replaced returns what token does, but refreshes a grant with the access token that the server rejects even if it is
// not due. If it cannot be refreshed for good, the grant is removed.
func (o *connection) replaced(ctx context.Context, user, rejected string) (*grant, error) {
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		g, err := o.stored(ctx, user)
		if err != nil || g == nil {
			return nil, err
		}
		usable := g.valid() && g.Access != rejected
		switch {
		case usable && (g.fresh() || g.Refresh == ""):
			return g, nil
		case g.Refresh == "":
			return nil, o.forget(ctx, user, g)
		}
		claim, err := o.claim(ctx, user)
		if err != nil {
			return nil, err
		}
		if claim != 0 {
			err := o.renew(ctx, user, g.version)
			o.release(context.WithoutCancel(ctx), user, claim)
			if err != nil && !usable {
				return nil, err
			}
			if err == nil {
				next, err := o.stored(ctx, user)
				if err != nil || next == nil || next.valid() {
					return next, err
				}
				continue
			}
		}
		if usable {
			return g, nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
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

// methodOf returns how a client authenticates at a token endpoint, by the methods that it supports (RFC 8414).
func methodOf(secret string, supported []string) oauth2.AuthStyle {
	if secret == "" || slices.Contains(supported, "client_secret_post") && !slices.Contains(supported, "client_secret_basic") {
		return oauth2.AuthStyleInParams
	}
	return oauth2.AuthStyleInHeader
}

// union returns the scopes of both lists, each once, in order.
func union(a, b []string) []string {
	list := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

// refusal is an error of a request that was not carried out, for lack of a right or a token: the connection is good.
type refusal struct{ error }

func (e refusal) Unwrap() error { return e.error }

func refused(format string, args ...any) error { return refusal{fmt.Errorf(format, args...)} }
