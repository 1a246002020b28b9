package cairn

import (
	"fmt"
	"strings"
)

// Usage counts what a run consumed. Tokens are the provider's own figures: InputTokens includes CachedTokens and
// CacheWriteTokens, OutputTokens includes ReasoningTokens.
type Usage struct {
	// InputTokens are all tokens that models read, those from a cache included.
	InputTokens int64 `json:"input_tokens,omitempty"`
	// OutputTokens are all that they wrote, reasoning included.
	OutputTokens int64 `json:"output_tokens,omitempty"`
	// ReasoningTokens are those of OutputTokens that were reasoning.
	ReasoningTokens int64 `json:"reasoning_tokens,omitempty"`
	// CachedTokens are those of InputTokens that the provider had in its cache.
	CachedTokens int64 `json:"cached_tokens,omitempty"`
	// CacheWriteTokens are those of InputTokens that the provider put into its cache.
	CacheWriteTokens int64 `json:"cache_write_tokens,omitempty"`
	// ModelCalls counts calls of models that were committed.
	ModelCalls int64 `json:"model_calls,omitempty"`
	// ToolCalls counts calls of tools that have their result, and ToolErrors those whose result is an error.
	ToolCalls  int64 `json:"tool_calls,omitempty"`
	ToolErrors int64 `json:"tool_errors,omitempty"`
	// ToolCacheHits counts the ToolCalls that were answered from a tool's cache.
	ToolCacheHits int64 `json:"tool_cache_hits,omitempty"`
	// SubAgentRuns counts the calls that had a sub-agent or companion run; what those used is in their own sessions.
	SubAgentRuns int64 `json:"sub_agent_runs,omitempty"`
	// CostNanos is what the PricedCalls of the ModelCalls cost, in billionths of a US dollar, by the table of models at the
	// time of each call. Of the other calls the price is not known: see [Usage.Cost].
	CostNanos   int64 `json:"cost_nanos,omitempty"`
	PricedCalls int64 `json:"priced_calls,omitempty"`
	// Custom holds what tools recorded with Call.RecordUsage, by name.
	Custom map[string]float64 `json:"custom,omitempty"`
}

// Add returns the sum of two usages.
func (u Usage) Add(v Usage) Usage {
	sum := Usage{
		InputTokens:      u.InputTokens + v.InputTokens,
		OutputTokens:     u.OutputTokens + v.OutputTokens,
		ReasoningTokens:  u.ReasoningTokens + v.ReasoningTokens,
		CachedTokens:     u.CachedTokens + v.CachedTokens,
		CacheWriteTokens: u.CacheWriteTokens + v.CacheWriteTokens,
		ModelCalls:       u.ModelCalls + v.ModelCalls,
		ToolCalls:        u.ToolCalls + v.ToolCalls,
		ToolErrors:       u.ToolErrors + v.ToolErrors,
		ToolCacheHits:    u.ToolCacheHits + v.ToolCacheHits,
		SubAgentRuns:     u.SubAgentRuns + v.SubAgentRuns,
		CostNanos:        u.CostNanos + v.CostNanos,
		PricedCalls:      u.PricedCalls + v.PricedCalls,
	}
	if len(u.Custom)+len(v.Custom) > 0 {
		sum.Custom = make(map[string]float64, len(u.Custom)+len(v.Custom))
		for name, n := range u.Custom {
			sum.Custom[name] += n
		}
		for name, n := range v.Custom {
			sum.Custom[name] += n
		}
	}
	return sum
}

// Cost returns what the model calls cost, as "$0.0123"; "unknown" if the price of none is known, and "at least $0.0123" if
// that of some is not.
func (u Usage) Cost() string {
	switch {
	case u.PricedCalls == 0 && u.ModelCalls > 0:
		return "unknown"
	case u.PricedCalls < u.ModelCalls:
		return "at least $" + money(u.CostNanos, 9)
	}
	return "$" + money(u.CostNanos, 9)
}

// money writes an amount that counts parts of a dollar.
func money(n int64, places int) string {
	text := fmt.Sprintf("%0*d", places+1, n)
	whole, part := text[:len(text)-places], strings.TrimRight(text[len(text)-places:], "0")
	if part == "" {
		return whole
	}
	return whole + "." + part
}
