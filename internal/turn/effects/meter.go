package effects

import (
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/limits"
	"github.com/cairn-agents/cairn/internal/turn/session"
	"github.com/cairn-agents/cairn/internal/turn/step"
)

// meter adds up what a model reports of its usage during one attempt at a call.
type meter struct {
	asked cairn.ModelInfo // the model that was called
	model string          // the id of the model that answers, if it is another one
	// last is the last report. The tokens and the cost of void replies are in void.
	last  report
	void  step.Bill
	began time.Time // of the call, or of the reply after a void one
	fx    *Effects
}

// report is the usage of a [cairn.ChunkUsage].
type report struct {
	cairn.Usage
	calls  []cairn.ModelCall
	window int64
}

func (fx *Effects) meter(asked cairn.ModelInfo) *meter {
	return &meter{asked: asked, began: fx.Now(), fx: fx}
}

// maxCalls bounds how many requests one reply may list.
const maxCalls = 4096

// report records the usage so far, which replaces what was reported before. It returns an error for usage that cannot
// be stored, and leaves it out.
func (m *meter) report(c *cairn.Chunk) error {
	if err := c.Usage.Validate(); err != nil {
		return err
	}
	if len(c.Calls) > maxCalls {
		return cairn.Invalid("calls", "has %d entries (max %d)", len(c.Calls), maxCalls)
	}
	for i := range c.Calls {
		if err := c.Calls[i].Usage.Validate(); err != nil {
			return err
		}
	}
	if c.WindowTokens < 0 || c.WindowTokens > limits.Count {
		return cairn.Invalid("window_tokens", "%d is not between 0 and %d", c.WindowTokens, int64(limits.Count))
	}
	m.last = report{c.Usage, c.Calls, c.WindowTokens}
	return nil
}

// restart makes the reply so far void. Its usage stays on the bill.
func (m *meter) restart() {
	m.void = m.void.Add(discarded(m.priced()))
	m.last, m.model, m.began = report{}, "", m.fx.Now()
}

// used returns the usage of an attempt whose reply is used.
func (m *meter) used() step.Bill { return m.void.Add(m.priced()) }

// wasted returns the usage of an attempt whose reply is not used. It is zero if the provider reported none.
func (m *meter) wasted() step.Bill { return m.void.Add(discarded(m.priced())) }

// window returns how many tokens of the model's window the conversation fills with the reply; 0 if it is not known.
func (m *meter) window() int64 {
	if m.last.window > 0 {
		return m.last.window
	}
	return m.last.InputTokens + m.last.OutputTokens
}

// answers returns the model that answers.
func (m *meter) answers() cairn.ModelInfo { return modelOf(m.asked, m.model) }

// modelOf returns the model with an id; own if the id is empty.
func modelOf(own cairn.ModelInfo, id string) cairn.ModelInfo {
	if id == "" {
		return own
	}
	provider, name, _ := strings.Cut(id, ":")
	return cairn.ModelInfo{Provider: provider, Name: name}
}

// priced returns the last report as one model call, with its cost as far as it is known. Each request has a price of
// its own, unless the provider named that of all.
func (m *meter) priced() step.Bill {
	sum := m.last.Usage
	sum.ModelCalls++
	calls := m.last.calls
	if len(calls) == 0 {
		calls = []cairn.ModelCall{{Usage: m.last.Usage}}
	}
	var costs []int64
	if sum.PricedCalls == 0 {
		sum.CostNanos = 0
		paid, known := false, true
		costs = make([]int64, len(calls))
		for i := range calls {
			u := calls[i].Usage
			if u.InputTokens+u.OutputTokens+u.WebSearches+u.FileSearches == 0 {
				continue
			}
			paid = true
			f, ok := m.fx.price(modelOf(m.answers(), calls[i].Model))
			if ok {
				costs[i] = min(f.Cost(u), limits.Count-sum.CostNanos)
				sum.CostNanos += costs[i]
			}
			known = known && ok && f.Covers(u)
		}
		if paid && known {
			sum.PricedCalls = 1
		}
	}
	return m.bill(sum, calls, costs)
}

// bill divides the usage of a call among the models that requests were made to. The call is the answering model's, which
// also has what no request accounts for. costs are those of the requests, if each has a price of its own.
func (m *meter) bill(sum cairn.Usage, calls []cairn.ModelCall, costs []int64) step.Bill {
	answers := m.answers().ID()
	own := cairn.UsageEntry{Kind: cairn.UsageModel, Name: answers, Duration: cairn.Duration(max(0, m.fx.Now().Sub(m.began))), Usage: sum}
	bill := step.Bill{Usage: sum, Entries: []cairn.UsageEntry{own}}
	for i := range calls {
		model := modelOf(m.answers(), calls[i].Model).ID()
		if model == answers {
			continue
		}
		u := tokens(calls[i].Usage)
		if costs != nil {
			u.CostNanos = costs[i]
		}
		rest, ok := less(bill.Entries[0].Usage, u)
		if !ok { // the requests exceed the sum that the provider reported
			return step.Bill{Usage: sum, Entries: []cairn.UsageEntry{own}}
		}
		bill.Entries[0].Usage = rest
		bill.Entries = append(bill.Entries, cairn.UsageEntry{Kind: cairn.UsageModel, Name: model, Usage: u})
	}
	return bill
}

// tokens returns the tokens and searches of a request.
func tokens(u cairn.Usage) cairn.Usage {
	return cairn.Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, ReasoningTokens: u.ReasoningTokens, CachedTokens: u.CachedTokens,
		CacheWriteTokens: u.CacheWriteTokens, CacheWriteHourTokens: u.CacheWriteHourTokens, WebSearches: u.WebSearches, FileSearches: u.FileSearches}
}

// less returns usage without the tokens, searches and cost of a part; ok is false if there are not so many.
func less(u, part cairn.Usage) (rest cairn.Usage, ok bool) {
	ok = true
	for _, n := range [][2]*int64{{&u.InputTokens, &part.InputTokens}, {&u.OutputTokens, &part.OutputTokens},
		{&u.ReasoningTokens, &part.ReasoningTokens}, {&u.CachedTokens, &part.CachedTokens}, {&u.CacheWriteTokens, &part.CacheWriteTokens},
		{&u.CacheWriteHourTokens, &part.CacheWriteHourTokens}, {&u.WebSearches, &part.WebSearches},
		{&u.FileSearches, &part.FileSearches}, {&u.CostNanos, &part.CostNanos}} {
		*n[0] -= *n[1]
		ok = ok && *n[0] >= 0
	}
	return u, ok
}

// price returns the table's price of a model that was called. It logs, once, what the table lacks of the model, and
// what follows from that.
func (fx *Effects) price(m cairn.ModelInfo) (f *figures, known bool) {
	f = fx.figuresOf(m)
	price, window := f.found && !f.NoPrice, f.Window > 0
	if price && window || !f.logged.CompareAndSwap(false, true) {
		return f, price
	}
	attrs := []any{"model", m.ID()}
	if !price {
		attrs = append(attrs, "price", "unknown: the cost is unknown unless the provider reports it")
	}
	if !window {
		attrs = append(attrs, "window", "unknown: set Compaction.Window; without it, histories are summarised only after the provider rejects one as too long")
	}
	fx.Logger.Warn("model table lacks figures for a model", attrs...)
	return f, price
}

// discarded returns a bill with its model calls as discarded ones; none if nothing was used.
func discarded(b step.Bill) step.Bill {
	if !session.Paid(b.Usage) {
		return step.Bill{}
	}
	return b.Discarded()
}
