// Package open returns models by name, "anthropic:claude-sonnet-5" for example, for programs that configure their
// models. It requires the adapters of all providers. A program with a fixed model needs only one adapter.
package open

import (
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/anthropic"
	"github.com/cairn-agents/cairn/model/gemini"
	"github.com/cairn-agents/cairn/model/openai"
	"github.com/cairn-agents/cairn/model/openaichat"
)

// Options apply to every model. The zero value means the providers' public APIs with the keys of the environment.
type Options struct {
	// Getenv reads the environment: each provider's usual variables, ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL for
	// example. Default: os.Getenv.
	Getenv func(string) string
	// BaseURL and APIKey override the environment. Default: none.
	BaseURL, APIKey string
	// HTTPClient makes the requests. It should have no timeout. Default: http.DefaultClient.
	HTTPClient *http.Client
}

// provider creates models of one provider. variable is the prefix of its environment variables.
type provider struct {
	name, variable string
	model          func(name string, o *Options) cairn.Model
}

var providers = []provider{
	{"anthropic", "ANTHROPIC", func(name string, o *Options) cairn.Model {
		return anthropic.Model(name, &anthropic.Options{BaseURL: o.BaseURL, APIKey: o.APIKey, HTTPClient: o.HTTPClient})
	}},
	{"gemini", "GEMINI", func(name string, o *Options) cairn.Model {
		return gemini.Model(name, &gemini.Options{BaseURL: o.BaseURL, APIKey: o.APIKey, HTTPClient: o.HTTPClient})
	}},
	{"openai", "OPENAI", func(name string, o *Options) cairn.Model {
		return openai.Model(name, &openai.Options{BaseURL: o.BaseURL, APIKey: o.APIKey, HTTPClient: o.HTTPClient})
	}},
	{"openai-chat", "OPENAI", func(name string, o *Options) cairn.Model {
		return openaichat.Model(name, &openaichat.Options{BaseURL: o.BaseURL, APIKey: o.APIKey, HTTPClient: o.HTTPClient})
	}},
}

// Providers returns the names of the providers, in order.
func Providers() []string {
	var list []string
	for _, p := range providers {
		list = append(list, p.name)
	}
	return list
}

// Model returns the model with a name, "provider:name" as in [cairn.ModelInfo.ID]. An unknown provider is an error
// of ErrInvalid. Other mistakes, a missing key for example, are reported by the model's Validate, and so by
// engine.New.
func Model(id string, o *Options) (cairn.Model, error) {
	if o == nil {
		o = &Options{}
	}
	kind, name, _ := strings.Cut(id, ":")
	i := slices.IndexFunc(providers, func(p provider) bool { return p.name == kind })
	if i < 0 || name == "" {
		return nil, cairn.Invalid("model", "%q must have the form PROVIDER:NAME with one of the providers %s", id, strings.Join(Providers(), ", "))
	}
	p, with := providers[i], *o
	getenv := o.Getenv
	if getenv == nil {
		getenv = os.Getenv
	}
	if with.BaseURL == "" {
		with.BaseURL = strings.TrimSpace(getenv(p.variable + "_BASE_URL"))
	}
	if with.APIKey == "" {
		with.APIKey = getenv(p.variable + "_API_KEY")
	}
	return p.model(name, &with), nil
}
