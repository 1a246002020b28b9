package main

import (
	"context"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

// model stands for a model of a provider.
var model = scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
	if req.Messages[len(req.Messages)-1].Role == cairn.RoleUser {
		return scripted.Call("find", order{"42"})
	}
	return scripted.Text("It is on its way.")
})

type order struct {
	Number string `json:"number"`
}

var find = cairn.Func("find", "Finds an order.", func(_ context.Context, _ *cairn.Call, in order) (string, error) {
	return "order " + in.Number + " was sent", nil
})
