package temporalhost_test

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host/temporalhost"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

func ExampleNew() {
	ctx := context.Background()
	c, err := client.Dial(client.Options{HostPort: address, Logger: silent})
	if err != nil {
		panic(err)
	}
	defer c.Close()

	host, err := temporalhost.New(c, &temporalhost.Options{TaskQueue: "support", Prefix: "example"})
	if err != nil {
		panic(err)
	}
	agent := &cairn.Agent{Name: "support", Model: scripted.New(scripted.Text("How can I help?"))}
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{agent}, &engine.Options{Host: host})
	if err != nil {
		panic(err)
	}
	defer eng.Close(ctx)
	w := host.Worker(eng, worker.Options{}) // in this process, or in any number of others
	if err := w.Start(); err != nil {
		panic(err)
	}
	defer w.Stop()

	run, err := eng.Execute(ctx, "session-1", "support", cairn.Text("Hello!"))
	if err != nil {
		panic(err)
	}
	res, err := run.Wait(ctx)
	fmt.Println(res.Text, err)
	// Output: How can I help? <nil>
}

// address is the test server's.
var address string

func startServer() (err error) {
	address, err = testenv.TemporalAddress()
	return err
}
