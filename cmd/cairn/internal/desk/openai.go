package desk

import (
	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/openaichat"
)

// openaiModel returns a model of a server that speaks Chat Completions.
func openaiModel(name, baseURL, key string) (cairn.Model, error) {
	return openaichat.Model(name, &openaichat.Options{BaseURL: baseURL, APIKey: key}), nil
}
