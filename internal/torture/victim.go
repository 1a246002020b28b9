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
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store"
)

// signal makes a victim say when it passes a point for the nth time, and stop there if Stop is set.
type signal struct {
	Point point `json:"point,omitempty"`
	Nth   int64 `json:"nth,omitempty"`
	Stop  bool  `json:"stop,omitempty"`
}

// What a victim says to its killer, in bytes on the pipe that is its file 3.
const (
	sayReady = 'r' // it drives sessions
	sayPoint = 'p' // it is at the point that its order names
	pipeFile = 3
)

// follow carries out an order until the process is killed.
func (o *order) follow(open Open) error {
	pipe := os.NewFile(pipeFile, "killer")
	go func() { // nobody is left to kill the process
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	var passed atomic.Int64
	st, eng, err := o.assemble(open, func(p point) {
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
	ctx := context.Background()
	ended := make(chan error, len(o.Sessions)+1)
	go func() { ended <- eng.Work(ctx) }()
	for i, id := range o.Sessions {
		rng := rand.New(rand.NewPCG(o.Seed, uint64(i)))
		go func() { ended <- o.drive(ctx, st, eng, id, rng) }()
	}
	if _, err := pipe.Write([]byte{sayReady}); err != nil {
		return err
	}
	return <-ended
}

// assemble opens the store and makes an engine that keeps a journal.
func (o *order) assemble(open Open, reach func(point)) (store.Store, *engine.Engine, error) {
	j, err := openJournal(o.Dir, o.Name)
	if err != nil {
		return nil, nil, err
	}
	log, err := os.OpenFile(filepath.Join(o.Dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, err
	}
	st, err := open(o.Dir)
	if err != nil {
		return nil, nil, err
	}
	eng, err := engine.New(&witness{st, j, reach}, actors(j), &engine.Options{
		LeaseTTL: o.LeaseTTL, WorkInterval: 20 * time.Millisecond, MaxRecoveries: math.MaxInt, Coalesce: 2 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(log, nil)).With("process", o.Name),
	})
	return st, eng, err
}

// agentOf returns the agent's name from a session's id.
func agentOf(session string) string {
	_, name, _ := strings.Cut(session, ".")
	return name
}

// drive has one turn after the other in a session. Where a dead process left a run behind it waits for a worker, takes
// the run over, or starts the next turn in its place.
func (o *order) drive(ctx context.Context, st store.Store, eng *engine.Engine, id string, rng *rand.Rand) error {
	for n := 0; ; n++ {
		run, err := o.begin(ctx, st, eng, id, fmt.Sprintf("%s.%d", o.Name, n), rng)
		if err == nil && run != nil {
			_, err = run.Wait(ctx)
		}
		if err != nil && !contended(err) {
			return fmt.Errorf("session %s: %w", id, err)
		}
		if run == nil {
			timer := time.NewTimer(5 * time.Millisecond)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

func (o *order) begin(ctx context.Context, st store.Store, eng *engine.Engine, id, text string, rng *rand.Rand) (*engine.Run, error) {
	row, err := st.Load(ctx, id)
	crashed := err == nil && row.Crashed(time.Now())
	switch {
	case err != nil && !errors.Is(err, cairn.ErrNotFound):
		return nil, err
	case err == nil && row.Status == cairn.SessionActive && !crashed:
		return nil, nil
	case crashed && rng.IntN(3) > 0:
		return nil, nil // a worker's
	case crashed && rng.IntN(2) == 0:
		return eng.Resume(ctx, id)
	}
	return eng.Execute(ctx, id, agentOf(id), cairn.Text(text))
}

// contended reports whether another process was faster, or the machine too slow, which is no fault.
func contended(err error) bool {
	return errors.Is(err, cairn.ErrAlreadyRunning) || errors.Is(err, cairn.ErrStale) || errors.Is(err, cairn.ErrFenced) ||
		errors.Is(err, cairn.ErrExists) || errors.Is(err, cairn.ErrNotRunning) || errors.Is(err, cairn.ErrNotResumable) ||
		errors.Is(err, context.DeadlineExceeded)
}
