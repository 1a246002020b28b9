package gemini

import (
	"context"
	"maps"
	"net/http"

	"google.golang.org/genai"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
)

var _ cairn.TokenCounter = (*ContentModel)(nil)

// CountTokens implements [cairn.TokenCounter] by the API's method for counting, which is free of charge.
func (m *ContentModel) CountTokens(ctx context.Context, req *cairn.Request) (int64, error) {
	e := m.endpoint
	return e.Count(ctx, func(ctx context.Context) (n int64, err error) {
		defer func() { // the SDK panics on a response that is no object
			if p := recover(); p != nil {
				n, err = 0, e.Errorf(cairn.CodeModelRequest, "the answer is no number of tokens: %v", p)
			}
		}()
		body, err := m.body(req)
		if err != nil {
			return 0, err
		}
		whole := maps.Clone(body)
		whole["model"] = "models/" + e.Model
		config := &genai.CountTokensConfig{HTTPOptions: &genai.HTTPOptions{
			ExtrasRequestProvider: func(map[string]any) map[string]any { return map[string]any{"generateContentRequest": whole} },
		}}
		call, watch, stop := provider.WatchIdle(ctx, e.Idle)
		defer stop()
		t := &tap{watch: watch}
		counted, err := e.client.Models.CountTokens(withTap(call, t), e.Model, genai.Text("-"), config)
		switch {
		case err != nil && (t.res == nil || t.res.StatusCode != http.StatusOK):
			return 0, e.failed(t, err, &reply{})
		case err != nil:
			return 0, e.Errorf(cairn.CodeModelRequest, "the answer is no number of tokens: %w", err)
		}
		return int64(counted.TotalTokens), nil
	})
}
