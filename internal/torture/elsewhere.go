package torture

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// logOf returns the log of a store that has one.
func logOf(st driver.Store) driver.Log { return st.(driver.LogProvider).EventLog() }

// logDir is the directory of the store whose log has the events of the sessions in another one.
const logDir = "elsewhere"

// Name returns a name for the store in a directory that is given to an [Open], for stores that are not in files. Stores of
// a test have different names.
func Name(dir string) string {
	if filepath.Base(dir) == logDir {
		return logDir
	}
	return "tortured"
}

// openElsewhere opens the store whose log has the events of the sessions in another one.
func openElsewhere(open Open, dir string) (driver.Store, error) {
	dir = filepath.Join(dir, logDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return open(dir)
}

// unsteady returns the log as the process of an order reaches it. A process of the test itself always does.
func (o *order) unsteady(log driver.Log) driver.Log {
	if o.Seed == 0 {
		return log
	}
	return &unsteadyLog{Log: log, pace: time.Duration(max(o.Pace, 1)), rng: rand.New(rand.NewPCG(o.Seed, 3))}
}

// unsteadyLog is a log that a process cannot reach now and then, for shorter and longer than it tries again, and whose
// answers are lost.
type unsteadyLog struct {
	driver.Log
	pace time.Duration

	mu   sync.Mutex
	rng  *rand.Rand
	back time.Time // when it can be reached again
}

var errAway = cairn.Errorf(cairn.ErrUnavailable, "the log cannot be reached")

// Self implements driver.Log.
func (u *unsteadyLog) Self() driver.Log { return u }

// draw reports whether the log can be reached, and whether an answer of it arrives.
func (u *unsteadyLog) draw() (reached, answers bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	if n := u.rng.IntN(60); n == 0 && now.After(u.back) {
		u.back = now.Add(time.Duration(u.rng.IntN(800)) * time.Millisecond * u.pace)
	} else if n == 1 {
		return true, false
	}
	return now.After(u.back), true
}

// Append implements driver.Log.
func (u *unsteadyLog) Append(ctx context.Context, log string, expect int64, events ...cairn.Event) (int64, error) {
	return u.append(func() (int64, error) { return u.Log.Append(ctx, log, expect, events...) })
}

// AppendFenced implements driver.Fencer.
func (u *unsteadyLog) AppendFenced(ctx context.Context, log string, expect int64, w driver.Writer, events ...cairn.Event) (int64, error) {
	return u.append(func() (int64, error) { return u.Log.(driver.Fencer).AppendFenced(ctx, log, expect, w, events...) })
}

func (u *unsteadyLog) append(call func() (int64, error)) (int64, error) {
	reached, answers := u.draw()
	if !reached {
		return 0, errAway
	}
	last, err := call()
	if err == nil && !answers {
		return 0, errAway
	}
	return last, err
}
