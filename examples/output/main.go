// Command output has an agent fill in a form whose schema comes from a Go type, and reads it back as that type.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

type Ticket struct {
	Order    int      `json:"order" jsonschema:"the order's number" schema:"min=1"`
	Severity string   `json:"severity" schema:"enum=low|high"`
	Problems []string `json:"problems" schema:"minItems=1"`
}

var triage = &cairn.Agent{
	Name:         "triage",
	Instructions: "You turn complaints into tickets.",
	Model:        model,
	Output:       cairn.OutputOf[Ticket](),
}

// model first omits the problems. It reads the error about its output, and corrects the output.
var model = scripted.New(
	scripted.Call(cairn.FinishTool, Ticket{Order: 42, Severity: "high", Problems: []string{}}),
	scripted.Call(cairn.FinishTool, Ticket{Order: 42, Severity: "high", Problems: []string{"the shade is broken"}}),
)

func main() {
	ctx := context.Background()
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{triage}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close(ctx)
	run, err := eng.Execute(ctx, "session-1", "triage", cairn.Text("The lamp of order 42 has a broken shade!"))
	if err != nil {
		log.Fatal(err)
	}
	res, err := run.Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	ticket, err := cairn.OutputAs[Ticket](res)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("order %d, %s: %s (%d steps)\n", ticket.Order, ticket.Severity, ticket.Problems[0], res.Steps)
}
