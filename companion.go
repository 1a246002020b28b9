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

// The tools that an agent with companions is given. Their schemas are made from the companions, and their descriptions
// list these, with what each is for, so the model needs no more instructions. What a companion is doing is an object:
//
//	{"name": …, "agent": …, "turn": …,
//	 "status": "running", "paused", "completed", "failed", "interrupted" or "terminated",
//	 "answer": what its last run came to, "error": why that failed, "waits_for": how many answers it waits for}
const (
	// CompanionSpawn starts a companion, or continues the one of that name with another message. Its arguments are
	// "agent", the name of a Companion's agent, "message", and "name", which may be left out: then the companion gets a
	// name that is free, such as critic-1. The result is that of CompanionSend. More companions than [Companion].Max
	// are an error that the model reads, and so is a name that a companion of another agent has.
	CompanionSpawn = "companion__spawnAgent"
	// CompanionSend gives a companion another message, which begins its next turn; what it is doing is interrupted. Its
	// arguments are "name" and "message". The result is the answer of a [Blocking] companion: its output, or its last
	// reply's text. Of a [NonBlocking] one it is what the companion is doing, and its answer follows as a message.
	CompanionSend = "companion__sendMessage"
	// CompanionList has no arguments. The result is a list of what each companion is doing.
	CompanionList = "companion__listChildren"
	// CompanionStatus has the argument "name". The result is what that companion is doing.
	CompanionStatus = "companion__getChildStatus"
	// CompanionTerminate stops a companion for good: the next one that is spawned under its name remembers nothing. Its
	// argument is "name". The result is what the companion was doing, with the status "terminated".
	CompanionTerminate = "companion__terminateChild"
	// CompanionWait waits until a companion's turn has ended. Its argument is "name", its result that of CompanionSend.
	// Only agents with a Blocking companion are given it.
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
