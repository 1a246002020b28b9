// Package openaichat connects to models over Chat Completions, the protocol of OpenAI and most servers of open models.
// To use such a server, set its base URL. The package has no requirements. Package openai connects to OpenAI's own
// models over the Responses API, which preserves more of their replies.
package openaichat

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/cairn-agents/cairn/internal/provider"
)

// Options say where a model is and how it is reached. The zero value is OpenAI's public API with the key of the
// environment.
type Options struct {
	// BaseURL is the http or https address that the protocol's path is appended to, "http://localhost:8000/v1" for
	// example. Default: the environment variable OPENAI_BASE_URL, else OpenAI's public API.
	BaseURL string
	// APIKey is sent as a bearer token. Default: the environment variable OPENAI_API_KEY. Other servers may not
	// need one; the public API does. The key never appears in an error.
	APIKey string
	// Organization is the organization that is billed. Default: none is named.
	Organization string
	// HTTPClient makes the requests. It should have no timeout, which would cut off long replies. Default:
	// http.DefaultClient. Redirects are followed only within the same server.
	HTTPClient *http.Client
	// IdleTimeout is how long a call waits without receiving a byte before it fails with a retryable error. It
	// applies to the first byte too. Default: 2 minutes.
	IdleTimeout time.Duration
}

const publicAPI = "https://api.openai.com/v1"

// endpoint is a server that is ready for calls, or the reason why it is not.
type endpoint struct {
	*provider.Endpoint
	host string // identifies the server in data that must only be sent back to it
	org  string
}

func newEndpoint(name string, o *Options) *endpoint {
	if o == nil {
		o = &Options{}
	}
	base := provider.NewEndpoint(provider.Options{Adapter: providerName, Model: name, BaseURL: o.BaseURL, APIKey: o.APIKey,
		Variable: "OPENAI", Public: publicAPI, HTTPClient: o.HTTPClient, IdleTimeout: o.IdleTimeout, Behind: true})
	e := &endpoint{Endpoint: base, org: o.Organization}
	if base.Problem == nil {
		e.host = base.Base.Host
	}
	return e
}

// post returns a request to a path below the base URL. It sends JSON and asks for a stream.
func (e *endpoint) post(ctx context.Context, path string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.Base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	if e.Key != "" {
		req.Header.Set("Authorization", "Bearer "+e.Key)
	}
	if e.org != "" {
		req.Header.Set("OpenAI-Organization", e.org)
	}
	return req, nil
}
