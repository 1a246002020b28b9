package session

import (
	"container/list"
	"slices"
	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
)

// Cache keeps sessions in memory: the driven ones, and the most recently used idle ones, within a number of sessions
// and an approximate number of bytes.
type Cache struct {
	mu     sync.Mutex
	limit  int
	bytes  int64 // negative for no limit
	held   int64 // by the idle sessions
	driven map[string]*Live
	guests map[string][]*Live // for remote effects under way
	idle   map[string]*list.Element
	order  *list.List // of *Live, most recent first
	early  early
}

// NewCache returns a cache for at most limit idle sessions of about so many bytes in total. A negative number of bytes
// is no limit.
func NewCache(limit int, bytes int64) *Cache {
	return &Cache{limit: limit, bytes: bytes, driven: map[string]*Live{}, guests: map[string][]*Live{}, idle: map[string]*list.Element{}, order: list.New()}
}

// Take removes an idle session from the cache and returns it, or nil. current reports whether, as far as this process
// knows, the store has nothing newer. A session kept for the effects of a run is never current, since the run may have
// ended elsewhere.
func (c *Cache) Take(id string) (l *Live, current bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l = c.remove(id)
	return l, l != nil && l.Row.Status != cairn.SessionActive
}

// Peek returns a copy of an idle session, which stays in the cache; nil if there is none, or if it cannot be copied. It
// copies a session without a run under the lock: once unlocked, such a session may be taken for its next run, which
// changes it.
func (c *Cache) Peek(id string) *Live {
	c.mu.Lock()
	e := c.idle[id]
	if e == nil {
		c.mu.Unlock()
		return nil
	}
	l := e.Value.(*Live)
	if l.Run != nil {
		c.mu.Unlock()
	} else {
		defer c.mu.Unlock()
	}
	copied, err := l.Fork()
	if err != nil {
		return nil
	}
	return copied
}

// Join lets stop requests reach a session that a remote effect works on, until Leave.
func (c *Cache) Join(l *Live) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.guests[l.Row.ID] = append(c.guests[l.Row.ID], l)
}

// Leave undoes Join.
func (c *Cache) Leave(id string, l *Live) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := slices.DeleteFunc(c.guests[id], func(other *Live) bool { return other == l })
	if len(list) == 0 {
		delete(c.guests, id)
	} else {
		c.guests[id] = list
	}
}

// working returns the sessions in memory that a session's run works on now.
func (c *Cache) working(id string) []*Live {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := slices.Clone(c.guests[id])
	if l := c.driven[id]; l != nil {
		list = append(list, l)
	}
	return list
}

// Evict removes the idle sessions of a tree.
func (c *Cache) Evict(root string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, e := range c.idle {
		if e.Value.(*Live).Row.RootID == root {
			c.remove(id)
		}
	}
}

// Drive adds a session to the driven ones, unless this process drives it under a later lease.
func (c *Cache) Drive(l *Live) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.lease = l.Row.Lease.Token
	if later := c.driven[l.Row.ID]; later == nil || later.lease <= l.lease {
		c.driven[l.Row.ID] = l
	}
}

// Get returns a driven session, or nil.
func (c *Cache) Get(id string) *Live {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.driven[id]
}

// Park moves a session from the driven ones to the idle ones.
func (c *Cache) Park(l *Live) {
	l.SetRun("")
	l.agent, l.extra, l.hooks = nil, nil, nil
	l.offered = offered{}
	l.Run, l.callHooks, l.Emit, l.sink, l.Step, l.judged, l.deferred = nil, nil, nil, nil, nil, nil, Deferred{}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.driven[l.Row.ID] == l {
		delete(c.driven, l.Row.ID)
	}
	c.put(l)
}

// Keep adds a session to the idle ones.
func (c *Cache) Keep(l *Live) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(l)
}

func (c *Cache) put(l *Live) {
	c.remove(l.Row.ID)
	l.held = l.weight()
	// The bytes do not count for a session with a run under way: without it, each effect would read it from the store
	// again.
	if c.limit <= 0 || l.Run == nil && c.over(l.held) {
		return
	}
	c.idle[l.Row.ID] = c.order.PushFront(l)
	c.held += l.held
	for c.order.Len() > 1 && (c.order.Len() > c.limit || c.over(c.held)) {
		c.remove(c.order.Back().Value.(*Live).Row.ID)
	}
}

// over reports whether n bytes exceed the limit.
func (c *Cache) over(n int64) bool { return c.bytes >= 0 && n > c.bytes }

// remove removes an idle session and returns it; nil if there is none.
func (c *Cache) remove(id string) *Live {
	e := c.idle[id]
	if e == nil {
		return nil
	}
	delete(c.idle, id)
	l := c.order.Remove(e).(*Live)
	c.held -= l.held
	return l
}

// Approximate overhead of a session, a message and a part in memory, in bytes.
const (
	sessionWeight = 4 << 10
	messageWeight = 256
	partWeight    = 128
)

// weight returns about how many bytes a session holds. Its cost is linear in the number of cached tool results.
func (l *Live) weight() int64 {
	n := sessionWeight + l.bytes + l.Row.State.KeyframeBytes + l.Row.State.ChangeBytes
	for _, e := range l.results.entries {
		n += messageWeight + int64(len(e.Output))
	}
	return n
}

// sizeOf returns about how many bytes messages hold.
func sizeOf(list []cairn.Message) (n int64) {
	for i := range list {
		n += messageWeight + int64(len(list[i].Parts))*partWeight + int64(list[i].Size())
	}
	return n
}

// Drop removes a driven session, and the idle copy kept for remote effects.
func (c *Cache) Drop(l *Live) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.driven[l.Row.ID] == l {
		delete(c.driven, l.Row.ID)
	}
	c.remove(l.Row.ID)
}

// Forget drops a session that this process stops driving before its run has ended, unless this process drives it under
// another lease.
func (c *Cache) Forget(at turn.Position) {
	l := c.Get(at.SessionID)
	if l == nil || l.Row.Lease.Token != at.Token {
		return
	}
	if l.Emit != nil {
		l.Emit.Close()
	}
	c.Drop(l)
}

// RequestStop stops a run immediately if this process drives it.
func (c *Cache) RequestStop(id string, stop cairn.Stop) {
	c.early.put(stop)
	for _, l := range c.working(id) {
		l.RequestStop(stop)
	}
}

// Expect keeps stop requests for a run that this process is about to have in memory. The caller calls arrived once it
// is in memory, or will not be; arrived passes the request on.
func (c *Cache) Expect(id, run string) (arrived func()) {
	c.early.expect(run)
	return func() {
		if stop := c.early.take(run); stop != nil {
			c.RequestStop(id, *stop)
		}
	}
}
