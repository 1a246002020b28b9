// Package host is the contract between the agent loop and its hosts. A host drives the loop: goroutines of a process,
// or an engine for durable workflows. Package loop has the loop as hosts call it. Package engine carries out the loop's
// effects, and takes a host as an option. The packages below this one are hosts. All data that a host keeps is small,
// holds only ids and numbers, and encodes as JSON.
package host

import (
	"time"

	"github.com/cairn-agents/cairn"
)

// Position is a step of a run, with the lease under which the run is driven. It is the input of EffectPlan,
// EffectJudge, EffectCommit and EffectNotify.
type Position struct {
	SessionID string `json:"session_id"`
	Agent     string `json:"agent"`
	// AgentVersion is the version of the agent that the run has; empty for an agent without versions.
	AgentVersion string `json:"agent_version,omitempty"`
	RunID        string `json:"run_id"`
	// Token is the fencing token of the lease.
	Token int64 `json:"token"`
	// Step is the step's number in the run, from 1; 0 before the first one.
	Step int `json:"step"`
	// Until is when the run is stopped, by the store's clock, because a call that waits for it has a deadline; zero means
	// never. The effects enforce it.
	Until time.Time `json:"until,omitzero"`
}

// Run identifies a run that was begun or taken over and is to be driven.
type Run struct {
	Position
	// RootID is the root of the session's tree. Incarnation is the incarnation of the tree, whose log the run writes
	// to.
	RootID        string `json:"root_id"`
	Incarnation   string `json:"incarnation,omitempty"`
	Turn          int    `json:"turn"`
	StartSequence int64  `json:"start_sequence"`
}

// Call is a call of a step: the input of EffectTool.
type Call struct {
	Position
	CallID string `json:"call_id"`
}

// Committed is the output of EffectCommit.
type Committed struct {
	// Ended reports that the run has ended or is suspended.
	Ended  bool            `json:"ended,omitempty"`
	Status cairn.RunStatus `json:"status,omitempty"`
	// Notify reports that there are hooks for the run's end, so EffectNotify follows.
	Notify bool `json:"notify,omitempty"`
}

// The names of effects. Only EffectCommit calls no user code and takes as long as a write. The others take as long as
// models, tools and hooks do.
const (
	// EffectPlan calls the model.
	EffectPlan = "plan"
	// EffectTool runs a tool.
	EffectTool = "tool"
	// EffectChild begins a run of another agent that a call asks for, or collects its outcome.
	EffectChild = "child"
	// EffectJudge calls the hooks, the stop condition and the guard that decide how a step ends. The loop asks for it
	// only if there are any.
	EffectJudge = "judge"
	// EffectCommit is the one write of a step.
	EffectCommit = "commit"
	// EffectNotify calls the hooks for a run's end. The loop asks for it only if there are any.
	EffectNotify = "notify"
)

// Effects returns the names of all effects, for a host that registers each.
func Effects() []string {
	return []string{EffectPlan, EffectTool, EffectChild, EffectJudge, EffectCommit, EffectNotify}
}

// Effect is one operation that the loop asks a host to carry out.
type Effect struct {
	Name string
	// Tool is the name of the tool of EffectTool and EffectChild, for display; empty if it is not known.
	Tool string
	// In is its input, which encodes as JSON: a Position, a Call, or a Call with the additions of EffectChild.
	In any
	// Out points to the value that its JSON output decodes into.
	Out any
}

// Scheduler carries out the loop's effects on a host. Only one goroutine uses it at a time, except for the branches of
// All. The loop can be replayed: given the same answers, it asks for the same things in the same order.
type Scheduler interface {
	// Do carries out one effect.
	Do(Effect) error
	// All runs n branches of the loop at once, each with a scheduler of its own, and returns when all have ended, with
	// the first error by position.
	All(n int, branch func(s Scheduler, i int) error) error
	// Child drives a run that a call of the step asked for to its end, as the loop drives the step's own run.
	Child(of Call, run Run) error
}
