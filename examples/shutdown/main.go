// Command shutdown serves HTTP and runs a worker in one process, and ends both gracefully on a signal. It answers
// POST / with the agent's reply.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, stop); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, stop func()) error {
	st, err := sqlitestore.Open("shutdown.db", nil)
	if err != nil {
		return err
	}
	defer st.Close() // last
	eng, err := engine.New(st, []*cairn.Agent{{Name: "support", Model: model}}, nil)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + listener.Addr().String())

	server := &http.Server{Handler: routes(eng)}
	served := make(chan error, 1)
	go func() {
		served <- server.Serve(listener)
		stop() // if the server fails, end the process as a signal does
	}()
	ended := eng.Serve(ctx) // until the signal, and then until active runs have finished their step
	shut := server.Shutdown(context.WithoutCancel(ctx))
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return errors.Join(ended, shut)
}

func routes(eng *engine.Engine) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		run, err := eng.Execute(r.Context(), r.FormValue("session"), "support", cairn.Text(r.FormValue("text")))
		if err != nil { // ErrClosed is 503 here: another process answers
			http.Error(w, err.Error(), cairn.AsError(err).Code.HTTPStatus())
			return
		}
		res, err := run.Wait(r.Context())
		if err != nil {
			http.Error(w, err.Error(), cairn.AsError(err).Code.HTTPStatus())
			return
		}
		fmt.Fprintln(w, res.Text)
	})
}
