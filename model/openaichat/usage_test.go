package openaichat_test

import (
	"fmt"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider/providertest"
	"github.com/cairn-agents/cairn/model/openaichat"
	"github.com/cairn-agents/cairn/model/openaichat/openaichattest"
)

// Servers report usage in forms of their own. All have OpenAI's meaning here: input with the cached part, output with
// the reasoning.
func TestUsageOfServers(t *testing.T) {
	t.Parallel()
	usage := func(fields string) string { return `{"choices":[],"usage":` + fields + `}` }
	for name, test := range map[string]struct {
		last string
		want cairn.Usage
	}{
		"openai": {usage(`{"prompt_tokens":100,"completion_tokens":30,"total_tokens":130,"prompt_tokens_details":{"cached_tokens":60},"completion_tokens_details":{"reasoning_tokens":20}}`),
			cairn.Usage{InputTokens: 100, CachedTokens: 60, OutputTokens: 30, ReasoningTokens: 20}},
		"xai, reasoning apart": {usage(`{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,"prompt_tokens_details":{"cached_tokens":6},"completion_tokens_details":{"reasoning_tokens":94}}`),
			cairn.Usage{InputTokens: 32, CachedTokens: 6, OutputTokens: 103, ReasoningTokens: 94}},
		"xai behind a proxy that includes it": {usage(`{"prompt_tokens":686,"completion_tokens":123,"total_tokens":809,"completion_tokens_details":{"reasoning_tokens":112}}`),
			cairn.Usage{InputTokens: 686, OutputTokens: 123, ReasoningTokens: 112}},
		"xai, with its price": {usage(`{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,"completion_tokens_details":{"reasoning_tokens":94},"cost_in_usd_ticks":37756001}`),
			cairn.Usage{InputTokens: 32, OutputTokens: 103, ReasoningTokens: 94, CostNanos: 3775601, PricedCalls: 1}},
		"reasoning apart, without a total": {usage(`{"prompt_tokens":32,"completion_tokens":9,"completion_tokens_details":{"reasoning_tokens":94}}`),
			cairn.Usage{InputTokens: 32, OutputTokens: 103, ReasoningTokens: 94}},
		"gemini": {usage(`{"prompt_tokens":20,"completion_tokens":198,"total_tokens":623}`), cairn.Usage{InputTokens: 20, OutputTokens: 603, ReasoningTokens: 405}},
		"gemini that only thought": {usage(`{"prompt_tokens":21,"completion_tokens":0,"total_tokens":81,"completion_tokens_details":{"reasoning_tokens":60}}`),
			cairn.Usage{InputTokens: 21, OutputTokens: 60, ReasoningTokens: 60}},
		"a total without reasoning": {usage(`{"prompt_tokens":20,"completion_tokens":10,"total_tokens":30}`), cairn.Usage{InputTokens: 20, OutputTokens: 10}},
		"deepseek": {usage(`{"prompt_tokens":100,"completion_tokens":5,"total_tokens":105,"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":36}`),
			cairn.Usage{InputTokens: 100, CachedTokens: 64, OutputTokens: 5}},
		"moonshot": {usage(`{"prompt_tokens":100,"completion_tokens":5,"total_tokens":105,"cached_tokens":70}`), cairn.Usage{InputTokens: 100, CachedTokens: 70, OutputTokens: 5}},
		"moonshot in its choice": {`{"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":100,"completion_tokens":5,"total_tokens":105,"cached_tokens":70}}]}`,
			cairn.Usage{InputTokens: 100, CachedTokens: 70, OutputTokens: 5}},
		"groq": {`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"x_groq":{"id":"req_1","usage":{"prompt_tokens":18,"completion_tokens":55,"total_tokens":73,"queue_time":0.03}}}`,
			cairn.Usage{InputTokens: 18, OutputTokens: 55}},
		"openrouter": {usage(`{"prompt_tokens":194,"completion_tokens":2,"total_tokens":196,"cost":0.00014,"is_byok":false,"prompt_tokens_details":{"cached_tokens":90,"cache_write_tokens":100},"cost_details":{"upstream_inference_cost":null}}`),
			cairn.Usage{InputTokens: 194, CachedTokens: 90, CacheWriteTokens: 100, OutputTokens: 2, CostNanos: 140_000, PricedCalls: 1}},
		"openrouter, key of the caller": {usage(`{"prompt_tokens":194,"completion_tokens":2,"total_tokens":196,"cost":0.95,"is_byok":true,"cost_details":{"upstream_inference_cost":19}}`),
			cairn.Usage{InputTokens: 194, OutputTokens: 2, CostNanos: 19_950_000_000, PricedCalls: 1}},
		"openrouter, of unknown costs": {usage(`{"prompt_tokens":194,"completion_tokens":2,"cost":0.95,"is_byok":true}`), cairn.Usage{InputTokens: 194, OutputTokens: 2}},
		"free of charge":               {usage(`{"prompt_tokens":194,"completion_tokens":2,"cost":0}`), cairn.Usage{InputTokens: 194, OutputTokens: 2, PricedCalls: 1}},
		"a cost that is none":          {usage(`{"prompt_tokens":194,"completion_tokens":2,"cost":{"total":"much"}}`), cairn.Usage{InputTokens: 194, OutputTokens: 2}},
		"an error after it":            {`{"choices":[],"error":{"code":502,"message":"gone"},"usage":{"prompt_tokens":7,"completion_tokens":3}}`, cairn.Usage{InputTokens: 7, OutputTokens: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := openaichattest.NewServer(openaichattest.Raw(`data: {"choices":[{"index":0,"delta":{"content":"hello"},"finish_reason":null}]}` + "\n\n" +
				fmt.Sprintf("data: %s\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", test.last)))
			t.Cleanup(server.Close)
			chunks, _ := providertest.Ask(t.Context(), openaichat.Model("m", &openaichat.Options{BaseURL: server.BaseURL}), providertest.Hello())
			var got cairn.Usage
			for _, c := range chunks {
				if c.Type == cairn.ChunkUsage {
					got = c.Usage
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}
