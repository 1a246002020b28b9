package storetest_test

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

// documentStore is a store in a database that can only read a key, write it if it still has the version that was read,
// and list keys. Each session is one document, below session/; the ids of pending calls are keys below call/.
type documentStore struct {
	db     *keyValues
	closed atomic.Bool
}

const (
	sessionKeys = "session/"
	callKeys    = "call/"
)

// clock returns the store's time, in the precision that it keeps.
func (s *documentStore) clock() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// ready returns the error of a call that must not be made.
func (s *documentStore) ready(ctx context.Context) error {
	if s.closed.Load() {
		return cairn.Errorf(cairn.ErrClosed, "the store is closed")
	}
	return ctx.Err()
}

// get returns the document of a session with its version; nil if there is no such session.
func (s *documentStore) get(ctx context.Context, id string) (doc *backend.Document, version int64, err error) {
	if err := s.ready(ctx); err != nil {
		return nil, 0, err
	}
	raw, version := s.db.get(sessionKeys + id)
	if version == 0 {
		return nil, 0, nil
	}
	doc, err = backend.Decode(raw, s.clock())
	return doc, version, err
}

// open is get for a session that must exist.
func (s *documentStore) open(ctx context.Context, id string) (*backend.Document, int64, error) {
	doc, version, err := s.get(ctx, id)
	if err == nil && doc == nil {
		err = driver.NotFound(id)
	}
	return doc, version, err
}

// put replaces the document at a version, 0 for none. done is false if another writer was faster.
func (s *documentStore) put(doc *backend.Document, version int64) (done bool, err error) {
	raw, err := doc.Encode()
	if err != nil {
		return false, err
	}
	return s.db.put(sessionKeys+doc.Row.ID, raw, version)
}

// change changes a session's document by a function that may be called several times.
func (s *documentStore) change(ctx context.Context, id string, do func(*backend.Document) error) error {
	for {
		doc, version, err := s.open(ctx, id)
		if err != nil {
			return err
		}
		if err := do(doc); err != nil {
			return err
		}
		if done, err := s.put(doc, version); done || err != nil {
			return err
		}
	}
}

func (s *documentStore) Commit(ctx context.Context, id string, c *driver.Commit) (*cairn.Session, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	for {
		doc, version, err := s.get(ctx, id)
		if err != nil {
			return nil, err
		}
		seen, calls := doc.Seen(id), map[string]int64{}
		d, err := plan.Work(c, seen, func(n plan.Needs) error {
			if doc != nil {
				doc.Answer(n, seen)
			}
			return s.answerCalls(ctx, doc, n, seen, calls)
		})
		switch {
		case err != nil:
			return nil, err
		case d == nil: // it was applied before
			return seen.Row, nil
		case d.New:
			doc = &backend.Document{}
		}
		row := doc.Apply(d, s.clock())
		done, err := s.claim(id, calls)
		if err == nil && done {
			done, err = s.put(doc, version)
		}
		switch {
		case err != nil:
			return nil, err
		case done:
			return row, nil
		}
	}
}

// answerCalls finds the calls that a commit writes, and the versions of the keys of new ones. The id of a call belongs
// to the session that was the first to ask for it, whatever the outcome, as long as that session exists.
func (s *documentStore) answerCalls(ctx context.Context, doc *backend.Document, n plan.Needs, seen *plan.Seen, keys map[string]int64) error {
	seen.Calls = map[string]plan.CallSeen{}
	for _, id := range n.Calls {
		if doc != nil && doc.Calls[id] != nil {
			seen.Calls[id] = plan.CallSeen{SessionID: doc.Row.ID, Version: doc.Calls[id].Version}
			continue
		}
		owner, version := s.db.get(callKey(n.Root, id))
		keys[callKey(n.Root, id)] = version
		other, _, err := s.get(ctx, string(owner))
		if err != nil {
			return err
		}
		if other != nil && other.Row.ID != seen.ID {
			seen.Calls[id] = plan.CallSeen{SessionID: other.Row.ID, Version: 1}
		}
	}
	return nil
}

// claim takes the keys of new calls for a session. done is false if another writer was faster.
func (s *documentStore) claim(id string, keys map[string]int64) (done bool, err error) {
	for key, version := range keys {
		if done, err := s.db.put(key, []byte(id), version); !done || err != nil {
			return false, err
		}
	}
	return true, nil
}

func callKey(root, id string) string { return callKeys + root + "\x00" + id }

func (s *documentStore) Read(ctx context.Context, id string, want driver.Want) (*driver.Contents, error) {
	doc, _, err := s.open(ctx, id)
	if err != nil {
		return nil, err
	}
	return doc.Read(want)
}

func (s *documentStore) Runs(ctx context.Context, id string, q driver.PageQuery) (page driver.Page[cairn.Run], err error) {
	doc, _, err := s.open(ctx, id)
	if err != nil {
		return page, err
	}
	return doc.RunPage(q)
}

func (s *documentStore) Checkpoints(ctx context.Context, id string, q driver.PageQuery) (page driver.Page[cairn.Checkpoint], err error) {
	doc, _, err := s.open(ctx, id)
	if err != nil {
		return page, err
	}
	return doc.CheckpointPage(q)
}

func (s *documentStore) Stage(ctx context.Context, id string, token int64, pieces ...driver.Staged) error {
	if err := driver.ValidateStaged(pieces); err != nil {
		return err
	}
	return s.change(ctx, id, func(doc *backend.Document) error { return doc.Stage(token, pieces) })
}

func (s *documentStore) Renew(ctx context.Context, id string, token int64, ttl time.Duration) (stop *cairn.Stop, err error) {
	err = s.change(ctx, id, func(doc *backend.Document) (err error) {
		stop, err = doc.Renew(token, ttl, s.clock())
		return err
	})
	return stop, err
}

func (s *documentStore) RequestStop(ctx context.Context, id string, stop cairn.Stop) error {
	if err := stop.Validate(); err != nil {
		return err
	}
	return s.change(ctx, id, func(doc *backend.Document) error {
		_, err := doc.RequestStop(stop, s.clock())
		return err
	})
}

func (s *documentStore) Branch(ctx context.Context, from string, at driver.BranchPoint, to *cairn.Session) (*cairn.Session, error) {
	doc, _, err := s.open(ctx, from)
	if err != nil {
		return nil, err
	}
	branch, err := doc.Branch(at, to, s.clock())
	if err != nil {
		return nil, err
	}
	if done, err := s.put(branch, 0); done || err != nil {
		return &branch.Row, err
	}
	there, _, err := s.open(ctx, to.ID)
	if err != nil {
		return nil, err
	}
	return nil, driver.Conflict(cairn.ErrExists, &there.Row, "session %q already exists", to.ID)
}

func (s *documentStore) Prune(ctx context.Context, id string, keep int) (n int, err error) {
	if keep < 1 {
		return 0, cairn.Invalid("keep", "must be at least 1, not %d", keep)
	}
	err = s.change(ctx, id, func(doc *backend.Document) error {
		n = doc.Prune(keep)
		return nil
	})
	return n, err
}

// all reads every session, by id.
func (s *documentStore) all(ctx context.Context) (map[string]*backend.Document, error) {
	docs := map[string]*backend.Document{}
	for _, key := range s.db.list(sessionKeys) {
		doc, _, err := s.get(ctx, key[len(sessionKeys):])
		if err != nil {
			return nil, err
		}
		if doc != nil {
			docs[doc.Row.ID] = doc
		}
	}
	return docs, s.ready(ctx)
}

func (s *documentStore) List(ctx context.Context, q driver.SessionQuery) (page driver.Page[cairn.Session], err error) {
	docs, err := s.all(ctx)
	if err != nil {
		return page, err
	}
	var rows []*cairn.Session
	for _, doc := range docs {
		rows = append(rows, &doc.Row)
	}
	return backend.SessionPage(rows, q)
}

func (s *documentStore) Calls(ctx context.Context, q driver.CallQuery) (page driver.Page[cairn.PendingCall], err error) {
	docs, err := s.all(ctx)
	if err != nil {
		return page, err
	}
	var calls []*cairn.PendingCall
	for _, doc := range docs {
		for _, call := range doc.Calls {
			calls = append(calls, call)
		}
	}
	return backend.CallPage(calls, q, s.clock())
}

func (s *documentStore) Due(ctx context.Context, q driver.DueQuery) (page driver.Page[driver.Due], err error) {
	docs, err := s.all(ctx)
	if err != nil {
		return page, err
	}
	return backend.DuePage(docs, q, s.clock())
}

func (s *documentStore) Delete(ctx context.Context, id string) error {
	for {
		doc, version, err := s.open(ctx, id)
		switch {
		case err != nil:
			return err
		case doc.Row.Running(doc.Row.AsOf):
			return driver.Conflict(cairn.ErrAlreadyRunning, &doc.Row, "session %q is running", id)
		}
		if done, err := s.db.delete(sessionKeys+id, version); done || err != nil {
			return err
		}
	}
}

func (s *documentStore) Self() driver.Store { return s }

func (s *documentStore) Close() error {
	s.closed.Store(true)
	return nil
}
