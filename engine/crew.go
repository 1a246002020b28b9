package engine

import "sync"

// crew runs functions in goroutines that it keeps for later functions, because the stack of a goroutine that has run
// one is large enough already. It is safe for concurrent use.
type crew struct {
	mu     sync.Mutex
	closed bool
	idle   []chan func() // inputs of the idle goroutines, latest last
	kept   sync.WaitGroup
}

// maxIdle bounds the number of idle goroutines.
const maxIdle = 32

// run calls fn in a goroutine of its own. A closed crew still does so, but keeps no goroutine.
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
	next <- fn // does not block: the channel is empty, and no other sender has it
}

// work calls fn and then each further function, until its goroutine is not needed any more.
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

// wait adds a goroutine to the idle ones, unless there are enough.
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

// close ends the idle goroutines, and each of the others once its function has returned.
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
