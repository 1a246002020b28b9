package cairn

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cairn-agents/cairn/internal/limits"
)

// The tools that a model is given in place of deferred ones, see [Deferred]. No tool of an agent may have these names.
const (
	// FindTools finds deferred tools. Its arguments are "query", what the tools are to be for, or a tool's name, and
	// "limit", how many tools the answer has at most: 1 to 20, by default 5. The result is an object:
	//
	//	{"tools": [{"name": …, "description": …, "input_schema": …}, …],
	//	 "more": how many others match, "note": what to do, if nothing does}
	//
	// Tools are ranked by the words of the query, whatever their case; names in camel case or with separators are several
	// words. A word counts 4 where it is one of the tool's name or of its keywords, 2 in the description, 1 among the
	// names of the arguments; half of that if one of the two words only begins with the other, of at least three
	// letters, as "invoice" and "invoices". Words that few tools have count more, by the logarithm of all tools to those
	// that have them. A query that is a tool's name finds that first. Of equal tools the agent's order decides. Tools that
	// are switched off are not found. An answer has at most 64 KiB of definitions, but at least one tool.
	FindTools = "tools__find"
	// CallTool calls a deferred tool. Its arguments are "name" and "input", the tool's arguments. Such a call is one of
	// the tool itself from the model's reply on: with its approval, hooks, cache and schema, and under its name in
	// the transcript and the event log, see [ToolUse.Deferred].
	CallTool = "tools__call"
)

// DefaultDeferAbove is how many tokens the definitions of tools may have before deferred ones are left out of requests, when
// the agent does not say.
const DefaultDeferAbove = 10_000

// MaxKeywords is how many keywords a deferred tool may have.
const MaxKeywords = 32

// Deferred has the tool left out of the model's requests while the definitions of the agent's tools, with those of its
// toolsets, are larger than [Agent.DeferAbove]. The model is then given [FindTools] and [CallTool] in place of all deferred
// tools: it searches, reads the definitions in the answer, and calls what it has found. The list of tools that a
// provider has cached stays the same, whatever is found. keywords are further words that the tool is found by.
func Deferred(keywords ...string) ToolOption {
	return func(t *Tool) { t.def.Deferred, t.def.Keywords = true, slices.Clone(keywords) }
}

func checkKeywords(list []string) error {
	if len(list) > MaxKeywords {
		return fmt.Errorf("Deferred: more than %d keywords", MaxKeywords)
	}
	for i, word := range list {
		switch {
		case word == "":
			return fmt.Errorf("Deferred: keywords[%d] is empty", i)
		case len(word) > 64:
			return fmt.Errorf("Deferred: keywords[%d] is longer than 64 bytes", i)
		case limits.Text(word) != "":
			return errors.New("Deferred: a keyword " + limits.Text(word))
		}
	}
	return nil
}
