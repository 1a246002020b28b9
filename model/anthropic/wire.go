package anthropic

import (
	"encoding/json"
	"errors"
)

// The wire form of requests. The SDK's own parameters are not used: data from the provider must be sent back
// unchanged, and an update of the SDK must not change how a request begins.

type message struct {
	Role    string `json:"role"`
	Content []any  `json:"content"` // *block, or json.RawMessage for data from the provider
}

type block struct {
	Type         string          `json:"type"`
	Text         string          `json:"text,omitempty"`
	Source       *source         `json:"source,omitempty"`
	Title        string          `json:"title,omitempty"`
	ID           string          `json:"id,omitempty"`
	Name         string          `json:"name,omitempty"`
	Input        json.RawMessage `json:"input,omitempty"`
	ToolUseID    string          `json:"tool_use_id,omitempty"`
	Content      any             `json:"content,omitempty"` // a string, or a list of blocks
	IsError      bool            `json:"is_error,omitempty"`
	CacheControl *cacheControl   `json:"cache_control,omitempty"`
}

type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type,omitempty"`
	Data      any    `json:"data,omitempty"` // bytes become base64, a string is text
	URL       string `json:"url,omitempty"`
}

type cacheControl struct {
	Type string `json:"type"`
	TTL  string `json:"ttl,omitempty"`
}

type tool struct {
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	InputSchema  json.RawMessage `json:"input_schema"`
	Strict       bool            `json:"strict,omitempty"`
	CacheControl *cacheControl   `json:"cache_control,omitempty"`
}

type toolChoice struct {
	Type string `json:"type"`
	Name string `json:"name,omitempty"`
}

// event is one event of a stream, of any type.
type event struct {
	Type    string `json:"type"`
	Index   int    `json:"index"`
	Message struct {
		Model     string     `json:"model"`
		Usage     *usage     `json:"usage"`
		Container *container `json:"container"`
	} `json:"message"`
	ContentBlock json.RawMessage `json:"content_block"`
	Delta        delta           `json:"delta"`
	Usage        *usage          `json:"usage"`

	raw []byte
}

type delta struct {
	Type        string          `json:"type"`
	Text        string          `json:"text"`
	Thinking    string          `json:"thinking"`
	Signature   string          `json:"signature"`
	PartialJSON string          `json:"partial_json"`
	Citation    json.RawMessage `json:"citation"`
	StopReason  string          `json:"stop_reason"`
	StopDetails struct {
		Category    string `json:"category"`
		Explanation string `json:"explanation"`
	} `json:"stop_details"`
	Container *container `json:"container"`
}

type container struct {
	ID string `json:"id"`
}

// UnmarshalJSON also keeps the text, for deltas of unknown types. In an unknown event fields may be of any type.
func (e *event) UnmarshalJSON(data []byte) error {
	type plain event
	e.raw = data
	err := json.Unmarshal(data, (*plain)(e))
	if e.Type != "" && !e.known() && mistyped(err) {
		return nil
	}
	return err
}

// known reports whether the content of the event is interpreted, rather than kept unchanged or ignored.
func (e *event) known() bool {
	switch e.Type {
	case "message_start", "content_block_start", "content_block_stop", "message_delta", "message_stop":
		return true
	case "content_block_delta":
		switch e.Delta.Type {
		case "text_delta", "thinking_delta", "signature_delta", "citations_delta", "input_json_delta":
			return true
		}
	}
	return false
}

// mistyped reports whether the only mistakes in some JSON were fields of unexpected types.
func mistyped(err error) bool {
	_, wrong := errors.AsType[*json.UnmarshalTypeError](err)
	return wrong
}

const providerName = "anthropic"

// usage has pointers because a later event contains only what changed.
type usage struct {
	Type       string `json:"type"`  // of an iteration
	Model      string `json:"model"` // of an iteration
	Input      *int64 `json:"input_tokens"`
	CacheWrite *int64 `json:"cache_creation_input_tokens"`
	CacheRead  *int64 `json:"cache_read_input_tokens"`
	Output     *int64 `json:"output_tokens"`
	Creation   *struct {
		Hour int64 `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
	Details *struct {
		Thinking int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
	Server *struct {
		WebSearches int64 `json:"web_search_requests"`
	} `json:"server_tool_use"`
	// Iterations are the model calls behind a reply: one for each use of the provider's own tools, those of advisors,
	// and those that compacted. The counts above sum up the calls of the model itself only.
	Iterations []usage `json:"iterations"`
}
