package cairn

import "time"

// ChildKind is the relation of a session to its parent.
type ChildKind string

const (
	// ChildSubAgent is a session for one call: see [SubAgent].
	ChildSubAgent ChildKind = "sub_agent"
	// ChildCompanion is a session with a name that is kept between calls: see [Companion].
	ChildCompanion ChildKind = "companion"
	// ChildReplaced is a session that no agent began. It keeps its parent's transcript and state from before a turn was
	// replaced, see engine.KeepReplaced, and never runs; Engine.Branch continues it. Its Name is the id of the message
	// with which the replaced turn began.
	ChildReplaced ChildKind = "replaced"
	// ChildBranch is a root that was branched from another session. Its effectful calls ask for approval first, see
	// engine.WithEffects.
	ChildBranch ChildKind = "branch"
)

// ChildRef names the session of another agent that a call consults.
type ChildRef struct {
	// CallID is the call that consults the session.
	CallID string `json:"call_id"`
	// SessionID is the consulted session.
	SessionID string `json:"session_id"`
	// Agent is the name of its agent.
	Agent string `json:"agent"`
	// Kind is sub-agent or companion.
	Kind ChildKind `json:"kind"`
	// Deadline is when the call fails with ErrTimeout if the session has not ended, see [SubAgent]; zero means never.
	Deadline time.Time `json:"deadline,omitzero"`
}

// ChildEnd records how a child session ended that its parent no longer waits for.
type ChildEnd struct {
	// SessionID is the consulted session.
	SessionID string `json:"session_id"`
	// Agent is the name of its agent.
	Agent string `json:"agent"`
	// Status is the status of the session's last run; empty if there is none.
	Status RunStatus `json:"status,omitempty"`
}
