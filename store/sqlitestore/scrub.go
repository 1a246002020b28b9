package sqlitestore

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/cairn-agents/cairn"
)

// sqlEmptyLog moves the write-ahead log into the file and truncates it to no bytes. Its first column is 1 if that has to
// wait.
const sqlEmptyLog = `PRAGMA wal_checkpoint(TRUNCATE)`

// maxScrubWait is the longest wait between two attempts to empty the log.
const maxScrubWait = 50 * time.Millisecond

// Scrub implements driver.Scrubber. Deleted rows are overwritten in the database file, and the write-ahead log, which may
// have copies of them, is emptied. While a connection of any process reads an older state, or another process writes,
// that has to wait: Scrub tries for BusyTimeout.
func (s *Store) Scrub(ctx context.Context) error {
	started := time.Now()
	for wait := minLockWait; ; wait = min(2*wait, maxScrubWait) {
		waits := false
		err := s.writer.do(&job{ctx: ctx, alone: true, run: func(c *conn) error {
			if err := s.writer.watch.check(); err != nil {
				return err
			}
			_, err := c.row(sqlEmptyLog, func(cols *columns) { waits = cols.int64() != 0 })
			return err
		}})
		switch {
		case err != nil && !busy(err):
			return fault("empty the write-ahead log", err)
		case err == nil && !waits:
			return nil
		case time.Since(started) > s.opts.BusyTimeout:
			return cairn.Errorf(cairn.ErrUnavailable, "deleted data remains in %s and %s-wal until the log is emptied: another connection has kept an older state open for %s; "+
				"repeat this when it has ended, or close the database in all processes", s.path, s.path, s.opts.BusyTimeout)
		}
		timer := time.NewTimer(wait/2 + rand.N(wait))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// Scrub implements driver.Scrubber for a log that an engine uses without the store's sessions.
func (l *Log) Scrub(ctx context.Context) error { return l.s.Scrub(ctx) }
