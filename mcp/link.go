package mcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn"
)

// link connects to a server for one user, or for all. It connects on demand, and again when the connection is lost.
type link struct {
	e    *endpoint
	user string
	used time.Time // guarded by the endpoint's mutex

	mu      sync.Mutex
	session *sdk.ClientSession
	dialing chan struct{} // closed when a connection attempt ends; nil if none is under way
	failed  error         // error of the last attempt
	known   *toolList
	stale   bool          // whether the server has announced that its list has changed
	listing chan struct{} // closed when a listing ends; nil if none is under way
	unlist  error         // error of the last listing
	retry   time.Time     // until then turns wait for a list no longer than fresh

	following map[string]*progress // of requests under way, by their tokens as JSON
}

// implementation is how this client identifies itself.
var implementation = &sdk.Implementation{Name: "cairn", Version: "1"}

// connect returns the session with the server, and opens one if there is none. It waits for the session until ctx
// ends. A connection attempt continues beyond that.
func (l *link) connect(ctx context.Context) (*sdk.ClientSession, error) {
	for try := 0; ; try++ {
		l.mu.Lock()
		if l.session != nil {
			defer l.mu.Unlock()
			return l.session, nil
		}
		if try > 0 && l.dialing == nil {
			defer l.mu.Unlock()
			return nil, l.failed
		}
		if l.dialing == nil {
			if err := l.begin(&l.dialing, l.dialNow); err != nil {
				l.mu.Unlock()
				return nil, err
			}
		}
		done := l.dialing
		l.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// connectTimeout bounds a connection attempt, and a listing of tools, unless a turn waits longer for them.
const connectTimeout = time.Minute

// begin runs do in a goroutine that the server's Close waits for, and closes a channel after it. The caller holds
// the mutex.
func (l *link) begin(done *chan struct{}, do func(ctx context.Context)) error {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	if l.e.closed {
		return cairn.Errorf(cairn.ErrClosed, "MCP server %q is closed", l.e.name)
	}
	ch := make(chan struct{})
	*done = ch
	l.e.start(func() {
		ctx, cancel := context.WithTimeout(l.e.ctx, max(connectTimeout, l.e.opts.ListTimeout))
		defer cancel()
		do(ctx)
		l.mu.Lock()
		*done = nil
		l.mu.Unlock()
		close(ch)
	})
	return nil
}

// dialNow opens a connection.
func (l *link) dialNow(ctx context.Context) {
	session, err := l.dial(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session, l.failed = session, err
}

func (l *link) dial(ctx context.Context) (*sdk.ClientSession, error) {
	t, err := l.e.dial.transport(l.e.ctx, l.user)
	if err != nil {
		return nil, err
	}
	client := sdk.NewClient(implementation, &sdk.ClientOptions{
		// The user is asked by a pending call, which may outlast this process.
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
		Capabilities: &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{
			Form: &sdk.FormElicitationCapabilities{}, URL: &sdk.URLElicitationCapabilities{}}},
		// A server of an older revision asks during the call, which no other process could continue.
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return nil, errors.New("elicitation during a call is not supported: the user is asked through an inbox, so return the request in the result, as in revision 2026-07-28")
		},
		ProgressNotificationHandler: func(_ context.Context, req *sdk.ProgressNotificationClientRequest) { l.progressed(req.Params) },
		ToolListChangedHandler:      func(context.Context, *sdk.ToolListChangedRequest) { l.changed() },
	})
	if err := withSkills(client); err != nil {
		return nil, err
	}
	session, err := client.Connect(ctx, t, nil)
	if a, ok := t.(authorised); ok && err != nil && a.unauthorised() != nil {
		err = a.unauthorised()
	}
	if err != nil {
		return nil, fmt.Errorf("no connection: %w", err)
	}
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	if l.e.closed {
		l.e.mu.Unlock()
		_ = session.Close() // the session is dropped whatever Close returns
		l.e.mu.Lock()
		return nil, cairn.Errorf(cairn.ErrClosed, "MCP server %q is closed", l.e.name)
	}
	l.e.start(func() { // runs until the connection is lost
		err := session.Wait()
		if l.lost(session) && l.e.ctx.Err() == nil {
			l.e.opts.Logger.Warn("connection to an MCP server lost", "server", l.e.name, "error", err)
		}
	})
	return session, nil
}

// lost drops a session, and reports whether it was the current one.
func (l *link) lost(session *sdk.ClientSession) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session != session {
		return false
	}
	l.session, l.stale = nil, true
	return true
}

// drop closes a session that is of no further use.
func (l *link) drop(session *sdk.ClientSession) {
	if !l.lost(session) {
		return
	}
	l.e.mu.Lock()
	open := !l.e.closed
	if open {
		l.e.start(func() { _ = session.Close() })
	}
	l.e.mu.Unlock()
	if !open {
		_ = session.Close()
	}
}

func (l *link) close() {
	l.mu.Lock()
	session := l.session
	l.session = nil
	l.mu.Unlock()
	if session != nil {
		_ = session.Close() // the session is dropped whatever Close returns
	}
}

// changed marks the known list as out of date.
func (l *link) changed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stale = true
}

// sent reports whether a request may have reached the server before it failed.
func sent(err error) bool {
	var op *net.OpError
	return !(errors.As(err, &op) && op.Op == "dial")
}

// answered reports whether a request failed although the connection is good: the server has answered it with an error,
// or the user lacks a right or a token for it.
func answered(err error) bool {
	var wire *jsonrpc.Error
	var lacks refusal
	return errors.As(err, &wire) || errors.As(err, &lacks) || needsConnect(err)
}

// callTool calls a tool. It opens a new connection if the present one is lost. A request that may have reached the
// server is not repeated.
func (l *link) callTool(ctx context.Context, params *sdk.CallToolParams) (*sdk.CallToolResult, error) {
	for try := 0; ; try++ {
		session, err := l.connect(ctx)
		if err == nil {
			var res *sdk.CallToolResult
			if res, err = session.CallTool(ctx, params); err == nil {
				return res, nil
			}
			if answered(err) || ctx.Err() != nil {
				return nil, err
			}
			l.drop(session)
			if sent(err) {
				return nil, fmt.Errorf("the connection was lost; the call may have had effects: %w", err)
			}
		}
		if answered(err) || errors.Is(err, cairn.ErrClosed) || try == 3 {
			return nil, err
		}
		select { // the server may be restarting
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(time.Duration(100<<try) * time.Millisecond):
		}
	}
}

// fresh is how long a turn waits for a listing if a list is known that may have changed.
const fresh = 100 * time.Millisecond

// pause is how long turns wait no longer than fresh, after a listing failed or took too long.
const pause = 10 * time.Second

// await returns the server's tools once they are known.
func (l *link) await(ctx context.Context) (*toolList, error) {
	l.mu.Lock()
	if l.known != nil {
		defer l.mu.Unlock()
		return l.known, nil
	}
	done, err := l.relist()
	l.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case <-done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		return nil, l.unlist
	}
	return l.known, nil
}

// relist begins a listing unless one is under way, and returns a channel that is closed when it ends. The caller holds
// the mutex.
func (l *link) relist() (done <-chan struct{}, err error) {
	if l.listing == nil {
		err = l.begin(&l.listing, l.listNow)
	}
	return l.listing, err
}

// list returns the server's tools; nil if they are not known in time. known reports that the session has a list
// already.
func (l *link) list(ctx context.Context, known bool) (*toolList, error) {
	l.mu.Lock()
	if l.known != nil && !l.stale && time.Now().Before(l.known.until) {
		defer l.mu.Unlock()
		return l.known, nil
	}
	done, err := l.relist()
	if err != nil {
		l.mu.Unlock()
		return nil, err
	}
	wait := l.e.opts.ListTimeout
	if known || l.known != nil || !l.e.opts.Required && time.Now().Before(l.retry) {
		wait = fresh
	}
	l.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.known != nil:
		return l.known, nil
	case l.listing == nil && l.unlist != nil:
		return nil, fmt.Errorf("MCP server %q: cannot list tools: %w", l.e.name, l.unlist)
	}
	l.retry = time.Now().Add(pause)
	return nil, nil
}

// listNow lists the server's tools.
func (l *link) listNow(ctx context.Context) {
	l.mu.Lock()
	l.stale = false
	l.mu.Unlock()
	list, err := retried(ctx, l, l.e.fetch)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unlist = err
	if err != nil {
		l.stale = true
		if !needsConnect(err) {
			l.retry = time.Now().Add(pause)
		}
		l.e.opts.Logger.Warn("cannot list the tools of an MCP server", "server", l.e.name, "error", err)
		return
	}
	l.known, l.retry = list, time.Time{}
}

// retried makes a request that only reads, and repeats it once over a new connection if the connection is lost.
func retried[T any](ctx context.Context, l *link, do func(context.Context, *sdk.ClientSession) (T, error)) (T, error) {
	for try := 0; ; try++ {
		var value T
		session, err := l.connect(ctx)
		if err != nil {
			return value, err
		}
		value, err = do(ctx, session)
		if err == nil || answered(err) || ctx.Err() != nil {
			return value, err
		}
		l.drop(session)
		if try == 1 {
			return value, err
		}
	}
}
