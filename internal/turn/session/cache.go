package session

import (
	"container/list"
	"slices"
	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn"
)

// Cache keeps sessions in memory: those that are driven, and the most recently used of the others, no more than a number
// and about a number of bytes of them.
type Cache struct {
	mu     sync.Mutex
	limit  int
	bytes  int64 // negative for any number
	held   int64 // by the idle ones
	driven map[string]*Live
	guests map[string][]*Live // of effects that are remote
	idle   map[string]*list.Element
	order  *list.List // of *Live, most recent first
	early  early
}

// NewCache returns a cache for some number of idle sessions, and about so many bytes of them, of which a negative number is any.
func NewCache(limit int, bytes int64) *Cache {
	return &Cache{limit: limit, bytes: bytes, driven: map[string]*Live{}, guests: map[string][]*Live{}, idle: map[string]*list.Element{}, order: list.New()}
}

// Take removes an idle session from the cache and returns it, or nil. It is current if, as far as this process knows, the store
// has nothing newer; what was kept for the effects of a run is not, since that may have ended elsewhere.
func (c *Cache) Take(id string) (l *Live, current bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l = c.remove(id)
	return l, l != nil && l.Row.Status != cairn.SessionActive
}

// Peek returns a copy of an idle session, which stays; nil if there is none, or if it cannot be copied. One whose run has ended
// may be taken for the next, which changes it, as soon as the lock is open.
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

// Join lets stop requests reach an effect that is carried out by itself; Leave undoes it.
func (c *Cache) Join(l *Live) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.guests[l.Row.ID] = append(c.guests[l.Row.ID], l)
}

// Leave ends what Join began.
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

// working returns everything that is in memory of what a session's run does now.
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

// Drive puts a session among those that are driven, unless this process drives it under a later lease.
func (c *Cache) Drive(l *Live) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.lease = l.Row.Lease.Token
	if later := c.driven[l.Row.ID]; later == nil || later.lease <= l.lease {
		c.driven[l.Row.ID] = l
	}
}

// Get returns a session that is driven, or nil.
func (c *Cache) Get(id string) *Live {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.driven[id]
}

// Park moves a session from the driven to the idle ones.
func (c *Cache) Park(l *Live) {
	l.Drives("")
	l.Agent, l.Given, l.hooks = nil, nil, nil
	l.offered = offered{}
	l.Run, l.CallHooks, l.Emit, l.Sink, l.Step, l.Judged, l.Deferred = nil, nil, nil, nil, nil, nil, Deferred{}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.driven[l.Row.ID] == l {
		delete(c.driven, l.Row.ID)
	}
	c.put(l)
}

// Keep puts a session among the idle ones.
func (c *Cache) Keep(l *Live) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(l)
}

func (c *Cache) put(l *Live) {
	c.remove(l.Row.ID)
	l.held = l.weight()
	if c.limit <= 0 || l.Run == nil && c.over(l.held) { // one that is at work would be read again for each effect
		return
	}
	c.idle[l.Row.ID] = c.order.PushFront(l)
	c.held += l.held
	for c.order.Len() > 1 && (c.order.Len() > c.limit || c.over(c.held)) {
		c.remove(c.order.Back().Value.(*Live).Row.ID)
	}
}

// over reports whether so many bytes are too many.
func (c *Cache) over(n int64) bool { return c.bytes >= 0 && n > c.bytes }

// remove takes an idle session out and returns it; nil if there is none.
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

// What a session, a message and a part cost in memory beside their content, about.
const (
	sessionWeight = 4 << 10
	messageWeight = 256
	partWeight    = 128
)

// weight returns about how many bytes a session holds. It costs no more than the results of tools that are kept.
func (l *Live) weight() int64 {
	n := sessionWeight + l.bytes + l.Row.State.KeyframeBytes + l.Row.State.ChangeBytes
	for _, e := range l.Results.entries {
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

// Drop forgets a session that is driven, and what was kept of it for effects that are remote.
func (c *Cache) Drop(l *Live) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.driven[l.Row.ID] == l {
		delete(c.driven, l.Row.ID)
	}
	c.remove(l.Row.ID)
}

// Forget drops a session that is no longer driven here without having come to an end, unless this process has taken it over
// from itself.
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

// RequestStop makes a run stop at once if this process drives it.
func (c *Cache) RequestStop(id string, stop cairn.Stop) {
	c.early.put(stop)
	for _, l := range c.working(id) {
		l.RequestStop(stop)
	}
}

// Expect has stop requests for a run be kept that this process is about to have in memory. The function that it returns
// hands them on, and is called when that is so, or will not be.
func (c *Cache) Expect(id, run string) (arrived func()) {
	c.early.expect(run)
	return func() {
		if stop := c.early.take(run); stop != nil {
			c.RequestStop(id, *stop)
		}
	}
}
