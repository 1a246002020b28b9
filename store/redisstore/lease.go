package redisstore

import (
	"context"
	"iter"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/plan"
)

var (
	scriptRenew = about("renew", "renew the lease", frees)
	scriptStop  = about("stop", "request a stop", frees)
	scriptStage = about("stage", "stage", grows)
)

// fenced returns the conflict of a token with the row that a script returned.
func fenced(id string, token int64, list []any) error {
	row, err := readRow(id, list)
	if err != nil {
		return err
	}
	return plan.Lost(row, token)
}

// Renew implements driver.Store.
func (s *Store) Renew(ctx context.Context, id string, token int64, ttl time.Duration) (*cairn.Stop, error) {
	r, err := s.ask(ctx, scriptRenew, id, token, ttl.Microseconds())
	if err != nil {
		return nil, err
	}
	if r.word() == "fenced" {
		return nil, fenced(id, token, r.list(1))
	}
	if r.text(2) == "" {
		return nil, nil
	}
	stop, err := readStop(r.text(2))
	return backend.StopOf(r.text(1), stop), err
}

// RequestStop implements driver.Store.
func (s *Store) RequestStop(ctx context.Context, id string, stop cairn.Stop) error {
	if err := stop.Validate(); err != nil {
		return err
	}
	text, err := backend.EncodeJSON("stop request", stop)
	if err != nil {
		return err
	}
	r, err := s.ask(ctx, scriptStop, id, stop.RunID, text, s.stopChannel())
	if err != nil {
		return err
	}
	if r.word() == "ok" {
		s.listener.published(ctx, r.text(1))
		return nil
	}
	row, err := readRow(id, r.list(1))
	if err != nil {
		return err
	}
	return driver.Conflict(cairn.ErrNotRunning, row, "session %q: run %q is not running", id, stop.RunID)
}

// Stage implements driver.Store.
func (s *Store) Stage(ctx context.Context, id string, token int64, pieces ...driver.Staged) error {
	if err := driver.ValidateStaged(pieces); err != nil {
		return err
	}
	args := []any{token}
	for _, p := range pieces {
		name, err := backend.EncodeJSON("piece", [2]string{p.StepID, p.Key})
		if err != nil {
			return err
		}
		args = append(args, name, string(p.Data))
	}
	r, err := s.ask(ctx, scriptStage, id, args...)
	if err == nil && r.word() == "fenced" {
		err = fenced(id, token, r.list(1))
	}
	return err
}

// stopsKept is how many notices a watcher of stop requests may fall behind before it misses some.
const stopsKept = 256

// WatchStops implements driver.StopWatcher.
func (s *Store) WatchStops(ctx context.Context) iter.Seq2[driver.StopNotice, error] {
	return func(yield func(driver.StopNotice, error) bool) {
		notices := make(chan driver.StopNotice, stopsKept)
		n := &s.listener
		n.mu.Lock()
		if n.watchers == nil {
			n.watchers = map[chan driver.StopNotice]struct{}{}
		}
		if len(n.watchers) > 0 { // the first watcher gets this notice once it is subscribed
			notices <- driver.StopNotice{}
		}
		n.watchers[notices] = struct{}{}
		n.mu.Unlock()
		n.use(s.stopChannel(), "", 1)
		defer func() {
			n.use(s.stopChannel(), "", -1)
			n.mu.Lock()
			delete(n.watchers, notices)
			n.mu.Unlock()
		}()
		for {
			select {
			case notice := <-notices:
				if !yield(notice, nil) {
					return
				}
			case <-ctx.Done():
				return
			case <-s.closed:
				yield(driver.StopNotice{}, errClosed)
				return
			}
		}
	}
}
