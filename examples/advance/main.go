// Command advance serves runs to callers that can call a URL. Each run begins with a ticket, which the program gives to
// a caller: here a loop over HTTP in place of a queue, cron or a workflow engine. Each request drives one step.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/host/httphost"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

func main() {
	if err := run(context.Background(), "advance.db"); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, path string) error {
	st, err := sqlitestore.Open(path, nil)
	if err != nil {
		return err
	}
	defer st.Close()
	begun := make(chan string, 100) // tickets; in practice a durable queue
	handler, eng, err := serve(st, func(ticket string) { begun <- ticket })
	if err != nil {
		return err
	}
	defer eng.Close(ctx)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	web := &http.Server{Handler: handler}
	defer web.Close()
	go web.Serve(listener)

	if _, err := eng.Execute(ctx, "session-1", "support", cairn.Text("Where is order 42?")); err != nil {
		return err
	}
	return drive("http://"+listener.Addr().String()+"/advance", <-begun)
}

// serve returns a server whose runs are driven by requests. start gets the ticket of each run that begins.
func serve(st *sqlitestore.Store, start func(ticket string)) (http.Handler, *engine.Engine, error) {
	tickets, err := host.NewTickets("at least 32 random bytes, kept secret")
	if err != nil {
		return nil, nil, err
	}
	h, err := httphost.New(&httphost.Options{Start: func(_ context.Context, run host.Run) error {
		start(tickets.Issue(run, time.Hour))
		return nil
	}})
	if err != nil {
		return nil, nil, err
	}
	eng, err := engine.New(st, []*cairn.Agent{{Name: "support", Model: model, Tools: []cairn.Tool{find}}}, &engine.Options{Host: h})
	if err != nil {
		return nil, nil, err
	}
	handler, err := server.New(eng, &server.Options{AllowUnauthenticated: true, Advance: &server.Advance{Tickets: tickets}})
	return handler, eng, err
}

// drive makes requests with the ticket of each response until there is none.
func drive(url, ticket string) error {
	for ticket != "" {
		body, err := json.Marshal(map[string]string{"ticket": ticket})
		if err != nil {
			return err
		}
		resp, err := http.Post(url, "application/json", bytes.NewReader(body))
		if err != nil {
			return err
		}
		var answer struct{ State, Status, Ticket string }
		err = json.NewDecoder(resp.Body).Decode(&answer)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK { // a durable caller repeats 409 and 503
			return fmt.Errorf("%s: %v", resp.Status, err)
		}
		fmt.Println(answer.State, answer.Status)
		ticket = answer.Ticket
	}
	return nil
}
