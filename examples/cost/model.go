package main

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

var find = cairn.Func("find_order", "Finds an order.", func(context.Context, *cairn.Call, struct{}) (string, error) {
	return "It arrives on Monday.", nil
})

// model stands in for a model that costs money: it finds the order, and then answers.
var model = scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
	if req.Messages[len(req.Messages)-1].Role == cairn.RoleUser {
		return scripted.Call("find_order", struct{}{}).Usage(1000, 50)
	}
	return scripted.Text("On Monday.").Usage(1200, 100)
})
