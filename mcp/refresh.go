package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// A refresh token may be valid once: a server that rotates them revokes the grant when one is used again (RFC 9700,
// section 4.14.2). So one process at a time refreshes the token of a user for a server: the one whose claim is in the
// store's records.

const (
	// refreshTimeout bounds the request for a new token.
	refreshTimeout = 20 * time.Second
	// claimTTL is how long a claim lasts, by the store's clock, if its process dies. It leaves time to store a new token.
	claimTTL = 40 * time.Second
)

// aClaim is the prefix of the key of the record that is a process's claim to refresh a token.
const aClaim = "mcp-refresh/"

// claim returns the version of this process's new claim to refresh a user's token; 0 if another process has one.
func (o *connection) claim(ctx context.Context, user string) (int64, error) {
	return o.c.records.swap(ctx, aClaim, o.key(user), user, "", 0, claimTTL)
}

// release ends a claim. If that fails, the claim lapses.
func (o *connection) release(ctx context.Context, user string, claim int64) {
	if _, err := o.c.records.take(ctx, aClaim, o.key(user), claim); err != nil {
		o.c.opts.Logger.Warn("claim to refresh a token not released", "server", o.server, "error", err)
	}
}

// renew refreshes a user's grant under a claim, if it still has the version seen. The context does not end it halfway:
// the server may have rotated the token already.
func (o *connection) renew(ctx context.Context, user string, seen int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTTL-time.Second)
	defer cancel()
	g := new(grant)
	version, err := o.c.records.get(ctx, aToken, o.key(user), g)
	if err != nil || version != seen {
		return err
	}
	g.version = version
	next, err := o.refresh(ctx, g)
	var refused *refusedError
	if errors.As(err, &refused) && refused.final() {
		return o.forget(ctx, user, g)
	}
	if err != nil {
		o.c.opts.Logger.Warn("cannot refresh a token", "server", o.server, "error", err)
		return fmt.Errorf("%w: %s", errRefresh, o.server)
	}
	for wait := 50 * time.Millisecond; ; wait *= 2 { // without the new token the grant is lost
		_, err = o.c.records.swap(ctx, aToken, o.key(user), user, next, version, 0)
		if err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// refusedError is a token endpoint's refusal. It has nothing of the response but its code.
type refusedError struct {
	status int
	code   string // of the error, by RFC 6749, section 5.2
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("the token endpoint responds with status %d and the error %q", e.status, e.code)
}

// final reports that the refresh token is not valid any more. Every other refusal may be temporary, or due to this
// program's configuration.
func (e *refusedError) final() bool {
	return e.status == http.StatusBadRequest && e.code == "invalid_grant"
}

// refresh requests a new token, once: the request is not repeated with other credentials in case it was carried out.
// The error shows no token.
func (o *connection) refresh(ctx context.Context, g *grant) (*grant, error) {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.Refresh}, "resource": {g.Resource}} // RFC 8707
	secret := o.client.Secret
	if secret == "" || g.Post {
		form.Set("client_id", g.Client)
	}
	if secret != "" && g.Post {
		form.Set("client_secret", secret)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.TokenURL, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, errors.New("invalid address of the token endpoint")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if secret != "" && !g.Post {
		req.SetBasicAuth(url.QueryEscape(g.Client), url.QueryEscape(secret))
	}
	client := *o.c.opts.HTTPClient
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	if err != nil {
		return nil, errors.New("the token endpoint does not respond")
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, errors.New("the response of the token endpoint ended unexpectedly")
	}
	var t struct {
		Access  string      `json:"access_token"`
		Type    string      `json:"token_type"`
		Refresh string      `json:"refresh_token"`
		Expires json.Number `json:"expires_in"`
		Error   string      `json:"error"`
	}
	err = json.Unmarshal(raw, &t)
	if resp.StatusCode != http.StatusOK || err != nil || t.Access == "" {
		return nil, &refusedError{resp.StatusCode, clean(t.Error, 64)}
	}
	next := *g
	next.Access, next.Type, next.Expiry = t.Access, t.Type, time.Time{}
	if seconds, err := t.Expires.Int64(); err == nil && seconds > 0 {
		next.Expiry = time.Now().Add(time.Duration(min(seconds, 1<<32)) * time.Second)
	}
	if t.Refresh != "" {
		next.Refresh = t.Refresh
	}
	return &next, nil
}
