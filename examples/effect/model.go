package main

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

// model stands in for a model that costs money. It requests the refund and reports the outcome. It decides from the
// transcript alone, so any process can take it over.
var model = scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
	last := req.Messages[len(req.Messages)-1]
	for _, result := range last.ToolResults() {
		return scripted.Text("Your money: " + string(result.Output))
	}
	return scripted.Call("refund", refund{42, 9900})
})
