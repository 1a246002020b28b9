package hosttest

import (
	"context"
	"errors"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

// words is the input of most tools.
type words struct {
	Text string `json:"text"`
}

// place is the result of the client tool "locate".
type place struct {
	City string `json:"city"`
}

// bot returns the agent that scenes talk to.
func bot(model cairn.Model, tools ...cairn.Tool) *cairn.Agent { return agent("bot", model, tools...) }

func agent(name string, model cairn.Model, tools ...cairn.Tool) *cairn.Agent {
	return &cairn.Agent{Name: name, Description: "Does what " + name + "s do.", Model: model, Tools: tools}
}

// plays returns a model whose n-th reply in a session is the n-th step, in any process. It rejects a request that
// no provider would accept.
func plays(steps ...scripted.Step) cairn.Model { return scripted.Func(script(steps)) }

func script(steps []scripted.Step) func(context.Context, *cairn.Request) scripted.Step {
	return func(_ context.Context, req *cairn.Request) scripted.Step {
		if err := wellFormed(req.Messages); err != nil {
			return scripted.Fail(cairn.Errorf(cairn.ErrModelRequest, "malformed request: %w", err))
		}
		n := replies(req)
		if n >= len(steps) {
			return scripted.Fail(cairn.Errorf(cairn.ErrModelRequest, "reply %d is beyond the script", n+1))
		}
		return steps[n]
	}
}

// replies counts the model's replies so far.
func replies(req *cairn.Request) (n int) {
	for i := range req.Messages {
		if req.Messages[i].Role == cairn.RoleAssistant {
			n++
		}
	}
	return n
}

// wellFormed returns an error for the first tool use whose result is not in the next message.
func wellFormed(list []cairn.Message) error {
	for i := range list {
		uses := list[i].ToolUses()
		if list[i].Role != cairn.RoleAssistant || len(uses) == 0 {
			continue
		}
		if i+1 == len(list) {
			return errors.New("it ends with a tool use")
		}
		results := list[i+1].ToolResults()
		if len(results) != len(uses) {
			return fmt.Errorf("%d tool uses, followed by %d results", len(uses), len(results))
		}
		for n, use := range uses {
			if results[n].CallID != use.CallID {
				return fmt.Errorf("result %d is of call %s, the tool use of call %s", n+1, results[n].CallID, use.CallID)
			}
		}
	}
	return nil
}

// asks is a reply that calls a tool. id is the provider's id of the call.
func asks(id, tool, text string) scripted.Step { return scripted.Call(tool, words{text}).ID(id) }

// delegates is a reply that consults a sub-agent.
func delegates(id, name string) scripted.Step {
	return scripted.Call(name, map[string]string{"input": "do it"}).ID(id)
}

// tool returns a tool that runs fn and counts its executions.
func (s *scene) tool(name string, fn func(ctx context.Context, call *cairn.Call, in words) (string, error), opts ...cairn.ToolOption) cairn.Tool {
	return cairn.Func(name, "Does "+name+".", func(ctx context.Context, call *cairn.Call, in words) (string, error) {
		s.count(name)
		return fn(ctx, call, in)
	}, opts...)
}

// note is a tool that appends its text to the list "notes" of the state.
func (s *scene) note() cairn.Tool {
	return s.tool("note", func(_ context.Context, call *cairn.Call, in words) (string, error) {
		return "noted " + in.Text, call.Append([]string{"notes"}, in.Text)
	})
}

// refund is a tool that must be approved, and writes state.
func (s *scene) refund(opts ...cairn.ToolOption) cairn.Tool {
	return s.tool("refund", func(_ context.Context, call *cairn.Call, in words) (string, error) {
		return "refunded " + in.Text, call.Append([]string{"refunds"}, in.Text)
	}, append([]cairn.ToolOption{cairn.RequireApproval()}, opts...)...)
}

// locate is a tool that a client runs.
func locate(opts ...cairn.ToolOption) cairn.Tool {
	return cairn.ClientTool[words, place]("locate", "Says where the user is.", opts...)
}

// slow is a tool that runs until it is stopped.
func (s *scene) slow() cairn.Tool {
	return s.tool("slow", func(ctx context.Context, _ *cairn.Call, _ words) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	})
}
