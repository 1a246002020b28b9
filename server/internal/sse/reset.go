package sse

import (
	"context"
	"net"
	"net/http"
)

// Over HTTP/1.0 a response without a length ends with its connection, so a whole stream and one whose server was killed
// look the same to a client, or to the proxy that asks for it. A TCP reset differs from the end of a connection.

type connKey struct{}

// WithConn returns a context for the requests of a connection, from which Write takes it.
func WithConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// unframed reports whether the end of a response to r is only the end of its connection.
func unframed(r *http.Request) bool { return r.ProtoMajor == 1 && r.ProtoMinor == 0 }

// armed has the system reset a connection that is closed, also when it closes that of a killed process. disarm undoes
// this. Connections other than TCP are left unchanged.
func armed(c net.Conn) (disarm func()) {
	if secured, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = secured.NetConn()
	}
	tcp, ok := c.(interface{ SetLinger(seconds int) error })
	if !ok || tcp.SetLinger(0) != nil {
		return func() {}
	}
	return func() { _ = tcp.SetLinger(-1) }
}

// Cut aborts the response to r so that its client sees a broken connection, not the end of a stream.
func Cut(w http.ResponseWriter, r *http.Request) {
	if unframed(r) {
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			armed(c)
			c.Close()
			return
		}
	}
	panic(http.ErrAbortHandler)
}
