package cairn

// ChildKind is what a session is to its parent.
type ChildKind string

const (
	// ChildSubAgent is a session for one call: see [SubAgent].
	ChildSubAgent ChildKind = "sub_agent"
	// ChildCompanion is a session with a name that is kept between calls: see [Companion].
	ChildCompanion ChildKind = "companion"
)

// ChildRef names the session of another agent that a call consults.
type ChildRef struct {
	// CallID is the call that consults the session.
	CallID string `json:"call_id"`
	// SessionID is the session that is waited for.
	SessionID string `json:"session_id"`
	// Agent is the name of its agent.
	Agent string `json:"agent"`
	// Kind says whether it is a sub-agent or a companion.
	Kind ChildKind `json:"kind"`
}

// ChildEnd says how a session ended whose parent no longer waits for it.
type ChildEnd struct {
	// SessionID is the session that was consulted.
	SessionID string `json:"session_id"`
	// Agent is the name of its agent.
	Agent string `json:"agent"`
	// Status is that of the session's last run; empty if there is none.
	Status RunStatus `json:"status,omitempty"`
}
