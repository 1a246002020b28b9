package cairn

import "fmt"

// Companion is an agent that another one keeps: it has a session of its own that remembers every consultation. The
// model spawns companions by name and talks to them with the companion__ tools, which the agent is given.
//
// A companion that has come to its end is continued when it is consulted again; one that failed or was terminated is
// started fresh.
type Companion struct {
	// Agent answers. Its name is what the model asks for, its description says what for.
	Agent *Agent
	// Mode says whether a call that consults the companion waits for its answer. The default is Blocking.
	Mode CompanionMode
	// Max bounds how many companions of this agent a session may have at once; 0 means 8.
	Max int
}

// CompanionMode says whether a call waits for a companion.
type CompanionMode int

const (
	// Blocking makes the call that consults the companion return its answer. If the companion is
	// suspended, so is the session that consulted it.
	Blocking CompanionMode = iota
	// NonBlocking makes the call return at once. The companion runs by itself, even when its parent's turn has ended
	// or its process is gone. Its answer becomes a message of the parent at the beginning of the next step.
	NonBlocking
)

// The tools that an agent with companions is given.
const (
	CompanionSpawn     = "companion__spawnAgent"
	CompanionSend      = "companion__sendMessage"
	CompanionList      = "companion__listChildren"
	CompanionStatus    = "companion__getChildStatus"
	CompanionTerminate = "companion__terminateChild"
	// CompanionWait is only given to agents with a Blocking companion.
	CompanionWait = "companion__waitForResult"
)

const companionPrefix = "companion__"

func (a *Agent) validateCompanions(bad func(field, format string, args ...any) error) error {
	seen := map[string]bool{}
	for i, c := range a.Companions {
		field := fmt.Sprintf("companions[%d]", i)
		switch {
		case c.Agent == nil:
			return bad(field, "the agent is nil")
		case c.Mode != Blocking && c.Mode != NonBlocking:
			return bad(field, "the mode %d is neither Blocking nor NonBlocking", c.Mode)
		case c.Max < 0:
			return bad(field, "Max %d is negative", c.Max)
		case seen[c.Agent.Name]:
			return bad(field, "agent %q is a companion twice", c.Agent.Name)
		}
		seen[c.Agent.Name] = true
	}
	return nil
}
