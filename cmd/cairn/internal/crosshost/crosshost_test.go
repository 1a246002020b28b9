package crosshost_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host/hosttest"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/skill"
	"github.com/cairn-agents/cairn/store/driver"
)

type words struct {
	Text string `json:"text"`
}

// note appends its text to the list "notes" of the state. refund, which a person must approve, appends to
// "refunds".
func note() cairn.Tool { return appends("note", "notes") }

func refund() cairn.Tool { return appends("refund", "refunds", cairn.RequireApproval()) }

func appends(name, list string, opts ...cairn.ToolOption) cairn.Tool {
	return cairn.Func(name, "Does "+name+".", func(_ context.Context, call *cairn.Call, in words) (string, error) {
		return name + " " + in.Text, call.Append([]string{list}, in.Text)
	}, opts...)
}

func asks(id, tool, text string) scripted.Step { return scripted.Call(tool, words{text}).ID(id) }

// agent returns an agent whose n-th reply in a session is the n-th step, in any process.
func agent(name string, steps []scripted.Step, tools ...cairn.Tool) *cairn.Agent {
	return &cairn.Agent{Name: name, Description: "Does what " + name + "s do.", Tools: tools,
		Model: scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
			n := 0
			for i := range req.Messages {
				if req.Messages[i].Role == cairn.RoleAssistant {
					n++
				}
			}
			return steps[n]
		})}
}

// asker has a call that a person must approve, alongside another call.
func asker() *cairn.Agent {
	return agent("bot", []scripted.Step{
		scripted.Reply(scripted.Text("One moment. "), asks("c1", "refund", "42"), asks("c2", "note", "n")),
		scripted.Text("Done."),
		scripted.Text("Bye."),
	}, refund(), note())
}

// delegator consults a helper, whose call a person must approve.
func delegator() *cairn.Agent {
	helper := agent("helper", []scripted.Step{asks("c1", "refund", "42"), asks("c2", "note", "n"), scripted.Text("Refunded.")}, refund(), note())
	return agent("bot", []scripted.Step{
		scripted.Reply(asks("c1", "note", "m"), scripted.Call("helper", map[string]string{"input": "do it"}).ID("c2")),
		scripted.Text("Done."),
		scripted.Text("Bye."),
	}, cairn.SubAgent(helper), note())
}

// wanderer suspends three times: by itself, by a helper, and by itself again.
func wanderer() *cairn.Agent {
	helper := agent("helper", []scripted.Step{asks("c1", "refund", "2"), scripted.Text("Refunded.")}, refund())
	return agent("bot", []scripted.Step{
		asks("c1", "refund", "1"),
		scripted.Call("helper", map[string]string{"input": "do it"}).ID("c2"),
		scripted.Reply(asks("c3", "refund", "3"), asks("c4", "note", "n")),
		scripted.Text("Done."),
		scripted.Text("Bye."),
	}, cairn.SubAgent(helper), refund(), note())
}

// learner loads a skill, waits for a person, and then asks for the skill again and reads a file of it.
func learner() *cairn.Agent {
	skills, err := skill.New([]skill.Provider{skill.Define(skill.Skill{Info: skill.Info{Name: "refunds", Description: "Refunds."}, Body: "Look the order up."},
		fstest.MapFS{"limits.md": {Data: []byte("50 euros")}})}, nil)
	if err != nil {
		panic(err)
	}
	a := agent("bot", []scripted.Step{
		scripted.Call(skill.LoadTool, map[string]string{"name": "refunds"}).ID("c1"),
		asks("c2", "refund", "42"),
		scripted.Reply(scripted.Call(skill.LoadTool, map[string]string{"name": "refunds"}).ID("c3"),
			scripted.Call(skill.ReadTool, map[string]string{"skill": "refunds", "path": "limits.md"}).ID("c4")),
		scripted.Text("Done."),
		scripted.Text("Bye."),
	}, refund())
	a.Toolsets = []cairn.Toolset{skills}
	return a
}

// Whatever host suspended a session, a process without hosts and agents answers it, and any other host resumes it
// as if it had stayed in one process.
func TestSessionsHopHosts(t *testing.T) {
	t.Parallel()
	all, place := hosts(t), files(t)
	inprocess, temporal, dbos := all[0], all[1], all[2]
	for name, scene := range map[string]struct {
		agent func() *cairn.Agent
		ways  [][]hosttest.Host // hosts of the parts of the conversation; the session is suspended between parts
		texts []string          // what the session contains at its end
	}{
		"approval": {asker, pairs(all), nil},
		"child":    {delegator, pairs(all), nil},
		"skills":   {learner, pairs(all), []string{"Look the order up.", "already loaded", "50 euros", "skill_loaded"}},
		"chain": {wanderer, [][]hosttest.Host{
			{inprocess, temporal, dbos, inprocess},
			{temporal, dbos, inprocess, temporal},
			{dbos, temporal, inprocess, dbos},
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stays := slices.Repeat([]hosttest.Host{inprocess}, len(scene.ways[0]))
			want := converse(t, place, scene.agent, stays, scene.texts...)
			for _, way := range scene.ways {
				var stations []string
				for _, h := range way {
					stations = append(stations, h.Name)
				}
				t.Run(strings.Join(stations, "-"), func(t *testing.T) {
					t.Parallel()
					if got := converse(t, place, scene.agent, way, scene.texts...); got != want {
						t.Errorf("the session left behind:\n%s\none that stayed in one process:\n%s", got, want)
					}
				})
			}
		})
	}
}

// pairs returns the ways from each host to each other one.
func pairs(all []hosttest.Host) (ways [][]hosttest.Host) {
	for i, from := range all {
		for k, to := range all {
			if i != k {
				ways = append(ways, []hosttest.Host{from, to})
			}
		}
	}
	return ways
}

// converse plays a conversation. Each part runs in a new process on a host and ends suspended, except the last.
// converse returns the content of the session at the end, which must contain the texts.
func converse(t *testing.T, place hosttest.Store, agent func() *cairn.Agent, way []hosttest.Host, texts ...string) string {
	t.Helper()
	st := place.Open(t, nil)
	for n, h := range way {
		last := n == len(way)-1
		eng := h.Start(t, place.Another(t, st), []*cairn.Agent{agent()}, &engine.Options{Coalesce: -1})
		verb := func() (*engine.Run, error) { return eng.Resume(t.Context(), "s") }
		if n == 0 {
			verb = func() (*engine.Run, error) { return eng.Execute(t.Context(), "s", "bot", cairn.Text("go")) }
		}
		run, err := verb()
		if res := outcome(t, run, err); last != (res.Status == cairn.RunCompleted) || last == (res.Status == cairn.RunSuspended) {
			t.Fatalf("part %d, on %s, came to %+v", n+1, h.Name, res)
		}
		if last {
			run, err = eng.Execute(t.Context(), "s", "bot", cairn.Text("thanks"))
			if res := outcome(t, run, err); res.Text != "Bye." {
				t.Fatalf("the turn after, on %s, came to %+v", h.Name, res)
			}
		} else {
			answer(t, place.Another(t, st))
		}
		if err := eng.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	log := st.(driver.LogProvider).EventLog()
	problems, err := hosttest.Unsound(t.Context(), st, log, "s")
	if err != nil || len(problems) > 0 {
		t.Errorf("unsound: %q, %v", problems, err)
	}
	left, err := hosttest.Describe(t.Context(), st, log, "s")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range texts {
		if !strings.Contains(left, want) {
			t.Errorf("the session does not contain %q:\n%s", want, left)
		}
	}
	return left
}

// answer approves the pending calls in a process that has neither a host nor agents.
func answer(t *testing.T, st driver.Store) {
	t.Helper()
	decide(t, st, "s", cairn.Approve)
}

// decide answers the one pending call of a session's tree in a process that has neither a host nor agents.
func decide(t *testing.T, st driver.Store, id string, how func(cairn.CallRef) cairn.Submission) {
	t.Helper()
	eng, err := engine.New(st, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	page, err := eng.Inbox(t.Context(), driver.CallQuery{RootID: id, Statuses: []cairn.CallStatus{cairn.CallOpen}})
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("the inbox has %+v, %v", page.Items, err)
	}
	if r, err := eng.Submit(t.Context(), id, how(page.Items[0].CallRef)); err != nil || r.Outcome != cairn.OutcomeAccepted {
		t.Fatalf("the answer: %+v, %v", r, err)
	}
	if err := eng.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
