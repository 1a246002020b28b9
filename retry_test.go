package cairn_test

import (
	"context"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
)

func TestRetriedTools(t *testing.T) {
	t.Parallel()
	again, text := cairn.Retry(cairn.RetryPolicy{}), cairn.ErrorText(error.Error)
	sub := func(opt cairn.ToolOption) cairn.Tool {
		tool := cairn.SubAgent(researcher())
		opt(&tool)
		return tool
	}
	checkTools(t, map[string]string{
		"with a wait below 0":     "Retry: waits must not be negative",
		"with a limit below 0":    "Retry: waits must not be negative",
		"retried elsewhere":       "client-executed tools do not support Retry or ErrorText",
		"with a text elsewhere":   "client-executed tools do not support Retry or ErrorText",
		"a retried sub-agent":     "sub-agent tools do not support",
		"a sub-agent with a text": "sub-agent tools do not support",
	}, map[string]cairn.Tool{
		"plain":                   serverTool(again, text, cairn.Timeout(time.Second), cairn.Cache(cairn.CachePolicy{})),
		"that is approved":        serverTool(again, text, cairn.RequireApproval()),
		"that finishes":           serverTool(again, text, cairn.FinishWith()),
		"with no retries":         serverTool(cairn.Retry(cairn.RetryPolicy{Max: -1})),
		"with a wait below 0":     serverTool(cairn.Retry(cairn.RetryPolicy{First: -1})),
		"with a limit below 0":    serverTool(cairn.Retry(cairn.RetryPolicy{Limit: -1})),
		"retried elsewhere":       clientTool(again),
		"with a text elsewhere":   clientTool(text),
		"a retried sub-agent":     sub(again),
		"a sub-agent with a text": sub(text),
	})
}

// ExampleRetry makes a tool that is called again while the bank does not answer.
func ExampleRetry() {
	type transfer struct {
		Cents int `json:"cents" schema:"min=1"`
	}
	pay := func(ctx context.Context, call *cairn.Call, in transfer) (string, error) {
		if err := bank(ctx, call.IdempotencyKey(), in.Cents); err != nil {
			return "", cairn.Errorf(cairn.ErrUnavailable, "the bank does not answer: %w", err) // worth another attempt
		}
		return "paid", nil
	}
	_ = cairn.Func("pay", "Pays an amount.", pay,
		cairn.Retry(cairn.RetryPolicy{Max: 5, First: 200 * time.Millisecond}),
		cairn.ErrorText(func(error) string { return "the payment could not be made" }))
}

func bank(context.Context, string, int) error { return nil }
