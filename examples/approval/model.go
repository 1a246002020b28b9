package main

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

// model stands in for one that costs money: it asks for the payment, and reports what became of it. It decides from the
// transcript alone, so that each process may continue it.
var model = scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
	last := req.Messages[len(req.Messages)-1]
	for _, result := range last.ToolResults() {
		return scripted.Text("The desk says: " + string(result.Output))
	}
	return scripted.Call("pay", payment{42, 9900})
})
