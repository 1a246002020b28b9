// Package anthropic asks Claude over Anthropic's Messages API, by Anthropic's own SDK.
//
// The history goes out so that each request begins with what the one before had, and with breakpoints of the provider's
// cache. What the API wants back as it gave it, such as signatures of thinking and the searches that it made, is kept with
// the message and sent to the same model only.
package anthropic

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
)

// Options say where a model is and how it is asked. The zero value is Anthropic's public API with the key of the
// environment.
type Options struct {
	// BaseURL is the http or https address of the API, without /v1. Default: the environment variable
	// ANTHROPIC_BASE_URL, else Anthropic's public API.
	BaseURL string
	// APIKey is the key of the API. Default: the environment variable ANTHROPIC_API_KEY. A server of one's own may do
	// without; the public API does not. The key never appears in an error.
	APIKey string
	// HTTPClient makes the requests; it should have no timeout, which would cut long replies short. Default:
	// http.DefaultClient. Redirects are followed within the server only.
	HTTPClient *http.Client
	// IdleTimeout is how long a call waits without receiving a byte before it fails, with an error that is retryable.
	// It holds for the first byte too. Default: 2 minutes.
	IdleTimeout time.Duration
	// MaxOutputTokens bounds a reply whose settings do not: the API demands a bound. Default: 32,000, which every model
	// since Claude 4 accepts.
	MaxOutputTokens int
	// Cache is how long the provider keeps the beginning of a conversation: "5m", "1h", which costs more to write, or
	// "off". Default: "5m".
	Cache string
	// StrictTools has the provider hold tool arguments to their schemas, for each tool whose schema allows that: every
	// object in it has "additionalProperties": false. The API bounds how many tools of a request may be strict.
	StrictTools bool
	// ServerTools are tools that the provider carries out itself, in its own form, for example
	// map[string]any{"type": "web_search_20250305", "name": "web_search"}. Default: none.
	ServerTools []any
	// Betas are features of the API that are not on for all, by the names of its header anthropic-beta. Default: none.
	Betas []string
}

const (
	publicAPI    = "https://api.anthropic.com"
	maxTokens    = 32_000
	cacheForHour = "1h"
	cacheOff     = "off"
)

// endpoint is the API with what only it has.
type endpoint struct {
	*provider.Endpoint
	client      anthropic.Client
	maxTokens   int
	cache       *cacheControl // nil if there are no breakpoints
	strict      bool
	serverTools []json.RawMessage
}

func newEndpoint(name string, o *Options) *endpoint {
	if o == nil {
		o = &Options{}
	}
	base := provider.NewEndpoint(provider.Options{Adapter: providerName, Model: name, BaseURL: o.BaseURL, APIKey: o.APIKey,
		Variable: "ANTHROPIC", Public: publicAPI, HTTPClient: o.HTTPClient, IdleTimeout: o.IdleTimeout})
	e := &endpoint{Endpoint: base, maxTokens: cmp.Or(o.MaxOutputTokens, maxTokens), strict: o.StrictTools}
	switch o.Cache {
	case "", "5m":
		e.cache = &cacheControl{Type: "ephemeral"}
	case cacheForHour:
		e.cache = &cacheControl{Type: "ephemeral", TTL: cacheForHour}
	case cacheOff:
	default:
		e.Refuse(cairn.CodeModelRequest, "Cache", fmt.Sprintf("is %q; it may be 5m, 1h or off", o.Cache))
	}
	if o.MaxOutputTokens < 0 {
		e.Refuse(cairn.CodeModelRequest, "MaxOutputTokens", "is negative")
	}
	var wrong int
	if e.serverTools, wrong = provider.Objects(o.ServerTools); wrong >= 0 {
		e.Refuse(cairn.CodeModelRequest, fmt.Sprintf("ServerTools[%d]", wrong), "does not encode as a JSON object")
	}
	if e.Problem == nil {
		e.connect(o)
	}
	return e
}

// connect makes the SDK's client, of which only what is written here has a say: no environment, retries or spans.
func (e *endpoint) connect(o *Options) {
	opts := []option.RequestOption{option.WithoutEnvironmentDefaults(), option.WithBaseURL(e.Base.String()), option.WithHTTPClient(e.Client),
		option.WithMaxRetries(0), option.WithoutOpenTelemetry(), option.WithHeader("Accept", "text/event-stream")}
	if e.Key != "" {
		opts = append(opts, option.WithAPIKey(e.Key))
	}
	if len(o.Betas) > 0 {
		opts = append(opts, option.WithHeader("anthropic-beta", strings.Join(o.Betas, ",")))
	}
	e.client = anthropic.NewClient(opts...)
}
