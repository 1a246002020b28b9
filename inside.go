package cairn

import "github.com/cairn-agents/cairn/internal/define/bridge"

// inside gives package define, and so the loop, hosts and tests, what users have no use for.
type inside struct{}

func init() { bridge.Cairn = inside{} }

// Tool returns what a tool consists of.
func (inside) Tool(t *Tool) *definition { return &t.def }

// Check reports what is wrong with the definition of a tool.
func (inside) Check(t *Tool) error { return t.validate() }

// New makes a tool of a definition.
func (inside) New(def definition) Tool { return Tool{def} }

// NewStep returns a handle over env.
func (inside) NewStep(s Step, env env) *Step {
	s.env = env
	return &s
}

// Env returns what stands behind a handle; nil for one that was not made by NewStep.
func (inside) Env(s *Step) env { return s.env }

// Durability returns what a durability consists of.
func (inside) Durability(d Durability) bridge.Durability { return d.def }
