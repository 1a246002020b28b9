package main

import (
	"context"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

type query struct {
	Words string `json:"words"`
}

var search = cairn.Func("search", "Searches the archive.", func(_ context.Context, _ *cairn.Call, in query) (string, error) {
	return "3 pages about " + in.Words, nil
})

// model stands in for a model that costs money: it searches twice, and then answers.
var model = scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
	searches := 0
	for i := range req.Messages {
		searches += len(req.Messages[i].ToolResults())
	}
	if searches == 2 {
		return scripted.Text("The guild of masons.").Usage(3000, 200)
	}
	return scripted.Call("search", query{fmt.Sprintf("bridges, page %d", searches+1)}).Usage(3000, 200)
})
