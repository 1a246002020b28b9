package providertest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/provider/testserver"
	"github.com/cairn-agents/cairn/model/modeltest"
)

// Conformance is what the suite of models needs of an adapter's server.
type Conformance[Q, R any] struct {
	// Serve starts a server that asks decide for each reply.
	Serve func(decide func(Q) R) *testserver.Server[Q, R]
	// Asked returns the text of a request's last message, and the tool that must be called; empty for none.
	Asked func(Q) (said, tool string)
	// Call returns a reply that calls a tool.
	Call func(tool string, args any) R
}

// failures are responses with errors, or that break off, by the code that they have for every adapter.
var failures = map[cairn.Code]Wire{
	cairn.ErrRateLimited:   {Status: http.StatusTooManyRequests, Message: "Slow down."},
	cairn.ErrOverloaded:    {Status: http.StatusServiceUnavailable, Message: "Too busy."},
	cairn.ErrModelRequest:  {Status: http.StatusBadRequest, Message: "The temperature is wrong."},
	cairn.ErrContextLength: {Status: http.StatusRequestEntityTooLarge, Message: "Too large."},
	cairn.ErrModelNotFound: {Status: http.StatusNotFound, Message: "No such model."},
	cairn.ErrAuth:          {Status: http.StatusUnauthorized, Message: "The key is wrong."},
	cairn.ErrModel:         {BreakAfter: 3},
}

// Conform runs the suite of models. The server repeats what it was asked, and stalls and fails on request.
func (a Adapter[Q, R]) Conform(t *testing.T, c Conformance[Q, R]) {
	const stall, fail = "stall", "fail "
	never := make(chan struct{})
	server := c.Serve(func(q Q) R {
		said, tool := c.Asked(q)
		code, fails := strings.CutPrefix(said, fail)
		switch {
		case fails:
			return a.Text("It broke off in between.", failures[cairn.Code(code)])
		case said == stall:
			return a.Text(strings.Repeat("It stalls. ", 400), Wire{Gate: never, Piece: 4000})
		case tool != "":
			return c.Call(tool, map[string]string{"words": said})
		}
		return a.Text(said+" .", Wire{})
	})
	t.Cleanup(server.Close)
	say := func(text string) *cairn.Request {
		return &cairn.Request{SessionID: "s", Messages: []cairn.Message{cairn.User(cairn.TextPart(text))}}
	}
	modeltest.Run(t, func(testing.TB) cairn.Model {
		return a.Model("test-model", Endpoint{BaseURL: server.BaseURL, APIKey: "sk-secret"})
	}, &modeltest.Options{
		Stall: func() *cairn.Request { return say(stall) },
		Fail: func(code cairn.Code) *cairn.Request {
			if _, ok := failures[code]; !ok {
				return nil
			}
			return say(fail + string(code))
		},
	})
}
