package engine

import (
	"github.com/cairn-agents/cairn"
)

// SweepReport is the result of a sweep. A session counts as one together with its sub-agents' and companions' sessions.
type SweepReport struct {
	// ClockJump is by how much more the store's clock has moved since the engine's last sweep than time has passed in
	// this process; negative if it was set back. It is set only if the sweep did nothing because of that.
	ClockJump cairn.Duration `json:"clock_jump,omitempty"`
	// Detected counts the sessions whose time was over. Expired counts the detected sessions that were removed.
	Detected int `json:"detected"`
	Expired  int `json:"expired"`
	// Purged counts the removed sessions that were purged completely after their retention. SnapshotsDeleted counts
	// their checkpoints.
	Purged           int `json:"purged"`
	SnapshotsDeleted int `json:"snapshots_deleted"`
	// Trimmed counts the event logs that were trimmed. EventsTrimmed counts the events removed from them.
	Trimmed       int   `json:"trimmed"`
	EventsTrimmed int64 `json:"events_trimmed"`
	// BlobsDeleted counts the files, or parts of large ones, that no workspace and no artifact has used for a day.
	// BytesDeleted is their size.
	BlobsDeleted int   `json:"blobs_deleted"`
	BytesDeleted int64 `json:"bytes_deleted"`
	// UsageFolded counts the usage rows that were added to the sums of their days, UsageTrimmed those that were removed
	// after Options.UsageRetention.
	UsageFolded  int `json:"usage_folded,omitempty"`
	UsageTrimmed int `json:"usage_trimmed,omitempty"`
	// Failed counts the sessions that could not be removed, purged or trimmed. The next sweep retries them. Errors
	// holds the reasons of the first hundred.
	Failed int          `json:"failed"`
	Errors []SweepError `json:"errors,omitempty"`
}

// SweepError describes why a sweep could not remove or purge a session, or trim its event log.
type SweepError struct {
	// SessionID is the session that could not be swept.
	SessionID string `json:"session_id"`
	// Error is the reason.
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
