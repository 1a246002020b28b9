package store

import (
	"encoding/json"
	"math"

	"github.com/cairn-agents/cairn"
)

// Want selects what is read of a session beside its row. The zero value is nothing.
type Want struct {
	// Messages asks for the messages from index From on, at most Limit of them; 0 means all. A range beyond the end is
	// empty, and a negative From is 0.
	Messages    bool
	From, Limit int
	// Recent leaves out the messages before those that follow the latest summary, see [Want.First].
	Recent bool
	// Checkpoint asks for the checkpoint of that id, and Run for the run.
	Checkpoint string
	Run        string
	// State asks for the session's state: at Checkpoint, if that is set.
	State bool
	// Staged asks for the staged pieces, in the order they were staged: those of StagedStep, if that is set.
	Staged     bool
	StagedStep string
	// Calls asks for the pending calls of the row's SuspendedStep, the oldest first.
	Calls bool
	// Cache asks for the tool-result cache, by key.
	Cache bool
	// Queue asks for the queued turns, the next one first.
	Queue bool
}

// ToDrive returns what a process needs to drive a session when it has the messages before the index from.
func ToDrive(from int) Want {
	return Want{Messages: true, From: from, Recent: true, State: true, Staged: true, Calls: true, Cache: true}
}

// First returns the index of the first message that is read of a session with a row, if it has that many.
func (w *Want) First(row *cairn.Session) int {
	if w.Recent {
		return max(w.From, row.Summary.From, 0)
	}
	return max(w.From, 0)
}

// Size returns the maximum number of messages.
func (w *Want) Size() int {
	switch {
	case !w.Messages:
		return 0
	case w.Limit <= 0:
		return math.MaxInt32
	}
	return w.Limit
}

// Contents is a session at one point in time: its row, and what Want selected.
type Contents struct {
	Session *cairn.Session
	// Stop is the stop request for the run that holds the session, or nil. It needs no selecting.
	Stop       *cairn.Stop
	Messages   []cairn.Message
	Checkpoint *cairn.Checkpoint
	Run        *cairn.Run
	State      json.RawMessage
	Staged     []Staged
	Calls      []cairn.PendingCall
	Cache      []CacheEntry
	Queue      []QueuedTurn
}

// Staged is one piece of an uncommitted step: its reply, or the result of one call.
type Staged struct {
	StepID string          `json:"step_id"`
	Key    string          `json:"key"`
	Data   json.RawMessage `json:"data"`
}
