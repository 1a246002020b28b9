package dostore

import (
	"sync"
	"time"
)

// clock is the objects' clock as a process extrapolates it, in microseconds since 1970. The process' own clock does not
// matter. Each time that it gives is later than the ones before, and later than any that an object has shown, so that
// writes to several objects have times in their order. A clock is safe for concurrent use.
type clock struct {
	mu     sync.Mutex
	begun  time.Time
	set    bool
	offset int64 // of the objects' clock from the time since begun
	last   int64 // the last time given or seen
}

func newClock() *clock { return &clock{begun: time.Now()} }

// since returns the time since the clock begun, by the monotonic clock.
func (c *clock) since() int64 { return time.Since(c.begun).Microseconds() }

// resolution is that of the objects' clock, in microseconds.
const resolution = 1000

// observe takes the time that an object had between sent, a time of since, and now, and the time of the object's last
// write. The offset is then between two bounds, which a slow answer widens: it corrects a clock no further than it can
// prove.
func (c *clock) observe(sent, now, last int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	least, most := now-c.since(), now+resolution-sent
	if !c.set {
		c.set, c.offset = true, least
	}
	c.offset = min(max(c.offset, least), most)
	c.last = max(c.last, last)
}

// next returns a time for a write to an object whose last write was at last.
func (c *clock) next(last int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.since()+c.offset, c.last+1, last+1)
	return c.last
}

// now returns the objects' time.
func (c *clock) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.since()+c.offset, c.last)
}

// asOf returns the time of an answer, which is no earlier than any write that it shows.
func (a *answer) asOf() time.Time { return stamp(max(a.Now, a.Last)) }

// stamp returns the time that a number of microseconds stands for.
func stamp(micros int64) time.Time { return time.UnixMicro(micros).UTC() }
