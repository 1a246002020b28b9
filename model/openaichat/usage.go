package openaichat

import (
	"cmp"
	"encoding/json"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider"
)

// completionUsage is the usage of a completion, in the form of OpenAI and with the fields that other servers add. It has
// float64 because some servers write 12.0.
type completionUsage struct {
	PromptTokens        float64 `json:"prompt_tokens"`
	CompletionTokens    float64 `json:"completion_tokens"`
	TotalTokens         float64 `json:"total_tokens"`
	PromptTokensDetails struct {
		CachedTokens     float64 `json:"cached_tokens"`
		CacheWriteTokens float64 `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionTokensDetails struct {
		ReasoningTokens float64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`

	// CachedTokens is Moonshot's, PromptCacheHitTokens DeepSeek's name for the cached part of the prompt.
	CachedTokens         float64 `json:"cached_tokens"`
	PromptCacheHitTokens float64 `json:"prompt_cache_hit_tokens"`
	// Cost is what OpenRouter charges, in dollars. With a key of the caller's own for the provider behind it, that is
	// only a fee, and the provider charges UpstreamCost.
	Cost        json.RawMessage `json:"cost"`
	IsBYOK      bool            `json:"is_byok"`
	CostDetails struct {
		UpstreamCost json.RawMessage `json:"upstream_inference_cost"`
	} `json:"cost_details"`
	// CostInTicks is what xAI charges.
	CostInTicks json.RawMessage `json:"cost_in_usd_ticks"`
}

// used returns the usage of an event; nil for none.
func (c *chatChunk) used() *completionUsage {
	usage := cmp.Or(c.Usage, c.Groq.Usage)
	for i := range c.Choices {
		usage = cmp.Or(usage, c.Choices[i].Usage)
	}
	return usage
}

// usage returns the counts in the sense of [cairn.Usage].
func (u *completionUsage) usage() cairn.Usage {
	output, reasoning := u.output()
	used := cairn.Usage{
		InputTokens:      int64(u.PromptTokens),
		OutputTokens:     output,
		ReasoningTokens:  reasoning,
		CachedTokens:     int64(max(u.PromptTokensDetails.CachedTokens, u.CachedTokens, u.PromptCacheHitTokens)),
		CacheWriteTokens: int64(u.PromptTokensDetails.CacheWriteTokens),
	}
	if nanos, ok := u.cost(); ok {
		used.CostNanos, used.PricedCalls = nanos, 1
	}
	return used
}

// output returns the tokens of the reply, reasoning included. OpenAI's completion tokens include it. Those of xAI, and
// of Gemini, which does not report it separately, do not: then the total is larger than prompt and completion together.
func (u *completionUsage) output() (output, reasoning int64) {
	output, reasoning = int64(u.CompletionTokens), int64(u.CompletionTokensDetails.ReasoningTokens)
	beyond := int64(u.TotalTokens) - int64(u.PromptTokens) - output
	switch {
	case reasoning > output && beyond <= 0 && u.TotalTokens == 0: // no total, and more reasoning than fits
		return output + reasoning, reasoning
	case beyond <= 0 || reasoning > beyond:
		return output, reasoning
	case reasoning == 0:
		reasoning = beyond
	}
	return output + reasoning, reasoning
}

// cost returns what the server charges, in nano-dollars. ok reports whether it says so.
func (u *completionUsage) cost() (nanos int64, ok bool) {
	if nanos, ok := provider.Nanos(u.CostInTicks, provider.Tick); ok {
		return nanos, true
	}
	nanos, ok = provider.Nanos(u.Cost, provider.Dollar)
	if !ok || !u.IsBYOK {
		return nanos, ok
	}
	upstream, ok := provider.Nanos(u.CostDetails.UpstreamCost, provider.Dollar)
	return nanos + upstream, ok
}
