package dostore

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn/internal/testclock"
)

// A process extrapolates the objects' clock. Slow answers never set it back; a step of the objects' clock, in either
// direction, corrects it.
func TestClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClock()
		step := time.Duration(0)
		objects := func() int64 { return time.Now().Add(step).UnixMicro() }
		// ask returns how far the process is behind the objects after an answer that took these times.
		ask := func(there, back time.Duration) time.Duration {
			sent := c.since()
			testclock.Advance(there)
			now := objects()
			testclock.Advance(back)
			c.observe(sent, now, 0)
			return time.Duration(objects()-c.now()) * time.Microsecond
		}
		if by := ask(time.Millisecond, 20*time.Millisecond); by != 20*time.Millisecond {
			t.Errorf("behind by %s after the first answer", by)
		}
		for _, took := range [][2]time.Duration{{0, time.Millisecond}, {0, time.Minute}, {time.Minute, time.Minute}, {time.Minute, 2 * time.Millisecond}} {
			if by := ask(took[0], took[1]); by != time.Millisecond {
				t.Errorf("behind by %s after an answer that took %s", by, took)
			}
		}
		for _, step = range []time.Duration{time.Hour, -time.Hour} {
			last := c.next(0)
			if by := ask(time.Millisecond, time.Millisecond); by > time.Millisecond || step > 0 && by < -2*time.Millisecond {
				t.Errorf("behind by %s after a step by %s", by, step)
			}
			if next := c.next(0); next <= last {
				t.Errorf("the time %d follows %d", next, last)
			}
		}
	})
}
