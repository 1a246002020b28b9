package cairn

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"time"
)

// Workspace is the file system and shell of an agent's sessions: see Agent.Workspace. Package workspace has Cairn's own.
//
// A workspace is a toolset. Each state of a session's workspace has a reference, such as the hash of a tree of files. A
// tool that changes files names the new state with [Call.SetWorkspace], and each tool begins by restoring the state that
// [Step.Workspace] names. So changes of a call that was not committed are undone, in whichever process the next call runs.
// A Workspace that is a [WorkspaceReader] lets applications read the files as well.
//
// The methods may be called concurrently.
type Workspace interface {
	Toolset
	// Branched is called after a session was branched, if the branch has a reference: from that session, to the branch.
	// It keeps the state for the branch, which outlives the other session. After an error the branch exists, and the
	// caller of Engine.Branch gets the error. A worker then repeats the call, also if the process died before it; of from it
	// has the ids and the agent only. A tool of the branch may be called before that, so a reference should name the session
	// that made it.
	Branched(ctx context.Context, ref string, from, to *Session) error
}

// WorkspaceReader reads the files of sessions' workspaces from snapshots in the store, so any process can, while the session
// runs or rests: see Engine.WorkspaceFiles. It changes nothing.
//
// The methods may be called concurrently. Errors are ErrNotFound for a file that the state does not have, and ErrCorrupt for
// a state that cannot be read.
type WorkspaceReader interface {
	// Name is the name of the workspace as a toolset, by which transcripts keep its offer.
	Name() string
	// Files yields the files, directories and links of a state whose paths begin with a prefix, each directory before its
	// entries, and the entries of a directory ordered by their names. If after is not empty, the entries up to that path
	// are left out.
	Files(ctx context.Context, s *Session, state WorkspaceState, prefix, after string) iter.Seq2[WorkspaceFile, error]
	// Open returns a file of a state, and its content, which can be read until ctx is done. The error is ErrInvalid for a
	// directory or a link.
	Open(ctx context.Context, s *Session, state WorkspaceState, path string) (*WorkspaceFile, io.ReadSeeker, error)
}

// WorkspaceState is a state of a session's workspace, as the transcript has it.
type WorkspaceState struct {
	// Ref is the reference that the transcript names; empty if no call has named one.
	Ref string
	// Pinned is the offer of the workspace, see [Offer], which may name the files that the session began with; nil before
	// the first turn.
	Pinned json.RawMessage
}

// WorkspaceFile is a file, a directory or a link of a workspace.
type WorkspaceFile struct {
	// Path is slash-separated and relative, without "." and "..".
	Path string `json:"path"`
	// Type is the kind of the entry.
	Type WorkspaceFileType `json:"type"`
	// Size is the length of a file in bytes.
	Size int64 `json:"size"`
	// Executable reports whether a file's owner may execute it.
	Executable bool `json:"executable,omitempty"`
	// Target is the path that a link leads to.
	Target string `json:"target,omitempty"`
	// Version identifies the content of a file: equal versions are of equal contents.
	Version string `json:"version,omitempty"`
}

// WorkspaceFileType is the kind of a [WorkspaceFile].
type WorkspaceFileType string

// The types of files.
const (
	WorkspaceRegular   WorkspaceFileType = "file"
	WorkspaceDirectory WorkspaceFileType = "directory"
	WorkspaceLink      WorkspaceFileType = "link"
)

// WorkspaceSnapshot is a state of a session's workspace with its place in the transcript.
type WorkspaceSnapshot struct {
	// ID identifies the snapshot in its session: the id of the call whose result names the state, or of the message by
	// which the application restored it.
	ID string `json:"id"`
	// Message is the index of the message that names the state, from 0, and MessageID its id.
	Message   int    `json:"message"`
	MessageID string `json:"message_id"`
	// CallID and Tool are the call whose result names it; empty for a state that the application restored.
	CallID string `json:"call_id,omitempty"`
	Tool   string `json:"tool,omitempty"`
	// RunID is the run of the call.
	RunID string `json:"run_id,omitempty"`
	// CreatedAt is when it was committed, by the store's clock.
	CreatedAt time.Time `json:"created_at,omitzero"`
	// Ref is the reference of the state. Clients of a server do not get it.
	Ref string `json:"-"`
}

// WorkspaceSnapshots returns the states of the workspace that a message names, in order. index is its place in the
// transcript.
func (m *Message) WorkspaceSnapshots(index int) (list []WorkspaceSnapshot) {
	if m.Workspace != "" {
		list = append(list, WorkspaceSnapshot{ID: m.ID, Message: index, MessageID: m.ID, CreatedAt: m.CreatedAt, Ref: m.Workspace})
	}
	for _, r := range m.ToolResults() {
		if r.Workspace != "" {
			list = append(list, WorkspaceSnapshot{ID: r.CallID, Message: index, MessageID: m.ID, CallID: r.CallID, Tool: r.Tool, RunID: m.RunID,
				CreatedAt: m.CreatedAt, Ref: r.Workspace})
		}
	}
	return list
}
