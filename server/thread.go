package server

// OnExpired is what a message does if the latest session of its thread has expired.
type OnExpired string

const (
	// ExpiredRefuse refuses the message with 410 and the code expired. The session can be restored.
	ExpiredRefuse OnExpired = "refuse"
	// ExpiredRestore restores the session, and the message continues it.
	ExpiredRestore OnExpired = "restore"
	// ExpiredNew begins a new session of the thread. Its user, tags and metadata are those of the expired one, its
	// transcript is empty.
	ExpiredNew OnExpired = "new"
)

// Threads defines how the sessions of a thread follow each other. A thread is a chat as its client knows it: the client uses
// the id of the thread, which is that of its first session, whichever session is the latest.
type Threads struct {
	// OnExpired is what a message to an expired session does; empty means ExpiredRefuse.
	OnExpired OnExpired
	// EachTurn begins a new session of the thread for each message to a chat, so that the model sees no earlier turn.
	EachTurn bool
}
