package anthropic

import "github.com/cairn-agents/cairn"

// add overwrites the figures of earlier reports with those of a later one.
func (u *usage) add(later *usage) {
	for _, f := range [...]struct{ to, from **int64 }{
		{&u.Input, &later.Input}, {&u.CacheWrite, &later.CacheWrite}, {&u.CacheRead, &later.CacheRead}, {&u.Output, &later.Output},
	} {
		if *f.from != nil {
			*f.to = *f.from
		}
	}
	if later.Details != nil {
		u.Details = later.Details
	}
	if later.Iterations != nil {
		u.Iterations = later.Iterations
	}
}

// total returns the provider's figures. The input includes tokens read from and written to the cache.
func (u *usage) total() cairn.Usage {
	if len(u.Iterations) > 0 {
		var sum cairn.Usage
		for i := range u.Iterations {
			one := u.Iterations[i]
			one.Iterations = nil
			sum = sum.Add(one.total())
		}
		if sum.ReasoningTokens == 0 && u.Details != nil {
			sum.ReasoningTokens = u.Details.Thinking
		}
		return sum
	}
	count := func(n *int64) int64 {
		if n == nil {
			return 0
		}
		return *n
	}
	total := cairn.Usage{
		InputTokens:      count(u.Input) + count(u.CacheRead) + count(u.CacheWrite),
		OutputTokens:     count(u.Output),
		CachedTokens:     count(u.CacheRead),
		CacheWriteTokens: count(u.CacheWrite),
	}
	if u.Details != nil {
		total.ReasoningTokens = u.Details.Thinking
	}
	return total
}
