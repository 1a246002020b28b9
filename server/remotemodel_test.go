package server_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/modeltest"
	"github.com/cairn-agents/cairn/model/scripted"
)

// An agent of another server is a model as well. It repeats what it was asked, and stalls on request.
func TestRemoteAgentConforms(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	model := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if len(req.Messages) == 0 {
			return scripted.Text("What?")
		}
		said := req.Messages[len(req.Messages)-1].Text()
		if strings.HasSuffix(said, "stall") {
			return scripted.Reply(scripted.Text("It "), scripted.Gate(end))
		}
		return scripted.Text(said+" .").Usage(5, 5)
	})
	c := newCallee(t, &cairn.Agent{Name: "expert", Model: model})
	t.Cleanup(func() { close(end) })
	remote := c.remote("expert").Model
	var sessions atomic.Int64
	ask := func(text string) *cairn.Request {
		n := sessions.Add(1)
		said := cairn.User(cairn.TextPart(text))
		said.RunID = fmt.Sprint("run_", n)
		return &cairn.Request{SessionID: fmt.Sprint("session-", n), Messages: []cairn.Message{said}}
	}
	modeltest.Run(t, func(testing.TB) cairn.Model { return remote }, &modeltest.Options{
		Text: ask, Stall: func() *cairn.Request { return ask("stall") },
		Without: []modeltest.Ability{modeltest.Calls, modeltest.Failures},
	})
}
