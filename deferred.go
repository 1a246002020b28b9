package cairn

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cairn-agents/cairn/internal/limits"
)

// The tools that replace deferred ones in requests, see [Deferred]. No tool of an agent may have these names.
const (
	// FindTools finds deferred tools. Its arguments are "query", the purpose of the tools or the name of a tool,
	// and "limit", the maximum number of tools in the answer: 1 to 20, by default 5. The result is an object:
	//
	//	{"tools": [{"name": …, "description": …, "input_schema": …}, …],
	//	 "more": how many others match, "note": what to do, if nothing does}
	//
	// Tools are ranked by the words of the query, regardless of case; names in camel case or with separators are
	// split into words. A word counts 4 if it is in the tool's name or keywords, 2 in the description, 1 among the
	// names of the arguments. It counts half if one of the two words is only a prefix, of at least three letters,
	// of the other, such as "invoice" and "invoices". Rare words count more, by the logarithm of the number of all
	// tools divided by the number of tools with the word. If the query is a tool's name, that tool comes first.
	// Ties are broken by the order of the agent's tools. Tools that are switched off are not found. The first 32
	// words of a query count. An answer has at most 64 KiB of definitions, but at least one tool.
	FindTools = "tools__find"
	// CallTool calls a deferred tool. Its arguments are "name" and "input", the tool's arguments. Once the model's
	// reply is complete, such a call is treated as a call of the tool itself: with its approval, hooks, cache and
	// schema, and under its name in the transcript and the event log, see [ToolUse.Deferred].
	CallTool = "tools__call"
)

// Deferred leaves the tool out of the model's requests while the definitions of the agent's tools, toolsets included,
// are larger than [Agent.DeferAbove]. The model is then given [FindTools] and [CallTool] in place of all deferred
// tools: it searches, reads the definitions in the answer, and calls a tool that it found. The list of tools that a
// provider has cached stays the same, regardless of the tools that are found. keywords are additional words that the
// tool is found by.
func Deferred(keywords ...string) ToolOption {
	return func(t *Tool) { t.def.Deferred, t.def.Keywords = true, slices.Clone(keywords) }
}

func checkKeywords(list []string) error {
	if len(list) > MaxKeywords {
		return fmt.Errorf("Deferred: too many keywords (max %d)", MaxKeywords)
	}
	for i, word := range list {
		switch {
		case word == "":
			return fmt.Errorf("Deferred: keywords[%d] is empty", i)
		case len(word) > 64:
			return fmt.Errorf("Deferred: keywords[%d] is too long (max 64 bytes)", i)
		case limits.Text(word) != "":
			return errors.New("Deferred: a keyword " + limits.Text(word))
		}
	}
	return nil
}
