// Package openai asks OpenAI's models over the Responses API, by OpenAI's own SDK.
//
// Nothing is stored at the provider: the whole history goes out with each request, and each begins with what the one before
// had, under a key of the provider's cache. What the API wants back as it gave it, such as encrypted reasoning and the
// searches that it made, is kept with the message and sent to the same model only.
//
// Other servers that call themselves compatible with OpenAI speak Chat Completions, see package openaichat.
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

// Options say where a model is and how it is asked. The zero value is OpenAI's public API with the key of the environment.
type Options struct {
	// BaseURL is the http or https address of the API, with /v1. Default: the environment variable OPENAI_BASE_URL, else
	// OpenAI's public API.
	BaseURL string
	// APIKey is sent as a bearer token. Default: the environment variable OPENAI_API_KEY. A server of one's own may do
	// without; the public API does not. The key never appears in an error.
	APIKey string
	// Organization is the organization that is billed. Default: none is named.
	Organization string
	// HTTPClient makes the requests; it should have no timeout, which would cut long replies short. Default:
	// http.DefaultClient. Redirects are followed within the server only.
	HTTPClient *http.Client
	// IdleTimeout is how long a call waits without receiving a byte before it fails, with an error that is retryable.
	// It holds for the first byte too. Default: 2 minutes.
	IdleTimeout time.Duration
	// StrictTools has the provider hold tool arguments to their schemas, for each tool whose schema allows that: every
	// object in it has "additionalProperties": false and requires all of its properties.
	StrictTools bool
	// ServerTools are tools that the provider carries out itself, in its own form, for example
	// map[string]any{"type": "web_search"}. Default: none.
	ServerTools []any
	// Summary is how much of its reasoning a model shows: "auto", "concise" or "detailed". Models that do not reason refuse
	// it. Default: it shows none.
	Summary string
}

const (
	providerName = "openai"
	publicAPI    = "https://api.openai.com/v1"
)

// endpoint is the API with what only it has.
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
		e.Refuse(cairn.CodeModelRequest, fmt.Sprintf("ServerTools[%d]", wrong), "does not encode as a JSON object")
	}
	if e.Problem == nil {
		e.connect(o)
	}
	return e
}

// connect makes the SDK's client, of which only what is written here has a say: openai.NewClient would read the
// environment.
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
