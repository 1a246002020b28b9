package backend

import (
	"encoding/json"

	"github.com/cairn-agents/cairn"
)

// EncodeJSON returns a value as the JSON that a store keeps of it. Errors name the value by the text what. The error
// is ErrInvalid if the value does not encode, which is the caller's mistake.
func EncodeJSON(what string, v any) (string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return "", cairn.Errorf(cairn.ErrInvalid, "encode %s: %w", what, err)
	}
	return string(raw), nil
}

// DecodeJSON decodes a value that EncodeJSON encoded. The error is ErrCorrupt for a text that does not decode.
func DecodeJSON(what, text string, into any) error {
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return cairn.Errorf(cairn.ErrCorrupt, "decode stored %s: %w", what, err)
	}
	return nil
}

// EncodeCall returns the JSON of a pending call as it is stored: without the tenant, which its root's id has.
func EncodeCall(call *cairn.PendingCall) (string, error) {
	stored := *call
	stored.Tenant = ""
	return EncodeJSON("call", &stored)
}
