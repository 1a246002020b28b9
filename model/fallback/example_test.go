package fallback_test

import (
	"context"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/fallback"
	"github.com/cairn-agents/cairn/model/scripted"
)

func ExampleNew() {
	busy := scripted.New(scripted.Fail(cairn.Errorf(cairn.ErrOverloaded, "try later")))
	spare := scripted.New(scripted.Text("Hello from the other one."))
	model := fallback.New(nil, busy, spare) // an agent's Model
	for chunk, err := range model.Stream(context.Background(), &cairn.Request{}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(chunk.Text)
	}
	// Output: Hello from the other one.
}
