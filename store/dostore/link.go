package dostore

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/coder/websocket"
)

const (
	// maxFrame is the size of a message between a worker and an object's clients that Cloudflare permits.
	maxFrame = 32 << 20
	// dialWithin bounds the time for a connection.
	dialWithin = 30 * time.Second
)

var errClosed = cairn.Errorf(cairn.ErrClosed, "the store is closed")

// link is the connection with one object. It connects when it is first used, and again after the connection was lost. A
// link is safe for concurrent use.
type link struct {
	db   *database
	path string

	dialing chan struct{} // holds one entry while a connection is made
	mu      sync.Mutex
	conn    *connection // nil if there is none
	used    time.Time
	pins    int   // number of followers
	last    int64 // the object's last write, as far as it is known
}

// connection is one WebSocket with the requests that have no answer yet.
type connection struct {
	ws      *websocket.Conn
	watches bool

	mu      sync.Mutex
	lost    error
	next    int64
	waiting map[int64]chan *answer
}

// errLost is the error of a request whose connection was lost before the answer.
var errLost = errors.New("the connection was lost")

// errNotSent is the error of a request on a connection that was lost before.
var errNotSent = errors.New("the connection was lost before")

// call sends a request and returns its answer. A read whose connection is lost is sent again, once. Whether a write was
// applied is then unknown: the error is ErrUnavailable.
func (l *link) call(ctx context.Context, r *request) (*answer, error) {
	for try := 0; ; try++ {
		c, err := l.connect(ctx)
		if err != nil {
			return nil, err
		}
		sent := l.db.clock.since()
		a, err := c.ask(ctx, r)
		switch {
		case err == nil && a.Error != "":
			return nil, cairn.Errorf(cairn.ErrInternal, "%s: the object refused a request: %s", l.path, a.Error)
		case err == nil:
			l.mu.Lock()
			l.last = max(l.last, a.Last)
			l.mu.Unlock()
			l.db.clock.observe(sent, a.Now, a.Last)
			return a, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case l.db.closed.Load():
			return nil, errClosed
		case errors.Is(err, errNotSent):
			try--
		case !errors.Is(err, errLost):
			return nil, err
		case r.Op == "write" || try > 0:
			return nil, cairn.Errorf(cairn.ErrUnavailable, "%s: %w", l.path, err)
		}
	}
}

// write sends a write that build makes for a time, again as long as the object's clock is far behind that time. It
// returns the version of the rows that it wrote, or which row of another version kept it from being applied.
func (l *link) write(ctx context.Context, build func(at time.Time) (*request, error)) (*conflict, int64, error) {
	for {
		if _, err := l.connect(ctx); err != nil { // so that the clock is known
			return nil, 0, err
		}
		l.mu.Lock()
		last := l.last
		l.mu.Unlock()
		at := l.db.clock.next(last)
		r, err := build(stamp(at))
		if err != nil {
			return nil, 0, err
		}
		if err := l.db.failure(); err != nil {
			return nil, 0, err
		}
		r.Op, r.At = "write", at
		a, err := l.call(ctx, r)
		if err != nil {
			return nil, 0, err
		}
		if !a.Ahead {
			return a.Conflict, a.Version, nil
		}
	}
}

// connect returns the connection, which it makes if there is none.
func (l *link) connect(ctx context.Context) (*connection, error) {
	if l.db.closed.Load() {
		return nil, errClosed
	}
	select {
	case l.dialing <- struct{}{}:
		defer func() { <-l.dialing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l.mu.Lock()
	l.used = time.Now()
	c := l.conn
	l.mu.Unlock()
	if c != nil && c.alive() {
		return c, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	c, err := l.dial(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.conn = c
	pinned := l.pins > 0
	l.mu.Unlock()
	if !l.db.adopt(l, c) {
		return nil, errClosed
	}
	if pinned {
		return c, l.watch(ctx, c)
	}
	return c, nil
}

// dial connects to the object and reads its hello.
func (l *link) dial(ctx context.Context) (*connection, error) {
	began := l.db.clock.since()
	ws, refused, err := l.handshake(ctx, time.Now().Unix())
	if refused != "" { // this process' clock is wrong, and that is the worker's
		at, perr := strconv.ParseInt(refused, 10, 64)
		if perr != nil {
			return nil, err
		}
		ws, _, err = l.handshake(ctx, at)
	}
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(maxFrame)
	var hello answer
	_, raw, err := ws.Read(ctx)
	if err == nil {
		err = json.Unmarshal(raw, &hello)
	}
	if err == nil && hello.Hello != protocol {
		ws.CloseNow()
		return nil, cairn.Errorf(cairn.ErrSchema, "the worker speaks version %d of the protocol, this program version %d", hello.Hello, protocol)
	}
	if err != nil {
		ws.CloseNow()
		return nil, unavailable(l.path, err)
	}
	l.db.clock.observe(began, hello.Now, hello.Last)
	l.mu.Lock()
	l.last = max(l.last, hello.Last)
	l.mu.Unlock()
	return &connection{ws: ws, waiting: map[int64]chan *answer{}}, nil
}

// handshake opens a WebSocket with a signature of the time at, in seconds. If the worker refuses the time, it returns
// the worker's.
func (l *link) handshake(ctx context.Context, at int64) (ws *websocket.Conn, refused string, err error) {
	stamp := strconv.FormatInt(at, 10)
	mac := hmac.New(sha256.New, []byte(l.db.opts.Secret))
	fmt.Fprintf(mac, "cairn1\n%s\n%s", stamp, l.path)
	ws, response, err := websocket.Dial(ctx, l.db.base+l.path, &websocket.DialOptions{HTTPClient: l.db.opts.Client,
		HTTPHeader: http.Header{"Cairn-Time": {stamp}, "Cairn-Mac": {hex.EncodeToString(mac.Sum(nil))}}})
	if err == nil {
		return ws, "", nil
	}
	if response == nil {
		return nil, "", unavailable(l.path, err)
	}
	switch response.StatusCode {
	case http.StatusUnauthorized:
		return nil, response.Header.Get("Cairn-Time"), cairn.Errorf(cairn.ErrUnavailable, "the worker rejected the secret")
	case http.StatusNotFound:
		return nil, "", cairn.Errorf(cairn.ErrSchema, "the worker does not know version %d of the protocol", protocol)
	}
	return nil, "", unavailable(l.path, err)
}

// unavailable gives an error of the connection its code. Errors of contexts pass unchanged.
func unavailable(path string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return cairn.Errorf(cairn.ErrUnavailable, "%s: cannot reach the worker: %w", path, err)
}

// read handles the answers and notices of a connection until it is lost.
func (l *link) read(c *connection) {
	for {
		_, raw, err := c.ws.Read(context.Background())
		if err != nil {
			break
		}
		a := &answer{}
		if err := json.Unmarshal(raw, a); err != nil {
			break
		}
		for _, owner := range a.Woke {
			l.db.woke(owner)
		}
		c.deliver(a)
	}
	c.close()
	l.db.release(c)
	l.mu.Lock()
	pinned := l.pins > 0
	l.mu.Unlock()
	if pinned {
		l.db.lost(l)
	}
}

// ask sends a request and waits for its answer.
func (c *connection) ask(ctx context.Context, r *request) (*answer, error) {
	if n := r.size(); n > maxFrame { // before the time for its encoding is spent
		return nil, tooLarge(n)
	}
	done := make(chan *answer, 1)
	c.mu.Lock()
	if c.lost != nil {
		c.mu.Unlock()
		return nil, errNotSent
	}
	c.next++
	sent := *r
	sent.ID = c.next
	c.waiting[sent.ID] = done
	c.mu.Unlock()
	raw, err := json.Marshal(&sent)
	switch {
	case err != nil:
		c.forget(sent.ID)
		return nil, cairn.Errorf(cairn.ErrInvalid, "encode a request: %w", err)
	case len(raw) > maxFrame:
		c.forget(sent.ID)
		return nil, tooLarge(len(raw))
	}
	// Not with ctx: a message that is cut off in its middle would end the connection for other requests.
	if err := c.ws.Write(context.Background(), websocket.MessageText, raw); err != nil {
		c.close()
	}
	select {
	case a := <-done:
		return a, a.lost
	case <-ctx.Done():
		c.forget(sent.ID)
		return nil, ctx.Err()
	}
}

func tooLarge(n int) error {
	return cairn.Errorf(cairn.ErrTooLarge, "a write of %d bytes: the store takes %d", n, maxFrame)
}

func (c *connection) forget(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, id)
}

// deliver passes an answer on to the request that it belongs to.
func (c *connection) deliver(a *answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if done := c.waiting[a.ID]; done != nil {
		delete(c.waiting, a.ID)
		done <- a
	}
}

func (c *connection) alive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost == nil
}

// close ends the connection and its requests.
func (c *connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost != nil {
		return
	}
	c.lost = errLost
	for id, done := range c.waiting {
		delete(c.waiting, id)
		done <- &answer{lost: errLost}
	}
	c.ws.CloseNow()
}

// watch asks the object for notices on a connection.
func (l *link) watch(ctx context.Context, c *connection) error {
	c.mu.Lock()
	watches := c.watches
	c.watches = true
	c.mu.Unlock()
	if watches {
		return nil
	}
	_, err := c.ask(ctx, &request{Op: "watch"})
	return err
}

// idleSince returns when the link was last used, and whether it is not in use.
func (l *link) idleSince() (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pins > 0 || len(l.dialing) > 0 {
		return l.used, false
	}
	if l.conn == nil {
		return l.used, true
	}
	l.conn.mu.Lock()
	defer l.conn.mu.Unlock()
	return l.used, len(l.conn.waiting) == 0
}

// fixed returns a write that is the same at any time.
func fixed(r *request) func(time.Time) (*request, error) {
	return func(time.Time) (*request, error) { return r, nil }
}

// pin adds to the number of those who need the connection for notices.
func (l *link) pin(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pins += n
}
