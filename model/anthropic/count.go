package anthropic

import (
	"context"
	"net/http"

	"github.com/cairn-agents/cairn"
)

var _ cairn.TokenCounter = (*MessagesModel)(nil)

// CountTokens implements [cairn.TokenCounter] by the API's endpoint for counting, which is free of charge.
func (m *MessagesModel) CountTokens(ctx context.Context, req *cairn.Request) (int64, error) {
	e := m.endpoint
	return e.Count(ctx, func(ctx context.Context) (int64, error) {
		body, err := m.body(req, &reply{})
		if err == nil {
			body, err = e.Only(body, "model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control", "speed")
		}
		if err != nil {
			return 0, err
		}
		var res *http.Response
		err = e.client.Post(ctx, "v1/messages/count_tokens", body, &res)
		return e.Counted(res, err)
	})
}
