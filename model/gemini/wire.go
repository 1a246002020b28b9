package gemini

import "encoding/json"

// The wire form of requests and responses. Google's SDK is not used: its types lose large numbers and unknown fields,
// and data from the provider must be sent back unchanged.

type content struct {
	Role  string `json:"role,omitempty"`
	Parts []any  `json:"parts"` // part, or fields from the provider
}

type part struct {
	Text             string            `json:"text,omitempty"`
	InlineData       *blob             `json:"inlineData,omitempty"`
	FileData         *fileData         `json:"fileData,omitempty"`
	FunctionCall     *functionCall     `json:"functionCall,omitempty"`
	FunctionResponse *functionResponse `json:"functionResponse,omitempty"`
	ThoughtSignature string            `json:"thoughtSignature,omitempty"`
}

type blob struct {
	MIMEType string `json:"mimeType"`
	Data     []byte `json:"data"`
}

type fileData struct {
	MIMEType string `json:"mimeType"`
	FileURI  string `json:"fileUri"`
}

type functionCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

type functionResponse struct {
	ID       string          `json:"id,omitempty"`
	Name     string          `json:"name"`
	Response json.RawMessage `json:"response"`
	Parts    []part          `json:"parts,omitempty"` // files
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parametersJsonSchema"`
}

// event is one event of a stream.
type event struct {
	ID         string          `json:"responseId"`
	Error      json.RawMessage `json:"error"`
	Candidates []struct {
		Index   int `json:"index"`
		Content struct {
			Parts []json.RawMessage `json:"parts"`
		} `json:"content"`
		FinishReason  string    `json:"finishReason"`
		FinishMessage string    `json:"finishMessage"`
		Grounding     grounding `json:"groundingMetadata"`
	} `json:"candidates"`
	PromptFeedback struct {
		BlockReason        string `json:"blockReason"`
		BlockReasonMessage string `json:"blockReasonMessage"`
	} `json:"promptFeedback"`
	Usage *struct {
		Prompt     int64 `json:"promptTokenCount"`
		ToolPrompt int64 `json:"toolUsePromptTokenCount"`
		Cached     int64 `json:"cachedContentTokenCount"`
		Candidates int64 `json:"candidatesTokenCount"`
		Thoughts   int64 `json:"thoughtsTokenCount"`
	} `json:"usageMetadata"`
}

type grounding struct {
	Queries []string `json:"webSearchQueries"`
	Chunks  []struct {
		Web       page `json:"web"`
		Retrieved page `json:"retrievedContext"`
	} `json:"groundingChunks"`
}

type page struct {
	URI   string `json:"uri"`
	Title string `json:"title"`
}

// given is a part of a reply.
type given struct {
	Text         *string       `json:"text"`
	Thought      bool          `json:"thought"`
	Signature    string        `json:"thoughtSignature"`
	InlineData   *blob         `json:"inlineData"`
	FunctionCall *functionCall `json:"functionCall"`
}
