package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// delegating is an agent that consults another one and, in the end, says what it said.
func delegating(name string, other *cairn.Agent) *cairn.Agent {
	a := asks(other)
	a.Name = name
	return a
}

// TestRemoteAgentsInACycleReachTheDepthLimit has agents on two servers that consult each other. The lower limit of the
// two ends the cycle, with a result that the model there reads.
func TestRemoteAgentsInACycleReachTheDepthLimit(t *testing.T) {
	t.Parallel()
	for _, limits := range [][2]int{{4, 4}, {4, 100}, {100, 4}, {-1, 4}} {
		t.Run(fmt.Sprint(limits), func(t *testing.T) {
			t.Parallel()
			a, b := newCallee(t), newCallee(t)
			a.limited(limits[0], delegating("boss", b.remote("clerk")))
			b.limited(limits[1], delegating("clerk", a.remote("boss")))
			res := came(t, ask(t, a.eng), cairn.RunCompleted)
			if !strings.Contains(res.Text, "delegation depth limit of 4 reached") {
				t.Errorf("the model was told %q", res.Text)
			}
			deepest, sessions := 0, 0
			for _, st := range []store.Store{a.st, b.st} {
				page, err := st.List(t.Context(), store.SessionQuery{Limit: 100})
				if err != nil {
					t.Fatal(err)
				}
				sessions += len(page.Items)
				for _, row := range page.Items {
					deepest = max(deepest, row.Depth)
				}
			}
			// The session that stands for an agent whose server refuses is one level below that server's limit.
			if deepest < 4 || deepest > 5 || sessions < 5 || sessions > 10 {
				t.Errorf("%d sessions, the deepest at level %d", sessions, deepest)
			}
		})
	}
}

// limited starts a process of the server with a limit of the depth.
func (c *callee) limited(depth int, agents ...*cairn.Agent) {
	c.with(&engine.Options{MaxDepth: depth}, calleeToken, agents...)
}

// TestDepthStaysWithTheSession asks for a later turn of a session that another agent began, by a caller that names no
// depth.
func TestDepthStaysWithTheSession(t *testing.T) {
	t.Parallel()
	helper := &cairn.Agent{Name: "helper", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("here") })}
	c := newCallee(t)
	c.limited(3, delegating("boss", helper))
	for turn, depth := range []int{3, 0} {
		run, err := c.client.Start(t.Context(), client.Turn{SessionID: "s", Agent: "boss", Input: client.UserMessage{Text: "go"}, Context: client.Context{Depth: depth}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.eng.Run(t.Context(), "s", run.RunID)
		if err != nil {
			t.Fatal(err)
		}
		if res := came(t, r, cairn.RunCompleted); !strings.Contains(res.Text, "limit of 3 reached") {
			t.Errorf("turn %d: %q", turn+1, res.Text)
		}
	}
}

func TestDepthOfARequestIsBounded(t *testing.T) {
	t.Parallel()
	c := newCallee(t)
	c.limited(3, &cairn.Agent{Name: "boss", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("here") })})
	for depth, want := range map[int]error{-1: cairn.ErrInvalid, 1001: cairn.ErrInvalid, 1 << 40: cairn.ErrInvalid, 4: cairn.ErrTooLarge, 3: nil} {
		_, err := c.client.Start(t.Context(), client.Turn{SessionID: fmt.Sprint("s", depth), Agent: "boss", Input: client.UserMessage{Text: "go"}, Context: client.Context{Depth: depth}})
		if !errors.Is(err, want) || err != nil && !strings.Contains(err.Error(), "depth") {
			t.Errorf("depth %d: %v, want %v", depth, err, want)
		}
		if _, there := driver.Load(t.Context(), c.st, fmt.Sprint("s", depth)); (there == nil) != (want == nil) {
			t.Errorf("depth %d: the session: %v", depth, there)
		}
	}
}
