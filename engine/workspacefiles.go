package engine

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/journal"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// WorkspaceAt selects the state of a workspace whose files are read. The zero value is the session's current state, read
// by its agent's workspace.
type WorkspaceAt struct {
	// Snapshot is the ID of a [cairn.WorkspaceSnapshot]; empty for the current state.
	Snapshot string
	// Reader reads the files, also of a session whose agent this engine does not have. nil means the workspace of the
	// session's agent.
	Reader cairn.WorkspaceReader
}

// WorkspaceSnapshots pages through the states of a session's workspace, oldest first. The last one is current. The list is
// made from the transcript, so a long one takes several reads, and a rewind removes the later states from it. The error is
// ErrInvalid for q.Newest.
func (e *Engine) WorkspaceSnapshots(ctx context.Context, id string, q store.PageQuery) (store.Page[cairn.WorkspaceSnapshot], error) {
	return pageOfMessages(ctx, e, id, q, "snapshots", (*cairn.Message).WorkspaceSnapshots)
}

// WorkspaceFiles pages through the files, directories and links of a session's workspace whose paths begin with a prefix,
// as of its last committed snapshot: each directory before its entries, the entries of a directory by name. A call under
// way may have changed files since. Between two pages another snapshot may have been committed; name one in at to page
// through the files of one state.
//
// The error is ErrInvalid if this engine does not have the session's agent, or if the agent's workspace is not a
// [cairn.WorkspaceReader], unless at has a Reader. It is ErrNotFound for an unknown session or snapshot.
func (e *Engine) WorkspaceFiles(ctx context.Context, id string, at WorkspaceAt, prefix string, q store.PageQuery) (page store.Page[cairn.WorkspaceFile], err error) {
	if q.Newest {
		return page, cairn.Invalid("newest", "is not supported by files")
	}
	row, reader, state, err := e.workspaceAt(ctx, id, at)
	if err != nil {
		return page, err
	}
	for f, err := range reader.Files(ctx, row, state, prefix, q.Cursor) {
		if err != nil {
			return store.Page[cairn.WorkspaceFile]{}, err
		}
		if len(page.Items) == q.Size() {
			page.Next = page.Items[len(page.Items)-1].Path
			break
		}
		page.Items = append(page.Items, f)
	}
	return page, nil
}

// OpenWorkspaceFile returns a file of a session's workspace, as of its last committed snapshot, and its content, which is
// read from the store in parts, until ctx is done. The error is ErrNotFound if there is no such file, ErrInvalid for a
// directory or a link, and otherwise as for [Engine.WorkspaceFiles].
func (e *Engine) OpenWorkspaceFile(ctx context.Context, id string, at WorkspaceAt, path string) (*cairn.WorkspaceFile, io.ReadSeeker, error) {
	row, reader, state, err := e.workspaceAt(ctx, id, at)
	if err != nil {
		return nil, nil, err
	}
	return reader.Open(ctx, row, state, path)
}

// RestoreWorkspace restores the files of a session's workspace to one of its snapshots, between turns. It adds a hidden
// message, which names the state and informs the model. So the restored state is part of the transcript: the next call
// finds its files, a branch begins with them, and a rewind undoes the restoration. Nothing is removed: the states before
// stay in the list of snapshots.
//
// The error is ErrNotFound for an unknown session or snapshot, ErrAlreadyRunning while a run holds the session, and
// ErrWaiting while it waits for calls, which would continue with other files than they began with.
func (e *Engine) RestoreWorkspace(ctx context.Context, id, snapshot string) (*cairn.Session, error) {
	if err := cairn.CheckSessionID(id); err != nil {
		return nil, err
	}
	if snapshot == "" {
		return nil, cairn.Invalid("snapshot", "is empty")
	}
	m := cairn.Context("The user has restored the files of your workspace to an earlier state. Read files again before you rely on their contents.")
	m.ID = e.opts.NewID("msg")
	return e.runs.Change(ctx, id, func(row *cairn.Session) (*driver.Commit, error) {
		switch {
		case row.Status == cairn.SessionActive:
			return nil, driver.Conflict(cairn.ErrAlreadyRunning, row, "session %q is already running", row.ID)
		case row.SuspendedStep != "":
			return nil, driver.Conflict(cairn.ErrWaiting, row, "session %q is waiting for calls", row.ID)
		}
		state, err := e.workspaceState(ctx, row, "", snapshot)
		if err != nil {
			return nil, err
		}
		m := m
		m.Workspace = state.Ref
		list := []cairn.Message{m}
		return &driver.Commit{Guard: driver.Guard{Idle: true}, Messages: list, Events: journal.Added(row.MessageCount, list)}, nil
	})
}

// workspaceAt returns a session with a state of its workspace and the reader of the files.
func (e *Engine) workspaceAt(ctx context.Context, id string, at WorkspaceAt) (*cairn.Session, cairn.WorkspaceReader, cairn.WorkspaceState, error) {
	row, err := e.Session(ctx, id)
	if err != nil {
		return nil, nil, cairn.WorkspaceState{}, err
	}
	reader := at.Reader
	if reader == nil {
		a := e.agent(row.Agent)
		if a == nil {
			return nil, nil, cairn.WorkspaceState{}, cairn.Invalid("agent", "session %q belongs to agent %q, which is not registered", id, row.Agent)
		}
		var ok bool
		if reader, ok = a.Workspace.(cairn.WorkspaceReader); !ok {
			return nil, nil, cairn.WorkspaceState{}, cairn.Invalid("workspace", "agent %q has no workspace whose files can be read", row.Agent)
		}
	}
	state, err := e.workspaceState(ctx, row, reader.Name(), at.Snapshot)
	return row, reader, state, err
}

// workspaceState returns the current state of a session's workspace, or that of a snapshot. It reads the transcript
// backwards, as far as necessary. name is the toolset's.
func (e *Engine) workspaceState(ctx context.Context, row *cairn.Session, name, snapshot string) (state cairn.WorkspaceState, err error) {
	for to := row.MessageCount; to > 0; {
		from := max(0, to-filesMessages)
		list, err := e.Messages(ctx, row.ID, from, to-from)
		if err != nil {
			return state, err
		}
		for i := len(list) - 1; i >= 0; i-- {
			m := &list[i]
			found := m.WorkspaceSnapshots(from + i)
			if snapshot != "" {
				if at := slices.IndexFunc(found, func(s cairn.WorkspaceSnapshot) bool { return s.ID == snapshot }); at >= 0 {
					return cairn.WorkspaceState{Ref: found[at].Ref}, nil
				}
				continue
			}
			if len(found) > 0 {
				state.Ref = found[len(found)-1].Ref
				return state, nil
			}
			if state.Pinned == nil {
				state.Pinned = m.Pinned[name]
			}
			if m.Summary != nil { // it states anew what the messages before it have
				state.Ref = m.Summary.Workspace
				return state, nil
			}
		}
		to = from
	}
	if snapshot != "" {
		return state, &cairn.Error{Code: cairn.ErrNotFound, Field: "snapshot", Message: fmt.Sprintf("snapshot %q of session %q not found", snapshot, row.ID)}
	}
	return state, nil
}
