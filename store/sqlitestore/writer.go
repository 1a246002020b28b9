package sqlitestore

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
)

// Statements of the writer. The synchronous level takes effect when the statement is compiled, so that statement is
// never kept prepared.
const (
	sqlBegin    = `BEGIN IMMEDIATE`
	sqlCommit   = `COMMIT`
	sqlRollback = `ROLLBACK`
	sqlFull     = `PRAGMA synchronous = FULL`
	sqlNormal   = `PRAGMA synchronous = NORMAL`
)

// maxBatch bounds how many writes share one transaction, and so how long another process waits.
const maxBatch = 64

// The bounds of the wait between two attempts to get a lock that another process holds.
const (
	minLockWait = 50 * time.Microsecond
	maxLockWait = 2 * time.Millisecond
)

// writer gives the process's one write connection to one job at a time, in the order of arrival. A job that finds it
// free becomes the leader: it runs its own write and those queued by then in one transaction, so that they share one
// flush to disk. It then hands the lead to the first job still queued. A lone write pays nothing for this.
//
// A write is checked before it changes anything, so a refused one leaves the others of its batch alone. If a write
// fails after it changed something, or if storage fails, the batch is rolled back and each of its writes is repeated in
// a transaction of its own.
type writer struct {
	conn        *conn
	durable     bool          // whether FULL is allowed
	busyTimeout time.Duration // how long to wait for other processes

	mu     sync.Mutex
	leads  bool // a job leads
	closed bool
	queue  []*job

	full bool // the connection's level; used by the leader only

	// refusal, if set, is the error of every write: the database is only read, and there is no connection.
	refusal error
	// watch is checked before and after each commit.
	watch *watch

	// looking runs a write, and repeats it if it found sessions that may have expired.
	looking func(ctx context.Context, do func() error) error
}

// job is one write that waits for its turn.
type job struct {
	ctx context.Context
	// run does the write within a transaction. It may be called again after a rollback.
	run func(*conn) error
	// after is called once the write is committed, in commit order, before later writes begin.
	after func()
	// durable asks for the write to be on disk before it is acknowledged.
	durable bool
	// single asks for a transaction of its own, so that no other write waits for it unnecessarily or is repeated
	// because of it.
	single bool
	// alone asks for the connection itself, outside a transaction.
	alone bool

	since time.Time
	wake  chan struct{} // signals that the job is settled or leads now
	lead  bool
	err   error
}

// do runs one job. If the job's context ends while the job waits, the job is not run.
func (w *writer) do(j *job) error {
	if err := j.ctx.Err(); err != nil {
		return err
	}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return errClosed
	}
	if w.refusal != nil {
		w.mu.Unlock()
		return w.refusal
	}
	return w.enter(j)
}

// enter runs a job as the leader or queues it. It is called with mu locked and unlocks it.
func (w *writer) enter(j *job) error {
	if !w.leads {
		w.leads = true
		w.mu.Unlock()
		w.leadWith(j)
		return j.err
	}
	j.since, j.wake = time.Now(), make(chan struct{}, 1)
	w.queue = append(w.queue, j)
	w.mu.Unlock()

	select {
	case <-j.wake:
	case <-j.ctx.Done():
		if w.dequeue(j) {
			return j.ctx.Err()
		}
		<-j.wake // it is being written, so its outcome counts
	}
	if j.lead {
		w.leadWith(j)
	}
	return j.err
}

// dequeue removes a job from the queue. It reports whether the job was still there.
func (w *writer) dequeue(j *job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.queue, j)
	if i < 0 {
		return false
	}
	w.queue = slices.Delete(w.queue, i, i+1)
	return true
}

// leadWith settles j and all jobs that can share its transaction, and hands over the lead.
func (w *writer) leadWith(j *job) {
	batch := []*job{j}
	switch {
	case j.alone:
		j.err = j.run(w.conn)
	default:
		if j.err = w.begin(j); j.err == nil {
			if !j.single {
				batch = w.join(batch)
			}
			w.settle(batch)
		}
	}
	w.handOver()
	for _, other := range batch[1:] {
		other.wake <- struct{}{}
	}
}

func (w *writer) handOver() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 {
		w.leads = false
		return
	}
	next := w.queue[0]
	w.queue = slices.Delete(w.queue, 0, 1)
	next.lead = true
	next.wake <- struct{}{}
}

// begin starts a transaction for j. It waits for other processes until j's context ends or the busy timeout is over.
func (w *writer) begin(j *job) error {
	if err := w.watch.err(); err != nil {
		return err
	}
	full := w.wantsFull(j)
	for wait := minLockWait; ; wait = min(2*wait, maxLockWait) {
		err := w.setLevel(full)
		if err == nil {
			_, err = w.conn.exec(sqlBegin)
		}
		if !busy(err) {
			return fault("begin a write", err)
		}
		if j.since.IsZero() {
			j.since = time.Now()
		}
		if time.Since(j.since) > w.busyTimeout {
			return cairn.Errorf(cairn.ErrUnavailable, "another process kept the database locked for %s: %w", w.busyTimeout, err)
		}
		// Random waits keep two processes from missing each other's gaps forever.
		timer := time.NewTimer(wait/2 + rand.N(wait))
		select {
		case <-timer.C:
		case <-j.ctx.Done():
			timer.Stop()
			return j.ctx.Err()
		}
	}
}

func (w *writer) wantsFull(j *job) bool {
	if !w.durable || j.durable {
		return w.durable
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.queue[:min(len(w.queue), maxBatch)], func(o *job) bool { return o.durable })
}

// setLevel chooses whether a COMMIT waits for the disk. A durable commit also flushes everything that its connection
// wrote before.
func (w *writer) setLevel(full bool) error {
	if full == w.full {
		return nil
	}
	text := sqlNormal
	if full {
		text = sqlFull
	}
	if err := w.conn.run(text); err != nil {
		return err
	}
	w.full = full
	return nil
}

// join moves the jobs that can share the transaction from the queue to the batch.
func (w *writer) join(batch []*job) []*job {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for n < len(w.queue) && len(batch) < maxBatch {
		o := w.queue[n]
		if o.alone || o.single || (o.durable && w.durable && !w.full) {
			break
		}
		batch = append(batch, o)
		n++
	}
	w.queue = slices.Delete(w.queue, 0, n)
	return batch
}

// settle runs a batch in the transaction that was begun. If that fails, it runs each job in a transaction of its own.
func (w *writer) settle(batch []*job) {
	if w.transact(batch) {
		return
	}
	for i, j := range batch {
		if j.err = w.begin(j); j.err == nil {
			w.transact(batch[i : i+1])
		}
	}
}

// transact runs the jobs and commits. It reports whether each of them is settled; if not, nothing was written.
func (w *writer) transact(batch []*job) (settled bool) {
	for _, j := range batch {
		w.conn.wrote = false
		if j.err = j.ctx.Err(); j.err != nil {
			continue
		}
		j.err = j.run(w.conn)
		if j.err != nil && (w.conn.wrote || resultCode(j.err) != 0) {
			w.rollback()
			return len(batch) == 1
		}
	}
	// The check before the commit keeps a file that was moved as it is. The one after it is what counts: a durable
	// write is not acknowledged unless it is in the files that other processes open. Others are live events and
	// heartbeats, which count no more than the commit that follows them.
	if err := w.watch.checkDatabase(); err != nil {
		w.rollback()
		return refuse(batch, err)
	}
	if _, err := w.conn.exec(sqlCommit); err != nil {
		w.rollback()
		batch[0].err = fault("commit a write", err)
		return len(batch) == 1
	}
	if slices.ContainsFunc(batch, func(j *job) bool { return j.durable }) {
		if err := w.watch.check(); err != nil {
			return refuse(batch, err)
		}
	}
	for _, j := range batch {
		if j.err == nil && j.after != nil {
			j.after()
		}
	}
	return true
}

// refuse settles all jobs of a batch with an error.
func refuse(batch []*job, err error) (settled bool) {
	for _, j := range batch {
		j.err = err
	}
	return true
}

// rollback ends the transaction. Its error does not matter: if storage failed, SQLite has already rolled back.
func (w *writer) rollback() { w.conn.exec(sqlRollback) }

// write runs fn as one transaction, possibly several times. A write that is not durable survives the death of the
// process, but may be lost if the machine loses power, until the next durable one is on disk.
func (w *writer) write(ctx context.Context, durable bool, fn func(*conn) error) error {
	return w.looking(ctx, func() error { return w.do(&job{ctx: ctx, run: fn, durable: durable}) })
}

// close refuses new jobs, waits for those before it, and closes the connection.
func (w *writer) close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.closed = true
	if w.refusal != nil {
		w.mu.Unlock()
		return nil
	}
	return w.enter(&job{ctx: context.Background(), alone: true, run: func(c *conn) error {
		// SQLite's last connection deletes the write-ahead log by its name. If that name now belongs to the files of
		// another database, the connection stays open until the process ends.
		if err := w.watch.check(); err != nil {
			return err
		}
		return c.close()
	}})
}
