package provider

import (
	"cmp"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/cairn-agents/cairn"
)

// Options are the options that all adapters have. Variable is the prefix of the environment variables of key and
// base URL. Public is the address of the provider's own API, which requires a key.
type Options struct {
	Adapter, Model   string
	BaseURL, APIKey  string
	Variable, Public string
	HTTPClient       *http.Client
	IdleTimeout      time.Duration
	// Behind reports that the API accepts no files in the results of calls. They are sent in messages of their own.
	Behind bool
}

// Endpoint is an API that is ready for calls, or the reason why it is not.
type Endpoint struct {
	Failures
	// ID identifies the model in data that must only be sent back to it.
	ID      string
	Base    *url.URL
	Client  *http.Client
	Idle    time.Duration
	Problem *cairn.Error

	uncounted atomic.Bool // the server does not count tokens
	unforced  atomic.Bool // the server refuses to force a call
	unformed  atomic.Bool // the server refuses structured output
	behind    atomic.Bool // files of results are sent in messages of their own
}

// NewEndpoint returns an endpoint from options and environment.
func NewEndpoint(o Options) *Endpoint {
	e := &Endpoint{
		Failures: Failures{Adapter: o.Adapter, Model: o.Model,
			Key: strings.TrimSpace(cmp.Or(o.APIKey, os.Getenv(o.Variable+"_API_KEY")))},
		ID:     cairn.ModelInfo{Provider: o.Adapter, Name: o.Model}.ID(),
		Client: guarded(cmp.Or(o.HTTPClient, http.DefaultClient)),
		Idle:   cmp.Or(o.IdleTimeout, 2*time.Minute),
	}
	base, problem := Address(cmp.Or(o.BaseURL, strings.TrimSpace(os.Getenv(o.Variable+"_BASE_URL")), o.Public))
	public, _ := url.Parse(o.Public)
	switch {
	case problem != "":
		e.Refuse(cairn.ErrModelRequest, "BaseURL", problem)
	case e.Key == "" && base.Host == public.Host:
		e.Refuse(cairn.ErrAuth, "APIKey", "is required: set it, or the environment variable "+o.Variable+"_API_KEY")
	case strings.ContainsFunc(e.Key, unicode.IsControl):
		e.Refuse(cairn.ErrAuth, "APIKey", "contains a line break or another control character")
	case o.IdleTimeout < 0:
		e.Refuse(cairn.ErrModelRequest, "IdleTimeout", "is negative")
	case o.Model == "":
		e.Refuse(cairn.ErrModelRequest, "name", "is empty")
	}
	e.Base = base
	e.behind.Store(o.Behind)
	return e
}

// maxRedirects is how often a server may redirect a request to another of its addresses.
const maxRedirects = 5

// guarded returns a client that follows redirects only within a server, and only with an unchanged method. A
// redirect elsewhere would send the conversation there, and the key too: an HTTP client removes only some of the
// headers that hold one. A redirect that is not followed is returned as the response. Of error responses, which
// SDKs read whole, the client returns only the beginning.
func guarded(client *http.Client) *http.Client {
	c, policy := *client, client.CheckRedirect
	c.Transport = brief{client.Transport}
	c.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		first := via[0]
		switch {
		case req.URL.Scheme != first.URL.Scheme || req.URL.Host != first.URL.Host || req.Method != first.Method || len(via) > maxRedirects:
			return http.ErrUseLastResponse
		case policy != nil:
			return policy(req, via)
		}
		return nil
	}
	return &c
}

// brief truncates the body of an error response to the part that is used.
type brief struct{ transport http.RoundTripper }

func (b brief) RoundTrip(req *http.Request) (*http.Response, error) {
	transport := b.transport
	if transport == nil {
		transport = http.DefaultTransport
	}
	res, err := transport.RoundTrip(req)
	if err == nil && res != nil && res.Body != nil && res.StatusCode >= http.StatusBadRequest {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, maxErrorBody), res.Body}
	}
	return res, err
}

// Refuse makes every call fail because of an option. Retrying does not help. The first reason is kept.
func (e *Endpoint) Refuse(code cairn.Code, field, why string) {
	if e.Problem == nil {
		e.Problem = &cairn.Error{Code: code, Field: field, Message: e.Adapter + ": " + field + " " + why}
	}
}

// Info names the model.
func (e *Endpoint) Info() cairn.ModelInfo { return cairn.ModelInfo{Provider: e.Adapter, Name: e.Model} }

// Validate reports why the endpoint cannot be called.
func (e *Endpoint) Validate() error {
	if e.Problem != nil {
		return e.Problem
	}
	return nil
}
