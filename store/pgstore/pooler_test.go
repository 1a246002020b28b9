package pgstore

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/jackc/pgx/v5/pgproto3"
)

// pooler is a proxy that pools connections by transaction: each transaction of a client uses any free connection to the
// server, so a client must not rely on the state of a connection. A client that does so fails: prepared statements are
// unknown, and listeners get no notifications.
type pooler struct {
	tb       testing.TB
	listener net.Listener
	socket   string
	// extended lets clients prepare statements, which then are where the next transaction may not be. Else it is an
	// error.
	extended bool

	mu      sync.Mutex
	free    []*pooled
	dialled int
	group   sync.WaitGroup
	open    map[net.Conn]bool
}

// pooled is a connection to the server.
type pooled struct {
	net.Conn
	front *pgproto3.Frontend
}

func newPooler(tb testing.TB, target string) *pooler { return startPooler(tb, target, false) }

func startPooler(tb testing.TB, target string, extended bool) *pooler {
	tb.Helper()
	u, err := url.Parse(target)
	if err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &pooler{tb: tb, listener: l, extended: extended, socket: filepath.Join(u.Query().Get("host"), ".s.PGSQL.5432"), open: map[net.Conn]bool{}}
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
		p.mu.Lock()
		for c := range p.open {
			c.Close()
		}
		p.mu.Unlock()
		p.group.Wait()
	})
	return p
}

// url leads to the server through the pooler.
func (p *pooler) url() string {
	return "postgres://postgres@" + p.listener.Addr().String() + "/postgres?sslmode=disable"
}

func (p *pooler) track(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[c] = true
}

// fewConns is how many connections to the server there are before one is used again.
const fewConns = 4

// take returns a connection to the server: any of those that are free, or a new one.
func (p *pooler) take() (*pooled, error) {
	p.mu.Lock()
	if n := len(p.free); n >= fewConns || n > 0 && p.dialled >= fewConns {
		i := rand.IntN(n)
		c := p.free[i]
		p.free[i] = p.free[n-1]
		p.free = p.free[:n-1]
		p.mu.Unlock()
		return c, nil
	}
	p.dialled++
	p.mu.Unlock()
	conn, err := net.Dial("unix", p.socket)
	if err != nil {
		return nil, err
	}
	p.track(conn)
	c := &pooled{Conn: conn, front: pgproto3.NewFrontend(conn, conn)}
	c.front.Send(&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30,
		Parameters: map[string]string{"user": "postgres", "database": "postgres", "client_encoding": "UTF8"}})
	if err := c.front.Flush(); err != nil {
		return nil, err
	}
	for {
		m, err := c.front.Receive()
		if err != nil {
			return nil, err
		}
		if _, ready := m.(*pgproto3.ReadyForQuery); ready {
			return c, nil
		}
	}
}

const mostFree = 16

func (p *pooler) giveBack(c *pooled) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) < mostFree {
		p.free = append(p.free, c)
		return
	}
	delete(p.open, c.Conn)
	c.Close()
}

// serve carries one client.
func (p *pooler) serve(client net.Conn) {
	p.track(client)
	defer client.Close()
	back := pgproto3.NewBackend(client, client)
	if _, err := back.ReceiveStartupMessage(); err != nil {
		return
	}
	back.Send(&pgproto3.AuthenticationOk{})
	back.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	back.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	back.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
	back.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if back.Flush() != nil {
		return
	}
	var server *pooled
	defer func() {
		if server != nil {
			server.Close() // in the middle of a transaction
		}
	}()
	for {
		m, err := back.Receive()
		if err != nil {
			return
		}
		_, query := m.(*pgproto3.Query)
		_, sync := m.(*pgproto3.Sync)
		if !query && !p.extended {
			if _, ends := m.(*pgproto3.Terminate); !ends {
				p.tb.Errorf("a pooler was sent a %T", m)
			}
			return
		}
		if server == nil {
			if server, err = p.take(); err != nil {
				return
			}
		}
		server.front.Send(m)
		if !query && !sync {
			continue
		}
		status, err := relay(server, back)
		if err != nil {
			return
		}
		if status == 'I' {
			p.giveBack(server)
			server = nil
		}
	}
}

// relay has the server answer what it was sent and returns whether a transaction is open then.
func relay(server *pooled, back *pgproto3.Backend) (status byte, err error) {
	if err := server.front.Flush(); err != nil {
		return 0, err
	}
	for {
		m, err := server.front.Receive()
		if err != nil {
			return 0, err
		}
		back.Send(m)
		if ready, is := m.(*pgproto3.ReadyForQuery); is {
			return ready.TxStatus, back.Flush()
		}
	}
}

// TestPoolerWithPreparedStatements connects through a transaction pooler without the option for it. Sooner or later a
// prepared statement exists twice or not at all, and the error says what to do.
func TestPoolerWithPreparedStatements(t *testing.T) {
	t.Parallel()
	server := testenv.Postgres(t)
	schema := newSchema()
	openAt(t, server, &Options{Schema: schema})
	var err error
	for range 50 {
		var s *Store
		s, err = Open(t.Context(), startPooler(t, server, true).url(), &Options{Schema: schema, RetryFor: -1})
		for i := 0; err == nil && i < 50; i++ {
			_, err = s.List(t.Context(), driver.SessionQuery{})
		}
		if s != nil {
			s.Close()
		}
		if err != nil {
			break
		}
	}
	if !errors.Is(err, cairn.ErrInvalid) || !strings.Contains(err.Error(), "Options.SimpleProtocol") {
		t.Errorf("error %v, want one that names Options.SimpleProtocol", err)
	}
}
