package engine_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// tap stands between an engine and a memory store: it records the calls and lets a test step in. Two taps on one store
// are two processes, see twin.
type tap struct {
	*memstore.Store
	log *logTap

	mu    sync.Mutex
	calls []string
	// before may refuse a call, after may lose the answer of one that happened. Either may block.
	before, after func(ctx context.Context, op string) error
}

// tapOn returns a tap on st; nil means a new store.
func tapOn(st *memstore.Store) *tap {
	if st == nil {
		st = memstore.New(nil)
	}
	return &tap{Store: st, log: &logTap{Log: st.EventLog().(*memstore.Log)}}
}

// away is a tap whose engines do not find the log that it writes to.
type away struct{ *tap }

func (a away) EventLog() store.Log { return a.Store.EventLog() }

// placed returns the store for an engine with the options, which get the log of a tap that keeps its events elsewhere.
func placed(st store.Store, o *engine.Options) store.Store {
	s, is := st.(*tap)
	if !is || s.log.Log == s.Store.EventLog().(*memstore.Log) {
		return st
	}
	o.Log = s.log
	return away{s}
}

// separated returns a tap on a new store whose engines keep their events elsewhere: in the log of another store.
func separated() *tap {
	s := tapOn(nil)
	s.log.Log = memstore.New(nil).EventLog().(*memstore.Log)
	return s
}

// twin returns another process on the same store and log.
func (s *tap) twin() *tap { return &tap{Store: s.Store, log: &logTap{Log: s.log.Log}} }

// logs are where the events of a test's store may be.
var logs = map[string]func() *tap{"own log": func() *tap { return tapOn(nil) }, "log elsewhere": separated}

// bothLogs runs a test twice with a store: the events are in a log of its own, and in a log elsewhere.
func bothLogs(t *testing.T, test func(t *testing.T, st *tap)) {
	t.Parallel()
	for name, st := range logs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(t, st()) })
		})
	}
}

func (s *tap) EventLog() store.Log { return s.log }

// stepIn sets what happens before and after each call from now on.
func (s *tap) stepIn(before, after func(ctx context.Context, op string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

// cut makes every call fail from now on, as if the process had lost its network.
func (s *tap) cut() {
	down := func(context.Context, string) error { return cairn.Errorf(cairn.ErrUnavailable, "cut off") }
	s.stepIn(down, nil)
	// Not ErrUnavailable, so that an engine does not wait for the log to return.
	s.log.stepIn(func(context.Context, []cairn.Event) error { return cairn.Errorf(cairn.ErrInternal, "cut off") })
}

// seen returns the calls so far and clears them.
func (s *tap) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.calls
	s.calls = nil
	return list
}

func through[T any](s *tap, ctx context.Context, op string, call func() (T, error)) (T, error) {
	s.mu.Lock()
	s.calls = append(s.calls, op)
	before, after := s.before, s.after
	s.mu.Unlock()
	var none T
	if before != nil {
		if err := before(ctx, op); err != nil {
			return none, err
		}
	}
	v, err := call()
	if err == nil && after != nil {
		if err := after(ctx, op); err != nil {
			return none, err
		}
	}
	return v, err
}

func only(err error) (struct{}, error) { return struct{}{}, err }

func (s *tap) Commit(ctx context.Context, id string, c *driver.Commit) (*cairn.Session, error) {
	return through(s, ctx, "Commit", func() (*cairn.Session, error) { return s.Store.Commit(ctx, id, c) })
}

func (s *tap) Read(ctx context.Context, id string, want driver.Want) (*driver.Contents, error) {
	return through(s, ctx, nameOf(want), func() (*driver.Contents, error) { return s.Store.Read(ctx, id, want) })
}

// nameOf returns the name of a read in the list of operations.
func nameOf(want driver.Want) string {
	switch {
	case want == driver.Want{}:
		return "Load"
	case want.Messages && want.State:
		return "Snapshot"
	case want.Run != "":
		return "Run"
	}
	return "Read"
}

func (s *tap) Stage(ctx context.Context, id string, token int64, pieces ...driver.Staged) error {
	_, err := through(s, ctx, "Stage", func() (struct{}, error) { return only(s.Store.Stage(ctx, id, token, pieces...)) })
	return err
}

func (s *tap) Renew(ctx context.Context, id string, token int64, ttl time.Duration) (*cairn.Stop, error) {
	return through(s, ctx, "Renew", func() (*cairn.Stop, error) { return s.Store.Renew(ctx, id, token, ttl) })
}

func (s *tap) RequestStop(ctx context.Context, id string, stop cairn.Stop) error {
	_, err := through(s, ctx, "RequestStop", func() (struct{}, error) { return only(s.Store.RequestStop(ctx, id, stop)) })
	return err
}

func (s *tap) Runs(ctx context.Context, id string, q store.PageQuery) (store.Page[cairn.Run], error) {
	return through(s, ctx, "Runs", func() (store.Page[cairn.Run], error) { return s.Store.Runs(ctx, id, q) })
}

func (s *tap) Checkpoints(ctx context.Context, id string, q store.PageQuery) (store.Page[cairn.Checkpoint], error) {
	return through(s, ctx, "Checkpoints", func() (store.Page[cairn.Checkpoint], error) { return s.Store.Checkpoints(ctx, id, q) })
}

func (s *tap) Due(ctx context.Context, q driver.DueQuery) (store.Page[store.Due], error) {
	return through(s, ctx, "Due", func() (store.Page[store.Due], error) { return s.Store.Due(ctx, q) })
}

func (s *tap) Calls(ctx context.Context, q store.CallQuery) (store.Page[cairn.PendingCall], error) {
	return through(s, ctx, "Calls", func() (store.Page[cairn.PendingCall], error) { return s.Store.Calls(ctx, q) })
}

func (s *tap) Branch(ctx context.Context, from string, at driver.BranchPoint, to *cairn.Session) (*cairn.Session, error) {
	return through(s, ctx, "Branch", func() (*cairn.Session, error) { return s.Store.Branch(ctx, from, at, to) })
}

func (s *tap) List(ctx context.Context, q store.SessionQuery) (store.Page[cairn.Session], error) {
	return through(s, ctx, "List", func() (store.Page[cairn.Session], error) { return s.Store.List(ctx, q) })
}

func (s *tap) Prune(ctx context.Context, id string, keep int) (int, error) {
	return through(s, ctx, "Prune", func() (int, error) { return s.Store.Prune(ctx, id, keep) })
}

func (s *tap) Delete(ctx context.Context, id string) error {
	_, err := through(s, ctx, "Delete", func() (struct{}, error) { return only(s.Store.Delete(ctx, id)) })
	return err
}

// Records returns the store's records. Only their calls about what ended runs leave to be done, and about budgets, are
// counted.
func (s *tap) Records() store.Records { return recordsTap{s.Store.Records(), s} }

type recordsTap struct {
	store.Records
	tap *tap
}

func leftover(namespace string) bool {
	return namespace == driver.StopRecords || namespace == driver.LearnRecords || namespace == driver.BudgetRecords
}

func (r recordsTap) Get(ctx context.Context, namespace, key string) (*store.Record, error) {
	if !leftover(namespace) {
		return r.Records.Get(ctx, namespace, key)
	}
	return through(r.tap, ctx, "GetRecord", func() (*store.Record, error) { return r.Records.Get(ctx, namespace, key) })
}

func (r recordsTap) Put(ctx context.Context, w store.RecordWrite) (*store.Record, error) {
	if !leftover(w.Namespace) {
		return r.Records.Put(ctx, w)
	}
	return through(r.tap, ctx, "PutRecord", func() (*store.Record, error) { return r.Records.Put(ctx, w) })
}

func (r recordsTap) Delete(ctx context.Context, namespace, key string, seen int64) error {
	if !leftover(namespace) {
		return r.Records.Delete(ctx, namespace, key, seen)
	}
	_, err := through(r.tap, ctx, "DeleteRecord", func() (struct{}, error) { return only(r.Records.Delete(ctx, namespace, key, seen)) })
	return err
}

func (r recordsTap) List(ctx context.Context, q store.RecordQuery) (store.Page[store.Record], error) {
	if q.Namespace != driver.BudgetRecords {
		return r.Records.List(ctx, q)
	}
	return through(r.tap, ctx, "ListRecords", func() (store.Page[store.Record], error) { return r.Records.List(ctx, q) })
}

// logTap stands between an engine and an event log.
type logTap struct {
	*memstore.Log

	mu     sync.Mutex
	before func(ctx context.Context, events []cairn.Event) error
}

// stepIn sets what happens before each append from now on; an error refuses it.
func (l *logTap) stepIn(before func(ctx context.Context, events []cairn.Event) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before = before
}

func (l *logTap) step(ctx context.Context, events []cairn.Event) error {
	l.mu.Lock()
	before := l.before
	l.mu.Unlock()
	if before == nil || len(events) == 0 {
		return nil
	}
	return before(ctx, events)
}

func (l *logTap) Append(ctx context.Context, log string, expect int64, events ...cairn.Event) (int64, error) {
	if err := l.step(ctx, events); err != nil {
		return 0, err
	}
	return l.Log.Append(ctx, log, expect, events...)
}

func (l *logTap) AppendFenced(ctx context.Context, log string, expect int64, w driver.Writer, events ...cairn.Event) (int64, error) {
	if err := l.step(ctx, events); err != nil {
		return 0, err
	}
	return l.Log.AppendFenced(ctx, log, expect, w, events...)
}
