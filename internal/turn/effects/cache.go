package effects

import (
	"container/list"
	"slices"
	"sync"

	"github.com/cairn-agents/cairn"
)

// cache keeps sessions in memory: those that are driven, and the most recently used of the others, no more than a number
// and about a number of bytes of them.
type cache struct {
	mu     sync.Mutex
	limit  int
	bytes  int64 // negative for any number
	held   int64 // by the idle ones
	driven map[string]*live
	guests map[string][]*live // of effects that run apart
	idle   map[string]*list.Element
	order  *list.List // of *live, most recent first
}

func newCache(limit int, bytes int64) *cache {
	return &cache{limit: limit, bytes: bytes, driven: map[string]*live{}, guests: map[string][]*live{}, idle: map[string]*list.Element{}, order: list.New()}
}

// take removes an idle session from the cache and returns it, or nil. It is current if, as far as this process knows, the store
// has nothing newer; what was kept for the effects of a run is not, since that may have ended elsewhere.
func (c *cache) take(id string) (l *live, current bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l = c.remove(id)
	return l, l != nil && l.row.Status != cairn.SessionActive
}

// peek returns a copy of an idle session, which stays; nil if there is none, or if it cannot be copied. One whose run has ended
// may be taken for the next, which changes it, as soon as the lock is open.
func (c *cache) peek(id string) *live {
	c.mu.Lock()
	e := c.idle[id]
	if e == nil {
		c.mu.Unlock()
		return nil
	}
	l := e.Value.(*live)
	if l.run != nil {
		c.mu.Unlock()
	} else {
		defer c.mu.Unlock()
	}
	copied, err := l.fork()
	if err != nil {
		return nil
	}
	return copied
}

// join lets stop requests reach an effect that runs apart from others of its run; leave undoes it.
func (c *cache) join(l *live) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.guests[l.row.ID] = append(c.guests[l.row.ID], l)
}

func (c *cache) leave(id string, l *live) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := slices.DeleteFunc(c.guests[id], func(other *live) bool { return other == l })
	if len(list) == 0 {
		delete(c.guests, id)
	} else {
		c.guests[id] = list
	}
}

// working returns everything that is in memory of what a session's run does now.
func (c *cache) working(id string) []*live {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := slices.Clone(c.guests[id])
	if l := c.driven[id]; l != nil {
		list = append(list, l)
	}
	return list
}

// evict removes the idle sessions of a tree.
func (c *cache) evict(root string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, e := range c.idle {
		if e.Value.(*live).row.RootID == root {
			c.remove(id)
		}
	}
}

// drive puts a session among those that are driven, unless this process drives it under a later lease.
func (c *cache) drive(l *live) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.lease = l.row.Lease.Token
	if later := c.driven[l.row.ID]; later == nil || later.lease <= l.lease {
		c.driven[l.row.ID] = l
	}
}

// get returns a session that is driven, or nil.
func (c *cache) get(id string) *live {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.driven[id]
}

// park moves a session from the driven to the idle ones.
func (c *cache) park(l *live) {
	l.drives("")
	l.agent, l.given, l.all = nil, nil, nil
	l.run, l.hooks, l.emit, l.sink, l.step, l.judged, l.deferred = nil, nil, nil, nil, nil, nil, deferred{}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.driven[l.row.ID] == l {
		delete(c.driven, l.row.ID)
	}
	c.put(l)
}

// keep puts a session among the idle ones.
func (c *cache) keep(l *live) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(l)
}

func (c *cache) put(l *live) {
	c.remove(l.row.ID)
	l.held = l.weight()
	if c.limit <= 0 || l.run == nil && c.over(l.held) { // one that is at work would be read again for each effect
		return
	}
	c.idle[l.row.ID] = c.order.PushFront(l)
	c.held += l.held
	for c.order.Len() > 1 && (c.order.Len() > c.limit || c.over(c.held)) {
		c.remove(c.order.Back().Value.(*live).row.ID)
	}
}

// over reports whether so many bytes are too many.
func (c *cache) over(n int64) bool { return c.bytes >= 0 && n > c.bytes }

// remove takes an idle session out and returns it; nil if there is none.
func (c *cache) remove(id string) *live {
	e := c.idle[id]
	if e == nil {
		return nil
	}
	delete(c.idle, id)
	l := c.order.Remove(e).(*live)
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
func (l *live) weight() int64 {
	n := sessionWeight + l.bytes + l.row.State.KeyframeBytes + l.row.State.ChangeBytes
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

// drop forgets a session that is driven, and what was kept of it for effects that run apart.
func (c *cache) drop(l *live) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.driven[l.row.ID] == l {
		delete(c.driven, l.row.ID)
	}
	c.remove(l.row.ID)
}
