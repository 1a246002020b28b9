// Package openai connects to OpenAI's models over the Responses API, with OpenAI's own SDK.
//
// The provider stores nothing. Each request contains the whole history, begins with the content of the previous
// request, and has a key of the provider's cache. The message keeps data that the API needs back unchanged, such as
// encrypted reasoning and the API's own searches; later requests send it only to the same model.
//
// Other servers that are compatible with OpenAI speak Chat Completions, see package openaichat.
package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
)

// Options say where a model is and how it is called. The zero value is OpenAI's public API with the key of the
// environment.
type Options struct {
	// BaseURL is the http or https address of the API, with /v1. Default: the environment variable OPENAI_BASE_URL,
	// else OpenAI's public API.
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
	// StrictTools makes the provider enforce the schemas of tool arguments, for each tool whose schema permits it.
	// Every object in the schema must have "additionalProperties": false and require all of its properties. The schema
	// may only have keywords that the API can enforce. Other tools are sent as they are without it.
	StrictTools bool
	// ServerTools are tools that the provider executes itself, in the provider's own form, for example
	// map[string]any{"type": "web_search"}. Default: none.
	ServerTools []any
	// Summary is how much of its reasoning a model shows: "auto", "concise" or "detailed". Models that do not
	// reason reject it. Default: none is shown.
	Summary string
}

const (
	providerName = "openai"
	publicAPI    = "https://api.openai.com/v1"
)

// endpoint is the API, with the options that only this adapter has.
type endpoint struct {
	*provider.Endpoint
	client      openai.Client
	strict      bool
	summary     string
	serverTools []json.RawMessage
}

func newEndpoint(name string, o *Options) *endpoint {
	if o == nil {
		o = &Options{}
	}
	base := provider.NewEndpoint(provider.Options{Adapter: providerName, Model: name, BaseURL: o.BaseURL, APIKey: o.APIKey,
		Variable: "OPENAI", Public: publicAPI, HTTPClient: o.HTTPClient, IdleTimeout: o.IdleTimeout})
	e := &endpoint{Endpoint: base, strict: o.StrictTools, summary: o.Summary}
	var wrong int
	if e.serverTools, wrong = provider.Objects(o.ServerTools); wrong >= 0 {
		e.Refuse(cairn.ErrModelRequest, fmt.Sprintf("ServerTools[%d]", wrong), "cannot be encoded as a JSON object")
	}
	if e.Problem == nil {
		e.connect(o)
	}
	return e
}

// connect creates the SDK's client. Only the options given here apply: openai.NewClient would read the environment.
func (e *endpoint) connect(o *Options) {
	opts := []option.RequestOption{option.WithBaseURL(e.Base.String()), option.WithHTTPClient(e.Client),
		option.WithMaxRetries(0), option.WithHeader("Accept", "text/event-stream")}
	if e.Key != "" {
		opts = append(opts, option.WithAPIKey(e.Key))
	}
	if o.Organization != "" {
		opts = append(opts, option.WithOrganization(o.Organization))
	}
	e.client = openai.Client{Options: opts}
}
