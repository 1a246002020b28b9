package main

import (
	"context"
	"os"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

// model stands in for one that thinks, for as long as THINK says, before the last of three boxes. It decides from
// the transcript alone, so any process can resume it.
var model = scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
	packed := 0
	for i := range req.Messages {
		packed += len(req.Messages[i].ToolResults())
	}
	switch packed {
	case 2:
		think, _ := time.ParseDuration(os.Getenv("THINK"))
		return scripted.Reply(scripted.Pause(think), scripted.Call("pack", box{3}))
	case 3:
		return scripted.Text("All three are packed.")
	}
	return scripted.Call("pack", box{packed + 1})
})
