// Package gemini connects to Google's Gemini models over the Gemini API.
//
// The message keeps data that the API needs back unchanged, such as thought signatures and code that the API ran; later
// requests send it only to the same model.
package gemini

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
)

// Options say where a model is and how it is called. The zero value is Google's public API with the key of the
// environment.
type Options struct {
	// BaseURL is the http or https address of the API, without the version. Default: the environment variable
	// GEMINI_BASE_URL or GOOGLE_GEMINI_BASE_URL, else Google's public API.
	BaseURL string
	// APIKey is the key of the API. Default: the environment variable GEMINI_API_KEY or GOOGLE_API_KEY. Other
	// servers may not need one; the public API does. The key never appears in an error.
	APIKey string
	// HTTPClient makes the requests. It should have no timeout, which would cut off long replies. Default:
	// http.DefaultClient. Redirects are followed only within the same server.
	HTTPClient *http.Client
	// IdleTimeout is how long a call waits without receiving a byte before it fails with a retryable error. It
	// applies to the first byte too. Default: 2 minutes.
	IdleTimeout time.Duration
	// Thoughts makes the model show summaries of its thinking. Models that do not think reject it.
	Thoughts bool
	// ServerTools are tools that the provider executes itself, in the provider's own form, for example
	// map[string]any{"googleSearch": map[string]any{}}. Default: none.
	ServerTools []any
}

const (
	providerName = "gemini"
	publicAPI    = "https://generativelanguage.googleapis.com"
)

// endpoint is the API, with the options that only this adapter has.
type endpoint struct {
	*provider.Endpoint
	thoughts    bool
	refers      bool // a result may have files, and "$ref" names one of them
	serverTools []json.RawMessage
}

// withFiles matches the models that accept files in the results of calls: Gemini 3 and later.
var withFiles = regexp.MustCompile(`(?:^|/)gemini-(?:[3-9]|[1-9]\d)(?:\D|$)`)

func newEndpoint(name string, o *Options) *endpoint {
	if o == nil {
		o = &Options{}
	}
	refers := withFiles.MatchString(name)
	base := provider.NewEndpoint(provider.Options{Adapter: providerName, Model: name,
		BaseURL:  cmp.Or(o.BaseURL, os.Getenv("GEMINI_BASE_URL"), os.Getenv("GOOGLE_GEMINI_BASE_URL")),
		APIKey:   cmp.Or(o.APIKey, os.Getenv("GEMINI_API_KEY"), os.Getenv("GOOGLE_API_KEY")),
		Variable: "GEMINI", Public: publicAPI, HTTPClient: o.HTTPClient, IdleTimeout: o.IdleTimeout, Behind: !refers})
	e := &endpoint{Endpoint: base, thoughts: o.Thoughts, refers: refers}
	var wrong int
	if e.serverTools, wrong = provider.Objects(o.ServerTools); wrong >= 0 {
		e.Refuse(cairn.ErrModelRequest, fmt.Sprintf("ServerTools[%d]", wrong), "cannot be encoded as a JSON object")
	}
	return e
}
