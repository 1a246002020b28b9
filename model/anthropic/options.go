// Package anthropic connects to Claude over Anthropic's Messages API, with Anthropic's own SDK.
//
// Each request begins with the content of the previous one and sets breakpoints of the provider's cache, so that the
// provider reads this content from its cache. The message keeps data that the API needs back unchanged, such as
// signatures of thinking and the API's own searches; later requests send it only to the same model.
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

// Options say where a model is and how it is called. The zero value is Anthropic's public API with the key of the
// environment.
type Options struct {
	// BaseURL is the http or https address of the API, without /v1. Default: the environment variable
	// ANTHROPIC_BASE_URL, else Anthropic's public API.
	BaseURL string
	// APIKey is the key of the API. Default: the environment variable ANTHROPIC_API_KEY. Other servers may not need
	// one; the public API does. The key never appears in an error.
	APIKey string
	// HTTPClient makes the requests. It should have no timeout, which would cut off long replies. Default:
	// http.DefaultClient. Redirects are followed only within the same server.
	HTTPClient *http.Client
	// IdleTimeout is how long a call waits without receiving a byte before it fails with a retryable error. It
	// applies to the first byte too. Default: 2 minutes.
	IdleTimeout time.Duration
	// MaxOutputTokens limits replies for which the settings have no limit, since the API requires one. Default: 32,000,
	// which every model since Claude 4 accepts.
	MaxOutputTokens int
	// Cache is how long the provider caches the beginning of a conversation: "5m", "1h", which costs more to write,
	// or "off". Default: "5m".
	Cache string
	// StrictTools makes the provider enforce the schemas of tool arguments, for each tool whose schema permits it.
	// Every object in the schema must have "additionalProperties": false. The schema may only have keywords that the
	// API can enforce, which excludes bounds of numbers and lengths. Other tools are sent as they are without it. The
	// API limits how many tools of a request may be strict.
	StrictTools bool
	// ServerTools are tools that the provider executes itself, in the provider's own form, for example
	// map[string]any{"type": "web_search_20250305", "name": "web_search"}. Default: none.
	ServerTools []any
	// Betas are optional features of the API, by their names in its header anthropic-beta. Default: none.
	Betas []string
}

const (
	publicAPI    = "https://api.anthropic.com"
	maxTokens    = 32_000
	cacheForHour = "1h"
	cacheOff     = "off"
)

// endpoint is the API, with the options that only this adapter has.
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
		e.Refuse(cairn.ErrModelRequest, "Cache", fmt.Sprintf("must be 5m, 1h or off, not %q", o.Cache))
	}
	if o.MaxOutputTokens < 0 {
		e.Refuse(cairn.ErrModelRequest, "MaxOutputTokens", "is negative")
	}
	var wrong int
	if e.serverTools, wrong = provider.Objects(o.ServerTools); wrong >= 0 {
		e.Refuse(cairn.ErrModelRequest, fmt.Sprintf("ServerTools[%d]", wrong), "cannot be encoded as a JSON object")
	}
	if e.Problem == nil {
		e.connect(o)
	}
	return e
}

// connect creates the SDK's client. Only the options given here apply: no environment, retries or spans.
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
