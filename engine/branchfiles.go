package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/internal/turn/user"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// The files of a branch belong to the session that made them until the branch names them, after its commit. A process may
// die between the two. So a record announces the branch before its commit, until its files are named: a worker, a reader
// that misses a file, or the purge of the other session names them otherwise.

// filesMessages is how many messages of a transcript are read at once for the files that they name.
const filesMessages = 200

const (
	// branchTTL is how long the record of a branch is kept if its files cannot be named.
	branchTTL = 7 * 24 * time.Hour
	// branchYoung is how long a branch is left to the process that makes it.
	branchYoung = 5 * time.Minute
)

func (b *branching) from() *cairn.Session {
	return &cairn.Session{ID: b.From, RootID: b.Root, Incarnation: b.Incarnation, Agent: b.Agent}
}

// announce records that a branch is about to be made, if its session has files. The caller calls keep once the branch is
// committed, and drop if it is certain that it never will be.
func (e *Engine) announce(ctx context.Context, from *cairn.Session, to string) (keep func(branch *cairn.Session) error, drop func(), err error) {
	some, err := e.namesBlobs(ctx, from)
	a := e.agent(from.Agent)
	if err != nil || !some && (a == nil || a.Workspace == nil) {
		return func(*cairn.Session) error { return nil }, func() {}, err
	}
	drop = func() {}
	if e.records != nil {
		value, err := json.Marshal(&branching{To: to, From: from.ID, Root: from.RootID, Incarnation: from.Incarnation, Agent: from.Agent})
		if err != nil {
			return nil, nil, cairn.Errorf(cairn.ErrInternal, "%w", err)
		}
		if _, err := e.records.Put(ctx, store.RecordWrite{Namespace: driver.BranchRecords, Key: branchKey(to), Index: branchIndex(driver.OwnerOfBlobs(from)),
			Value: value, Seen: store.AnyVersion, TTL: branchTTL}); err != nil {
			return nil, nil, err
		}
		drop = func() { e.settleBranch(context.WithoutCancel(ctx), to, store.AnyVersion) }
	}
	return func(branch *cairn.Session) error {
		err := e.keepFiles(ctx, from, branch, some)
		if err == nil {
			drop()
		}
		return err
	}, drop, nil
}

// namesBlobs reports whether the tree of a session names blobs.
func (e *Engine) namesBlobs(ctx context.Context, s *cairn.Session) (bool, error) {
	blobs, err := driver.BlobsOf(e.store)
	if err != nil {
		return false, nil // it keeps none
	}
	page, err := blobs.List(ctx, driver.OwnerOfBlobs(s), driver.BlobQuery{Limit: 1})
	return len(page.Items) > 0, err
}

// settleBranch deletes the record of a branch, of the version that was seen.
func (e *Engine) settleBranch(ctx context.Context, to string, seen int64) {
	err := e.records.Delete(ctx, driver.BranchRecords, branchKey(to), seen)
	if err != nil && !errors.Is(err, cairn.ErrNotFound) && !errors.Is(err, cairn.ErrStale) {
		e.opts.Logger.Warn("record of a branch not deleted; its files are named again", "session", to, "error", err)
	}
}

// keepFiles keeps the files of a branch for it: its artifacts and the state of its workspace. some reports whether the
// session that was branched names blobs.
func (e *Engine) keepFiles(ctx context.Context, from, branch *cairn.Session, some bool) error {
	var index transcript.Index
	for next := 0; next < branch.MessageCount; {
		list, err := driver.Messages(ctx, e.store, branch.ID, next, filesMessages)
		if err != nil {
			return err
		}
		var keys []string
		for i := range list {
			index.Add(&list[i])
			for _, a := range list[i].Artifacts(next + i) {
				keys = append(keys, a.Blobs...)
			}
		}
		if some && len(keys) > 0 {
			if err := e.nameBlobs(ctx, from, branch, keys); err != nil {
				return err
			}
		}
		if next += len(list); len(list) == 0 {
			break
		}
	}
	a := e.agent(from.Agent)
	if a == nil || a.Workspace == nil || index.Workspace() == "" {
		return nil
	}
	u := user.Code{What: fmt.Sprintf("the workspace %q", a.Workspace.Name()), Err: cairn.ErrHook, Session: branch.ID, Agent: a.Name}
	_, err := user.Call(ctx, &e.runs.User, u, func(ctx context.Context) (none struct{}, err error) {
		return none, a.Workspace.Branched(ctx, index.Workspace(), from, branch)
	})
	return err
}

// nameBlobs names those of some blobs for a session that it does not name yet: the other session may be purged since.
func (e *Engine) nameBlobs(ctx context.Context, from, to *cairn.Session, keys []string) error {
	blobs, err := driver.BlobsOf(e.store)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(keys, driver.MaxBlobs) {
		has, err := blobs.Has(ctx, driver.OwnerOfBlobs(to), part...)
		if err != nil {
			return err
		}
		if !slices.Contains(has, false) {
			continue
		}
		if err := blobs.Name(ctx, driver.OwnerOfBlobs(from), driver.OwnerOfBlobs(to), part...); err != nil {
			return err
		}
	}
	return nil
}

// mendBranch names the files of a branch whose process died before it did. It does nothing for any other session.
func (e *Engine) mendBranch(ctx context.Context, branch *cairn.Session) error {
	if e.records == nil {
		return nil
	}
	rec, err := e.records.Get(ctx, driver.BranchRecords, branchKey(branch.RootID))
	if errors.Is(err, cairn.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return e.mend(ctx, rec)
}

// mendBranches names the files of all branches whose processes died before they did.
func (e *Engine) mendBranches(ctx context.Context) error {
	var failed []error
	for rec, err := range driver.All(func(cursor string) (driver.Page[driver.Record], error) {
		return e.records.List(ctx, driver.RecordQuery{Namespace: driver.BranchRecords, Cursor: cursor})
	}) {
		if err != nil {
			return err
		}
		if rec.AsOf.Sub(rec.UpdatedAt) >= branchYoung {
			failed = append(failed, e.mend(ctx, rec))
		}
	}
	return errors.Join(failed...)
}

// mend names the files of the branch of a record, and deletes the record. An agent that this engine does not have may have
// a workspace: then the record is left to a process that has the agent.
func (e *Engine) mend(ctx context.Context, rec *driver.Record) error {
	var b branching
	if err := json.Unmarshal(rec.Value, &b); err != nil || branchKey(b.To) != rec.Key {
		return nil // of a version to come; it expires
	}
	branch, err := e.reader.session(ctx, b.To)
	switch {
	case errors.Is(err, cairn.ErrNotFound):
		if rec.AsOf.Sub(rec.UpdatedAt) >= branchYoung { // it was never made, or has been removed
			e.settleBranch(ctx, b.To, rec.Version)
		}
		return nil
	case err != nil:
		return err
	}
	err = e.keepFiles(ctx, b.from(), branch, true)
	if errors.Is(err, cairn.ErrNotFound) { // the other session was purged
		e.opts.Logger.Error("files of a branch are lost", "session", b.To, "from", b.From, "error", err)
		err = nil
	}
	if err == nil && e.agent(b.Agent) != nil {
		e.settleBranch(ctx, b.To, rec.Version)
	}
	return err
}
