package openaitest

import (
	"encoding/json"
	"net/http"

	"github.com/cairn-agents/cairn/internal/provider/testserver"
)

// compact returns the user's messages and an item that represents everything that was to be compacted. The item is
// bound to the model and to those messages.
func compact(_ *http.Request, body []byte) (any, error) {
	err := testserver.Extra(body, "input", "instructions", "model", "previous_response_id", "prompt_cache_key", "prompt_cache_options",
		"prompt_cache_retention", "service_tier")
	req := &Request{Store: new(bool), Stream: true}
	if err == nil {
		err = json.Unmarshal(body, req)
	}
	if err == nil {
		err = req.check()
	}
	if err != nil {
		return nil, err
	}
	kept := []json.RawMessage{}
	for i, e := range req.Entries() {
		if e.Type == "message" && e.Role == "user" {
			kept = append(kept, req.Input[i])
		}
	}
	item := fields{"id": "cmp_" + testserver.Sign("%s", body)[:8], "type": "compaction", "encrypted_content": compacted(req.Model, kept)}
	output := append(kept, json.RawMessage(testserver.Encode(item)))
	n := testserver.CountTokens(body)
	return fields{"id": "resp_cmp", "object": "response.compaction", "created_at": 1_700_000_000, "output": output,
		"usage": fields{"input_tokens": n, "output_tokens": 10, "total_tokens": n + 10}}, nil
}

// compacted returns the content of the item that represents a compacted conversation. It depends on the model and
// on the messages that were kept.
func compacted(model string, kept []json.RawMessage) string {
	var canonical []string
	for _, raw := range kept {
		var v any
		_ = json.Unmarshal(raw, &v) // already checked
		canonical = append(canonical, testserver.Encode(v))
	}
	return testserver.Sign("openai compaction %q %q", model, canonical)
}
