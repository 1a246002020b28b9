package wire

import (
	"encoding/json"

	"github.com/cairn-agents/cairn"
)

// The bodies of requests that package client sends and package server reads, as far as they are not types of package
// client: methods of its Client make them of their arguments. A field with a "query" tag may be in the query instead.
// "schema" tags belong to the server's OpenAPI document.

// Create creates a session. Its attributes are in the same object.
type Create struct {
	// SessionID is the id of the new session; if it is empty, one is generated.
	SessionID string `json:"session_id,omitempty"`
	// Agent is the agent's name. It is optional if the engine has only one.
	Agent string `json:"agent,omitempty"`
}

// Retry continues a session. Resume has more in the same object.
type Retry struct {
	// SessionID is the id of the session.
	SessionID string `json:"session_id,omitempty" query:"session_id"`
	// Model is the name of one of the agent's models, or empty for its first one: see [engine.WithModel]. Without it, the
	// run uses the model of the run that it resumes or retries.
	Model *string `json:"model,omitempty"`
}

// Stop stops a run.
type Stop struct {
	// SessionID is the id of the session.
	SessionID string `json:"session_id,omitempty" query:"session_id"`
	// RunID is the run to stop; empty means the session's current one. A client that names the run it saw never
	// stops a later one.
	RunID string `json:"run_id,omitempty"`
	// Reason is kept with the run.
	Reason string `json:"reason,omitempty"`
}

// Submit answers a pending call.
type Submit struct {
	// SessionID is the call's session, or one above it, such as the root of its tree.
	SessionID string `json:"session_id,omitempty" query:"session_id"`
	cairn.Submission
}

// Claim reserves a pending call.
type Claim struct {
	// Seconds is how long the call is reserved, at most 86400 (24 hours); 0 means 15 minutes.
	Seconds int `json:"seconds,omitempty" schema:"min=0,max=86400"`
	// Reviewer is who claims the call, on a server without authentication.
	Reviewer string `json:"reviewer,omitempty"`
}

// Release ends a claim.
type Release struct {
	// Reviewer is who has claimed the call, on a server without authentication.
	Reviewer string `json:"reviewer,omitempty"`
}

// Emit publishes a custom event.
type Emit struct {
	// Name is the name of the event. It follows the rules of ids.
	Name string `json:"name"`
	// Data is any JSON.
	Data json.RawMessage `json:"data,omitempty"`
}

// SetState sets the state of a session.
type SetState struct {
	// State is the new state: an object of the agent's state type.
	State json.RawMessage `json:"state"`
	// Version, if it is not 0, is the version of the session that the client saw. If the session has changed since, the
	// state is not set.
	Version int64 `json:"version,omitempty"`
}

// ClearTaint ends the taint of a session.
type ClearTaint struct {
	// Notes are the finding of the person. The model reads them.
	Notes string `json:"notes"`
}

// RestoreWorkspace sets the files of a session's workspace back.
type RestoreWorkspace struct {
	// Snapshot is the id of the snapshot to restore.
	Snapshot string `json:"snapshot"`
}

// Rewind sets a session back.
type Rewind struct {
	// CheckpointID is the checkpoint to rewind to.
	CheckpointID string `json:"checkpoint_id"`
}
