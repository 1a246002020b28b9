package openaichat

import (
	"encoding/json"
	"errors"
)

// The structs of this file are named after their wire form. Those of responses have only the fields that are read.

type chatMessage struct {
	Role             string            `json:"role"`
	Content          any               `json:"content,omitempty"` // a string or []contentPart
	ReasoningContent string            `json:"reasoning_content,omitempty"`
	ReasoningDetails []json.RawMessage `json:"reasoning_details,omitempty"`
	ExtraContent     json.RawMessage   `json:"extra_content,omitempty"`
	ToolCalls        []messageToolCall `json:"tool_calls,omitempty"`
	ToolCallID       string            `json:"tool_call_id,omitempty"`
}

type contentPart struct {
	Type       string      `json:"type"`
	Thinking   any         `json:"thinking,omitempty"` // []contentPart
	Text       *string     `json:"text,omitempty"`     // empty text is sent too
	ImageURL   *imageURL   `json:"image_url,omitempty"`
	InputAudio *inputAudio `json:"input_audio,omitempty"`
	File       *fileData   `json:"file,omitempty"`
}

type imageURL struct {
	URL string `json:"url"`
}

type inputAudio struct {
	Data   string `json:"data"`
	Format string `json:"format"`
}

type fileData struct {
	Filename string `json:"filename"`
	FileData string `json:"file_data"`
}

type messageToolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function functionCall `json:"function"`
	// ExtraContent is the server's own data of the call.
	ExtraContent json.RawMessage `json:"extra_content,omitempty"`
}

type functionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type chatTool struct {
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

// chatFunction is the definition of a function, or in a tool choice only its name.
type chatFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// chatChunk is an event of the stream, or a whole completion.
type chatChunk struct {
	ID      string           `json:"id"`
	Object  string           `json:"object"`
	Choices []choice         `json:"choices"`
	Usage   *completionUsage `json:"usage"`
	Groq    struct {
		Usage *completionUsage `json:"usage"`
	} `json:"x_groq"`
	Error     json.RawMessage   `json:"error"`
	Citations []json.RawMessage `json:"citations"` // addresses, of Perplexity
}

type choice struct {
	Index        int             `json:"index"`
	Delta        delta           `json:"delta"`
	Message      json.RawMessage `json:"message"` // in a whole completion, corresponds to Delta in a stream
	FinishReason string          `json:"finish_reason"`
	// Usage is where Moonshot puts that of a stream.
	Usage *completionUsage `json:"usage"`
	Error json.RawMessage  `json:"error"`
}

type delta struct {
	Role             string            `json:"role"`
	Content          json.RawMessage   `json:"content"` // should be a string
	Refusal          string            `json:"refusal"`
	ReasoningContent string            `json:"reasoning_content"`
	Reasoning        string            `json:"reasoning"`
	ReasoningDetails []json.RawMessage `json:"reasoning_details"`
	ExtraContent     json.RawMessage   `json:"extra_content"`
	ToolCalls        []toolCallDelta   `json:"tool_calls"`
	Annotations      []annotation      `json:"annotations"`
	Images           []contentItem     `json:"images"`
}

// contentItem is an item of content that is a list, or of generated images.
type contentItem struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking json.RawMessage `json:"thinking"` // a list of items, or a string
	ImageURL json.RawMessage `json:"image_url"`
}

type annotation struct {
	URLCitation struct {
		URL     string `json:"url"`
		Title   string `json:"title"`
		Content string `json:"content"`
	} `json:"url_citation"`
}

type toolCallDelta struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"` // should be a string
	} `json:"function"`
	ExtraContent json.RawMessage `json:"extra_content"`
}

// decode decodes a JSON object. A field of an unexpected type counts as absent: servers differ, and a reply matters
// more than its details.
func decode(object []byte, v any) error {
	if object[0] != '{' {
		return errors.New("not an object")
	}
	err := json.Unmarshal(object, v)
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return nil // all other fields are decoded nevertheless
	}
	return err
}

// given reports whether a field is present and not null.
func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

const providerName = "openai-chat"
