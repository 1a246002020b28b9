package redisstore

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

var (
	scriptLoad     = aboutReading("load", "load")
	scriptSnapshot = aboutReading("snapshot", "read a snapshot")
	scriptMessages = aboutReading("messages", "read messages")
	scriptFields   = aboutReading("fields", "read")
	scriptDelete   = about("delete", "delete")
	scriptRelease  = writer("release", "delete")
)

// Load implements store.Store.
func (s *Store) Load(ctx context.Context, id string) (*cairn.Session, error) {
	r, err := s.ask(ctx, scriptLoad, id)
	if err != nil {
		return nil, err
	}
	return readRow(id, r.list(1))
}

// Snapshot implements store.Store.
func (s *Store) Snapshot(ctx context.Context, id string, from int) (*store.Snapshot, error) {
	r, err := s.ask(ctx, scriptSnapshot, id, max(from, 0))
	if err != nil {
		return nil, err
	}
	snap := &store.Snapshot{}
	if snap.Session, err = readRow(id, r.list(1)); err != nil {
		return nil, err
	}
	if snap.State, err = foldChain(r.list(2)); err != nil {
		return nil, err
	}
	if snap.Messages, err = readMessages(r.list(3)); err != nil {
		return nil, err
	}
	if snap.Staged, err = readStaged(r.list(4), ""); err != nil {
		return nil, err
	}
	if snap.Calls, err = readCalls(r.list(5), snap.Session.RootID); err != nil {
		return nil, err
	}
	slices.SortFunc(snap.Calls, func(a, b cairn.PendingCall) int { return store.CompareCalls(&a, &b) })
	snap.Cache, err = readCache(r.list(6))
	return snap, err
}

// Messages implements store.Store.
func (s *Store) Messages(ctx context.Context, id string, from, limit int) ([]cairn.Message, error) {
	from = max(from, 0)
	r, err := s.ask(ctx, scriptMessages, id, from, from+store.PageSize(limit)-1)
	if err != nil {
		return nil, err
	}
	return readMessages(r.list(1))
}

func readMessages(list []any) ([]cairn.Message, error) {
	var messages []cairn.Message
	for _, item := range list {
		at, data, ok := stamped(plain(item))
		var m cairn.Message
		if err := decode("message", data, &m); err != nil {
			return nil, err
		}
		if !ok {
			return nil, cairn.Errorf(cairn.CodeCorrupt, "stored message has no time")
		}
		if !at.IsZero() {
			m.CreatedAt = at
		}
		messages = append(messages, m)
	}
	return messages, nil
}

// readCache reads the tool-result cache of a session, by key.
func readCache(list []any) ([]store.CacheEntry, error) {
	var entries []store.CacheEntry
	for i := 0; i+1 < len(list); i += 2 {
		var e store.CacheEntry
		if err := decode("cached result", plain(list[i+1]), &e); err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b store.CacheEntry) int { return strings.Compare(a.Key, b.Key) })
	return entries, nil
}

// readNumbered reads a hash whose values have a number before a colon, in the order of these numbers.
func readNumbered(what string, list []any, read func(field, data string) error) error {
	type item struct {
		number      int
		field, data string
	}
	var items []item
	for i := 0; i+1 < len(list); i += 2 {
		number, data, ok := strings.Cut(plain(list[i+1]), ":")
		n, err := strconv.Atoi(number)
		if !ok || err != nil {
			return cairn.Errorf(cairn.CodeCorrupt, "stored %s has no number", what)
		}
		items = append(items, item{n, plain(list[i]), data})
	}
	slices.SortFunc(items, func(a, b item) int { return cmp.Compare(a.number, b.number) })
	for _, it := range items {
		if err := read(it.field, it.data); err != nil {
			return err
		}
	}
	return nil
}

// Queue implements store.Store.
func (s *Store) Queue(ctx context.Context, id string) ([]store.QueuedTurn, error) {
	r, err := s.ask(ctx, scriptFields, id, "q")
	if err != nil {
		return nil, err
	}
	var turns []store.QueuedTurn
	err = readNumbered("queued turn", r.list(1), func(field, data string) error {
		turn := store.QueuedTurn{ID: field}
		err := decode("queued turn", data, &turn.Messages)
		turns = append(turns, turn)
		return err
	})
	return turns, err
}

// Delete implements store.Store. Its event log is left to Log.Drop.
func (s *Store) Delete(ctx context.Context, id string) error {
	s.known.forget(id)
	r, err := s.ask(ctx, scriptDelete, id)
	if err != nil {
		return err
	}
	if r.word() == "running" {
		row, err := readRow(id, r.list(1))
		if err != nil {
			return err
		}
		return store.Conflict(cairn.CodeRunning, row, "session %q is running", id)
	}
	return s.release(ctx, id, s.bucketOf(r.text(1)))
}

// release takes back the note, on a cluster, of where a session was that is no more. If this does not happen, the note is
// of no session, and whoever makes one of that id puts it right.
func (s *Store) release(ctx context.Context, id string, home int) error {
	own := s.bucketOf(id)
	if own == home {
		return nil
	}
	s.routes.forget(id)
	_, err := s.run(ctx, scriptRelease, own, id, home)
	return err
}

// foldChain returns the state at the end of a chain: a keyframe and what changed since.
func foldChain(list []any) (json.RawMessage, error) {
	if len(list) == 0 {
		return nil, cairn.Errorf(cairn.CodeCorrupt, "stored state has no keyframe")
	}
	keyframe := json.RawMessage(plain(list[0]))
	if len(list) == 1 {
		if !json.Valid(keyframe) {
			return nil, cairn.Errorf(cairn.CodeCorrupt, "stored state is not valid JSON")
		}
		return keyframe, nil
	}
	changes := make([][]cairn.Op, len(list)-1)
	for i := range changes {
		if err := decode("state change", plain(list[i+1]), &changes[i]); err != nil {
			return nil, err
		}
	}
	return store.FoldState(keyframe, changes)
}

var scriptState = aboutReading("state", "read the state")

// State implements store.Store.
func (s *Store) State(ctx context.Context, id, checkpointID string) (json.RawMessage, error) {
	r, err := s.ask(ctx, scriptState, id, checkpointID)
	switch {
	case err != nil:
		return nil, err
	case r.word() == "checkpoint":
		return nil, unknownCheckpoint(id, checkpointID)
	}
	return foldChain(r.list(1))
}
