package torture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	notify "os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/store/driver"
)

// signal makes a victim report that it passes a point for the Nth time, and stop itself there if Stop is set.
type signal struct {
	Point point `json:"point,omitempty"`
	Nth   int64 `json:"nth,omitempty"`
	Stop  bool  `json:"stop,omitempty"`
}

// The victim's reports to its killer: bytes on the pipe that is its file 3.
const (
	sayReady = 'r' // about to drive sessions
	sayPoint = 'p' // at the point of its order
	pipeFile = 3
)

// follow executes an order until the process is killed or gets SIGTERM. After SIGTERM it shuts down like a service,
// and returns nil.
func (o *order) follow(start Start, open Open) error {
	term := make(chan os.Signal, 1)
	notify.Notify(term, syscall.SIGTERM)
	pipe := os.NewFile(pipeFile, "killer")
	go func() { // exit if the killer is gone
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	var passed atomic.Int64
	j, st, eng, leave, err := o.assemble(start, open, func(p point) {
		if p == o.Signal.Point && passed.Add(1) == o.Signal.Nth {
			pipe.Write([]byte{sayPoint})
			if o.Signal.Stop {
				syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			}
		}
	})
	if err != nil {
		return err
	}
	// Report first: the process may stop itself at a point as soon as it drives anything.
	if _, err := pipe.Write([]byte{sayReady}); err != nil {
		return err
	}
	ctx := context.Background()
	ended := make(chan error, 4*len(o.Sessions)+1)
	if o.Clerk {
		for n := range 2 { // two clerks that get in each other's way
			c := &clerk{name: fmt.Sprintf("%s%d", o.Name, n), eng: eng, journal: j, rng: rand.New(rand.NewPCG(o.Seed, uint64(n)))}
			go func() { ended <- c.serve(ctx, o.Sessions) }()
		}
	} else {
		go func() { ended <- eng.Work(ctx) }()
		for i, id := range o.Sessions {
			rng, other := rand.New(rand.NewPCG(o.Seed, uint64(2*i))), rand.New(rand.NewPCG(o.Seed, uint64(2*i+1)))
			go func() { ended <- o.drive(ctx, st, eng, id, rng) }()
			sending := rand.New(rand.NewPCG(o.Seed, uint64(3*len(o.Sessions)+i)))
			go func() { ended <- o.message(ctx, j, st, eng, id, sending) }()
			if kindOf(agentOf(id)).waits {
				stopping := rand.New(rand.NewPCG(o.Seed, uint64(2*len(o.Sessions)+i)))
				go func() { ended <- o.interfere(ctx, j, st, eng, id, other) }()
				go func() { ended <- o.stop(ctx, j, st, eng, id, stopping) }()
			}
		}
	}
	select {
	case err := <-ended:
		return err
	case <-term:
	}
	within, cancel := context.WithTimeout(ctx, o.Grace)
	defer cancel()
	if o.Seed%2 == 0 { // without a drain, leave gives the runs this time to end
		if err := eng.Drain(within); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("drain within %s: %w", o.Grace, err)
		}
	}
	if err := leave(within); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("leave within %s: %w", o.Grace, err)
	}
	return st.Close()
}

// assemble opens the store and creates an engine that keeps a journal. leave closes the engine, and is called once.
func (o *order) assemble(start Start, open Open, reach func(point)) (j *journal, st driver.Store, eng *engine.Engine,
	leave func(context.Context) error, err error) {
	if j, err = openJournal(o.Dir, o.Name); err != nil {
		return nil, nil, nil, nil, err
	}
	log, err := os.OpenFile(filepath.Join(o.Dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), openWithin)
	defer cancel()
	_ = testclock.Poll(ctx, func() bool { st, err = open(o.Dir); return !errors.Is(err, cairn.ErrUnavailable) })
	if err != nil {
		return nil, nil, nil, nil, err
	}
	books, _ := st.(Books)
	opts := o.options(log)
	leaveLog := func() error { return nil }
	if o.Elsewhere {
		elsewhere, err := openElsewhere(open, o.Dir)
		if err != nil {
			return nil, nil, nil, nil, err
		}
		leaveLog, opts.Log = elsewhere.Close, witnessed(o.unsteady(logOf(elsewhere)), reach)
	}
	w := &witness{Store: st, journal: j, reach: reach}
	var seen driver.Store = w
	if o.Records {
		seen = recorded{w, st.(driver.RecordProvider)}
	}
	eng, leaves, err := start(o.Dir, o.Name, seen, actors(j, books), opts)
	return j, st, eng, func(ctx context.Context) error { return errors.Join(leaves(ctx), leaveLog()) }, err
}

// openWithin bounds the time to open a store that another, sleeping process may have locked.
const openWithin = time.Minute

// options returns the options of the process's engine.
func (o *order) options(log io.Writer) *engine.Options {
	opts := &engine.Options{
		Logger: slog.New(slog.NewTextHandler(log, nil)).With("process", o.Name),
		Now:    func() time.Time { return time.Now().Add(o.Ahead) },
	}
	if o.LeaseTTL > 0 {
		opts.LeaseTTL, opts.WorkInterval, opts.MaxRecoveries, opts.Coalesce = o.LeaseTTL, workInterval, math.MaxInt, 2*time.Millisecond
	}
	return opts
}

// workInterval is the poll interval of workers with short leases.
const workInterval = 20 * time.Millisecond

// agentOf returns the agent's name from a session's id.
func agentOf(session string) string {
	_, name, _ := strings.Cut(session, ".")
	return name
}

// drive executes one turn after the other in a session. If a dead process left a run behind, it waits for a worker,
// takes the run over, or begins the next turn instead. If the session is suspended, it mostly waits for an answer.
func (o *order) drive(ctx context.Context, st driver.Store, eng *engine.Engine, id string, rng *rand.Rand) error {
	for n := 0; ; n++ {
		run, err := o.begin(ctx, st, eng, id, fmt.Sprintf("%s.%d", o.Name, n), rng)
		if err == nil && run != nil {
			_, err = run.Wait(ctx)
		}
		// Another process removes turns from the queue.
		if err != nil && !contended(err) && !errors.Is(err, cairn.ErrAborted) {
			return fmt.Errorf("session %s: %w", id, err)
		}
		if run == nil {
			if err := testclock.Pause(ctx, 5*time.Millisecond); err != nil {
				return err
			}
		}
	}
}

func (o *order) begin(ctx context.Context, st driver.Store, eng *engine.Engine, id, text string, rng *rand.Rand) (*engine.Run, error) {
	row, err := driver.Load(ctx, st, id)
	if errors.Is(err, cairn.ErrNotFound) {
		return eng.Execute(ctx, id, agentOf(id), cairn.Text(text))
	}
	if err != nil {
		return nil, err
	}
	resume := false
	switch n := rng.IntN(60); {
	case row.Crashed(row.AsOf):
		if n >= 20 {
			return nil, nil // left to a worker
		}
		resume = n < 10
	case row.Status == cairn.SessionActive:
		return nil, nil
	case row.Status == cairn.SessionPaused:
		if n >= 4 {
			return nil, nil
		}
		resume = n < 3
	case row.Status == cairn.SessionInterrupted:
		resume = n < 20
	}
	if resume {
		return eng.Resume(ctx, id)
	}
	if rng.IntN(8) == 0 {
		if _, err := eng.Checkpoint(ctx, id); err != nil {
			return nil, err
		}
	}
	way := engine.OnWaiting(rng.IntN(int(engine.WaitingEnqueue) + 1))
	return eng.Execute(ctx, id, agentOf(id), cairn.Text(text), engine.WithOnWaiting(way))
}

// interfere begins turns while others are running: queued, in their place, or joining them. It also dequeues turns.
func (o *order) interfere(ctx context.Context, j *journal, st driver.Store, eng *engine.Engine, id string, rng *rand.Rand) error {
	for n := 0; ; n++ {
		if err := testclock.Pause(ctx, time.Duration(o.Pace*(10+rng.IntN(90)))*time.Millisecond); err != nil {
			return err
		}
		row, err := driver.Load(ctx, st, id)
		if err != nil && !errors.Is(err, cairn.ErrNotFound) && !contended(err) {
			return err
		}
		if err != nil || !row.Running(row.AsOf) {
			continue
		}
		if row.Queued > 0 && rng.IntN(4) == 0 {
			if err := o.dequeue(ctx, j, eng, id, rng); err != nil && !contended(err) {
				return fmt.Errorf("session %s: %w", id, err)
			}
		}
		busy := []engine.OnBusy{engine.BusyEnqueue, engine.BusyInterrupt, engine.BusySteer}[rng.IntN(3)]
		_, err = eng.Execute(ctx, id, agentOf(id), cairn.Text(fmt.Sprintf("%s, and %d", o.Name, n)), engine.WithOnBusy(busy))
		if err != nil && !contended(err) {
			return fmt.Errorf("session %s: %w", id, err)
		}
	}
}

// dequeue removes a random queued turn of a session, if there is one.
func (o *order) dequeue(ctx context.Context, j *journal, eng *engine.Engine, id string, rng *rand.Rand) error {
	turns, err := eng.Queue(ctx, id)
	if err != nil || len(turns) == 0 {
		return err
	}
	r := record{Kind: dequeuing, Session: id, Queued: turns[rng.IntN(len(turns))].ID}
	j.write(r)
	switch err = eng.Dequeue(ctx, id, r.Queued); {
	case err == nil:
		r.Kind = dequeued
	case errors.Is(err, cairn.ErrNotFound):
		r.Kind, err = notQueued, nil
	case contended(err):
		return nil
	default:
		return err
	}
	j.write(r)
	return nil
}

// contended reports whether err is no fault: another process was faster, the machine too slow, or the server
// unavailable.
func contended(err error) bool {
	return errors.Is(err, cairn.ErrAlreadyRunning) || errors.Is(err, cairn.ErrWaiting) || errors.Is(err, cairn.ErrStale) || errors.Is(err, cairn.ErrFenced) ||
		errors.Is(err, cairn.ErrExists) || errors.Is(err, cairn.ErrNotRunning) || errors.Is(err, cairn.ErrNotResumable) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, cairn.ErrUnavailable)
}
