package aisdk

import (
	"encoding/json"
	"strings"
)

// The chunks of a stream. An optional string that is empty must be absent, since clients reject null. An input, an
// output and data must be present, whatever they are.

// over is the mark at the end of a stream.
type over struct{}

type plain struct {
	Type string `json:"type"`
}

type start struct {
	Type      string   `json:"type"`
	MessageID string   `json:"messageId"`
	Metadata  Metadata `json:"messageMetadata"`
}

type messageMetadata struct {
	Type     string   `json:"type"`
	Metadata Metadata `json:"messageMetadata"`
}

type piece struct {
	Type  string `json:"type"`
	ID    string `json:"id"`
	Delta string `json:"delta,omitempty"`
}

type toolStart struct {
	Type   string `json:"type"`
	CallID string `json:"toolCallId"`
	Tool   string `json:"toolName"`
}

type toolDelta struct {
	Type   string `json:"type"`
	CallID string `json:"toolCallId"`
	Delta  string `json:"inputTextDelta"`
}

type toolInput struct {
	Type   string          `json:"type"`
	CallID string          `json:"toolCallId"`
	Tool   string          `json:"toolName"`
	Input  json.RawMessage `json:"input"`
}

type toolOutput struct {
	Type   string          `json:"type"`
	CallID string          `json:"toolCallId"`
	Output json.RawMessage `json:"output"`
}

type toolError struct {
	Type   string `json:"type"`
	CallID string `json:"toolCallId"`
	Text   string `json:"errorText"`
}

// approvalRequest asks for a decision. Clients before version 7 do not show the reason.
type approvalRequest struct {
	Type       string          `json:"type"`
	ApprovalID string          `json:"approvalId"`
	CallID     string          `json:"toolCallId"`
	Reason     string          `json:"reason,omitempty"`
	Descriptor json.RawMessage `json:"approvalDescriptor,omitempty"`
}

// approvalResponse shows the decision on a request that is in the same stream. Only clients of version 7 know it.
type approvalResponse struct {
	Type       string `json:"type"`
	ApprovalID string `json:"approvalId"`
	Approved   bool   `json:"approved"`
}

type toolDenied struct {
	Type   string `json:"type"`
	CallID string `json:"toolCallId"`
}

// asked is the data of a part that asks the user something for which the client has no part: a question of a tool,
// or an approval on clients of version 5. It is answered with POST /chat/{id}/submit-tool-result.
type asked struct {
	// CallID is the id that the answer names, ToolCallID the id of the call that asks.
	CallID     string          `json:"callId"`
	ToolCallID string          `json:"toolCallId"`
	Tool       string          `json:"toolName"`
	ApprovalID string          `json:"approvalId,omitempty"`
	Prompt     string          `json:"prompt,omitempty"`
	Payload    json.RawMessage `json:"payload,omitempty"`
	// Settled reports that there is nothing left to answer.
	Settled bool `json:"settled,omitempty"`
}

// question and approval are the types of such parts.
const (
	question = "data-question"
	approval = "data-approval"
)

type data struct {
	Type string          `json:"type"`
	ID   string          `json:"id,omitempty"`
	Data json.RawMessage `json:"data"`
}

// file is a file of the reply. No version of the client accepts its name.
type file struct {
	Type      string `json:"type"`
	URL       string `json:"url"`
	MediaType string `json:"mediaType"`
}

// steeringMessage is a user's message that joined a turn under way.
type steeringMessage struct {
	Type  string `json:"type"`
	ID    string `json:"id"`
	Parts []Part `json:"parts"`
}

type finish struct {
	Type     string   `json:"type"`
	Reason   string   `json:"finishReason"`
	Metadata Metadata `json:"messageMetadata"`
}

type failure struct {
	Type string `json:"type"`
	Text string `json:"errorText"`
}

type aborted struct {
	Type   string `json:"type"`
	Reason string `json:"reason,omitempty"`
}

// dataName returns a name with the characters that the type of a data part may have.
func dataName(name string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, name)
	if clean == "" {
		return "custom"
	}
	return clean
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// words returns the text of a result that is a string, or the JSON of any other.
func words(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
