package cairn

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
)

// Fingerprint identifies the blocks of the request that a reply answers, so that the requests of two replies can be
// compared later, even if the agent has changed. Engine.Request returns the request. The messages of a request
// are those before the reply in the transcript, from its latest summary on.
type Fingerprint struct {
	// Instructions and Tools are the hashes of the system prompt and of the list of tools. An empty one, and a reply
	// without a fingerprint, means that they are as in the request before.
	Instructions string `json:"instructions,omitempty"`
	Tools        string `json:"tools,omitempty"`
	// Changed reports whether a BeforeModel hook was given the messages, so the request may have had others.
	Changed bool `json:"changed,omitempty"`
	// Blocks are the contents, by hash, that no earlier fingerprint of the session has: texts, tools, and lists of the
	// hashes of tools.
	Blocks map[string]json.RawMessage `json:"blocks,omitempty"`
}

// SentRequest is a request to a model, see [Fingerprint].
type SentRequest struct {
	// InstructionsHash and ToolsHash identify the system prompt and the list of tools.
	InstructionsHash string `json:"instructions_hash"`
	ToolsHash        string `json:"tools_hash"`
	// Instructions is the system prompt.
	Instructions string `json:"instructions,omitempty"`
	// Tools is the list of tools, in the order of the request.
	Tools []SentTool `json:"tools,omitempty"`
	// Summary is the index of the summary that the messages begin with; 0 for none. First and Last are the indexes of the
	// first and the last message besides it.
	Summary int `json:"summary,omitempty"`
	First   int `json:"first"`
	Last    int `json:"last"`
	// Changed reports whether a BeforeModel hook was given the messages, so the request may have had others.
	Changed bool `json:"changed,omitempty"`
}

// SentTool is a tool of a request.
type SentTool struct {
	// Hash identifies the definition.
	Hash string `json:"hash"`
	ToolSpec
}

func (f *Fingerprint) validate() error {
	if f == nil {
		return nil
	}
	if err := cmp.Or(CheckText("fingerprint", f.Instructions), CheckText("fingerprint", f.Tools)); err != nil || len(f.Blocks) == 0 {
		return err
	}
	for _, hash := range slices.Sorted(maps.Keys(f.Blocks)) {
		if err := cmp.Or(CheckText("fingerprint.blocks", hash), CheckJSON("fingerprint.blocks", f.Blocks[hash])); err != nil {
			return err
		}
	}
	return nil
}
