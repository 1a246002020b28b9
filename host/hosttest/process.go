package hosttest

import (
	"context"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store/driver"
)

// process is an engine with its own connection to the store. The connection can be cut.
type process struct {
	*engine.Engine
	s   *scene
	tap *tap
}

// die cuts off the process from its store and log for good. The diary records nothing of it from then on.
func (p *process) die() { p.tap.cut() }

// operation is a call of the store or the log.
type operation struct {
	name    string
	session string         // session or log that a write is for
	commit  *driver.Commit // for a Commit
}

// ends reports whether the operation ends or suspends a run of the session.
func (o operation) ends(session string) bool {
	return o.commit != nil && o.session == session && o.commit.EndRun != nil
}

// tap stands between a process and its store. It can intercept operations and cut the connection.
type tap struct {
	driver.Store
	log driver.Log

	mu     sync.Mutex
	dead   bool
	before func(operation) error
	after  func(operation)
}

// errCut is the error of all operations of a process that was cut off. It is not retryable.
var errCut = cairn.Errorf(cairn.ErrClosed, "cut off")

func (s *tap) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = true
}

func (s *tap) isDead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

// watch sets a function to call before each operation, which may reject it, and one to call after each operation
// that succeeded. Either may cut off the process: then the operation does not happen, or its outcome is lost.
func (s *tap) watch(before func(operation) error, after func(operation)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

// through executes an operation unless the process is dead.
func through[T any](s *tap, op operation, call func() (T, error)) (T, error) {
	var none T
	s.mu.Lock()
	before, after := s.before, s.after
	s.mu.Unlock()
	if s.isDead() {
		return none, errCut
	}
	if before != nil {
		if err := before(op); err != nil {
			return none, err
		}
	}
	if s.isDead() {
		return none, errCut
	}
	v, err := call()
	if err == nil && after != nil {
		after(op)
	}
	if s.isDead() {
		return none, errCut
	}
	return v, err
}

func only(err error) (struct{}, error) { return struct{}{}, err }

// line returns the store as the process sees it: a StopWatcher and a Sweeper if the store is one.
func (s *tap) line() driver.Store {
	w, watches := s.Store.(driver.StopWatcher)
	sw, sweeps := s.Store.(driver.Sweeper)
	switch {
	case watches && sweeps:
		return struct {
			*tap
			stopWatch
			sweepLine
		}{s, stopWatch{s, w}, sweepLine{sw, s}}
	case watches:
		return struct {
			*tap
			stopWatch
		}{s, stopWatch{s, w}}
	case sweeps:
		return struct {
			*tap
			sweepLine
		}{s, sweepLine{sw, s}}
	}
	return s
}

// withoutLog returns the store as the process sees it if the log is in another place. It is no LogProvider then.
func (s *tap) withoutLog() driver.Store {
	w, watches := s.Store.(driver.StopWatcher)
	sw, sweeps := s.Store.(driver.Sweeper)
	if watches && sweeps {
		return fullStore{plainStore{s}, stopWatch{s, w}, sweepLine{sw, s}}
	}
	return plainStore{s}
}

type plainStore struct{ driver.Store }

func (p plainStore) Self() driver.Store { return p }

type fullStore struct {
	plainStore
	stopWatch
	sweepLine
}

// sweepLine is the Sweeper as a process sees it.
type sweepLine struct {
	driver.Sweeper
	s *tap
}

func (l sweepLine) Restore(ctx context.Context, root string) (*cairn.Session, error) {
	return through(l.s, operation{name: "Restore", session: root}, func() (*cairn.Session, error) { return l.Sweeper.Restore(ctx, root) })
}

func (l sweepLine) Remove(ctx context.Context, root string, why driver.Removal) (*driver.Removed, error) {
	return through(l.s, operation{name: "Remove", session: root}, func() (*driver.Removed, error) { return l.Sweeper.Remove(ctx, root, why) })
}

func (l sweepLine) Stale(ctx context.Context, q driver.PageQuery) (driver.Page[string], error) {
	return through(l.s, operation{name: "Stale"}, func() (driver.Page[string], error) { return l.Sweeper.Stale(ctx, q) })
}

func (l sweepLine) Removed(ctx context.Context, age time.Duration, q driver.PageQuery) (driver.Page[driver.Removed], error) {
	return through(l.s, operation{name: "Removed"}, func() (driver.Page[driver.Removed], error) { return l.Sweeper.Removed(ctx, age, q) })
}

func (l sweepLine) Purge(ctx context.Context, key string) (int, error) {
	return through(l.s, operation{name: "Purge"}, func() (int, error) { return l.Sweeper.Purge(ctx, key) })
}

type stopWatch struct {
	s *tap
	w driver.StopWatcher
}

func (w stopWatch) WatchStops(ctx context.Context) iter.Seq2[driver.StopNotice, error] {
	return func(yield func(driver.StopNotice, error) bool) {
		for n, err := range w.w.WatchStops(ctx) {
			if !w.s.isDead() && !yield(n, err) {
				return
			}
		}
	}
}

func (s *tap) Self() driver.Store { return s }

func (s *tap) EventLog() driver.Log {
	if f, ok := s.log.(driver.Fencer); ok {
		return fencedLine{logLine{s.log, s}, f}
	}
	return logLine{s.log, s}
}

func (s *tap) Commit(ctx context.Context, id string, c *driver.Commit) (*cairn.Session, error) {
	return through(s, operation{"Commit", id, c}, func() (*cairn.Session, error) { return s.Store.Commit(ctx, id, c) })
}

func (s *tap) Read(ctx context.Context, id string, want driver.Want) (*driver.Contents, error) {
	return through(s, operation{name: "Read"}, func() (*driver.Contents, error) { return s.Store.Read(ctx, id, want) })
}

func (s *tap) Stage(ctx context.Context, id string, token int64, pieces ...driver.Staged) error {
	_, err := through(s, operation{name: "Stage", session: id}, func() (struct{}, error) { return only(s.Store.Stage(ctx, id, token, pieces...)) })
	return err
}

func (s *tap) Renew(ctx context.Context, id string, token int64, ttl time.Duration) (*cairn.Stop, error) {
	return through(s, operation{name: "Renew"}, func() (*cairn.Stop, error) { return s.Store.Renew(ctx, id, token, ttl) })
}

func (s *tap) RequestStop(ctx context.Context, id string, stop cairn.Stop) error {
	_, err := through(s, operation{name: "RequestStop", session: id}, func() (struct{}, error) { return only(s.Store.RequestStop(ctx, id, stop)) })
	return err
}

func (s *tap) Runs(ctx context.Context, id string, q driver.PageQuery) (driver.Page[cairn.Run], error) {
	return through(s, operation{name: "Runs"}, func() (driver.Page[cairn.Run], error) { return s.Store.Runs(ctx, id, q) })
}

func (s *tap) Checkpoints(ctx context.Context, id string, q driver.PageQuery) (driver.Page[cairn.Checkpoint], error) {
	return through(s, operation{name: "Checkpoints"}, func() (driver.Page[cairn.Checkpoint], error) { return s.Store.Checkpoints(ctx, id, q) })
}

func (s *tap) Calls(ctx context.Context, q driver.CallQuery) (driver.Page[cairn.PendingCall], error) {
	return through(s, operation{name: "Calls"}, func() (driver.Page[cairn.PendingCall], error) { return s.Store.Calls(ctx, q) })
}

func (s *tap) Branch(ctx context.Context, from string, at driver.BranchPoint, to *cairn.Session) (*cairn.Session, error) {
	return through(s, operation{name: "Branch"}, func() (*cairn.Session, error) { return s.Store.Branch(ctx, from, at, to) })
}

func (s *tap) Prune(ctx context.Context, id string, keep int) (int, error) {
	return through(s, operation{name: "Prune"}, func() (int, error) { return s.Store.Prune(ctx, id, keep) })
}

func (s *tap) List(ctx context.Context, q driver.SessionQuery) (driver.Page[cairn.Session], error) {
	return through(s, operation{name: "List"}, func() (driver.Page[cairn.Session], error) { return s.Store.List(ctx, q) })
}

func (s *tap) Due(ctx context.Context, q driver.DueQuery) (driver.Page[driver.Due], error) {
	return through(s, operation{name: "Due"}, func() (driver.Page[driver.Due], error) { return s.Store.Due(ctx, q) })
}

func (s *tap) Delete(ctx context.Context, id string) error {
	_, err := through(s, operation{name: "Delete"}, func() (struct{}, error) { return only(s.Store.Delete(ctx, id)) })
	return err
}

// logLine is the event log as a process sees it.
type logLine struct {
	driver.Log
	s *tap
}

func (l logLine) Self() driver.Log { return l }

// fencedLine is the event log as a process sees it, if the log is a Fencer.
type fencedLine struct {
	logLine
	f driver.Fencer
}

// rootOf returns the root that a log belongs to.
func rootOf(log string) string {
	if i := strings.LastIndexByte(log, '@'); i > 0 {
		return log[:i]
	}
	return log
}

func (l logLine) Append(ctx context.Context, log string, expect int64, events ...cairn.Event) (int64, error) {
	return through(l.s, operation{name: "Append", session: rootOf(log)}, func() (int64, error) { return l.Log.Append(ctx, log, expect, events...) })
}

func (l fencedLine) AppendFenced(ctx context.Context, log string, expect int64, w driver.Writer, events ...cairn.Event) (int64, error) {
	return through(l.s, operation{name: "Append", session: rootOf(log)}, func() (int64, error) {
		return l.f.AppendFenced(ctx, log, expect, w, events...)
	})
}

func (l logLine) Read(ctx context.Context, log string, after int64, limit int) ([]cairn.Event, error) {
	return through(l.s, operation{name: "Read", session: rootOf(log)}, func() ([]cairn.Event, error) { return l.Log.Read(ctx, log, after, limit) })
}

func (l logLine) Bounds(ctx context.Context, log string) (first, last int64, err error) {
	_, err = through(l.s, operation{name: "Bounds", session: rootOf(log)}, func() (_ struct{}, err error) {
		first, last, err = l.Log.Bounds(ctx, log)
		return struct{}{}, err
	})
	return first, last, err
}
