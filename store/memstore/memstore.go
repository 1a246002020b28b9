// Package memstore keeps sessions and events in memory. It is the reference implementation of the storage contracts,
// for tests, demos and agents whose sessions need not outlive the process.
package memstore

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

const _ = driver.Version1 // the contract that this store was written for

// Options tune a Store. The zero value and nil mean the defaults.
type Options struct {
	// Now is the store's clock; nil means time.Now.
	Now func() time.Time
	// MaxEvent is the maximum size of an encoded event in bytes; 0 means driver.DefaultMaxEvent.
	MaxEvent int
}

// Store is a driver.Store in memory, with an event log of its own. It is safe for concurrent use.
type Store struct {
	now func() time.Time
	log *Log

	mu       sync.Mutex
	closed   bool
	sessions map[string]*backend.Document
	owners   map[callKey]*backend.Document
	removed  []*tree          // oldest removal first
	gone     map[string]*tree // by the ids of their sessions
	removals int              // number of removals so far
	sweepAt  time.Time        // no root becomes stale before; zero for never
	watchers map[chan driver.StopNotice]struct{}

	namespaces    map[string]*namespace // of records
	recordVersion int64                 // the last one given

	usage usageLog

	memories      map[driver.MemoryScope]*memoryScope
	memoryVersion int64 // the last one given

	blobs map[blobKey]*blob
	named map[driver.BlobOwner]map[string]*blob // by key
}

// callKey identifies a pending call.
type callKey struct{ root, id string }

// New returns an empty store. It needs no Close.
func New(opts *Options) *Store {
	if opts == nil {
		opts = &Options{}
	}
	s := &Store{now: opts.Now, sessions: map[string]*backend.Document{}, gone: map[string]*tree{}, owners: map[callKey]*backend.Document{}, watchers: map[chan driver.StopNotice]struct{}{}}
	if s.now == nil {
		s.now = time.Now
	}
	s.log = newLog(opts.MaxEvent, s.now)
	return s
}

// EventLog returns the store's event log.
func (s *Store) EventLog() driver.Log { return s.log }

// Self implements driver.Store.
func (s *Store) Self() driver.Store { return s }

// Close makes every later call fail with ErrClosed.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.log.close()
	return nil
}

// clock returns the time as it is stored: in UTC, truncated to microseconds.
func (s *Store) clock() time.Time { return s.now().UTC().Truncate(time.Microsecond) }

// lock takes the store's mutex, or returns the error of a closed store or a cancelled context.
func (s *Store) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return cairn.Errorf(cairn.ErrClosed, "the store is closed")
	}
	return nil
}

// open locks the store and finds a session. If there is no error the caller must unlock the store.
func (s *Store) open(ctx context.Context, id string) (*backend.Document, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	doc, err := s.find(id, s.clock())
	if err == nil && doc == nil {
		err = driver.NotFound(id)
	}
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	return doc, nil
}

// find returns a session, or nil if it does not exist. A removed session is an error.
func (s *Store) find(id string, now time.Time) (*backend.Document, error) {
	doc := s.sessions[id]
	if doc != nil && !doc.Row.Running(now) {
		s.look(doc, now)
	}
	if t := s.gone[id]; t != nil {
		return nil, driver.Gone(id, t.Removed)
	}
	if doc != nil {
		doc.Row.AsOf = now
	}
	return doc, nil
}

func copyOf[T any](v *T) *T {
	c := *v
	return &c
}

// Read implements driver.Store.
func (s *Store) Read(ctx context.Context, id string, want driver.Want) (*driver.Contents, error) {
	doc, err := s.open(ctx, id)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return doc.Read(want)
}

// Stage implements driver.Store.
func (s *Store) Stage(ctx context.Context, id string, token int64, pieces ...driver.Staged) error {
	if err := driver.ValidateStaged(pieces); err != nil {
		return err
	}
	doc, err := s.open(ctx, id)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	return doc.Stage(token, pieces)
}

// Renew implements driver.Store.
func (s *Store) Renew(ctx context.Context, id string, token int64, ttl time.Duration) (*cairn.Stop, error) {
	doc, err := s.open(ctx, id)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return doc.Renew(token, ttl, s.clock())
}

// RequestStop implements driver.Store.
func (s *Store) RequestStop(ctx context.Context, id string, stop cairn.Stop) error {
	if err := stop.Validate(); err != nil {
		return err
	}
	doc, err := s.open(ctx, id)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	stands, err := doc.RequestStop(stop, s.clock())
	if err != nil {
		return err
	}
	for w := range s.watchers {
		select {
		case w <- driver.StopNotice{SessionID: id, Stop: stands}:
		default: // a watcher this far behind finds the request at its heartbeat
		}
	}
	return nil
}

// WatchStops implements driver.StopWatcher.
func (s *Store) WatchStops(ctx context.Context) iter.Seq2[driver.StopNotice, error] {
	return func(yield func(driver.StopNotice, error) bool) {
		ch := make(chan driver.StopNotice, 256)
		var standing []driver.StopNotice
		s.mu.Lock()
		s.watchers[ch] = struct{}{}
		for id, doc := range s.sessions {
			if doc.Stop != nil {
				standing = append(standing, driver.StopNotice{SessionID: id, Stop: *doc.Stop})
			}
		}
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			delete(s.watchers, ch)
			s.mu.Unlock()
		}()
		for _, n := range standing {
			if !yield(n, nil) {
				return
			}
		}
		for {
			select {
			case n := <-ch:
				if !yield(n, nil) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// Delete implements driver.Store.
func (s *Store) Delete(ctx context.Context, id string) error {
	doc, err := s.open(ctx, id)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	if doc.Row.Running(s.clock()) {
		return driver.Conflict(cairn.ErrAlreadyRunning, copyOf(&doc.Row), "session %q is running", id)
	}
	s.forget(doc)
	return nil
}

// forget removes a session from all indexes.
func (s *Store) forget(doc *backend.Document) {
	delete(s.sessions, doc.Row.ID)
	for callID := range doc.Calls {
		delete(s.owners, callKey{doc.Row.RootID, callID})
	}
}

// usageLog has the usage rows in order, of which the first ones are folded.
type usageLog struct {
	rows    []cairn.UsageRow
	trimmed int // rows before the first one
	folded  int // of rows
	sums    backend.UsageSums
}
