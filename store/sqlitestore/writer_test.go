package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// hold keeps the write connection until the function it returns is called.
func (s *Store) hold(tb testing.TB) (release func()) {
	tb.Helper()
	held, done := make(chan struct{}), make(chan struct{})
	go s.writer.do(&job{ctx: context.Background(), alone: true, run: func(*conn) error {
		close(held)
		<-done
		return nil
	}})
	<-held
	return sync.OnceFunc(func() { close(done) })
}

// waitQueue waits until n writes are queued.
func (s *Store) waitQueue(n int) {
	for {
		s.writer.mu.Lock()
		queued := len(s.writer.queue)
		s.writer.mu.Unlock()
		if queued == n {
			return
		}
		runtime.Gosched()
	}
}

// commitAll makes one commit to each of the sessions while the write connection is held, lets them go, and returns
// their errors and how many transactions it took. A statement fails if one of fail says so.
func commitAll(t *testing.T, s *Store, commits []*driver.Commit, ctxs []context.Context, meanwhile func(), fail ...func(text string) error) (errs []error, transactions int) {
	t.Helper()
	s.intercept(t, func(text string) error { // which runs under the writer's lead, so before the last answer
		if text == sqlCommit {
			transactions++
		}
		for _, failure := range fail {
			if err := failure(text); err != nil {
				return err
			}
		}
		return nil
	})
	release := s.hold(t)
	errs = make([]error, len(commits))
	var all sync.WaitGroup
	for i, c := range commits {
		all.Go(func() { _, errs[i] = s.Commit(ctxs[i], fmt.Sprint("session-", i), c) })
		s.waitQueue(i + 1)
	}
	meanwhile()
	release()
	all.Wait()
	return errs, transactions
}

func createAll(t *testing.T, s *Store, n int) (commits []*driver.Commit, ctxs []context.Context) {
	t.Helper()
	for i := range n {
		if _, err := driver.Create(t.Context(), s, &cairn.Session{ID: fmt.Sprint("session-", i), Agent: "support"}, nil); err != nil {
			t.Fatal(err)
		}
		commits = append(commits, &driver.Commit{Guard: driver.Guard{Version: 1}, Messages: large(1)})
		ctxs = append(ctxs, t.Context())
	}
	return commits, ctxs
}

// checkCommitted checks that those commits took effect whose error is nil, in full, and no others.
func checkCommitted(t *testing.T, s *Store, errs []error) {
	t.Helper()
	for i, err := range errs {
		snap, loadErr := s.Read(t.Context(), fmt.Sprint("session-", i), driver.ToDrive(0))
		if loadErr != nil {
			t.Fatal(loadErr)
		}
		messages := 0
		if err == nil {
			messages = 2
		}
		if (snap.Session.Version > 1) != (err == nil) || len(snap.Messages) != messages {
			t.Errorf("commit %d answered %v: the session has version %d and %d messages", i, err, snap.Session.Version, len(snap.Messages))
		}
	}
}

func TestWaitingCommitsShareATransaction(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	commits, ctxs := createAll(t, s, 12)
	errs, transactions := commitAll(t, s, commits, ctxs, func() {})
	for i, err := range errs {
		if err != nil {
			t.Errorf("commit %d: %v", i, err)
		}
	}
	if transactions != 1 {
		t.Errorf("%d transactions, want 1", transactions)
	}
	checkCommitted(t, s, errs)
}

func TestRefusedCommitLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	commits, ctxs := createAll(t, s, 6)
	commits[0].Guard.Version = 7
	commits[3].Guard.Idle, commits[3].Guard.Agent = true, "another"
	commits[5].Rewind = "no such checkpoint"
	errs, transactions := commitAll(t, s, commits, ctxs, func() {})
	for i, want := range []error{cairn.ErrStale, nil, nil, cairn.ErrInvalid, nil, cairn.ErrNotFound} {
		if !errors.Is(errs[i], want) {
			t.Errorf("commit %d: %v, want %v", i, errs[i], want)
		}
	}
	if transactions != 1 {
		t.Errorf("%d transactions, want 1", transactions)
	}
	checkCommitted(t, s, errs)
}

// A commit that fails half way makes the others be done one by one.
func TestFailedCommitLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	commits, ctxs := createAll(t, s, 6)
	commits[2].StartRun = &cairn.Run{ID: "run", Agent: "support", Kind: cairn.RunExecute, Status: cairn.RunCompleted}
	errs, transactions := commitAll(t, s, commits, ctxs, func() {}, func(text string) error {
		if text == sqlInsertRun {
			return cairn.Errorf(cairn.ErrInvalid, "no runs today")
		}
		return nil
	})
	for i, err := range errs {
		if (i == 2) != errors.Is(err, cairn.ErrInvalid) || (i != 2 && err != nil) {
			t.Errorf("commit %d: %v", i, err)
		}
	}
	if transactions != 5 {
		t.Errorf("%d transactions, want 5", transactions)
	}
	checkCommitted(t, s, errs)
}

func TestCancelledCommitIsNotApplied(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	commits, ctxs := createAll(t, s, 5)
	ctx, cancel := context.WithCancel(t.Context())
	ctxs[0], ctxs[3] = ctx, ctx // the one that would lead and one that would follow
	errs, _ := commitAll(t, s, commits, ctxs, func() {
		cancel()
		s.waitQueue(3)
	})
	for i, err := range errs {
		if cancelled := i == 0 || i == 3; cancelled != errors.Is(err, context.Canceled) || (!cancelled && err != nil) {
			t.Errorf("commit %d: %v", i, err)
		}
	}
	checkCommitted(t, s, errs)
}

// Whenever a context is cancelled, a commit has happened in full or not at all, and the answer says which.
func TestCancelAtAnyMoment(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	commits, _ := createAll(t, s, 100)
	errs := make([]error, len(commits))
	var all sync.WaitGroup
	for i, c := range commits {
		ctx, cancel := context.WithCancel(t.Context())
		all.Go(func() { _, errs[i] = s.Commit(ctx, fmt.Sprint("session-", i), c) })
		all.Go(cancel)
	}
	all.Wait()
	for i, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("commit %d: %v", i, err)
		}
	}
	checkCommitted(t, s, errs)
}

func TestCloseWaitsForWrites(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	commits, ctxs := createAll(t, s, 3)
	closed := make(chan error, 1)
	errs, _ := commitAll(t, s, commits, ctxs, func() {
		go func() { closed <- s.Close() }()
		s.waitQueue(4)
	})
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	for i, err := range errs {
		if err != nil {
			t.Errorf("commit %d was under way: %v", i, err)
		}
	}
	checkCommitted(t, second(t, s), errs)
}

// What is durable is flushed with everything before it; what is not does not wait for the disk.
func TestOnlyDurableWritesFlush(t *testing.T) {
	t.Parallel()
	s := openAt(t, t.TempDir()+"/cairn.db", nil)
	createAll(t, s, 1)
	full := func() bool { return s.pragma(t, "PRAGMA synchronous") == 2 }
	if !full() {
		t.Error("a commit was not flushed")
	}
	if _, err := s.EventLog().Append(t.Context(), "log", 0, cairn.Event{Type: cairn.EventCustom}); err != nil {
		t.Fatal(err)
	}
	if full() {
		t.Error("an event was flushed")
	}
	release := s.hold(t)
	var all sync.WaitGroup
	all.Go(func() { s.EventLog().Append(t.Context(), "log", 1, cairn.Event{Type: cairn.EventCustom}) })
	s.waitQueue(1)
	all.Go(func() { s.Commit(t.Context(), "session-0", &driver.Commit{Step: 1}) })
	s.waitQueue(2)
	release()
	all.Wait()
	if !full() {
		t.Error("a commit that shared the transaction of an event was not flushed")
	}
}

// onBegin calls hook once, when the next transaction is about to begin.
func (s *Store) onBegin(tb testing.TB, hook func()) {
	tb.Helper()
	s.intercept(tb, func(text string) error {
		if text == sqlBegin && hook != nil {
			hook()
			hook = nil
		}
		return nil
	})
}

func TestDurableWriteDoesNotJoinAnUnflushedTransaction(t *testing.T) {
	t.Parallel()
	s := openAt(t, t.TempDir()+"/cairn.db", nil)
	createAll(t, s, 1)
	var commit sync.WaitGroup
	s.onBegin(t, func() { // it is too late for this transaction to be flushed
		commit.Go(func() { s.Commit(t.Context(), "session-0", &driver.Commit{Step: 1}) })
		s.waitQueue(1)
	})
	if _, err := s.EventLog().Append(t.Context(), "log", 0, cairn.Event{Type: cairn.EventCustom}); err != nil {
		t.Fatal(err)
	}
	commit.Wait()
	if s.pragma(t, "PRAGMA synchronous") != 2 {
		t.Error("the commit was not flushed")
	}
}

func TestCancelWhileTheTransactionBegins(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	commits, _ := createAll(t, s, 1)
	ctx, cancel := context.WithCancel(t.Context())
	s.onBegin(t, cancel)
	_, err := s.Commit(ctx, "session-0", commits[0])
	if !errors.Is(err, context.Canceled) {
		t.Errorf("commit: %v, want that its context was cancelled", err)
	}
	checkCommitted(t, s, []error{err})
}

// A step, a run and a checkpoint are written once, even by commits without a guard.
func TestUnguardedCommitIsNotRepeated(t *testing.T) {
	t.Parallel()
	s := openNew(t)
	createAll(t, s, 1)
	step := &driver.Commit{
		StartRun:   &cairn.Run{ID: "run", Status: cairn.RunRunning},
		Messages:   large(1),
		Checkpoint: &cairn.Checkpoint{ID: "checkpoint", StepID: "step"},
	}
	for range 2 {
		row, err := s.Commit(t.Context(), "session-0", step)
		if err != nil || row.Version < 2 || row.MessageCount != 2 {
			t.Errorf("%+v, %v: want the row after the first commit", row, err)
		}
	}
	other := &driver.Commit{Messages: large(1), Checkpoint: &cairn.Checkpoint{ID: "checkpoint", StepID: "another step"}}
	_, err := s.Commit(t.Context(), "session-0", other)
	if !errors.Is(err, cairn.ErrInvalid) {
		t.Errorf("a second checkpoint of the same id: %v, want ErrInvalid", err)
	}
	checkCommitted(t, s, []error{nil})
}
