// Package memstore keeps sessions and events in memory. It is the reference implementation of the storage contracts:
// for tests, demos and agents whose sessions may end with the process.
package memstore

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
)

// Options tune a Store. The zero value and nil mean the defaults.
type Options struct {
	// Now is the store's clock; nil means time.Now.
	Now func() time.Time
	// MaxEvent is the maximum size of an encoded event in bytes; 0 means store.DefaultMaxEvent.
	MaxEvent int
}

// Store is a store.Store in memory, with an event log of its own. It is safe for concurrent use.
type Store struct {
	now func() time.Time
	log *Log

	mu       sync.Mutex
	closed   bool
	sessions map[string]*session
	owners   map[callKey]*session
	removed  []*tree          // the oldest removal first
	gone     map[string]*tree // those by the ids of their sessions
	removals int              // ever
	sweepAt  time.Time        // no root is stale before; zero if none will be
	watchers map[chan store.StopNotice]struct{}

	namespaces    map[string]*namespace // of records
	recordVersion int64                 // the last one given
}

// session is everything one session owns. Runs and messages are replaced, never modified, so that they can be handed out;
// of the row only copies are.
type session struct {
	row         cairn.Session
	stop        *cairn.Stop
	messages    []cairn.Message
	changes     []change // by position, from firstChange on
	firstChange int64
	runs        []*cairn.Run // by turn
	runIndex    map[string]int
	checkpoints []*cairn.Checkpoint
	steps       map[string]struct{} // the steps that checkpoints are of
	numbers     int64               // checkpoints ever written
	staged      []store.Staged
	calls       map[string]*cairn.PendingCall // by id; nil for none
	queue       []store.QueuedTurn
	cache       map[string]store.CacheEntry // by key
	dueAt       time.Time                   // the time from which it is due, if it has a DueKindOf
	sweepAt     time.Time                   // the time from which it is stale; zero for never
}

// callKey names a pending call.
type callKey struct{ root, id string }

// change is one position of the state: a keyframe, or operations on the position before.
type change struct {
	keyframe json.RawMessage
	ops      []cairn.Op
	size     int
}

// New returns an empty store. It needs no cleaning up.
func New(opts *Options) *Store {
	if opts == nil {
		opts = &Options{}
	}
	s := &Store{now: opts.Now, sessions: map[string]*session{}, gone: map[string]*tree{}, owners: map[callKey]*session{}, watchers: map[chan store.StopNotice]struct{}{}}
	if s.now == nil {
		s.now = time.Now
	}
	s.log = newLog(opts.MaxEvent, s.now)
	return s
}

// EventLog returns the store's event log.
func (s *Store) EventLog() store.Log { return s.log }

// Close makes every later call fail with ErrClosed.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.log.close()
	return nil
}

// clock returns the time as it is stored: in UTC, with microseconds.
func (s *Store) clock() time.Time { return s.now().UTC().Truncate(time.Microsecond) }

// lock takes the store's mutex unless the call is not to happen.
func (s *Store) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return cairn.Errorf(cairn.CodeClosed, "the store is closed")
	}
	return nil
}

// open locks the store and finds a session. The caller unlocks.
func (s *Store) open(ctx context.Context, id string) (*session, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	ses, err := s.find(id, s.clock())
	if err == nil && ses == nil {
		err = store.NotFound(id)
	}
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	return ses, nil
}

// find returns a session, or nil if there is none; of one that is gone the error says so.
func (s *Store) find(id string, now time.Time) (*session, error) {
	ses := s.sessions[id]
	if ses != nil && !ses.row.Running(now) {
		s.look(ses, now)
	}
	if t := s.gone[id]; t != nil {
		return nil, store.Gone(id, t.Removed)
	}
	if ses != nil {
		ses.row.AsOf = now
	}
	return ses, nil
}

func copyOf[T any](v *T) *T {
	c := *v
	return &c
}

// Read implements store.Store.
func (s *Store) Read(ctx context.Context, id string, want store.Want) (*store.Snapshot, error) {
	ses, err := s.open(ctx, id)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	snap := &store.Snapshot{Session: copyOf(&ses.row)}
	position := ses.row.State.Position
	if want.Checkpoint != "" {
		cp, err := ses.checkpoint(want.Checkpoint)
		if err != nil {
			return nil, err
		}
		snap.Checkpoint, position = copyOf(cp), cp.StatePosition
	}
	if want.Run != "" {
		i, err := ses.run(want.Run)
		if err != nil {
			return nil, err
		}
		snap.Run = copyOf(ses.runs[i])
	}
	if want.State {
		if snap.State, err = ses.state(position); err != nil {
			return nil, err
		}
	}
	if want.Messages {
		snap.Messages = ses.slice(want.From, want.Size())
	}
	if want.Staged {
		snap.Staged = ses.stagedOf(want.StagedStep)
	}
	if want.Calls {
		snap.Calls = ses.waiting()
	}
	if want.Cache {
		snap.Cache = slices.SortedFunc(maps.Values(ses.cache), func(a, b store.CacheEntry) int { return strings.Compare(a.Key, b.Key) })
	}
	if want.Queue {
		snap.Queue = slices.Clone(ses.queue)
	}
	return snap, nil
}

// stagedOf returns what is staged of one step, or of all if that is empty.
func (ses *session) stagedOf(step string) []store.Staged {
	var list []store.Staged
	for _, piece := range ses.staged {
		if step == "" || piece.StepID == step {
			list = append(list, piece)
		}
	}
	return list
}

// slice returns messages in a form that later appends cannot reach.
func (ses *session) slice(from, limit int) []cairn.Message {
	from = min(max(from, 0), len(ses.messages))
	to := min(from+limit, len(ses.messages))
	return ses.messages[from:to:to]
}

// keyframeAt returns the index in changes of the keyframe that a position builds on.
func (ses *session) keyframeAt(position int64) int {
	i := int(position - ses.firstChange)
	for ses.changes[i].keyframe == nil {
		i--
	}
	return i
}

func (ses *session) state(position int64) (json.RawMessage, error) {
	k := ses.keyframeAt(position)
	var later [][]cairn.Op
	for i := k + 1; i <= int(position-ses.firstChange); i++ {
		later = append(later, ses.changes[i].ops)
	}
	if len(later) == 0 {
		return ses.changes[k].keyframe, nil
	}
	return store.FoldState(ses.changes[k].keyframe, later)
}

func (ses *session) checkpoint(id string) (*cairn.Checkpoint, error) {
	for _, cp := range slices.Backward(ses.checkpoints) {
		if cp.ID == id {
			return cp, nil
		}
	}
	return nil, cairn.Errorf(cairn.CodeNotFound, "session %q has no checkpoint %q", ses.row.ID, id)
}

func (ses *session) run(id string) (int, error) {
	if i, ok := ses.runIndex[id]; ok {
		return i, nil
	}
	return 0, cairn.Errorf(cairn.CodeNotFound, "session %q has no run %q", ses.row.ID, id)
}

// Stage implements store.Store.
func (s *Store) Stage(ctx context.Context, id string, token int64, pieces ...store.Staged) error {
	if err := store.ValidateStaged(pieces); err != nil {
		return err
	}
	ses, err := s.open(ctx, id)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	if err := ses.fence(token); err != nil {
		return err
	}
	for _, piece := range pieces {
		if !slices.ContainsFunc(ses.staged, func(have store.Staged) bool {
			return have.StepID == piece.StepID && have.Key == piece.Key
		}) {
			piece.Data = slices.Clone(piece.Data)
			ses.staged = append(ses.staged, piece)
		}
	}
	return nil
}

// fence refuses a token that is not current; a holder always has one.
func (ses *session) fence(token int64) error {
	if token == 0 || token != ses.row.Lease.Token {
		return store.Conflict(cairn.CodeFenced, copyOf(&ses.row), "session %q: the lease was lost: fencing token %d, now %d",
			ses.row.ID, token, ses.row.Lease.Token)
	}
	return nil
}

// Renew implements store.Store.
func (s *Store) Renew(ctx context.Context, id string, token int64, ttl time.Duration) (*cairn.Stop, error) {
	ses, err := s.open(ctx, id)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if err := ses.fence(token); err != nil {
		return nil, err
	}
	ses.row.Lease.Until = s.clock().Add(ttl)
	if ses.stop == nil || ses.stop.RunID != ses.row.RunID {
		return nil, nil
	}
	return copyOf(ses.stop), nil
}

// RequestStop implements store.Store.
func (s *Store) RequestStop(ctx context.Context, id string, stop cairn.Stop) error {
	if err := stop.Validate(); err != nil {
		return err
	}
	ses, err := s.open(ctx, id)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	if ses.row.Status != cairn.SessionActive || ses.row.RunID != stop.RunID {
		return store.Conflict(cairn.CodeNotRunning, copyOf(&ses.row), "session %q: run %q is not running", id, stop.RunID)
	}
	if old := ses.stop; old != nil && old.RunID == stop.RunID && (old.Kind == cairn.StopAbort || stop.Kind != cairn.StopAbort) {
		stop = *old
	} else {
		stop.At = s.clock()
		ses.stop = &stop
	}
	for w := range s.watchers {
		select {
		case w <- store.StopNotice{SessionID: id, Stop: stop}:
		default: // a watcher that is this far behind finds the request at its heartbeat
		}
	}
	return nil
}

// WatchStops implements store.StopWatcher.
func (s *Store) WatchStops(ctx context.Context) iter.Seq2[store.StopNotice, error] {
	return func(yield func(store.StopNotice, error) bool) {
		ch := make(chan store.StopNotice, 256)
		var standing []store.StopNotice
		s.mu.Lock()
		s.watchers[ch] = struct{}{}
		for id, ses := range s.sessions {
			if ses.stop != nil {
				standing = append(standing, store.StopNotice{SessionID: id, Stop: *ses.stop})
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

// Due implements store.Store.
func (s *Store) Due(ctx context.Context, q store.DueQuery) (store.Page[store.Due], error) {
	since, id, err := store.ParseDueCursor(q.Cursor)
	if err != nil {
		return store.Page[store.Due]{}, err
	}
	after := store.Due{SessionID: id, Since: since}
	if err := s.lock(ctx); err != nil {
		return store.Page[store.Due]{}, err
	}
	defer s.mu.Unlock()
	now := s.clock()
	s.expire(now)
	var due []store.Due
	for _, ses := range s.sessions {
		d := ses.due()
		d.Since = d.Since.Truncate(time.Microsecond) // as a cursor keeps it
		if d.Kind == "" || now.Before(d.Since) || id != "" && store.CompareDue(d, after) <= 0 {
			continue
		}
		if root := s.sessions[d.RootID]; root != nil {
			d.Agent = root.row.Agent
		}
		if q.Agents == nil || slices.Contains(q.Agents, d.Agent) {
			due = append(due, d)
		}
	}
	return store.DuePage(due, q.Limit), nil
}

// due returns why and from when on a session needs a worker; Kind is empty if it needs none.
func (ses *session) due() store.Due {
	row := &ses.row
	d := store.Due{SessionID: row.ID, RootID: row.RootID, Agent: row.Agent, Kind: store.DueKindOf(row), Since: ses.dueAt}
	if row.Status == cairn.SessionActive {
		d.Kind, d.Since = store.DueCrashed, row.Lease.Until
	}
	return d
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, id string) error {
	ses, err := s.open(ctx, id)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	if ses.row.Running(s.clock()) {
		return store.Conflict(cairn.CodeRunning, copyOf(&ses.row), "session %q is running", id)
	}
	s.forget(ses)
	return nil
}

// forget takes a session out of everything that sessions and calls are found by.
func (s *Store) forget(ses *session) {
	delete(s.sessions, ses.row.ID)
	for callID := range ses.calls {
		delete(s.owners, callKey{ses.row.RootID, callID})
	}
}

// newest returns the rows of the sessions for which fn says so, newest first. The caller holds the lock.
func (s *Store) newest(fn func(*cairn.Session) bool) []*cairn.Session {
	var list []*cairn.Session
	for _, ses := range s.sessions {
		if fn(&ses.row) {
			list = append(list, &ses.row)
		}
	}
	slices.SortFunc(list, func(a, b *cairn.Session) int {
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(b.ID, a.ID)
	})
	return list
}
