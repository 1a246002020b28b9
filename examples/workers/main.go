// Command workers is one of any number of equal processes on one PostgreSQL database. Each process begins the sessions
// of its command line, and takes over sessions of dead processes.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/store/pgstore"
)

type box struct {
	Number int `json:"number"`
}

var packer = &cairn.Agent{
	Name:       "packer",
	Model:      model,
	Durability: cairn.PerTool, // no finished model call or tool runs again after a crash
	Tools: []cairn.Tool{cairn.Func("pack", "Packs a box.", func(_ context.Context, call *cairn.Call, in box) (string, error) {
		fmt.Println("packed", call.SessionID, "box", in.Number)
		return "packed", call.Append([]string{"boxes"}, in.Number)
	})},
	Hooks: &cairn.Hooks{RunComplete: func(_ context.Context, step *cairn.Step, r *cairn.Result) {
		fmt.Println("completed", step.SessionID)
	}},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	url := os.Getenv("DATABASE_URL")
	if url == "" {
		fmt.Fprintln(os.Stderr, "DATABASE_URL is not set: DATABASE_URL=postgres://localhost/app go run ./examples/workers lamps chairs")
		os.Exit(2)
	}
	st, err := pgstore.Open(ctx, url, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	// Sessions of a dead process are taken over when their lease has lapsed.
	eng, err := engine.New(st, []*cairn.Agent{packer}, &engine.Options{LeaseTTL: 3 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	for _, session := range os.Args[1:] {
		if _, err := eng.Execute(ctx, session, "packer", cairn.Text("Pack three boxes.")); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("serving")
	if err := eng.Serve(ctx); err != nil {
		log.Print(err)
	}
}
