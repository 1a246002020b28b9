package openai

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/openai/openai-go/v3"

	"github.com/cairn-agents/cairn"
)

var _ cairn.TokenCounter = (*ResponsesModel)(nil)

// CountTokens implements [cairn.TokenCounter] by the API's endpoint for it.
func (m *ResponsesModel) CountTokens(ctx context.Context, req *cairn.Request) (int64, error) {
	e := m.endpoint
	return e.Count(ctx, func(ctx context.Context) (int64, error) {
		body, err := m.body(req)
		if err == nil {
			body, err = e.Only(body, "model", "input", "instructions", "tools", "tool_choice", "text", "reasoning", "parallel_tool_calls", "truncation")
		}
		if err != nil {
			return 0, err
		}
		var res *http.Response
		if err := e.client.Post(ctx, "responses/input_tokens", body, &res); err != nil {
			return 0, e.refused(res, err)
		}
		defer res.Body.Close()
		var counted struct {
			InputTokens int64 `json:"input_tokens"`
		}
		if err := json.NewDecoder(res.Body).Decode(&counted); err != nil {
			return 0, e.Errorf(cairn.CodeModelRequest, "the answer is no number of tokens: %w", err)
		}
		return counted.InputTokens, nil
	})
}

// refused is the error of a request that was not answered as it should be. res may be nil.
func (e *endpoint) refused(res *http.Response, err error) error {
	_, said := errors.AsType[*openai.Error](err)
	if said || res != nil && res.StatusCode >= http.StatusBadRequest { // its body can be read, whatever the SDK made of it
		return e.Answer(res)
	}
	return e.Transport(err)
}
