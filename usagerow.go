package cairn

import (
	"cmp"
	"encoding/json"
	"time"
)

// UsageKind is the purpose of an amount of usage.
type UsageKind string

// The kinds of usage. A query by name gets the names of all of them.
const (
	// UsageModel is a model call, or the requests to one model that a call consisted of. The name is the model's
	// [ModelInfo.ID].
	UsageModel UsageKind = "model"
	// UsageTool is a tool call with a result. The name is the tool's.
	UsageTool UsageKind = "tool"
	// UsageAgent is a call with a result that ran a sub-agent or companion. The name is that agent's. The usage of its
	// session is in rows of its own.
	UsageAgent UsageKind = "agent"
	// UsageWait is the time for which calls of a tool waited for people or clients. The name is the tool's.
	UsageWait UsageKind = "wait"
	// UsageCustom is an amount that a tool recorded with Call.RecordUsage. The name is the amount's.
	UsageCustom UsageKind = "custom"
	// UsageUnknown is usage without entries, since only the sum is known: the session was counted before there were rows,
	// or was imported without them. It has no name.
	UsageUnknown UsageKind = "unknown"
)

// UsageEntry is the usage of one call, wait or amount.
type UsageEntry struct {
	// Kind and Name are the purpose of the usage.
	Kind UsageKind `json:"kind"`
	Name string    `json:"name,omitempty"`
	// Duration is how long the model call or the tool took, with its attempts; 0 if it is not known. It includes neither
	// the wait for an approval nor the run of a sub-agent.
	Duration Duration `json:"duration,omitempty"`
	// Usage is the usage of the entry alone. A call whose reply was not used has DiscardedCalls, and a tool call whose
	// result is an error has ToolErrors.
	Usage Usage `json:"usage"`
}

// Validate reports the first mistake of an entry.
func (e *UsageEntry) Validate() error {
	if e.Duration < 0 {
		return Invalid("duration", "%d is negative", e.Duration)
	}
	return cmp.Or(CheckText("kind", string(e.Kind)), CheckText("name", e.Name), e.Usage.Validate())
}

// Discarded reports whether the entry is usage of a model call whose reply was not used: it failed, was retried or was
// repeated.
func (e *UsageEntry) Discarded() bool { return e.Usage.DiscardedCalls > 0 && e.Usage.ModelCalls == 0 }

// UsageRow is the usage of one commit: of a step, or of work for a session outside its runs. Its entries add up to the
// increase of the counters of the session. A commit that ends or suspends a run has a row even if it has no usage: so the
// rows of a store, in their order, name each session whose log has a new step or the end of a run.
type UsageRow struct {
	// At is the time of the commit, by the store's clock.
	At time.Time `json:"at"`
	// SessionID and RootID are the ids of the session and of its tree's root; empty once they were erased.
	SessionID string `json:"session_id,omitempty"`
	RootID    string `json:"root_id,omitempty"`
	// Tenant, UserID, Agent and Tags are the session's at the time of the commit. UserID is empty once it was erased.
	Tenant string   `json:"tenant,omitempty"`
	UserID string   `json:"user_id,omitempty"`
	Agent  string   `json:"agent"`
	Tags   []string `json:"tags,omitempty"`
	// RunID and Step are the run and the number of its last committed step; empty and 0 for work outside of runs. At the
	// end of a run without usage, Step is 0. RunID is empty once the session's ids were erased.
	RunID string `json:"run_id,omitempty"`
	Step  int    `json:"step,omitempty"`
	// Entries are the parts of the usage; empty for the end of a run without usage.
	Entries []UsageEntry `json:"entries"`
}

// Usage returns the sum of the row's entries.
func (r *UsageRow) Usage() Usage { return SumUsage(r.Entries) }

// SumUsage returns the sum of entries.
func SumUsage(entries []UsageEntry) (sum Usage) {
	for i := range entries {
		sum = sum.Add(entries[i].Usage)
	}
	return sum
}

// ModelCalls returns the model calls of an [EventUsage] in the order in which they were made, discarded ones too: the
// entries of kind [UsageModel] that the usage row of the step's commit has. It is nil for other events.
func (e *Event) ModelCalls() []UsageEntry {
	if e.Type != EventUsage || len(e.Data) == 0 {
		return nil
	}
	var calls []UsageEntry
	if json.Unmarshal(e.Data, &calls) != nil { // cut to fit the log
		return nil
	}
	for i := range calls {
		calls[i].Kind = UsageModel
	}
	if len(calls) == 1 && e.Usage != nil { // the step has no other usage of models
		u := *e.Usage
		u.ToolCalls, u.ToolErrors, u.ToolCacheHits, u.WaitSeconds, u.SubAgentRuns, u.Custom = 0, 0, 0, 0, 0, nil
		calls[0].Usage = u
	}
	return calls
}
