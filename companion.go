package cairn

import "fmt"

// Companion is an agent that another one keeps. It has a session of its own, which remembers every consultation.
// The model spawns companions by name and talks to them with the companion__ tools that its agent is given.
//
// A companion whose run has ended is continued when it is consulted again, unless it failed or was terminated: then
// it starts fresh.
type Companion struct {
	// Agent is the agent that answers. The model asks for it by its name; its description explains its purpose.
	Agent *Agent
	// Mode determines whether a call that consults the companion waits for its answer. The default is Blocking.
	Mode CompanionMode
	// Max limits how many companions of this agent a session may have at once; 0 means 8.
	Max int
}

// CompanionMode determines whether a call waits for a companion.
type CompanionMode int

const (
	// Blocking makes the call that consults the companion return its answer. If the companion is suspended, so is
	// the session that consulted it.
	Blocking CompanionMode = iota
	// NonBlocking makes the call return at once. The companion runs independently, even after its parent's turn has
	// ended or its process has died. Its answer becomes a message of the parent at the start of the next step.
	NonBlocking
)

// The tools of an agent with companions. Their schemas are generated from the companions, and their descriptions
// list each companion with its purpose, so the model needs no further instructions. The status of a companion is an
// object:
//
//	{"name": …, "session": its id, while a NonBlocking one is at work, "agent": …, "turn": …,
//	 "status": "running", "paused", "completed", "failed", "interrupted" or "terminated",
//	 "answer": the result of its last run, "error": why that failed, "waits_for": how many answers it waits for}
const (
	// CompanionSpawn starts a companion, or continues the one of that name with another message. Its arguments are
	// "agent", the name of a Companion's agent, "message", and "name", which is optional: by default the companion gets
	// an unused name, such as critic-1. It returns the same result as CompanionSend. Exceeding [Companion].Max is an
	// error that the model reads, and so is a name that a companion of another agent has.
	CompanionSpawn = "companion__spawnAgent"
	// CompanionSend sends a companion another message, which begins its next turn; its current turn is interrupted.
	// The arguments are "name" and "message". For a [Blocking] companion, the result is its answer: its output, or
	// the text of its last reply. For a [NonBlocking] one, it is the companion's status, and the answer follows as
	// a message.
	CompanionSend = "companion__sendMessage"
	// CompanionList has no arguments. The result is a list of the statuses of all companions.
	CompanionList = "companion__listChildren"
	// CompanionStatus has the argument "name". The result is the status of that companion.
	CompanionStatus = "companion__getChildStatus"
	// CompanionTerminate stops a companion for good: the next one that is spawned under its name remembers nothing.
	// Its argument is "name". The result is the companion's last status, with "status" set to "terminated".
	CompanionTerminate = "companion__terminateChild"
	// CompanionWait waits until a companion's turn has ended. Its argument is "name"; it returns the same result as
	// CompanionSend. Only agents with a Blocking companion have it.
	CompanionWait = "companion__waitForResult"
)

const companionPrefix = "companion__"

func (a *Agent) validateCompanions(bad func(field, format string, args ...any) error) error {
	seen := map[string]bool{}
	for i, c := range a.Companions {
		field := fmt.Sprintf("companions[%d]", i)
		switch {
		case c.Agent == nil:
			return bad(field, "agent is nil")
		case c.Mode != Blocking && c.Mode != NonBlocking:
			return bad(field, "unknown mode %d: must be Blocking or NonBlocking", c.Mode)
		case c.Max < 0:
			return bad(field, "Max %d is negative", c.Max)
		case seen[c.Agent.Name]:
			return bad(field, "duplicate companion %q", c.Agent.Name)
		}
		seen[c.Agent.Name] = true
	}
	return nil
}
