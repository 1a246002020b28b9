package driver

import (
	"encoding/json"
	"math"

	"github.com/cairn-agents/cairn"
)

// Want selects the data that a read returns in addition to the session's row. The zero value selects nothing more.
type Want struct {
	// Messages selects the messages from index From on, at most Limit of them; Limit 0 means all. A range beyond the
	// end is empty, and a negative From counts as 0.
	Messages    bool
	From, Limit int
	// Recent leaves out the messages that the latest summary replaces, see [Want.First].
	Recent bool
	// Checkpoint and Run select the checkpoint and the run with that id.
	Checkpoint string
	Run        string
	// State selects the session's state, or the state at Checkpoint if that is set.
	State bool
	// Staged selects the staged pieces in the order of staging, or only the pieces of StagedStep if that is set.
	Staged     bool
	StagedStep string
	// Calls selects the pending calls of the row's SuspendedStep, oldest first.
	Calls bool
	// Cache selects the tool-result cache, by key.
	Cache bool
	// Queue selects the queued turns, the next one first.
	Queue bool
}

// ToDrive selects the data that a process needs to drive a session, if it already has the messages before index from.
func ToDrive(from int) Want {
	return Want{Messages: true, From: from, Recent: true, State: true, Staged: true, Calls: true, Cache: true}
}

// First returns the index of the first message to read of a session with the given row. The session may have fewer
// messages.
func (w *Want) First(row *cairn.Session) int {
	if w.Recent {
		return max(w.From, row.Summary.From, 0)
	}
	return max(w.From, 0)
}

// Size returns the maximum number of messages to read.
func (w *Want) Size() int {
	switch {
	case !w.Messages:
		return 0
	case w.Limit <= 0:
		return math.MaxInt32
	}
	return w.Limit
}

// Contents is a session at one point in time: its row, and the data that Want selected.
type Contents struct {
	Session *cairn.Session
	// Stop is the stop request for the run that holds the session, or nil. It is always read.
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
