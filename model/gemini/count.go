package gemini

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
)

var _ cairn.TokenCounter = (*ContentModel)(nil)

// CountTokens implements [cairn.TokenCounter] by the API's method for counting, which is free of charge.
func (m *ContentModel) CountTokens(ctx context.Context, req *cairn.Request) (int64, error) {
	e := m.endpoint
	return e.Count(ctx, func(ctx context.Context) (int64, error) {
		fields, err := m.body(req)
		if err != nil {
			return 0, err
		}
		whole := maps.Clone(fields)
		whole["model"] = e.resource()
		body, err := e.Body(map[string]any{"generateContentRequest": whole}, &cairn.Settings{})
		if err != nil {
			return 0, err
		}
		call, watch, stop := provider.WatchIdle(ctx, e.Idle)
		defer stop()
		res, err := e.post(call, watch, "countTokens", "", body)
		if err != nil {
			return 0, err
		}
		defer res.Body.Close()
		var counted struct {
			TotalTokens int64 `json:"totalTokens"`
		}
		if err := json.NewDecoder(res.Body).Decode(&counted); err != nil {
			return 0, e.Errorf(cairn.ErrModelRequest, "decode token count: %w", err)
		}
		return counted.TotalTokens, nil
	})
}
