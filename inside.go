package cairn

import "github.com/cairn-agents/cairn/internal/define/bridge"

// inside gives package define, and through it the loop, hosts and tests, access to what users do not need.
type inside struct{}

func init() { bridge.Cairn = inside{} }

// Tool returns the definition of a tool.
func (inside) Tool(t *Tool) *definition { return &t.def }

// Check reports what is wrong with the definition of a tool.
func (inside) Check(t *Tool) error { return t.validate() }

// New makes a tool from a definition.
func (inside) New(def definition) Tool { return Tool{def} }

// NewStep returns a handle over env.
func (inside) NewStep(s Step, env env) *Step {
	s.env = env
	return &s
}

// Env returns the environment of a handle; nil for a handle that was not made by NewStep.
func (inside) Env(s *Step) env { return s.env }

// Durability returns the definition of a durability.
func (inside) Durability(d Durability) bridge.Durability { return d.def }

// Toolsets returns the toolsets of an agent with its memory.
func (inside) Toolsets(a *Agent) []Toolset { return a.toolsets() }
