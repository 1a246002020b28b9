//go:build scripted

package main

import "github.com/cairn-agents/cairn"

// openaiModel has no model to offer: the provider's client takes longer to compile than everything else together, and
// who only wants the scripted model need not wait for it.
func openaiModel(string, string, string) (cairn.Model, error) {
	return nil, misuse("--model: this build has the scripted model only; build it without -tags scripted")
}
