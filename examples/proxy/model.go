package main

import (
	"context"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

type chapter struct {
	Number int `json:"number"`
}

// author writes four chapters, one per step.
var author = &cairn.Agent{Name: "author",
	Tools: []cairn.Tool{cairn.Func("write", "Writes a chapter.", func(_ context.Context, _ *cairn.Call, in chapter) (string, error) {
		fmt.Println("chapter", in.Number)
		time.Sleep(500 * time.Millisecond)
		return "written", nil
	})},
	Model: scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
		if n := (len(r.Messages) + 1) / 2; n <= 4 {
			return scripted.Call("write", chapter{n})
		}
		return scripted.Text("The end.")
	})}
