package dostore

import (
	"context"
	"time"

	"github.com/cairn-agents/cairn/store/driver"
)

var _ driver.LogSweeper = (*Log)(nil)

// Unswept implements driver.LogSweeper.
func (l *Log) Unswept(ctx context.Context, age time.Duration, q driver.PageQuery) (page driver.Page[string], err error) {
	at, name, err := driver.ParseSweepCursor(q.Cursor)
	if err != nil {
		return page, err
	}
	from := ""
	if name != "" {
		from = timed(at, name) + "\x00"
	}
	last := ""
	err = l.db.each(ctx, unswept, from, behind, false, func(r *row, now time.Time) (bool, error) {
		micros, log, err := splitTimed(r.key)
		if err != nil || stamp(micros).After(now.Add(-age)) {
			return false, err
		}
		if len(page.Items) == q.Size() {
			page.Next = last
			return false, nil
		}
		page.Items, last = append(page.Items, log), driver.SweepCursor(stamp(micros), log)
		return true, nil
	})
	return page, err
}

// Swept implements driver.LogSweeper.
func (l *Log) Swept(ctx context.Context, log string, last int64, next time.Duration) error {
	return l.change(ctx, log, nil, func(s *logState, _ *answer, r *rows) (bool, error) {
		if s.Dropped || s.SweepAt.IsZero() {
			return false, nil
		}
		at := r.at
		if s.Last == last {
			at = at.Add(next)
		}
		s.due(r, log, at)
		return true, nil
	})
}
