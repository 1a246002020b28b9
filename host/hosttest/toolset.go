package hosttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

// toolsets are scenarios of toolsets, and of work that a tool does once.
var toolsets = []scenario{
	{"toolset", (*scene).toolset},
	{"toolset-waiting", (*scene).toolsetWaiting},
	{"toolset-crash", (*scene).toolsetCrash},
	{"toolset-bad", (*scene).toolsetBad},
	{"once", (*scene).once},
	{"connect", (*scene).connect},
}

// shelf is a toolset whose tools have changing names. Each tool returns its name and its argument, and needs
// approval if the name begins with "paid".
type shelf struct {
	s     *scene
	name  string
	offer func() (*cairn.Offer, error)
}

// holding returns a function that offers tools with the given names.
func holding(names ...string) func() (*cairn.Offer, error) {
	return func() (*cairn.Offer, error) {
		raw, err := json.Marshal(names)
		return &cairn.Offer{Pinned: raw, Note: "The shelf has " + strings.Join(names, " and ") + "."}, err
	}
}

func (f *shelf) Name() string { return f.name }

func (f *shelf) Offer(_ context.Context, step *cairn.Step, pinned json.RawMessage) (*cairn.Offer, error) {
	if err := step.SetTitle("shelf"); err == nil {
		f.s.Errorf("a toolset could write")
	}
	o, err := f.offer()
	if o != nil && string(o.Pinned) == string(pinned) {
		return nil, nil
	}
	return o, err
}

func (f *shelf) Tools(pinned json.RawMessage) ([]cairn.Tool, error) {
	var names []string
	if err := json.Unmarshal(pinned, &names); err != nil {
		return nil, err
	}
	var list []cairn.Tool
	for _, name := range names {
		if name == "panic" {
			panic("no such shelf")
		}
		var opts []cairn.ToolOption
		if strings.HasPrefix(name, "paid") {
			opts = append(opts, cairn.RequireApproval())
		}
		list = append(list, f.s.tool(name, func(_ context.Context, _ *cairn.Call, in words) (string, error) {
			return name + " got " + in.Text, nil
		}, opts...))
	}
	return list, nil
}

// shelved gives the scene's agent a toolset, and records the tools of each request in sent.
func (s *scene) shelved(f *shelf, sent *[]string, steps ...scripted.Step) {
	play := script(steps)
	s.agents = []*cairn.Agent{bot(scripted.Func(func(ctx context.Context, req *cairn.Request) scripted.Step {
		var names []string
		for _, t := range req.Tools {
			names = append(names, t.Name)
		}
		*sent = append(*sent, strings.Join(names, " "))
		return play(ctx, req)
	}), s.note())}
	s.agents[0].Toolsets = []cairn.Toolset{f}
}

// A toolset's offer is pinned when a turn begins. A change takes effect with the next turn.
func (s *scene) toolset() {
	f := &shelf{s: s, name: "shelf", offer: holding("cup", "plate")}
	var sent []string
	s.shelved(f, &sent, asks("c1", "cup", "tea"), asks("c2", "plate", "cake"), scripted.Text("Served."),
		scripted.Reply(asks("c3", "plate", "more"), asks("c4", "fork", "it")), scripted.Text("Served again."), scripted.Text("No more."))
	s.agents[0].Hooks = &cairn.Hooks{AfterTool: func(context.Context, *cairn.Call, *cairn.ToolResult) { f.offer = holding("cup", "fork") }}
	one, two := s.process(), s.process()
	one.turn("s", "tea please")
	two.turn("s", "and more")
	f.offer = func() (*cairn.Offer, error) { return nil, errors.New("the shelf is far away") }
	one.turn("s", "and?")
	if got := slices.Compact(sent); !slices.Equal(got, []string{"note cup plate", "note cup fork"}) {
		s.Errorf("the requests had the tools %q", got)
	}
}

// A resumed run has the tools of the suspended turn, in another process and whatever is offered now.
func (s *scene) toolsetWaiting() {
	f := &shelf{s: s, name: "shelf", offer: holding("paid_cup", "plate")}
	var sent []string
	s.shelved(f, &sent, scripted.Reply(asks("c1", "paid_cup", "tea"), asks("c2", "plate", "cake")), asks("c3", "plate", "more"), scripted.Text("Served."))
	s.process().turn("s", "tea please")
	f.offer = holding("fork")
	two := s.process()
	two.submit("s", cairn.Approve(s.open("s", "paid_cup")), cairn.OutcomeAccepted)
	two.resume("s")
}

// A process that takes over a turn has the tools that the turn began with.
func (s *scene) toolsetCrash() {
	var asked atomic.Int32
	f := &shelf{s: s, name: "shelf", offer: func() (*cairn.Offer, error) {
		if asked.Add(1) == 1 {
			return holding("cup", "plate")()
		}
		return holding("fork")()
	}}
	var sent []string
	s.shelved(f, &sent, asks("c1", "cup", "tea"), asks("c2", "plate", "cake"), scripted.Text("Served."))
	s.agents[0].Durability = cairn.PerTool
	one := s.process(s.mortal())
	one.dieBefore(step("s", 1))
	s.awaitDeath(one.start("s", "tea please"))
	two := s.process()
	two.work()
	s.awaitEnd("s", 1)
	if n := asked.Load(); n != 1 {
		s.Errorf("the toolset was asked %d times", n)
	}
}

// Invalid tools are omitted, and a toolset that fails does not keep another one from offering.
func (s *scene) toolsetBad() {
	f := &shelf{s: s, name: "shelf", offer: holding("cup", "note", "no name", "cup")}
	var sent []string
	s.shelved(f, &sent, asks("c1", "cup", "tea"), scripted.Text("Served."))
	for i, offer := range []func() (*cairn.Offer, error){
		holding("panic"),
		func() (*cairn.Offer, error) { panic("no offer") },
		func() (*cairn.Offer, error) { return &cairn.Offer{Pinned: json.RawMessage(`[]`)}, nil },
		func() (*cairn.Offer, error) { return &cairn.Offer{Pinned: json.RawMessage(`[`), Note: "n"}, nil },
		func() (*cairn.Offer, error) {
			return &cairn.Offer{Pinned: json.RawMessage(`"` + strings.Repeat("x", cairn.MaxPinnedBytes) + `"`), Note: "n"}, nil
		},
	} {
		s.agents[0].Toolsets = append(s.agents[0].Toolsets, &shelf{s: s, name: fmt.Sprint("other-", i), offer: offer})
	}
	s.process().turn("s", "tea please")
	if sent[0] != "note cup" {
		s.Errorf("the request had the tools %s", sent[0])
	}
}

// The function of Once runs once, however often the tool asks, and once more if the process dies before the
// question is committed.
func (s *scene) once() {
	var orders atomic.Int32
	s.agents = []*cairn.Agent{bot(plays(asks("c1", "order", "lamp"), scripted.Text("Ordered.")),
		s.tool("order", func(ctx context.Context, call *cairn.Call, in words) (string, error) {
			text := in.Text
			for range 2 {
				n, err := cairn.Once(ctx, call, func(context.Context) (int32, error) { return orders.Add(1), nil })
				if err != nil {
					return "", err
				}
				var more string
				if err := call.Ask(ctx, fmt.Sprintf("Order %d has %s. What else?", n, text), nil, &more); err != nil {
					return "", err
				}
				text += ", " + more
			}
			return cairn.Once(ctx, call, func(context.Context) (string, error) { return fmt.Sprintf("%s in %d", text, orders.Add(1)), nil })
		}))}
	one := s.process(s.mortal())
	one.dieBefore(func(o operation) bool { return o.ends("s") })
	s.awaitDeath(one.start("s", "a lamp"))
	two := s.process()
	two.work()
	s.awaitEnd("s", 1)
	for n, more := range []string{"bulb", "cable"} {
		call := s.open("s", "order")
		if call, err := two.Call(s.Context(), "s", call.ID); err != nil || call.Kept != nil {
			s.Errorf("the call shows what was kept: %s, %v", call.Kept, err)
		}
		two.submit("s", cairn.Answer(call, more), cairn.OutcomeAccepted)
		s.awaitEnd("s", n+2)
	}
	if n := orders.Load(); n != 4 {
		s.Errorf("%d orders, want one for each Once and one for the crash", n)
	}
}

// A tool waits until the user has connected an account.
func (s *scene) connect() {
	s.agents = []*cairn.Agent{bot(plays(asks("c1", "mail", "hello"), scripted.Text("Sent.")),
		s.tool("mail", func(ctx context.Context, call *cairn.Call, in words) (string, error) {
			if err := call.Connect(ctx, "", "https://example.com"); !errors.Is(err, cairn.ErrInvalid) {
				return "", fmt.Errorf("without a prompt: %w", err)
			}
			if err := call.Connect(ctx, "Connect.", "mailto:x"); !errors.Is(err, cairn.ErrInvalid) {
				return "", fmt.Errorf("without an address: %w", err)
			}
			return "sent " + in.Text, call.Connect(ctx, "Connect your mailbox.", "https://example.com/connect?t=1")
		}))}
	one, two := s.process(), s.process()
	one.turn("s", "mail it")
	call := s.open("s", "mail")
	if call.Kind != cairn.CallConnect || string(call.Payload) != `{"url":"https://example.com/connect?t=1"}` {
		s.Errorf("the call is %+v", call)
	}
	two.submit("s", cairn.Answer(call, true), cairn.OutcomeAccepted)
	two.resume("s")
}
