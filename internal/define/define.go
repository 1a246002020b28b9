// Package define reads the definitions of agents and tools, and makes the handles that user code is given: what the loop,
// hosts and tests need of package cairn and its users do not. It decides nothing about a run.
package define

import (
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define/bridge"
)

// access is what package cairn gives to this one.
type access interface {
	Tool(t *cairn.Tool) *definition
	New(def definition) cairn.Tool
	Check(t *cairn.Tool) error
	NewStep(s cairn.Step, env Env) *cairn.Step
	Env(s *cairn.Step) Env
	Durability(d cairn.Durability) bridge.Durability
}

var inside = bridge.Cairn.(access)

// Env stands behind a handle: the side of the loop.
type Env = bridge.Env[cairn.Op, cairn.Message]

// Question is what a person is asked, by a tool or by the rule of an approval.
type Question = bridge.Question

// NewStep returns a handle over env on the step that s describes. The handle of a call is a [cairn.Call] with it.
func NewStep(s cairn.Step, env Env) *cairn.Step { return inside.NewStep(s, env) }

// Exec records a statement for the commit of a call's step. The error is ErrInvalid for a handle that nothing stands
// behind.
func Exec(call *cairn.Call, dialect, sql string, args []any) error {
	env := inside.Env(call.Step)
	if env == nil {
		return cairn.Invalid("call", "is not that of a running tool")
	}
	return env.Exec(dialect, call.Tool, sql, args)
}

// PrivateError is what a reader of a conversation is shown for the error of a tool that is private, as JSON.
const PrivateError = bridge.PrivateError

// Durability says when an agent's steps are committed.
func Durability(a *cairn.Agent) bridge.Durability { return inside.Durability(a.Durability) }

// Model returns the one of an agent's models that a run asks, by its name; the agent's own for no name. If the agent has
// none of that name, as after a change of its definition, known is false and the model is its own.
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

// Lifetime returns how long a cached result is good.
func Lifetime(p *cairn.CachePolicy) time.Duration {
	if p.TTL == 0 {
		return time.Hour
	}
	return p.TTL
}

// CachedResults returns how many results a session keeps of some tools, of all together: the largest
// [cairn.CachePolicy].Max of them; 0 if none of them is cached.
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
