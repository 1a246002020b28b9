package cairn

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
)

// Fingerprint identifies the request that a reply answers, so that the requests of two replies can be compared later,
// whatever has become of the agent since. Its blocks are the instructions and the tools; the messages are those of the
// transcript. Engine.Request returns the request.
type Fingerprint struct {
	// Instructions and Tools are the hashes of the system prompt and of the list of tools; empty for none.
	Instructions string `json:"instructions,omitempty"`
	Tools        string `json:"tools,omitempty"`
	// Messages is the number of messages of the transcript when the request was made. Summary is the index of the
	// summary that its messages begin with; 0 for none.
	Messages int `json:"messages"`
	Summary  int `json:"summary,omitempty"`
	// Changed reports whether a BeforeModel hook was given the messages, so the request may have had others.
	Changed bool `json:"changed,omitempty"`
	// Blocks are the contents, by hash, that no earlier fingerprint of the session has: texts, tools, and lists of the
	// hashes of tools.
	Blocks map[string]json.RawMessage `json:"blocks,omitempty"`
}

// SentRequest is a request to a model, as its [Fingerprint] has it.
type SentRequest struct {
	// Fingerprint has the hashes of the blocks, without their contents.
	Fingerprint Fingerprint `json:"fingerprint"`
	// Instructions is the system prompt.
	Instructions string `json:"instructions,omitempty"`
	// Tools is the list of tools, in the order of the request.
	Tools []SentTool `json:"tools,omitempty"`
	// First is the index of the first message after the summary, or of the first message of the transcript.
	First int `json:"first,omitempty"`
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
	if f.Messages < 0 || f.Summary < 0 {
		return Invalid("fingerprint", "must not be negative")
	}
	if err := cmp.Or(CheckText("fingerprint", f.Instructions), CheckText("fingerprint", f.Tools)); err != nil || len(f.Blocks) == 0 {
		return err
	}
	for _, hash := range slices.Sorted(maps.Keys(f.Blocks)) {
		if err := CheckText("fingerprint.blocks", hash); err != nil {
			return err
		}
		if err := CheckJSON("fingerprint.blocks", f.Blocks[hash]); err != nil {
			return err
		}
	}
	return nil
}
