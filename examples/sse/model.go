package main

import (
	"context"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

// model stands in for one that writes slowly. It never ends a reply to a message that begins with "Once".
var model = scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
	last := req.Messages[len(req.Messages)-1]
	if text := last.Text(); strings.HasPrefix(text, "Once") {
		return scripted.Reply(scripted.Text("Upon"), scripted.Pause(time.Hour))
	}
	return scripted.Text("Roses are red, violets are blue.").Pace(10 * time.Millisecond)
})
