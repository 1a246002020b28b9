package anthropic

import (
	"github.com/cairn-agents/cairn"
)

// add overwrites the figures of earlier reports with those of a later one.
func (u *usage) add(later *usage) {
	for _, f := range [...]struct{ to, from **int64 }{
		{&u.Input, &later.Input}, {&u.CacheWrite, &later.CacheWrite}, {&u.CacheRead, &later.CacheRead}, {&u.Output, &later.Output},
	} {
		if *f.from != nil {
			*f.to = *f.from
		}
	}
	if later.Creation != nil {
		u.Creation = later.Creation
	}
	if later.Details != nil {
		u.Details = later.Details
	}
	if later.Server != nil {
		u.Server = later.Server
	}
	if later.Iterations != nil {
		u.Iterations = later.Iterations
	}
}

// own returns the figures without those of the iterations. The input includes tokens read from and written to the
// cache.
func (u *usage) own() cairn.Usage {
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
	if u.Creation != nil {
		total.CacheWriteHourTokens = min(u.Creation.Hour, total.CacheWriteTokens)
	}
	if u.Server != nil {
		total.WebSearches = max(u.Server.WebSearches, 0)
	}
	if u.Details != nil {
		total.ReasoningTokens = u.Details.Thinking
	}
	return total
}

// samples reports whether an iteration is one whose input was the conversation: neither an advisor's nor a compaction.
func (u *usage) samples() bool {
	return u.Type == "" || u.Type == "message" || u.Type == "fallback_message"
}

// bill is what a reply has used, in all requests that it took.
type bill struct {
	calls  []cairn.ModelCall // of the requests before the current one
	now    usage             // of the current request
	start  cairn.Usage       // what the current request began with
	served string            // the model that the current request names
	// found is the size in bytes of what the provider's own tools added to the conversation in the current request.
	found int
}

// next begins a further request of the reply.
func (b *bill) next() { *b = bill{calls: b.requests()} }

// requests returns the calls of models so far. Those of the model itself have no name.
func (b *bill) requests() []cairn.ModelCall {
	all := b.calls[:len(b.calls):len(b.calls)]
	if len(b.now.Iterations) == 0 {
		return append(all, cairn.ModelCall{Usage: b.now.own()})
	}
	thought, searched := int64(0), int64(0)
	for i := range b.now.Iterations {
		it := &b.now.Iterations[i]
		call := cairn.ModelCall{Usage: it.own()}
		if it.Model != "" && it.Model != b.served {
			call.Model = providerName + ":" + it.Model
		}
		thought += call.Usage.ReasoningTokens
		searched += call.Usage.WebSearches
		all = append(all, call)
	}
	if d := b.now.Details; d != nil && thought == 0 { // only the sum is known
		last := &all[len(all)-1].Usage
		last.ReasoningTokens = d.Thinking
	}
	if s := b.now.Server; s != nil && searched == 0 { // only the sum is known, which is the model's own
		at := len(all) - 1
		for i := len(b.calls); i < len(all); i++ {
			if all[i].Model == "" {
				at = i
			}
		}
		all[at].Usage.WebSearches = max(s.WebSearches, 0)
	}
	return all
}

// window returns how many tokens of the window the conversation fills with the reply. Without iterations the counts of
// a request in which the provider used its tools add up all its calls: the window is then estimated by the input of the
// first, all output, and what the tools found.
func (b *bill) window() int64 {
	for i := len(b.now.Iterations) - 1; i >= 0; i-- {
		if it := &b.now.Iterations[i]; it.samples() {
			u := it.own()
			return u.InputTokens + u.OutputTokens
		}
	}
	u := b.now.own()
	if b.found > 0 && b.start.InputTokens > 0 {
		return min(b.start.InputTokens+int64(b.found)/bytesPerToken, u.InputTokens) + u.OutputTokens
	}
	return u.InputTokens + u.OutputTokens
}

// bytesPerToken is an estimate.
const bytesPerToken = 4

// chunk returns the report of what was used so far.
func (b *bill) chunk() cairn.Chunk {
	c := cairn.Chunk{Type: cairn.ChunkUsage, Calls: b.requests(), WindowTokens: b.window()}
	for i := range c.Calls {
		c.Usage = c.Usage.Add(c.Calls[i].Usage)
	}
	if len(c.Calls) == 1 && c.Calls[0].Model == "" {
		c.Calls = nil
	}
	if c.WindowTokens == c.Usage.InputTokens+c.Usage.OutputTokens {
		c.WindowTokens = 0
	}
	return c
}
