package dostore

import (
	"context"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-agents/cairn/store/backend"
)

// database is the connections with the objects of a store, and what a process remembers of them.
type database struct {
	base   string // the worker's address
	prefix string // of every path
	opts   Options
	clock  *clock
	known  backend.Known[known]
	routes routes

	expire func(ctx context.Context, root string) error // removes a tree if it has expired
	woke   func(owner string)                           // handles the notice that an owner has grown
	lost   func(*link)                                  // handles the loss of a connection with followers

	closed  atomic.Bool
	done    chan struct{}  // closed with the store
	reading sync.WaitGroup // of every connection
	mu      sync.Mutex
	links   map[string]*link
	conns   map[*connection]struct{}
	fails   func() error // of a write, in tests
}

// close ends all connections.
func (d *database) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed.Swap(true) {
		close(d.done)
	}
	for c := range d.conns {
		c.close()
	}
}

// adopt starts to read from a new connection. It reports false, and closes the connection, if the store is closed.
func (d *database) adopt(l *link, c *connection) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed.Load() {
		c.close()
		return false
	}
	d.conns[c] = struct{}{}
	d.reading.Go(func() { l.read(c) })
	return true
}

// release forgets a connection that has ended.
func (d *database) release(c *connection) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.conns, c)
}

// failure returns the error that a test wants the next write to have.
func (d *database) failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fails == nil {
		return nil
	}
	return d.fails()
}

// directory returns the link with the store's directory.
func (d *database) directory() *link { return d.link(d.prefix + "/directory") }

// tree returns the link with the object of the tree of a root.
func (d *database) tree(root string) *link { return d.object("trees", root) }

// object returns the link with an object of a kind. The equals sign keeps a segment of the path from being empty or of
// dots.
func (d *database) object(kind, name string) *link {
	return d.link(d.prefix + "/" + kind + "/=" + url.PathEscape(name))
}

func (d *database) link(path string) *link {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.links[path]
	if l == nil {
		d.evict()
		l = &link{db: d, path: path, dialing: make(chan struct{}, 1), used: time.Now()}
		d.links[path] = l
	}
	return l
}

// evict closes the connections that were not used for longest if there are too many. The caller holds the lock.
func (d *database) evict() {
	for len(d.links) >= d.opts.Connections {
		var oldest *link
		var since time.Time
		for _, l := range d.links {
			if at, idle := l.idleSince(); idle && (oldest == nil || at.Before(since)) {
				oldest, since = l, at
			}
		}
		if oldest == nil {
			return
		}
		delete(d.links, oldest.path)
		oldest.mu.Lock()
		c := oldest.conn
		oldest.mu.Unlock()
		if c != nil {
			d.reading.Go(c.close)
		}
	}
}

// routes remembers the roots of children, which do not follow from their ids.
type routes struct {
	mu    sync.Mutex
	known map[string]string
}

// mostRoutes bounds the number of remembered routes; any other one is looked up again.
const mostRoutes = 100_000

func (r *routes) get(id string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[id]
}

func (r *routes) put(id, root string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil || len(r.known) >= mostRoutes {
		r.known = map[string]string{}
	}
	r.known[id] = root
}

func (r *routes) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, id)
}
