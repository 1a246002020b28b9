package cairn

import (
	"context"
	"time"
)

// Memory holds an agent's knowledge from earlier turns and other sessions: see Agent.Memory. Package memory has Cairn's
// own.
//
// A memory is a toolset. Its Offer, which is called once per turn, retrieves: the model reads the note of the offer in
// this turn, and the pinned data informs later turns, for example about the ids of memories that the model has read. Its
// tools save and search.
//
// The methods may be called concurrently.
type Memory interface {
	Toolset
	// Learn is called with each turn that has ended, after its last commit, while the session may take its next turn. It
	// is called at least once for each turn that completed, failed or was stopped, if necessary by another process, and
	// again if such a turn is continued. So its rows must be keyed by EndedTurn.ID. It is not called for a turn that a
	// rewind has removed, or whose session is deleted; if that may happen during the call, see EndedTurn.Reread. An
	// error is logged and the call repeated, with growing pauses, for a week. One call may take at most [LearnTimeout].
	Learn(ctx context.Context, turn *EndedTurn) error
}

// LearnTimeout is how long a call of Memory.Learn may take.
const LearnTimeout = time.Minute

// EndedTurn is a turn of a session that has ended.
type EndedTurn struct {
	// ID is the id of the run that began the turn. Runs that continue the turn do not change it.
	ID string
	// Session is the session as it is when the turn is read, which may be later than the end of the turn.
	Session *Session
	// Run is the last run of the turn.
	Run *Run
	// Messages are the messages of the turn, in order, hidden ones included. They must not be modified. First is the index
	// of the first one in the transcript.
	Messages []Message
	First    int
	// Reread returns the session as it is now; nil once the turn is no longer in it, because the session was deleted or
	// rewound to before the turn. A session may be erased while Learn runs: so that nothing of it comes back, call
	// Reread between the read and the write of a transaction, and write nothing once it returns nil. It may be called until
	// Learn has returned. The error is ErrUnavailable.
	Reread func(ctx context.Context) (*Session, error)
	// Ask has a model reply to a request with a text, for example to extract facts from the turn; nil means the model of
	// the run. Calls that fail are retried by the agent's policy. The usage, which is also returned, counts for the
	// session, not for a run. It may be called until Learn has returned.
	Ask func(ctx context.Context, model Model, req *Request) (string, Usage, error)
	// Saved publishes an [EventMemorySaved] with an id and a text once Learn has returned, also if it failed.
	Saved func(id, text string)
}
