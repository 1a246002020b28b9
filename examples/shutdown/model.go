package main

import (
	"context"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

// model stands in for one that takes a while to think.
var model = scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
	return scripted.Reply(scripted.Do(func() { fmt.Println("thinking") }), scripted.Pause(time.Second), scripted.Text("Here you are."))
})
