package dostore

import (
	"context"
	"iter"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/backend"
	"github.com/cairn-agents/cairn/store/driver"
)

var _ driver.StopWatcher = (*Store)(nil)

// WatchStops implements driver.StopWatcher. The directory has the outstanding requests, and wakes its watchers.
func (s *Store) WatchStops(ctx context.Context) iter.Seq2[driver.StopNotice, error] {
	return func(yield func(driver.StopNotice, error) bool) {
		l := s.directory()
		l.pin(1)
		defer l.pin(-1)
		if c, err := l.connect(ctx); err == nil { // otherwise the first list says why
			_ = l.watch(ctx, c)
		}
		backend.WatchStops(ctx, &s.stops, s.outstanding)(yield)
	}
}

// outstanding returns the stop requests that no commit has removed, by session.
func (s *Store) outstanding(ctx context.Context) (map[string]cairn.Stop, error) {
	list := map[string]cairn.Stop{}
	err := s.each(ctx, allStops, "", behind, false, func(r *row, _ time.Time) (bool, error) {
		var stop cairn.Stop
		err := backend.DecodeJSON("stop request", r.value, &stop)
		list[r.key] = stop
		return true, err
	})
	return list, err
}
