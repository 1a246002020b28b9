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

// Options are what the options of every adapter have. Variable begins the names of the environment variables of key and base
// URL, and Public is the address of the provider's own API, which demands a key.
type Options struct {
	Adapter, Model   string
	BaseURL, APIKey  string
	Variable, Public string
	HTTPClient       *http.Client
	IdleTimeout      time.Duration
}

// Endpoint is an API that is ready to be asked, or the reason why it is not.
type Endpoint struct {
	Failures
	// ID names the model in what goes back to it only.
	ID      string
	Base    *url.URL
	Client  *http.Client
	Idle    time.Duration
	Problem *cairn.Error

	uncounted atomic.Bool // the server does not count tokens
}

// NewEndpoint reads options and environment.
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
		e.Refuse(cairn.CodeModelRequest, "BaseURL", problem)
	case e.Key == "" && base.Host == public.Host:
		e.Refuse(cairn.CodeAuth, "APIKey", "is missing: set it, or the environment variable "+o.Variable+"_API_KEY")
	case strings.ContainsFunc(e.Key, unicode.IsControl):
		e.Refuse(cairn.CodeAuth, "APIKey", "contains a line break or another control character")
	case o.IdleTimeout < 0:
		e.Refuse(cairn.CodeModelRequest, "IdleTimeout", "is negative")
	case o.Model == "":
		e.Refuse(cairn.CodeModelRequest, "name", "is empty")
	}
	e.Base = base
	return e
}

// maxRedirects is how often a server may send a request to another of its addresses.
const maxRedirects = 5

// guarded returns a client that follows redirects of a server to itself only, and only with the request as it was. Elsewhere
// would go the conversation, and the key too: an HTTP client takes only some of the headers off that hold one. A redirect
// that is not followed is the answer. Of an error's answer, which SDKs read whole, the client gives the beginning.
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

// brief ends the body of an error where nothing more of it is used.
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

// Refuse makes every call fail: an option is at fault, and retrying does not help. The first reason counts.
func (e *Endpoint) Refuse(code cairn.Code, field, why string) {
	if e.Problem == nil {
		e.Problem = &cairn.Error{Code: code, Field: field, Message: e.Adapter + ": " + field + " " + why}
	}
}

// Info names the model.
func (e *Endpoint) Info() cairn.ModelInfo { return cairn.ModelInfo{Provider: e.Adapter, Name: e.Model} }

// Validate reports why the endpoint cannot be asked.
func (e *Endpoint) Validate() error {
	if e.Problem != nil {
		return e.Problem
	}
	return nil
}
