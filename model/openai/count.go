package openai

import (
	"context"
	"net/http"

	"github.com/cairn-agents/cairn"
)

var _ cairn.TokenCounter = (*ResponsesModel)(nil)

// CountTokens implements [cairn.TokenCounter] by the API's endpoint for counting.
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
		err = e.client.Post(ctx, "responses/input_tokens", body, &res)
		return e.Counted(res, err)
	})
}
