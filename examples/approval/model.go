package main

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

// model stands in for a model that costs money. It requests the payment and reports the outcome. It decides from
// the transcript alone, so any process can resume it.
var model = scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
	last := req.Messages[len(req.Messages)-1]
	for _, result := range last.ToolResults() {
		return scripted.Text("The desk says: " + string(result.Output))
	}
	return scripted.Call("pay", payment{42, 9900})
})
