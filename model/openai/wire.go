package openai

import "encoding/json"

// The wire form of requests and responses. The SDK's own parameters are not used: data from the provider must be
// sent back unchanged, and an update of the SDK must not change how a request begins.

// message is a message of the user, or an assistant's message of another model.
type message struct {
	Type    string    `json:"type"`
	Role    string    `json:"role"`
	Content []content `json:"content"`
}

type content struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	ImageURL string `json:"image_url,omitempty"`
	Detail   string `json:"detail,omitempty"`
	Filename string `json:"filename,omitempty"`
	FileData string `json:"file_data,omitempty"`
	FileURL  string `json:"file_url,omitempty"`
	// Annotations are set for text of the assistant.
	Annotations []json.RawMessage `json:"annotations,omitzero"`
}

type functionCall struct {
	Type      string `json:"type"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type functionOutput struct {
	Type   string `json:"type"`
	CallID string `json:"call_id"`
	Output any    `json:"output"` // a string, or a list of content
}

type function struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict"`
}

// custom is a tool whose input is text.
type custom struct {
	Type        string `json:"type"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

type reasoning struct {
	Effort  string `json:"effort,omitempty"`
	Summary string `json:"summary,omitempty"`
}

// event is one event of a stream, of any type.
type event struct {
	Type         string          `json:"type"`
	OutputIndex  int             `json:"output_index"`
	ItemID       string          `json:"item_id"`
	SummaryIndex int             `json:"summary_index"`
	Delta        string          `json:"delta"`
	Item         json.RawMessage `json:"item"`
	Response     *response       `json:"response"`
	Error        json.RawMessage `json:"error"`

	raw []byte
}

// UnmarshalJSON also keeps the text, for error reports. A field of an unexpected type counts as absent.
func (e *event) UnmarshalJSON(data []byte) error {
	type plain event
	e.raw = data
	err := json.Unmarshal(data, (*plain)(e))
	if e.Type != "" && err != nil {
		return nil
	}
	return err
}

// response is the response object in the events that end a reply.
type response struct {
	ID     string          `json:"id"`
	Status string          `json:"status"`
	Error  json.RawMessage `json:"error"`
	// Output repeats the items. It is read if the stream has none.
	Output            []json.RawMessage `json:"output"`
	IncompleteDetails struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Usage *usage `json:"usage"`
}

type usage struct {
	Input        int64 `json:"input_tokens"`
	InputDetails struct {
		Cached     int64 `json:"cached_tokens"`
		CacheWrite int64 `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	Output        int64 `json:"output_tokens"`
	OutputDetails struct {
		Reasoning int64 `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	// CostInTicks is what xAI charges.
	CostInTicks json.RawMessage `json:"cost_in_usd_ticks"`
}

// item is an item of the output.
type item struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Input     string `json:"input"`        // of a custom tool
	Server    string `json:"server_label"` // of an MCP tool
	Encrypted string `json:"encrypted_content"`
	Result    string `json:"result"` // of an image
	Format    string `json:"output_format"`
	Content   []struct {
		Type        string            `json:"type"`
		Text        string            `json:"text"`
		Refusal     string            `json:"refusal"`
		Annotations []json.RawMessage `json:"annotations"`
	} `json:"content"`
	Summary []struct {
		Text string `json:"text"`
	} `json:"summary"`
	Status string `json:"status"`
	Action struct {
		Type    string `json:"type"`
		Sources []struct {
			URL string `json:"url"`
		} `json:"sources"`
	} `json:"action"`
}
