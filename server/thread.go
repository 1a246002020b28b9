package server

// OnExpired decides the effect of a message if the latest session of its thread has expired.
type OnExpired string

const (
	// ExpiredRefuse refuses the message with 410 and the code expired. The session can be restored.
	ExpiredRefuse OnExpired = "refuse"
	// ExpiredRestore restores the session, and the message continues it.
	ExpiredRestore OnExpired = "restore"
	// ExpiredNew begins a new session of the thread. It has the user, tags and metadata of the expired one, and an
	// empty transcript.
	ExpiredNew OnExpired = "new"
)

// Threads defines how the sessions of a thread follow each other. A thread is a chat as its client knows it: the client
// uses the id of the thread, which is the id of its first session, whichever session is the latest.
type Threads struct {
	// OnExpired decides the effect of a message to an expired session; empty means ExpiredRefuse.
	OnExpired OnExpired
	// EachTurn begins a new session of the thread for each message to a chat, so that the model sees no earlier turn.
	EachTurn bool
}
