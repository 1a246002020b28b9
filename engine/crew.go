package engine

import "sync"

// crew runs functions in goroutines that are kept for the next function, because a goroutine that has run one has a
// stack that is large enough. It is safe for concurrent use.
type crew struct {
	mu     sync.Mutex
	closed bool
	idle   []chan func() // what the goroutines that wait take their function from, latest last
	kept   sync.WaitGroup
}

// maxIdle bounds how many goroutines wait for something to do.
const maxIdle = 32

// run calls fn in a goroutine of its own. A crew that is closed still does, but keeps no goroutine.
func (c *crew) run(fn func()) {
	c.mu.Lock()
	n := len(c.idle)
	if n == 0 {
		c.mu.Unlock()
		go c.work(fn)
		return
	}
	next := c.idle[n-1]
	c.idle[n-1] = nil
	c.idle = c.idle[:n-1]
	c.mu.Unlock()
	next <- fn // there is room: nobody else has this channel now
}

// work calls a function, and then those that come, until it is not needed any more.
func (c *crew) work(fn func()) {
	var next chan func()
	for fn != nil {
		fn()
		if next == nil {
			next = make(chan func(), 1)
		}
		if !c.wait(next) {
			return
		}
		fn = <-next
		c.kept.Done()
	}
}

// wait puts a goroutine among the idle ones, unless there are enough.
func (c *crew) wait(next chan func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.idle) == maxIdle {
		return false
	}
	c.idle = append(c.idle, next)
	c.kept.Add(1)
	return true
}

// close ends the goroutines that wait, and each of the others once its function has returned.
func (c *crew) close() {
	c.mu.Lock()
	c.closed = true
	for _, next := range c.idle {
		close(next)
	}
	c.idle = nil
	c.mu.Unlock()
	c.kept.Wait()
}
