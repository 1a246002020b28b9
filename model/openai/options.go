// Package openai asks language models that speak OpenAI's protocols: OpenAI's own, and any compatible server by its
// base URL.
//
// [Model] speaks Chat Completions, which is what compatible servers offer. Adapters for other protocols of the same
// provider share [Options].
package openai

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
)

// Options say where a model is and how it is reached. The zero value is OpenAI's public API with the key of the
// environment.
type Options struct {
	// BaseURL is the http or https address that a protocol's path is appended to, "http://localhost:8000/v1" for
	// example. Default: the environment variable OPENAI_BASE_URL, else OpenAI's public API.
	BaseURL string
	// APIKey is sent as a bearer token. Default: the environment variable OPENAI_API_KEY. A server of one's own may do
	// without; the public API does not. The key never appears in an error.
	APIKey string
	// Organization is the organization that is billed. Default: none is named.
	Organization string
	// HTTPClient makes the requests; it should have no timeout, which would cut long replies short. Default:
	// http.DefaultClient.
	HTTPClient *http.Client
	// IdleTimeout is how long a call waits without receiving a byte before it fails, with an error that is retryable.
	// It holds for the first byte too. Default: 2 minutes.
	IdleTimeout time.Duration
}

const publicAPI = "https://api.openai.com/v1"

// endpoint is a server that is ready to be asked, or the reason why it is not.
type endpoint struct {
	base    *url.URL
	host    string // names the server in what must only go back to it
	key     string
	org     string
	client  *http.Client
	idle    time.Duration
	problem *cairn.Error
}

func newEndpoint(o *Options) *endpoint {
	if o == nil {
		o = &Options{}
	}
	base := first(o.BaseURL, strings.TrimSpace(os.Getenv("OPENAI_BASE_URL")), publicAPI)
	e := &endpoint{
		key:    strings.TrimSpace(first(o.APIKey, os.Getenv("OPENAI_API_KEY"))),
		org:    o.Organization,
		client: o.HTTPClient,
		idle:   o.IdleTimeout,
	}
	if e.client == nil {
		e.client = http.DefaultClient
	}
	if e.idle == 0 {
		e.idle = 2 * time.Minute
	}
	address, problem := provider.Address(base)
	switch {
	case problem != "":
		e.refuse(cairn.CodeModelRequest, "BaseURL", problem)
	case e.key == "" && address.Host == "api.openai.com":
		e.refuse(cairn.CodeAuth, "APIKey", "is missing: set it, or the environment variable OPENAI_API_KEY")
	case strings.ContainsFunc(e.key, unicode.IsControl):
		e.refuse(cairn.CodeAuth, "APIKey", "contains a line break or another control character")
	case o.IdleTimeout < 0:
		e.refuse(cairn.CodeModelRequest, "IdleTimeout", "is negative")
	}
	if e.problem != nil {
		return e
	}
	e.base, e.host = address, address.Host
	return e
}

// post makes a request to a path below the base URL that sends JSON and asks for a stream.
func (e *endpoint) post(ctx context.Context, path string, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	if e.key != "" {
		req.Header.Set("Authorization", "Bearer "+e.key)
	}
	if e.org != "" {
		req.Header.Set("OpenAI-Organization", e.org)
	}
	return req, nil
}

// refuse makes every call fail: an option is at fault, and retrying does not help.
func (e *endpoint) refuse(code cairn.Code, field, why string) {
	e.problem = &cairn.Error{Code: code, Field: field, Message: "openai: " + field + " " + why}
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
