// Package define reads the definitions of agents and tools, and makes the handles that user code is given. It is what
// the loop, hosts and tests need of package cairn in addition to its public API. It decides nothing about a run.
package define

import (
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define/bridge"
)

// access is what package cairn provides to this one.
type access interface {
	Tool(t *cairn.Tool) *definition
	New(def definition) cairn.Tool
	Check(t *cairn.Tool) error
	NewStep(s cairn.Step, env Env) *cairn.Step
	Env(s *cairn.Step) Env
	Durability(d cairn.Durability) bridge.Durability
	Toolsets(a *cairn.Agent) []cairn.Toolset
}

var inside = bridge.Cairn.(access)

// Env is the loop's side of a handle.
type Env = bridge.Env[cairn.Op, cairn.Message]

// Question is what a tool, or the rule of an approval, asks a person.
type Question = bridge.Question

// NewStep returns a handle of env for the step that s describes. A [cairn.Call] with that step is the handle of a call.
func NewStep(s cairn.Step, env Env) *cairn.Step { return inside.NewStep(s, env) }

// Exec records a statement for the commit of a call's step. It returns ErrInvalid for a handle without an Env.
func Exec(call *cairn.Call, dialect, sql string, args []any) error {
	env := inside.Env(call.Step)
	if env == nil {
		return cairn.Invalid("call", "must be the call of a running tool")
	}
	return env.Exec(dialect, call.Tool, sql, args)
}

// PrivateError is what readers of a conversation are shown instead of a tool's private error, as JSON.
const PrivateError = bridge.PrivateError

// Durability returns when an agent's steps are committed.
func Durability(a *cairn.Agent) bridge.Durability { return inside.Durability(a.Durability) }

// Model returns the agent's model with the given name, which a run asks; the agent's default model for "". If the agent
// has no model of that name, for example because its definition changed, known is false and m is the default.
func Model(a *cairn.Agent, name string) (m cairn.Model, known bool) {
	if name == "" {
		return a.Model, true
	}
	if m = a.Models[name]; m == nil {
		return a.Model, false
	}
	return m, true
}

// Steps returns the number of steps that a turn of an agent may take.
func Steps(a *cairn.Agent) int {
	if a.MaxSteps == 0 {
		return cairn.DefaultMaxSteps
	}
	return a.MaxSteps
}

// Lifetime returns how long a cached result stays valid.
func Lifetime(p *cairn.CachePolicy) time.Duration {
	if p.TTL == 0 {
		return time.Hour
	}
	return p.TTL
}

// CachedResults returns how many results of the given tools together a session keeps: the largest
// [cairn.CachePolicy].Max among them; 0 if none of them is cached.
func CachedResults(tools []cairn.Tool) int {
	most := 0
	for i := range tools {
		switch p := Of(&tools[i]).Cache; {
		case p == nil:
		case p.Max == 0:
			most = max(most, 64)
		default:
			most = max(most, p.Max)
		}
	}
	return most
}
