package memory

import (
	"log/slog"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// Defaults of [Options].
const (
	DefaultMaxEntries    = 10_000
	DefaultMaxCharacters = 2_000
	DefaultFusion        = 0.5
)

// Options tune a Memory. nil and the zero value mean the defaults.
type Options struct {
	// Scope is the kind of scope that an agent with this memory uses; empty means a user's. Group is the name of the
	// scope if the kind is a group. Both are for [Memory.ScopeOf]; the verbs take any scope.
	Scope driver.MemoryKind
	Group string
	// MaxEntries is the maximum number of entries of a scope; 0 means DefaultMaxEntries, a negative value no limit. An
	// Add that exceeds it by a twentieth trims the scope.
	MaxEntries int
	// MaxCharacters is the maximum number of characters of a text; 0 means DefaultMaxCharacters, at most 20,000.
	MaxCharacters int
	// Retention is how long an entry without ExpiresAt is kept; 0 means for ever.
	Retention time.Duration
	// Analyzer makes the terms of texts; nil means English.
	Analyzer Analyzer
	// Embedder makes vectors of texts; nil means that searches are by terms only, which is good by itself.
	Embedder Embedder
	// Fusion is the weight of vectors beside terms; 0 means DefaultFusion, a negative value none.
	Fusion float64
	// RecencyWeight raises the score of newer entries by up to this factor; 0, the default, does not. Measured, recency
	// makes searches worse: an old fact that is still true is as good as a new one.
	RecencyWeight float64
	// Agent has the options that only matter to agents.
	Agent AgentOptions
	// Logger gets the warnings of searches that had to do without vectors; nil discards them.
	Logger *slog.Logger
}

// Defaults of [AgentOptions].
const (
	DefaultTokens  = 1000
	DefaultEntries = 12
)

// AgentOptions are the options of a memory that only matter to the agents that have it. The zero value means the
// defaults.
type AgentOptions struct {
	// Tokens limits the entries that a turn is given, together; 0 means DefaultTokens. Three bytes count as one token.
	// Entries limits their number; 0 means DefaultEntries.
	Tokens  int
	Entries int
	// Trusted are the names of tools whose results nobody but you can write, such as a lookup in your own database;
	// "*" trusts all tools. Entries that an agent saves after it has read results of other tools, or in a tainted
	// session, are quarantined. A sub-agent's are, unless its own name is here: its parent wrote its task.
	Trusted []string
	// Save has options for the tool that saves, such as [cairn.RequireApproval].
	Save []cairn.ToolOption
	// Forget gives agents a tool that forgets entries, with ForgetOptions. By default a person approves its calls in
	// tainted sessions, see [cairn.Step.Taint].
	Forget        bool
	ForgetOptions []cairn.ToolOption
	// Extract takes facts from turns by a model; nil means that only the texts of turns are kept.
	Extract *Extract
}

// Extract has a model take facts from turns, one call per turn, after the turn has ended. The usage counts for the session.
type Extract struct {
	// Model makes the facts; nil means the model of the turn.
	Model cairn.Model
	// Instructions replace [ExtractInstructions].
	Instructions string
	// DailyUSD limits the cost of extraction from the turns of one agent in a day (UTC, by the store's clock), in US
	// dollars; 0 means no limit. At the limit only the texts of turns are kept, until the next day. Calls in progress when
	// the limit is reached are completed. The calls of a model without a price, see the table of models, do not count,
	// which is logged.
	DailyUSD float64
	// Consolidate has the model merge facts as well: those that say the same, and parts of one statement. It is one more
	// call in the first turn of a day (UTC) in each scope that has new facts. Merged facts stay as earlier versions.
	Consolidate bool
}

// maxDailyUSD is the highest limit of Extract.DailyUSD. Billionths of it fit into an int64.
const maxDailyUSD = 1_000_000_000

func (o *Options) withDefaults() (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	out.Scope = defaulted(out.Scope, driver.MemoryOfUser)
	out.MaxEntries = defaulted(out.MaxEntries, DefaultMaxEntries)
	out.MaxCharacters = defaulted(out.MaxCharacters, DefaultMaxCharacters)
	out.Fusion = max(0, defaulted(out.Fusion, DefaultFusion))
	if out.Analyzer == nil {
		out.Analyzer = English()
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	if x := out.Agent.Extract; x != nil && !(x.DailyUSD >= 0 && x.DailyUSD <= maxDailyUSD) {
		return out, cairn.Invalid("agent.extract.daily_usd", "%v is not from 0 to %d", x.DailyUSD, maxDailyUSD)
	}
	switch {
	case out.Scope == driver.MemoryOfGroup:
		if err := Group(out.Group).Check(); err != nil {
			return out, cairn.Invalid("group", "%v", err)
		}
	case out.Group != "":
		return out, cairn.Invalid("group", "may only be set for the scope of a group")
	case out.Scope != driver.MemoryOfUser && out.Scope != driver.MemoryOfSession:
		return out, cairn.Invalid("scope", "unknown kind %q: want session, user or group", out.Scope)
	}
	switch {
	case out.MaxCharacters < 0 || out.MaxCharacters > 20_000:
		return out, cairn.Invalid("max_characters", "%d is not from 1 to 20000", out.MaxCharacters)
	case out.Retention < 0:
		return out, cairn.Invalid("retention", "%s is negative", out.Retention)
	case !(out.Fusion <= 10):
		return out, cairn.Invalid("fusion", "%v is more than 10", out.Fusion)
	case !(out.RecencyWeight >= 0 && out.RecencyWeight <= 10):
		return out, cairn.Invalid("recency_weight", "%v is not from 0 to 10", out.RecencyWeight)
	}
	return out, nil
}

func defaulted[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}
