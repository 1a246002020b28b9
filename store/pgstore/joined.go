package pgstore

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// mostJoined bounds the number of steps in one statement, and largestJoined the size of a step in bytes: a larger
	// step is sent alone.
	mostJoined    = 64
	largestJoined = 64 << 10
	// longestHeld bounds the time for which steps wait although a collector is free: the statement that they wait for
	// may hang until its deadline.
	longestHeld = 50 * time.Millisecond
)

// joiner combines steps of different sessions that are pending at the same moment into one statement. A step that finds
// a free collector is sent at once, alone, unless that would break up larger statements: see [joiner.enough]. The
// others are sent together, in the order of their arrival, when a collector is done, or is free and they have waited
// for longestHeld. A step whose events go to a log to which a statement under way appends waits for that statement, as
// it would in the server: then it is sent with all the others of its log.
type joiner struct {
	db *database

	mu      sync.Mutex
	busy    int // collectors that send a statement
	sent    int // steps in their statements
	last    int // steps in the latest statement that is done
	waiting []*joinedStep
	logs    map[string]*joinedLog // to which those that wait or are being sent append
	blocked int                   // steps that wait for another one of their log
	held    *time.Timer           // set while steps wait although a collector is free
	idle    chan struct{}         // if set, it is closed once no collector is busy
}

// joinedLog is a log to which steps append.
type joinedLog struct {
	waiting int  // steps
	sending bool // a statement under way appends to it
}

// joinedStep is a step that waits for a collector.
type joinedStep struct {
	w     *write
	log   string        // to which it appends; empty for none
	batch *joinedBatch  // nil until a statement includes the step
	done  chan struct{} // closed once the fields below are set
	err   error         // of the statement, which may have been applied
	lone  bool          // the step was not written and must be attempted alone
}

// joinedBatch is a statement in progress.
type joinedBatch struct {
	steps  []*joinedStep
	asked  int // number of callers that wait for it
	cancel context.CancelFunc
}

// joins reports whether sqlJoined can write the delta, as it can for most steps.
func (w *write) joins() bool {
	d := w.d
	if len(d.Statements) > 0 || d.New || d.Lapsed || d.Beside || d.Due != "" || !d.Row.NextDeadline.IsZero() || d.Row.SuspendedStep != "" || w.forms() == commitAll {
		return false
	}
	size := len(w.startData) + len(w.endData) + len(w.events) + len(w.usage)
	for _, m := range w.messages {
		size += len(m)
	}
	if d.State != nil {
		size += len(d.State.Data)
	}
	return size <= largestJoined
}

// apply writes a delta: alone if a collector is free, and otherwise with others. Without a result, its conditions did not
// hold.
func (j *joiner) apply(ctx context.Context, w *write) error {
	step := &joinedStep{w: w, done: make(chan struct{})}
	if w.appends() {
		step.log = w.d.Row.Log()
	}
	j.mu.Lock()
	open := !j.blocks(step.log)
	free := open && j.busy < j.db.opts.Collectors && j.enough(j.ready()+1, j.busy)
	if free {
		j.busy++
	}
	if free && j.last <= 1 && j.ready() == 0 {
		j.begin(step)
		j.mu.Unlock()
		defer j.next(step)
		return j.db.alone(ctx, w)
	}
	j.queue(step)
	if open && !free && j.busy < j.db.opts.Collectors {
		j.hold()
	}
	j.mu.Unlock()
	if free {
		runtime.Gosched() // callers that are about to commit get the time to
		if j.takeAlone(step) {
			defer j.next(step)
			return j.db.alone(ctx, w)
		}
		j.next()
	}
	select {
	case <-step.done:
	case <-ctx.Done():
		if err := j.leave(ctx, step); err != nil {
			return err
		}
	}
	if step.lone {
		return j.db.alone(ctx, w)
	}
	return step.err
}

// takeAlone takes a step out of those that wait, if it is the only one that can be sent.
func (j *joiner) takeAlone(step *joinedStep) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	at := slices.Index(j.waiting, step)
	if at < 0 || j.ready() != 1 || j.blocks(step.log) {
		return false
	}
	j.waiting = slices.Delete(j.waiting, at, at+1)
	j.leaves(step)
	j.begin(step)
	return true
}

// leave ends the wait of a step whose context is done. If the step is not being written yet, leave returns at once.
// Otherwise it returns when the server has reported the outcome, or has failed to do so in time.
func (j *joiner) leave(ctx context.Context, step *joinedStep) error {
	j.mu.Lock()
	at := slices.Index(j.waiting, step)
	if at >= 0 {
		j.waiting = slices.Delete(j.waiting, at, at+1)
		j.leaves(step)
	}
	j.mu.Unlock()
	if at >= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(answerWithin)
	defer timer.Stop()
	select {
	case <-step.done:
		return nil
	case <-timer.C:
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if step.batch.asked--; step.batch.asked == 0 {
		step.batch.cancel()
	}
	return ctx.Err()
}

// enough reports whether steps are at least as many as those in an average statement of the others that are being sent.
// Otherwise a step that comes right behind a full statement would be sent alone, and the steps after it would wait for
// both.
func (j *joiner) enough(steps, others int) bool { return steps*others >= j.sent }

// next assigns the pending steps, if they are enough, to a collector that is done with a statement of other steps.
func (j *joiner) next(done ...*joinedStep) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, step := range done {
		j.end(step)
	}
	if len(done) > 0 {
		j.last = len(done)
	}
	switch {
	case j.ready() == 0:
	case j.enough(j.ready(), j.busy-1):
		j.assign()
		return
	default:
		j.hold()
	}
	if j.busy--; j.busy == 0 && j.idle != nil {
		close(j.idle)
		j.idle = nil
	}
}

// hold assigns the pending steps to a free collector after longestHeld, unless another is done before.
func (j *joiner) hold() {
	if j.held == nil {
		j.held = time.AfterFunc(longestHeld, j.assignHeld)
	}
}

func (j *joiner) assignHeld() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.held = nil
	if j.ready() > 0 && j.busy < j.db.opts.Collectors {
		j.busy++
		j.assign()
	}
}

// assign gives the pending steps to a collector, which counts as busy already.
func (j *joiner) assign() {
	if j.held != nil {
		j.held.Stop()
		j.held = nil
	}
	b := &joinedBatch{}
	sessions := map[int64]bool{}
	rest := j.waiting[:0]
	for _, step := range j.waiting {
		if len(b.steps) == mostJoined || sessions[step.w.key] || j.blocks(step.log) {
			rest = append(rest, step)
			continue
		}
		sessions[step.w.key], step.batch = true, b
		b.steps = append(b.steps, step)
	}
	clear(j.waiting[len(rest):])
	j.waiting, b.asked = rest, len(b.steps)
	for _, step := range b.steps {
		j.leaves(step)
		j.begin(step)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	go func() {
		defer j.next(b.steps...)
		defer cancel()
		j.write(ctx, b)
	}()
}

// wait returns when no statement is in progress.
func (j *joiner) wait() {
	j.mu.Lock()
	if j.busy == 0 {
		j.mu.Unlock()
		return
	}
	if j.idle == nil {
		j.idle = make(chan struct{})
	}
	idle := j.idle
	j.mu.Unlock()
	<-idle
}

// write writes the steps of a batch and reports to their callers. A step whose session another writer has locked, or
// whose conditions do not hold, is attempted alone. So is every step if the server refuses the statement, since one of
// them may have a value that the server cannot store. If the answer was lost, each caller finds out whether its step
// was written.
func (j *joiner) write(ctx context.Context, b *joinedBatch) {
	var err error
	if len(b.steps) == 1 {
		err = j.db.alone(ctx, b.steps[0].w)
	} else {
		err = j.db.once(ctx, once, func(ctx context.Context, c *conn) error { return b.send(ctx, c) })
	}
	refused := err != nil && state(err) != "" && !lost(err) && !undone(err)
	for _, step := range b.steps {
		switch {
		case len(b.steps) == 1, err != nil && !refused:
			step.err = err
		default:
			step.lone = step.w.result == nil
		}
		close(step.done)
	}
}

// send sends the statement. If it fails, no step has a result.
func (b *joinedBatch) send(ctx context.Context, c *conn) error {
	columns := newJoinedColumns(len(b.steps))
	of := map[int64]*write{}
	for _, step := range b.steps {
		columns.add(step.w)
		of[step.w.key] = step.w
	}
	text := joined
	if columns.logged() {
		text = joinedLogged
	}
	var answers []*answer
	err := c.query(ctx, text, func(rows pgx.Rows) error {
		a := &answer{}
		answers = append(answers, a)
		return rows.Scan(a.columns()...)
	}, columns.values()...)
	if err != nil {
		return err
	}
	for _, a := range answers {
		of[a.key].written(a)
	}
	return nil
}
