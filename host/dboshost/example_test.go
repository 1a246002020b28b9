package dboshost_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host/dboshost"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

// A process that begins turns and drives them. Restarted under the same name, it resumes its workflows.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "cairn")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	st, err := sqlitestore.Open(filepath.Join(dir, "cairn.db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	agent := &cairn.Agent{Name: "support", Model: scripted.New(scripted.Text("We are sorry about that."))}

	h, err := dboshost.Open(ctx, "sqlite:"+filepath.Join(dir, "dbos.db"), &dboshost.Options{Executor: "worker-1"})
	if err != nil {
		log.Fatal(err)
	}
	eng, err := engine.New(st, []*cairn.Agent{agent}, &engine.Options{Host: h})
	if err != nil {
		log.Fatal(err)
	}
	if err := h.Serve(eng); err != nil {
		log.Fatal(err)
	}
	run, err := eng.Execute(ctx, "session-1", "support", cairn.Text("Order 42 arrived broken."))
	if err != nil {
		log.Fatal(err)
	}
	res, err := run.Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Text)
	if err := errors.Join(eng.Close(ctx), h.Close(ctx), st.Close()); err != nil {
		log.Fatal(err)
	}
	// Output: We are sorry about that.
}
