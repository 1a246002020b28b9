package pgstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// fate is what a proxy does to a request.
type fate int

const (
	pass       fate = iota
	cutBefore       // the connection ends before the server has the request
	cutAfter        // the server answers, but the connection ends before the client has it
	cutWithout      // the server gets the request, and the connection to it ends at once
)

// proxy stands between a store and its server and counts the requests. A request is what a client sends before it waits
// for an answer.
type proxy struct {
	tb       testing.TB
	listener net.Listener
	socket   string
	requests atomic.Int64
	executes atomic.Int64

	mu     sync.Mutex
	decide func(n int64) fate // n counts the requests since it was set
	n      int64
	conns  map[net.Conn]bool
	group  sync.WaitGroup
}

func newProxy(tb testing.TB, target string) *proxy {
	tb.Helper()
	u, err := url.Parse(target)
	if err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &proxy{tb: tb, listener: l, socket: filepath.Join(u.Query().Get("host"), ".s.PGSQL.5432"), conns: map[net.Conn]bool{}}
	p.group.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.group.Go(func() { p.serve(client) })
		}
	})
	tb.Cleanup(func() {
		l.Close()
		p.cutAll()
		p.group.Wait()
	})
	return p
}

// url leads to the server through the proxy.
func (p *proxy) url() string {
	return fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", p.listener.Addr())
}

// plan sets the fates of the requests from now on.
func (p *proxy) plan(decide func(n int64) fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decide, p.n = decide, 0
}

func (p *proxy) next() fate {
	p.requests.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.decide == nil {
		return pass
	}
	p.n++
	return p.decide(p.n)
}

// cutAll ends all connections.
func (p *proxy) cutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

func (p *proxy) track(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = true
}

func (p *proxy) untrack(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	c.Close()
}

// serve carries one connection.
func (p *proxy) serve(client net.Conn) {
	p.track(client)
	defer p.untrack(client)
	server, err := net.Dial("unix", p.socket)
	if err != nil {
		return // the server is down
	}
	p.track(server)
	defer p.untrack(server)
	var swallow atomic.Bool // the server's next answer is the last thing that happens
	var answers sync.WaitGroup
	answers.Go(func() {
		defer client.Close()
		defer server.Close()
		carryAnswers(server, client, &swallow)
	})
	if carryStartup(client, server) == nil {
		p.carryRequests(client, server, &swallow)
	}
	answers.Wait()
}

// carryRequests forwards what the client sends, as the plan says.
func (p *proxy) carryRequests(client, server net.Conn, swallow *atomic.Bool) {
	var held []byte
	for {
		kind, message, err := readMessageOf(client)
		if err != nil {
			server.Close()
			return
		}
		held = append(held, message...)
		switch kind {
		case 'E':
			p.executes.Add(1)
			continue
		case 'Q', 'S':
		case 'X':
			server.Write(held)
			server.Close()
			return
		default:
			continue
		}
		if kind == 'Q' {
			p.executes.Add(1)
		}
		switch p.next() {
		case cutBefore:
			client.Close()
			server.Close()
			return
		case cutAfter:
			swallow.Store(true)
		case cutWithout:
			server.Write(held)
			client.Close()
			server.Close()
			return
		}
		if _, err := server.Write(held); err != nil {
			client.Close()
			return
		}
		held = held[:0]
	}
}

// carryAnswers forwards what the server sends until a connection ends, or until the server is ready for the next
// request after one whose answer is swallowed.
func carryAnswers(server, client net.Conn, swallow *atomic.Bool) {
	for {
		kind, message, err := readMessageOf(server)
		switch {
		case err != nil, swallow.Load() && kind == 'Z':
			return
		case swallow.Load():
			continue
		}
		if _, err := client.Write(message); err != nil {
			return
		}
	}
}

// carryStartup forwards the first message, which has no kind.
func carryStartup(client, server net.Conn) error {
	head := make([]byte, 4)
	if _, err := io.ReadFull(client, head); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head)
	if n < 8 || n > 10_000 {
		return errors.New("not a startup message")
	}
	body := make([]byte, n-4)
	if _, err := io.ReadFull(client, body); err != nil {
		return err
	}
	_, err := server.Write(append(head, body...))
	return err
}

// readMessageOf reads one message with its kind.
func readMessageOf(c net.Conn) (kind byte, message []byte, err error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(c, head); err != nil {
		return 0, nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
	if _, err := io.ReadFull(c, body); err != nil {
		return 0, nil, err
	}
	return head[0], append(head, body...), nil
}
