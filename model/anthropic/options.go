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
	"os"
	"strings"
	"time"
	"unicode"

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
	// http.DefaultClient.
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

// endpoint is an API that is ready to be asked, or the reason why it is not.
type endpoint struct {
	client      anthropic.Client
	key         string
	idle        time.Duration
	maxTokens   int
	cache       *cacheControl // nil if there are no breakpoints
	strict      bool
	serverTools []json.RawMessage
	problem     *cairn.Error
}

func newEndpoint(o *Options) *endpoint {
	if o == nil {
		o = &Options{}
	}
	base := cmp.Or(o.BaseURL, strings.TrimSpace(os.Getenv("ANTHROPIC_BASE_URL")), publicAPI)
	e := &endpoint{
		key:       strings.TrimSpace(cmp.Or(o.APIKey, os.Getenv("ANTHROPIC_API_KEY"))),
		idle:      cmp.Or(o.IdleTimeout, 2*time.Minute),
		maxTokens: cmp.Or(o.MaxOutputTokens, maxTokens),
		strict:    o.StrictTools,
	}
	switch o.Cache {
	case "", "5m":
		e.cache = &cacheControl{Type: "ephemeral"}
	case cacheForHour:
		e.cache = &cacheControl{Type: "ephemeral", TTL: cacheForHour}
	}
	address, problem := provider.Address(base)
	switch {
	case problem != "":
		e.refuse(cairn.CodeModelRequest, "BaseURL", problem)
	case e.key == "" && address.Host == "api.anthropic.com":
		e.refuse(cairn.CodeAuth, "APIKey", "is missing: set it, or the environment variable ANTHROPIC_API_KEY")
	case strings.ContainsFunc(e.key, unicode.IsControl):
		e.refuse(cairn.CodeAuth, "APIKey", "contains a line break or another control character")
	case o.IdleTimeout < 0:
		e.refuse(cairn.CodeModelRequest, "IdleTimeout", "is negative")
	case o.MaxOutputTokens < 0:
		e.refuse(cairn.CodeModelRequest, "MaxOutputTokens", "is negative")
	case e.cache == nil && o.Cache != cacheOff:
		e.refuse(cairn.CodeModelRequest, "Cache", fmt.Sprintf("is %q; it may be 5m, 1h or off", o.Cache))
	}
	for i, tool := range o.ServerTools {
		raw, err := provider.Encode(tool)
		if err != nil || raw[0] != '{' {
			e.refuse(cairn.CodeModelRequest, fmt.Sprintf("ServerTools[%d]", i), "does not encode as a JSON object")
		}
		e.serverTools = append(e.serverTools, raw)
	}
	if e.problem == nil {
		e.connect(base, o)
	}
	return e
}

// connect makes the SDK's client, of which only what is written here has a say: no environment, retries or spans.
func (e *endpoint) connect(base string, o *Options) {
	client := o.HTTPClient
	if client == nil {
		client = http.DefaultClient
	}
	opts := []option.RequestOption{option.WithoutEnvironmentDefaults(), option.WithBaseURL(base), option.WithHTTPClient(client),
		option.WithMaxRetries(0), option.WithoutOpenTelemetry(), option.WithHeader("Accept", "text/event-stream")}
	if e.key != "" {
		opts = append(opts, option.WithAPIKey(e.key))
	}
	if len(o.Betas) > 0 {
		opts = append(opts, option.WithHeader("anthropic-beta", strings.Join(o.Betas, ",")))
	}
	e.client = anthropic.NewClient(opts...)
}

// refuse makes every call fail: an option is at fault, and retrying does not help.
func (e *endpoint) refuse(code cairn.Code, field, why string) {
	if e.problem == nil {
		e.problem = &cairn.Error{Code: code, Field: field, Message: "anthropic: " + field + " " + why}
	}
}
