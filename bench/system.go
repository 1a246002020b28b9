package main

import (
	"context"
	"sync"
	"time"
)

// server is the kind of server that a system keeps its sessions on.
type server string

const (
	onPostgres server = "PostgreSQL"
	onRedis    server = "Redis"
)

// system is a way to keep sessions. It is safe for concurrent use.
type system interface {
	// open creates a session with a history of n messages.
	open(ctx context.Context, id string, n int) (session, error)
	// stored returns the size of the system's data on its server in bytes.
	stored(ctx context.Context) (int64, error)
	close() error
}

// session is one session. One writer drives it.
type session interface {
	// step writes the next step, and returns once the server has it.
	step(ctx context.Context) error
	// read returns the session as another process would find it.
	read(ctx context.Context) (transcript, error)
}

// driven is a system whose steps are driven in another process.
type driven interface {
	drive(ctx context.Context, lanes []lane, d time.Duration) ([]pace, error)
}

// limited is a system that cannot take every length of history with every number of writers.
type limited interface {
	takes(n, writers int) bool
}

// lane is the sessions that one writer drives, one after the other.
type lane []*entry

// entry is a session with the number of steps left to it, so that its history keeps about its nominal length.
type entry struct {
	session session
	left    int
}

// pace is the number of steps of a writer, and the time they took.
type pace struct {
	steps int
	spent time.Duration
}

// rate returns the total steps per second of concurrent writers.
func rate(list []pace) float64 {
	var sum float64
	for _, p := range list {
		if p.steps > 0 {
			sum += float64(p.steps) / p.spent.Seconds()
		}
	}
	return sum
}

// drive makes writers step through their lanes concurrently until the lanes or the time are used up. A step that
// has begun is finished.
func drive(ctx context.Context, s system, lanes []lane, d time.Duration) ([]pace, error) {
	if s, ok := s.(driven); ok {
		return s.drive(ctx, lanes, d)
	}
	out, errs := make([]pace, len(lanes)), make([]error, len(lanes))
	var group sync.WaitGroup
	started := time.Now()
	for i, lane := range lanes {
		group.Go(func() {
			out[i], errs[i] = lane.drive(ctx, started, d)
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (l lane) drive(ctx context.Context, started time.Time, d time.Duration) (p pace, err error) {
	began := time.Now()
	defer func() { p.spent = time.Since(began) }()
	for _, e := range l {
		for ; e.left > 0; e.left-- {
			if p.steps > 0 && time.Since(started) >= d {
				return p, nil
			}
			if err := e.session.step(ctx); err != nil {
				return p, err
			}
			p.steps++
		}
	}
	return p, nil
}
