package redisstore

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// dialer returns the options' own dialer. Connections without TLS report why they were refused.
func dialer(o *redis.Options) func(ctx context.Context, network, address string) (net.Conn, error) {
	if o.DialTimeout == 0 {
		o.DialTimeout = 5 * time.Second
	}
	dial := redis.NewDialer(o)
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if raw, ok := c.(rawConn); ok && err == nil {
			return &attentiveConn{rawConn: raw}, nil
		}
		return c, err
	}
}

// rawConn is a connection that the client can check without reading.
type rawConn interface {
	net.Conn
	syscall.Conn
}

// attentiveConn reports why a server has closed a connection. A server that has no connection left says so at once and
// closes; a later write then fails with only a broken pipe.
type attentiveConn struct {
	rawConn
	answered atomic.Bool
	refusal  atomic.Pointer[string] // the server's first answer, if it was a refusal
}

// Read implements net.Conn.
func (c *attentiveConn) Read(b []byte) (int, error) {
	n, err := c.rawConn.Read(b)
	if n > 0 && !c.answered.Load() {
		c.answered.Store(true)
		if bytes.HasPrefix(b[:n], []byte("-ERR max number of clients")) {
			text, _, _ := strings.Cut(string(b[1:n]), "\r\n")
			c.refusal.Store(&text)
		}
	}
	return n, err
}

// Write implements net.Conn.
func (c *attentiveConn) Write(b []byte) (int, error) {
	n, err := c.rawConn.Write(b)
	if err == nil {
		return n, nil
	}
	if !c.answered.Load() {
		c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		c.Read(make([]byte, 256))
	}
	if text := c.refusal.Load(); text != nil {
		return n, errors.New(*text)
	}
	return n, err
}
