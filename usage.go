package cairn

import (
	"fmt"
	"math"
	"strings"
)

// Usage counts a run's model calls and tokens, and their cost. Tokens are the provider's figures: InputTokens includes
// CachedTokens and CacheWriteTokens, OutputTokens includes ReasoningTokens.
type Usage struct {
	// InputTokens are all tokens that models read, those from a cache included.
	InputTokens int64 `json:"input_tokens,omitempty"`
	// OutputTokens are all that they wrote, reasoning included.
	OutputTokens int64 `json:"output_tokens,omitempty"`
	// ReasoningTokens is the part of OutputTokens that was reasoning.
	ReasoningTokens int64 `json:"reasoning_tokens,omitempty"`
	// CachedTokens is the part of InputTokens that the provider read from its cache.
	CachedTokens int64 `json:"cached_tokens,omitempty"`
	// CacheWriteTokens is the part of InputTokens that the provider wrote to its cache.
	CacheWriteTokens int64 `json:"cache_write_tokens,omitempty"`
	// CacheWriteHourTokens is the part of CacheWriteTokens that the provider keeps for an hour, at a price of its own.
	CacheWriteHourTokens int64 `json:"cache_write_hour_tokens,omitempty"`
	// WebSearches and FileSearches count the searches of the web, and of files, that providers made for their models by
	// tools of their own, as far as they report them.
	WebSearches  int64 `json:"web_searches,omitempty"`
	FileSearches int64 `json:"file_searches,omitempty"`
	// ModelCalls counts model calls whose reply was used, in whole or, if the run was stopped, in part.
	ModelCalls int64 `json:"model_calls,omitempty"`
	// DiscardedCalls counts further model calls for which the provider reported usage and whose reply was not used:
	// calls that failed, were refused, were retried or were handed to a fallback. It also counts calls that are
	// repeated since the engine was closed before their reply was stored. The tokens and the cost include these calls.
	DiscardedCalls int64 `json:"discarded_calls,omitempty"`
	// ToolCalls counts tool calls with a result; ToolErrors counts those whose result is an error.
	ToolCalls  int64 `json:"tool_calls,omitempty"`
	ToolErrors int64 `json:"tool_errors,omitempty"`
	// ToolCacheHits counts the ToolCalls that were answered from a tool's cache.
	ToolCacheHits int64 `json:"tool_cache_hits,omitempty"`
	// WaitSeconds is how long calls with a result had waited for the answers of people and clients, in whole seconds per
	// answer. The wait of a call that got no answer is not counted.
	WaitSeconds int64 `json:"wait_seconds,omitempty"`
	// SubAgentRuns counts the calls that ran a sub-agent or companion; the usage of those is in their own sessions.
	SubAgentRuns int64 `json:"sub_agent_runs,omitempty"`
	// CostNanos is the cost of the model calls, in billionths of a US dollar: as the provider reported it, else by the
	// table of models at the time of each call. PricedCalls is the number of ModelCalls and DiscardedCalls whose whole
	// cost is known; of the other calls CostNanos has the known part. See [Usage.Cost].
	CostNanos   int64 `json:"cost_nanos,omitempty"`
	PricedCalls int64 `json:"priced_calls,omitempty"`
	// Custom holds the amounts that tools recorded with Call.RecordUsage, by name.
	Custom map[string]float64 `json:"custom,omitempty"`
}

// Add returns the sum of two usages. Custom amounts stay finite.
func (u Usage) Add(v Usage) Usage {
	sum := Usage{
		InputTokens:          u.InputTokens + v.InputTokens,
		OutputTokens:         u.OutputTokens + v.OutputTokens,
		ReasoningTokens:      u.ReasoningTokens + v.ReasoningTokens,
		CachedTokens:         u.CachedTokens + v.CachedTokens,
		CacheWriteTokens:     u.CacheWriteTokens + v.CacheWriteTokens,
		CacheWriteHourTokens: u.CacheWriteHourTokens + v.CacheWriteHourTokens,
		WebSearches:          u.WebSearches + v.WebSearches,
		FileSearches:         u.FileSearches + v.FileSearches,
		ModelCalls:           u.ModelCalls + v.ModelCalls,
		DiscardedCalls:       u.DiscardedCalls + v.DiscardedCalls,
		ToolCalls:            u.ToolCalls + v.ToolCalls,
		ToolErrors:           u.ToolErrors + v.ToolErrors,
		ToolCacheHits:        u.ToolCacheHits + v.ToolCacheHits,
		WaitSeconds:          u.WaitSeconds + v.WaitSeconds,
		SubAgentRuns:         u.SubAgentRuns + v.SubAgentRuns,
		CostNanos:            u.CostNanos + v.CostNanos,
		PricedCalls:          u.PricedCalls + v.PricedCalls,
	}
	if len(u.Custom)+len(v.Custom) > 0 {
		sum.Custom = make(map[string]float64, len(u.Custom)+len(v.Custom))
		for name, n := range u.Custom {
			sum.Custom[name] += n
		}
		for name, n := range v.Custom {
			sum.Custom[name] = min(max(sum.Custom[name]+n, -math.MaxFloat64), math.MaxFloat64)
		}
	}
	return sum
}

// Cost returns the cost of the model calls, as "$0.0123"; "unknown" if the price of none is known, and "at least
// $0.0123" if the price of some is not.
func (u Usage) Cost() string {
	calls := u.ModelCalls + u.DiscardedCalls
	switch {
	case u.PricedCalls == 0 && u.CostNanos == 0 && calls > 0:
		return "unknown"
	case u.PricedCalls < calls:
		return "at least $" + money(u.CostNanos, 9)
	}
	return "$" + money(u.CostNanos, 9)
}

// money formats an amount that counts decimal fractions of a dollar.
func money(n int64, places int) string {
	text := fmt.Sprintf("%0*d", places+1, n)
	whole, part := text[:len(text)-places], strings.TrimRight(text[len(text)-places:], "0")
	if part == "" {
		return whole
	}
	return whole + "." + part
}
