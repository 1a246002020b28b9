package hosttest

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
)

// deferrals are scenarios of deferred tools, which the model finds by a search.
var deferrals = []scenario{
	{"deferred", (*scene).deferred},
	{"deferred-crash", (*scene).deferredCrash},
	{"deferred-gone", (*scene).deferredGone},
	{"deferred-bad", (*scene).deferredBad},
	{"deferred-branch", (*scene).deferredBranch},
}

// finds is a reply that searches for tools.
func finds(id, text string) scripted.Step {
	return scripted.Call(cairn.FindTools, map[string]string{"query": text}).ID(id)
}

// orders is a reply that calls a deferred tool.
func orders(id, tool, text string) scripted.Step {
	return scripted.Call(cairn.CallTool, map[string]any{"name": tool, "input": words{text}}).ID(id)
}

// cupboard is a toolset of deferred tools.
type cupboard struct{ shelf }

func (c *cupboard) Tools(pinned json.RawMessage) ([]cairn.Tool, error) {
	var names []string
	if err := json.Unmarshal(pinned, &names); err != nil {
		return nil, err
	}
	var list []cairn.Tool
	for _, name := range names {
		list = append(list, c.s.tool(name, func(_ context.Context, _ *cairn.Call, in words) (string, error) {
			return name + " got " + in.Text, nil
		}, cairn.Deferred()))
	}
	return list, nil
}

// finder returns a bot with one listed tool and several deferred ones. sent returns the tools and the messages of
// each request to its model, as JSON.
func (s *scene) finder(steps ...scripted.Step) (a *cairn.Agent, kit *cupboard, sent func() [][2]string) {
	var mu sync.Mutex
	var list [][2]string
	play := script(steps)
	a = bot(scripted.Func(func(ctx context.Context, req *cairn.Request) scripted.Step {
		tools, err := json.Marshal(req.Tools)
		s.must(err)
		said := make([]cairn.Message, len(req.Messages))
		for i := range said { // the parts that a provider is sent
			said[i] = cairn.Message{Role: req.Messages[i].Role, Parts: req.Messages[i].Parts}
		}
		messages, err := json.Marshal(said)
		s.must(err)
		mu.Lock()
		list = append(list, [2]string{string(tools), string(messages)})
		mu.Unlock()
		return play(ctx, req)
	}), s.note(),
		s.tool("refund_order", func(_ context.Context, _ *cairn.Call, in words) (string, error) {
			return "refunded " + in.Text, nil
		}, cairn.RequireApproval(), cairn.Deferred("money")),
		s.tool("send_mail", func(_ context.Context, call *cairn.Call, in words) (string, error) {
			return "sent " + in.Text, call.Append([]string{"notes"}, in.Text)
		}, cairn.Deferred()),
		cairn.ClientTool[words, place]("find_place", "Finds where the user is.", cairn.Deferred()))
	a.DeferAbove = 1
	kit = &cupboard{shelf{s: s, name: "cupboard", offer: holding("cup", "plate")}}
	a.Toolsets = []cairn.Toolset{kit}
	s.agents = []*cairn.Agent{a}
	return a, kit, func() [][2]string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(list)
	}
}

// stable reports requests whose tools or first messages differ from those of the previous request.
func (s *scene) stable(sent [][2]string) {
	s.Helper()
	for i := 1; i < len(sent); i++ {
		before, now := sent[i-1], sent[i]
		head := before[1][:len(before[1])-1] // without the closing bracket
		if now[0] != before[0] {
			s.Errorf("request %d has other tools than the one before:\n%s\n%s", i+1, before[0], now[0])
		}
		if len(now[1]) < len(head) || now[1][:len(head)] != head {
			s.Errorf("request %d does not begin as the one before:\n%s\n%s", i+1, before[1], now[1])
		}
	}
}

// Deferred tools are called like others: with approvals, client tools and hooks, also by another process and in
// later turns. Each request extends the previous one without changing it.
func (s *scene) deferred() {
	a, kit, sent := s.finder(finds("c1", "give money back"),
		scripted.Reply(orders("c2", "refund_order", "order 7"), orders("c3", "cup", "tea"), asks("c4", "note", "n"), orders("c5", "find_place", "here")),
		scripted.Text("Done."), orders("c6", "send_mail", "bye"), orders("c7", "fork", "cake"), scripted.Text("Sent."))
	a.Hooks = &cairn.Hooks{BeforeTool: func(_ context.Context, call *cairn.Call) error {
		if call.Tool == cairn.CallTool {
			s.Errorf("a hook saw %s", call.Tool)
		}
		return nil
	}}
	one, two := s.process(), s.process()
	one.turn("s", "refund me")
	two.submit("s", cairn.Approve(s.open("s", "refund_order")), cairn.OutcomeAccepted)
	two.submit("s", cairn.Answer(s.open("s", "find_place"), place{"Rome"}), cairn.OutcomeAccepted)
	two.resume("s")
	kit.offer = holding("cup", "plate", "fork")
	one.turn("s", "mail me")
	s.stable(sent())
}

// A process that takes over a turn finds and calls tools as the previous process would have.
func (s *scene) deferredCrash() {
	a, _, sent := s.finder(finds("c1", "mail"), orders("c2", "send_mail", "hello"), orders("c3", "plate", "cake"), scripted.Text("Sent."))
	a.Durability = cairn.PerTool
	one := s.process(s.mortal())
	one.dieBefore(step("s", 2))
	s.awaitDeath(one.start("s", "mail it"))
	two := s.process()
	two.work()
	s.awaitEnd("s", 1)
	s.stable(sent())
}

// A tool that was found may be missing later: the agent or the offer has changed. The model learns that, and
// searches again.
func (s *scene) deferredGone() {
	old, kit, _ := s.finder(finds("c1", "plate"), orders("c2", "plate", "cake"), scripted.Text("Served."),
		scripted.Reply(orders("c3", "plate", "more"), finds("c4", "plate fork")), orders("c5", "fork", "more"), scripted.Text("Served again."),
		scripted.Reply(orders("c6", "send_mail", "x"), orders("c7", "note", "y"), finds("c8", "mail")), scripted.Text("So be it."))
	one := s.process()
	one.turn("s", "cake")
	kit.offer = holding("fork")
	one.turn("s", "more")
	next := *old
	next.Tools, next.Toolsets = []cairn.Tool{s.note()}, nil
	s.released(&next).turn("s", "mail it")
}

// The model's mistakes are errors of the calls, and the model reads them.
func (s *scene) deferredBad() {
	call := func(id, input string) scripted.Step {
		return scripted.Call(cairn.CallTool, json.RawMessage(input)).ID(id)
	}
	find := func(id, input string) scripted.Step {
		return scripted.Call(cairn.FindTools, json.RawMessage(input)).ID(id)
	}
	_, _, sent := s.finder(
		scripted.Reply(call("c1", `{"name":"send_mail","input":{"text":7}}`), call("c2", `{"name":"send_mail"}`), call("c3", `{"name":"nothing","input":{}}`),
			call("c4", `{"input":{}}`), call("c5", `{"name":"tools__find","input":{"query":"mail"}}`), call("c6", `{"name":"no name","input":{}}`),
			call("c7", `{"name":"send_mail","input":"text"}`), call("c8", `[]`), call("c9", `{"name":"__finish__","input":{}}`)),
		scripted.Reply(find("d1", `{"query":""}`), find("d2", `{"query":7}`), find("d3", `{"query":"(.*)+\\u0000 %s '; --"}`), find("d4", `{"query":"mail","limit":1000}`),
			find("d5", `{"query":"mail","regex":true}`), find("d6", `{"query":"the of a mail MAIL","limit":1}`)),
		scripted.Reply(call("e1", `{"name":"send_mail","input":{"text":"off"}}`), finds("e2", "mail")),
		scripted.Text("I give up."))
	s.agents[0].Hooks = &cairn.Hooks{AfterTool: func(_ context.Context, call *cairn.Call, _ *cairn.ToolResult) {
		if call.ID == "d6" {
			s.must(call.SwitchTools(map[string]bool{"send_mail": false}))
		}
	}}
	s.process().turn("s", "go")
	s.stable(sent())
}

// A branch from before the search and a rewind to it have the tools of that point.
func (s *scene) deferredBranch() {
	_, _, sent := s.finder(scripted.Text("Hello."), finds("c1", "mail"), orders("c2", "send_mail", "hello"), scripted.Text("Sent."), scripted.Text("Bye."))
	one, two := s.process(), s.process()
	one.turn("s", "hello")
	list := s.checkpoints("s")
	one.turn("s", "mail it")
	s.must(two.SwitchTools(s.Context(), "s", map[string]bool{"send_mail": false}))
	_, err := two.Branch(s.Context(), "s", "b", engine.AtCheckpoint(list[0].ID))
	s.must(err)
	two.turn("b", "mail it there")
	_, err = two.Rewind(s.Context(), "s", list[0].ID)
	s.must(err)
	two.turn("s", "mail it again")
	for i, r := range sent() {
		if r[0] != sent()[0][0] {
			s.Errorf("request %d has the tools %s", i+1, r[0])
		}
	}
	s.want("a switch of the search", two.SwitchTools(s.Context(), "s", map[string]bool{cairn.FindTools: false}), cairn.ErrInvalid)
	s.roots = []string{"s", "b"}
}
