// Package client is an HTTP client for a server of Cairn sessions: see package server, and docs/SERVER.md for its
// routes. [RemoteAgent] returns a local agent that represents an agent of another server.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
)

// Options configure a client. The zero value means the defaults.
type Options struct {
	// Token is the bearer token of each request; empty for none. It appears in no error and no log.
	Token string
	// Tenant is the tenant as which each request is made, for a token of a principal of all tenants; empty for none. The
	// tenant of any other token is fixed: the server refuses another one.
	Tenant string
	// Header is added to each request.
	Header http.Header
	// HTTP makes the requests; nil means a client of its own. Its Timeout must be 0, since streams are long-lived.
	HTTP *http.Client
	// Timeout limits one request, except streams; 0 means 30 seconds.
	Timeout time.Duration
	// MaxBody is the maximum size, in bytes, of one response, or of one event of a stream; 0 means 64 MiB.
	MaxBody int64
	// Patience is how long a stream of events tries to reconnect, counted from when it was last connected, before
	// it fails; 0 means one minute.
	Patience time.Duration
}

const (
	timeout  = 30 * time.Second
	maxBody  = 64 << 20
	patience = time.Minute
	// silence is how long a stream may be silent before it counts as broken: servers send a comment every 15
	// seconds.
	silence = 45 * time.Second
)

// Client talks to one server. It is safe for concurrent use.
type Client struct {
	base *url.URL
	opts Options
}

// New returns a client of the server at an address, such as "https://agents.example.com/api". It does not connect
// until it is used. The error is ErrInvalid for an address or an option that cannot be used.
func New(address string, opts *Options) (*Client, error) {
	base, err := url.Parse(address)
	switch {
	case err != nil: // the error's text may contain a password
		return nil, cairn.Invalid("address", "must be a URL")
	case base.Scheme != "http" && base.Scheme != "https" || base.Host == "":
		return nil, cairn.Invalid("address", "must begin with http:// or https:// and a host")
	case base.User != nil:
		return nil, cairn.Invalid("address", "must not have a user; use Options.Token or Options.Header")
	case base.RawQuery != "" || base.Fragment != "":
		return nil, cairn.Invalid("address", "must not have a query or a fragment")
	}
	c := &Client{base: base}
	if opts != nil {
		c.opts = *opts
	}
	o := &c.opts
	switch {
	case o.Timeout < 0 || o.MaxBody < 0 || o.Patience < 0:
		return nil, cairn.Invalid("options", "Timeout, MaxBody and Patience must not be negative")
	case o.HTTP != nil && o.HTTP.Timeout != 0:
		return nil, cairn.Invalid("options", "HTTP.Timeout must be 0, since it would end streams; set Options.Timeout")
	case o.Tenant != "" && cairn.CheckTenant(o.Tenant) != nil:
		return nil, cairn.CheckTenant(o.Tenant)
	case strings.ContainsAny(o.Token, "\r\n"):
		return nil, cairn.Invalid("options", "Token must not have a line break")
	}
	if o.HTTP == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.DialContext = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext
		transport.MaxIdleConnsPerHost = 32
		o.HTTP = &http.Client{Transport: transport}
	}
	if o.Timeout == 0 {
		o.Timeout = timeout
	}
	if o.MaxBody == 0 {
		o.MaxBody = maxBody
	}
	if o.Patience == 0 {
		o.Patience = patience
	}
	return c, nil
}

// request returns a request for a path whose segments are already escaped.
func (c *Client) request(ctx context.Context, method, path string, query url.Values, in any) (*http.Request, error) {
	if slices.ContainsFunc(strings.Split(path, "/")[1:], func(s string) bool { return s == "" || s == "." || s == ".." }) {
		return nil, cairn.Invalid("id", "path %q must not have an empty, . or .. segment", path) // it would be that of something else
	}
	at := *c.base
	at.Path, at.RawPath = "", ""
	address := strings.TrimSuffix(at.String()+c.base.EscapedPath(), "/") + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	var body io.Reader
	if in != nil {
		raw, err := encode(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, cairn.Invalid("request", "invalid path %q", path)
	}
	for name, values := range c.opts.Header {
		req.Header[name] = values
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.opts.Tenant != "" {
		req.Header.Set("Cairn-Tenant", c.opts.Tenant)
	}
	if c.opts.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.opts.Token)
	}
	return req, nil
}

// encode returns the JSON of a part of a request.
func encode(value any) (json.RawMessage, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, cairn.Invalid("request", "cannot be encoded as JSON: %v", err)
	}
	return raw, nil
}

// do sends a request and decodes its response into out, unless that is nil.
func (c *Client) do(ctx context.Context, method, path string, query url.Values, in, out any) error {
	req, err := c.request(ctx, method, path, query, in)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	res, raw, err := c.answer(req)
	if err != nil || out == nil || res.StatusCode == http.StatusNoContent {
		return err
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return cairn.Errorf(cairn.ErrInternal, "%s: decode response: %w", what(req), err)
	}
	return nil
}

// answer sends a request and reads its response. A response other than a success is returned as an error.
func (c *Client) answer(req *http.Request) (*http.Response, []byte, error) {
	ctx := req.Context()
	bounded, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	res, err := c.opts.HTTP.Do(req.WithContext(bounded))
	if err != nil {
		return nil, nil, failed(ctx, req, err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, c.opts.MaxBody+1))
	switch {
	case err != nil:
		return nil, nil, failed(ctx, req, err)
	case res.StatusCode >= 300:
		return nil, nil, refusal(req, res, raw)
	case int64(len(raw)) > c.opts.MaxBody:
		return nil, nil, cairn.Errorf(cairn.ErrTooLarge, "%s: response is too large (max %d bytes)", what(req), c.opts.MaxBody)
	}
	return res, raw, nil
}

// what names a request in errors.
func what(req *http.Request) string { return req.Method + " " + req.URL.Host + req.URL.Path }

// failed returns the error for a request without a response: the error of ctx if that is done, else one of
// ErrUnavailable.
func failed(ctx context.Context, req *http.Request, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what(req), ctx.Err())
	}
	if outer := (*url.Error)(nil); errors.As(err, &outer) { // its text contains the whole address
		err = outer.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return cairn.Errorf(cairn.ErrUnavailable, "%s: timed out", what(req))
	}
	return cairn.Errorf(cairn.ErrUnavailable, "%s: %w", what(req), err)
}

// problem is the problem document of a server, by RFC 9457.
type problem struct {
	Detail  string          `json:"detail"`
	Code    cairn.Code      `json:"code"`
	Field   string          `json:"field"`
	Details []string        `json:"details"`
	Calls   []cairn.CallRef `json:"calls"`
}

// refused is the cause of a refusal: the server's words, without the address of the request.
type refused struct {
	detail  string
	foreign bool // it does not come from a server of sessions, but from a proxy or another program
}

func (r *refused) Error() string { return r.detail }

// isForeign reports whether an error is a refusal that does not come from a server of sessions.
func isForeign(err error) bool {
	var r *refused
	return errors.As(err, &r) && r.foreign
}

// maxDetail limits the server's words in an error, in bytes.
const maxDetail = 2000

// refusal returns the error for an unsuccessful response.
func refusal(req *http.Request, res *http.Response, body []byte) error {
	var p problem
	foreign := json.Unmarshal(body, &p) != nil || p.Code == ""
	if foreign {
		p = problem{Detail: res.Status}
	}
	switch p.Code {
	case "unauthorized", "cross_origin":
		p.Code = cairn.ErrAuth
	case "too_many_requests", "too_many_streams", "too_many_runs":
		p.Code = cairn.ErrRateLimited
	case "media_type", "method_not_allowed":
		p.Code = cairn.ErrInvalid
	case "":
		p.Code = codeOf(res.StatusCode)
	}
	if len(p.Detail) > maxDetail {
		p.Detail = strings.ToValidUTF8(p.Detail[:maxDetail], "") + "…"
	}
	e := &cairn.Error{Code: p.Code, Field: p.Field, Details: p.Details, Calls: p.Calls, Message: what(req) + ": " + p.Detail, Cause: &refused{p.Detail, foreign}}
	if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.RetryAfter = cairn.Duration(seconds) * cairn.Duration(time.Second)
	} else if at, err := http.ParseTime(res.Header.Get("Retry-After")); err == nil {
		e.RetryAfter = cairn.Duration(max(time.Until(at), 0))
	}
	return e
}

// codeOf returns the code of a response without a problem document, such as that of a proxy.
func codeOf(status int) cairn.Code {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return cairn.ErrAuth
	case status == http.StatusNotFound:
		return cairn.ErrNotFound
	case status == http.StatusGone:
		return cairn.ErrDeleted
	case status == http.StatusRequestEntityTooLarge:
		return cairn.ErrTooLarge
	case status == http.StatusTooManyRequests:
		return cairn.ErrRateLimited
	case status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout:
		return cairn.ErrUnavailable
	case status < 500:
		return cairn.ErrInvalid
	}
	return cairn.ErrInternal
}

// passing reports whether an error is temporary, for example because a server is being restarted.
func passing(err error) bool {
	var e *cairn.Error
	if !errors.As(err, &e) {
		return false
	}
	return e.Code == cairn.ErrUnavailable || e.Code == cairn.ErrClosed || e.Code == cairn.ErrRateLimited || e.Code == cairn.ErrTimeout
}

// pauses are the waits between attempts: each is longer than the one before.
type pauses struct{ next time.Duration }

const (
	firstPause   = 50 * time.Millisecond
	longestPause = 5 * time.Second
)

// sleep waits, at least as long as the error of the previous attempt asks for.
func (p *pauses) sleep(ctx context.Context, after error) error {
	p.next = min(max(2*p.next, firstPause), longestPause)
	wait := p.next/2 + rand.N(p.next/2)
	if e := (*cairn.Error)(nil); errors.As(after, &e) {
		wait = max(wait, time.Duration(e.RetryAfter))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
