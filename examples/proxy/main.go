// Command proxy runs two servers of the same sessions behind a round-robin proxy:
//
//	proxy server                      (twice: each writes its address)
//	proxy http://ADDRESS http://ADDRESS
//
// If a server is stopped or killed, its clients only have to reconnect.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) == 1 {
		fmt.Fprintln(os.Stderr, "usage: proxy server | ADDRESS…; first, twice: go run ./examples/proxy server")
		os.Exit(2)
	}
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	fmt.Println("http://" + listener.Addr().String())
	if os.Args[1] == "server" {
		serve(ctx, listener)
	} else {
		log.Fatal(http.Serve(listener, roundRobin(os.Args[1:])))
	}
}

func serve(ctx context.Context, listener net.Listener) {
	st := must(sqlitestore.Open("proxy.db", nil)) // servers on several machines share PostgreSQL or Redis
	defer st.Close()
	eng := must(engine.New(st, []*cairn.Agent{author}, nil))
	h := must(server.New(eng, &server.Options{AllowUnauthenticated: true}))
	web := &http.Server{Handler: h, ConnContext: server.ConnContext, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	go func() {
		if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Fatal(err)
		}
	}()
	defer context.AfterFunc(ctx, h.Drain)() // readyz is 503, and streams end so that their clients reconnect
	// Serve runs a worker until the signal. Then runs finish their step, and the other server takes them over.
	if err := errors.Join(eng.Serve(ctx), web.Shutdown(context.Background())); err != nil {
		log.Print(err)
	}
}

// roundRobin passes each request to the next server that is ready. It needs no knowledge of sessions.
func roundRobin(servers []string) http.Handler {
	var next atomic.Uint64
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		first := next.Add(1)
		for i := range uint64(len(servers)) { // each server once, also with concurrent requests
			to := must(url.Parse(servers[(first+i)%uint64(len(servers))]))
			res, err := http.Get(to.JoinPath("readyz").String()) // real proxies check every few seconds
			if err != nil {
				continue
			}
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				r.SetURL(to)
				return
			}
		}
	}}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
