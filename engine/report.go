package engine

import (
	"github.com/cairn-agents/cairn"
)

// SweepReport says what a sweep did. A session counts once together with those of its sub-agents and companions.
type SweepReport struct {
	// Detected counts the sessions whose time had come, Expired those of them that were removed.
	Detected int `json:"detected"`
	Expired  int `json:"expired"`
	// Purged counts the removed sessions whose retention was over and of which nothing is left, SnapshotsDeleted the
	// checkpoints they had.
	Purged           int `json:"purged"`
	SnapshotsDeleted int `json:"snapshots_deleted"`
	// Trimmed counts the event logs of which something was trimmed, EventsTrimmed the events that went.
	Trimmed       int   `json:"trimmed"`
	EventsTrimmed int64 `json:"events_trimmed"`
	// Failed counts the sessions that could not be removed, purged or trimmed. They are tried again by the next sweep. Errors
	// says why, for the first hundred.
	Failed int          `json:"failed"`
	Errors []SweepError `json:"errors,omitempty"`
}

// SweepError says why a sweep could not remove or purge a session, or trim its event log.
type SweepError struct {
	// SessionID is the session that could not be swept.
	SessionID string `json:"session_id"`
	// Error is why.
	Error *cairn.Error `json:"error"`
}

const (
	// sweepBatch is how many sessions a sweep asks the store for at once.
	sweepBatch = 100
	// maxSweepErrors bounds the errors that a report lists.
	maxSweepErrors = 100
)

func (r *SweepReport) failed(session string, err error) {
	r.Failed++
	if len(r.Errors) < maxSweepErrors {
		r.Errors = append(r.Errors, SweepError{SessionID: session, Error: cairn.AsError(err)})
	}
}
