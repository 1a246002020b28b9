package redisstore

import (
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
)

// proxy is between a store and its server. It sees the traffic and can cut connections.
type proxy struct {
	url      string
	server   string
	listener net.Listener
	handlers sync.WaitGroup

	mu    sync.Mutex
	trips int
	// cut, if set, says for each request whether the connection is cut before the request arrives, or when it is
	// answered.
	cut func(request []byte) cutting
	// conns are the connections to the server.
	conns map[net.Conn]struct{}
}

type cutting int

const (
	cutNot cutting = iota
	cutRequest
	cutAnswer
)

// newProxy starts a proxy for the server at a URL.
func newProxy(tb testing.TB, server string) *proxy {
	tb.Helper()
	u, err := url.Parse(server)
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(tb.TempDir(), "socket")
	p := &proxy{url: "unix://" + path, server: u.Path, conns: map[net.Conn]struct{}{}}
	if p.listener, err = net.Listen("unix", path); err != nil {
		tb.Fatal(err)
	}
	p.handlers.Go(p.accept)
	tb.Cleanup(func() {
		p.listener.Close()
		p.mu.Lock()
		for c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		p.handlers.Wait()
	})
	return p
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", p.server)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = struct{}{}, struct{}{}
		p.mu.Unlock()
		link := &link{proxy: p, client: client, server: server}
		p.handlers.Go(link.requests)
		p.handlers.Go(link.answers)
	}
}

// link is one connection through a proxy.
type link struct {
	proxy          *proxy
	client, server net.Conn

	mu       sync.Mutex
	answered bool // the last message was an answer
	severed  bool // the next answer must not arrive
}

func (l *link) close() {
	l.client.Close()
	l.server.Close()
	l.proxy.mu.Lock()
	delete(l.proxy.conns, l.client)
	delete(l.proxy.conns, l.server)
	l.proxy.mu.Unlock()
}

func (l *link) requests() {
	defer l.close()
	l.answered = true
	buffer := make([]byte, 1<<16)
	for {
		n, err := l.client.Read(buffer)
		if err != nil {
			return
		}
		how := cutNot
		p := l.proxy
		p.mu.Lock()
		l.mu.Lock()
		if l.answered {
			p.trips++
			if p.cut != nil {
				how = p.cut(buffer[:n])
			}
		}
		l.answered, l.severed = false, l.severed || how == cutAnswer
		l.mu.Unlock()
		p.mu.Unlock()
		if how == cutRequest {
			return
		}
		if _, err := l.server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (l *link) answers() {
	defer l.close()
	buffer := make([]byte, 1<<16)
	for {
		n, err := l.server.Read(buffer)
		if err != nil {
			return
		}
		l.mu.Lock()
		l.answered = true
		severed := l.severed
		l.mu.Unlock()
		if severed {
			return
		}
		if _, err := l.client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// count returns how many round trips do takes.
func (p *proxy) count(do func()) int {
	p.mu.Lock()
	before := p.trips
	p.mu.Unlock()
	do()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trips - before
}

// setCut sets which connections are cut from now on; nil means none.
func (p *proxy) setCut(cut func(request []byte) cutting) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
}

// cutAll cuts every connection there is.
func (p *proxy) cutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}
