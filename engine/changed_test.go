package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host"
	"github.com/cairn-agents/cairn/host/loop"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// release is a host in the middle of a release: the bits of a pattern decide whether a process with the old or the new
// agent carries out each effect.
type release struct {
	engines [2]*engine.Engine
	pattern uint

	mu      sync.Mutex
	effects int
}

func (r *release) Start(_ context.Context, b host.Run) (func(context.Context) error, error) {
	return func(ctx context.Context) error {
		_, err := loop.Drive(releasing{r, ctx}, b)
		return err
	}, nil
}

// releasing is the scheduler of a run.
type releasing struct {
	*release
	ctx context.Context
}

func (r releasing) Do(e host.Effect) error {
	in, err := json.Marshal(e.In)
	if err != nil {
		return err
	}
	r.mu.Lock()
	eng := r.engines[r.pattern>>(r.effects%6)&1]
	r.effects++
	r.mu.Unlock()
	out, err := eng.ForHost().Effect(r.ctx, e.Name, in)
	if err != nil {
		return err
	}
	return json.Unmarshal(out, e.Out)
}

func (r releasing) All(n int, branch func(host.Scheduler, int) error) (err error) {
	for i := range n {
		err = errors.Join(err, branch(r, i))
	}
	return err
}

func (r releasing) Child(_ host.Call, b host.Run) error {
	_, err := loop.Drive(r, b)
	return err
}

// Processes with the old agent and with the new one carry out the effects of a run in any order: a sub-agent of one is
// a tool of the other, or is missing there. Every call is answered and the session ends.
func TestNoSessionIsTrappedBetweenTwoVersionsOfItsAgent(t *testing.T) {
	t.Parallel()
	helper := func() *cairn.Agent {
		return &cairn.Agent{Name: "helper", Model: scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
			if req.Messages[len(req.Messages)-1].Role == cairn.RoleTool {
				return scripted.Text("helped")
			}
			return scripted.Call("refund", in{"42"})
		}), Tools: []cairn.Tool{echo("refund", cairn.RequireApproval())}}
	}
	says := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if req.Messages[len(req.Messages)-1].Role == cairn.RoleTool {
			return scripted.Text("done")
		}
		return scripted.Reply(scripted.Call("helper", map[string]string{"input": "help"}), scripted.Call("pay", in{"1"}), scripted.Call("ask", map[string]string{"input": "why"}),
			scripted.Call("where", in{"here"}))
	})
	ask := func(opts ...cairn.ToolOption) cairn.Tool {
		return cairn.Func("ask", "Asks.", func(context.Context, *cairn.Call, struct {
			Input string `json:"input"`
		}) (string, error) {
			return "asked", nil
		}, opts...)
	}
	old := bot(says, cairn.SubAgent(helper()), echo("pay", cairn.RequireApproval()), ask(cairn.RequireApproval()), cairn.ClientTool[in, string]("where", "Says where."))
	next := map[string]*cairn.Agent{
		"removed": bot(says, echo("note")),
		"other kinds": bot(says, cairn.Func("helper", "Helps.", func(context.Context, *cairn.Call, struct {
			Input string `json:"input"`
		}) (string, error) {
			return "a tool helped", nil
		}), cairn.ClientTool[in, string]("pay", "Pays."), cairn.SubAgent(&cairn.Agent{Name: "ask", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
			return scripted.Text("an agent was asked")
		})}), echo("where", cairn.RequireApproval())),
	}
	for name, new := range next {
		for pattern := range uint(64) {
			t.Run(fmt.Sprintf("%s/%06b", name, pattern), func(t *testing.T) {
				t.Parallel()
				st, h := memstore.New(nil), &release{pattern: pattern}
				h.engines = [2]*engine.Engine{open(t, st, old, hostedBy(h)), open(t, st, new, hostedBy(h), named("b"))}
				res := turn(t, h.engines[pattern&1], "s", "go")
				for range 10 {
					if res.Status != cairn.RunSuspended {
						break
					}
					for _, call := range res.Suspended.Calls {
						if call.Kind == cairn.CallApproval {
							submit(t, h.engines[1], "s", cairn.Approve(call), cairn.OutcomeAccepted)
						} else {
							submit(t, h.engines[0], "s", cairn.Answer(call, "Oslo"), cairn.OutcomeAccepted)
						}
					}
					res = resume(t, h.engines[pattern>>1&1], "s")
				}
				wantStatus(t, res, cairn.RunCompleted, cairn.ReasonReply)
				for _, s := range inTree(t, st, "s", cairn.SessionActive, cairn.SessionPaused) {
					t.Errorf("session %s of %s is %s", s.ID, s.Agent, s.Status)
				}
				wantSound(t, st, "s")
			})
		}
	}
}
