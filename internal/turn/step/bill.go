package step

import (
	"slices"

	"github.com/cairn-agents/cairn"
)

// Bill is usage with the entries that it is the sum of.
type Bill struct {
	cairn.Usage
	Entries []cairn.UsageEntry `json:"entries,omitempty"`
}

// BillOf returns the bill of entries.
func BillOf(entries ...cairn.UsageEntry) Bill { return Bill{cairn.SumUsage(entries), entries} }

// Add returns the sum of two bills.
func (b Bill) Add(other Bill) Bill {
	if len(other.Entries) == 0 {
		return Bill{b.Usage.Add(other.Usage), b.Entries}
	}
	return Bill{b.Usage.Add(other.Usage), append(slices.Clip(b.Entries), other.Entries...)}
}

// Enter adds an entry.
func (b *Bill) Enter(e cairn.UsageEntry) {
	b.Usage = b.Usage.Add(e.Usage)
	b.Entries = append(slices.Clip(b.Entries), e)
}

// Models returns the part of the bill that is of models.
func (b Bill) Models() Bill {
	var entries []cairn.UsageEntry
	for _, e := range b.Entries {
		if e.Kind == cairn.UsageModel {
			entries = append(entries, e)
		}
	}
	return BillOf(entries...)
}

// Discarded returns the bill with its model calls as discarded ones.
func (b Bill) Discarded() Bill {
	b.Usage = discarded(b.Usage)
	b.Entries = slices.Clone(b.Entries)
	for i := range b.Entries {
		b.Entries[i].Usage = discarded(b.Entries[i].Usage)
	}
	return b
}

func discarded(u cairn.Usage) cairn.Usage {
	u.DiscardedCalls += u.ModelCalls
	u.ModelCalls = 0
	return u
}

// Uncounted returns the bill without the figures that models reported: their calls stay.
func (b Bill) Uncounted() Bill {
	entries := slices.Clone(b.Entries)
	for i := range entries {
		if e := &entries[i]; e.Kind == cairn.UsageModel {
			e.Usage = cairn.Usage{ModelCalls: e.Usage.ModelCalls, DiscardedCalls: e.Usage.DiscardedCalls}
		}
	}
	return BillOf(entries...)
}

// CallEntry returns the entry of a tool's call with its result.
func CallEntry(tool string, result *cairn.ToolResult) cairn.UsageEntry {
	e := cairn.UsageEntry{Kind: cairn.UsageTool, Name: tool, Usage: cairn.Usage{ToolCalls: 1}}
	if result.IsError {
		e.Usage.ToolErrors = 1
	}
	return e
}

// RanAgent returns the entry of a call that ran an agent.
func RanAgent(e cairn.UsageEntry, agent string) cairn.UsageEntry {
	e.Kind, e.Usage.SubAgentRuns = cairn.UsageAgent, 1
	if agent != "" {
		e.Name = agent
	}
	return e
}
