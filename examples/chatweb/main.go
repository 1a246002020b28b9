// Command chatweb serves a page whose chat is the AI SDK's useChat, from one process on SQLite. It has tools, one
// of them executed by the browser, approvals with edited arguments, questions, stop, steering, and answers that
// outlive the process.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "where to listen")
	db := flag.String("db", "chatweb.db", "the file of the sessions")
	page := flag.String("page", "web/dist", "the directory of the page, which npm run build makes")
	flag.Parse()
	if _, err := os.Stat(*page); err != nil {
		fmt.Fprintf(os.Stderr, "the page is missing (%v): (cd examples/chatweb/web && npm install && npm run build), then go run . in examples/chatweb\n", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, stop, *addr, *db, *page); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, stop func(), addr, db, page string) error {
	st, err := sqlitestore.Open(db, nil)
	if err != nil {
		return err
	}
	defer st.Close()
	// LeaseTTL is how long a dead process holds a turn.
	eng, err := engine.New(st, []*cairn.Agent{agent}, &engine.Options{LeaseTTL: 5 * time.Second})
	if err != nil {
		return err
	}
	chat, err := server.New(eng, &server.Options{AllowUnauthenticated: true}) // only for a listener on loopback
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", chat)
	for _, file := range []string{"/{$}", "/chat.js", "/chat.css"} {
		mux.Handle("GET "+file, http.FileServer(http.Dir(page)))
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println("http://" + listener.Addr().String())

	httpServer := &http.Server{Handler: mux}
	served := make(chan error, 1)
	go func() { served <- httpServer.Serve(listener); stop() }()
	context.AfterFunc(ctx, chat.Drain) // streams end, so that their pages reconnect
	ended := eng.Serve(ctx)
	shut := httpServer.Shutdown(context.WithoutCancel(ctx))
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return errors.Join(ended, shut)
}
