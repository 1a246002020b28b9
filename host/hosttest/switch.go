package hosttest

import (
	"context"
	"errors"
	"fmt"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
)

// asides are scenarios of context outside the conversation: facts for the model, and the tools that it may use.
var asides = []scenario{
	{"context", (*scene).context},
	{"context-running", (*scene).contextRunning},
	{"context-deferred", (*scene).contextDeferred},
	{"context-waiting", (*scene).contextWaiting},
	{"title", (*scene).title},
	{"switch", (*scene).switches},
	{"switch-hook", (*scene).switchHook},
	{"switch-running", (*scene).switchRunning},
	{"switch-waiting", (*scene).switchWaiting},
	{"switch-crash", (*scene).switchCrash},
}

// remark is a tool that adds context for the model along with its result.
func (s *scene) remark() cairn.Tool {
	return s.tool("remark", func(_ context.Context, call *cairn.Call, in words) (string, error) {
		return "done", call.AddContext("The tool says " + in.Text + ".")
	})
}

// Tools, hooks and callers can all add context.
func (s *scene) context() {
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "remark", "x"), asks("c2", "remark", "y")), scripted.Text("I see."), scripted.Text("I know.")),
		s.remark())}
	s.agents[0].Hooks = &cairn.Hooks{AfterTool: func(_ context.Context, call *cairn.Call, _ *cairn.ToolResult) {
		s.must(call.AddContext("A hook heard of " + call.ID + "."))
	}}
	one, two := s.process(), s.process()
	one.turn("s", "go")
	s.must(two.AddContext(s.Context(), "s", "It rains.", "It pours."))
	one.turn("s", "and now?")
}

// Context added during a step is appended behind it, and visible from the next step on.
func (s *scene) contextRunning() {
	gate := make(chan struct{})
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(scripted.Text("One is "), scripted.Gate(gate), asks("c1", "note", "n")), scripted.Text("I see.")), s.note())}
	one, two := s.process(), s.process()
	run := s.occupy(one)
	s.must(two.AddContext(s.Context(), "s", "It rains."))
	close(gate)
	s.outcome(run)
}

// Steps that were deferred come before the context that ends their deferral. The second addition comes with the end.
func (s *scene) contextDeferred() {
	gate, last := make(chan struct{}), make(chan struct{})
	s.agents = []*cairn.Agent{bot(plays(asks("c1", "note", "1"),
		scripted.Reply(scripted.Text("Two is "), scripted.Gate(gate), asks("c2", "note", "2")), asks("c3", "note", "3"),
		scripted.Reply(scripted.Text("That was "), scripted.Gate(last), scripted.Text("all.")), scripted.Text("I know.")), s.note())}
	s.agents[0].Durability = cairn.Manual
	one, two := s.process(), s.process()
	run := one.start("s", "one")
	s.awaitEvent("s", "the second reply", func(ev *cairn.Event) bool { return ev.Text == "is " })
	s.must(two.AddContext(s.Context(), "s", "It rains."))
	close(gate)
	s.awaitEvent("s", "the last reply", func(ev *cairn.Event) bool { return ev.Text == "was " })
	s.must(two.AddContext(s.Context(), "s", "It pours."))
	close(last)
	s.outcome(run)
	two.turn("s", "two")
}

// The model reads context that was added to a suspended session after the results of the pending calls.
func (s *scene) contextWaiting() {
	s.family(s.refund())
	one, two := s.process(), s.process()
	one.turn("s", "go")
	s.must(two.AddContext(s.Context(), "s", "It rains."))
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	s.must(one.AddContext(s.Context(), "s", "It pours."))
	one.resume("s")
}

// Tools and hooks set the session's title, metadata and tags, with the step's commit, and read what callers have set.
func (s *scene) title() {
	s.agents = []*cairn.Agent{bot(plays(asks("c1", "name", "Lamps"), scripted.Text("Lamps, then."), scripted.Text("Yes.")),
		s.tool("name", func(_ context.Context, call *cairn.Call, in words) (string, error) {
			return "done", errors.Join(call.SetTitle(in.Text), call.AddTags("lamp", "hook"),
				call.SetMetadata("order", map[string]any{"lines": 2, "express": true}), call.SetMetadata("draft", ""))
		}))}
	var read []string
	s.agents[0].Hooks = &cairn.Hooks{
		BeforeTool: func(_ context.Context, call *cairn.Call) error {
			return errors.Join(call.SetTitle("Something"), call.AddTags("hook"), call.SetMetadata("draft", 1), call.SetMetadata("by", "hook"))
		},
		RunStart: func(_ context.Context, step *cairn.Step) {
			read = append(read, fmt.Sprint(step.Title, step.UserID, step.Tags, step.Metadata))
		},
	}
	one, two := s.process(), s.process()
	one.turn("s", "go")
	if row := s.row("s"); row.Title != "Lamps" || row.Opening != "go" {
		s.Fatalf("the title is %q, the opening %q", row.Title, row.Opening)
	}
	if row := s.row("s"); fmt.Sprint(row.Tags, row.Metadata) != "[hook lamp] map[by:hook order:map[express:true lines:2]]" {
		s.Fatalf("tags and metadata are %v %v", row.Tags, row.Metadata)
	}
	user, title := "ada", "Chairs"
	_, err := two.SetContext(s.Context(), "s", driver.ContextChange{UserID: &user, Title: &title})
	s.must(err)
	two.turn("s", "and now?")
	if len(read) != 2 || read[1] != "Chairsada[hook lamp] map[by:hook order:map[express:true lines:2]]" {
		s.Fatalf("hooks read %q", read)
	}
}

// switcher is a tool that switches another tool on or off.
func (s *scene) switcher(name string, on bool) cairn.Tool {
	return s.tool(name, func(_ context.Context, call *cairn.Call, in words) (string, error) {
		return "done", call.SwitchTools(map[string]bool{in.Text: on})
	})
}

// From the next step on, a tool that is off does not run. It can be switched on again from anywhere.
func (s *scene) switches() {
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "forbid", "note"), asks("c2", "note", "1")),
		scripted.Reply(asks("c3", "note", "2"), asks("c4", "allow", "note")), asks("c5", "note", "3"), scripted.Text("Done."),
		scripted.Reply(asks("c6", "note", "4"), asks("c7", "allow", "nothing")), scripted.Text("Done again."),
		asks("c8", "note", "5"), scripted.Text("Done for good.")),
		s.note(), s.switcher("forbid", false), s.switcher("allow", true))}
	one, two := s.process(), s.process()
	one.turn("s", "go")
	s.must(two.SwitchTools(s.Context(), "s", map[string]bool{"note": false}))
	one.turn("s", "go on")
	s.must(one.SwitchTools(s.Context(), "s", map[string]bool{"note": true, "forbid": false}))
	two.turn("s", "go on")
	s.want("a switch of an unknown tool", two.SwitchTools(s.Context(), "s", map[string]bool{"nothing": false}), cairn.ErrInvalid)
}

func (s *scene) switchHook() {
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "note", "1"), asks("c2", "note", "2")), asks("c3", "note", "3"), scripted.Text("Once was enough.")),
		s.note())}
	s.agents[0].Hooks = &cairn.Hooks{AfterTool: func(_ context.Context, call *cairn.Call, _ *cairn.ToolResult) {
		if call.ID == "c1" {
			s.must(call.SwitchTools(map[string]bool{"note": false}))
		}
	}}
	s.process().turn("s", "go")
}

// A tool that is switched off during a step still runs in that step: the model did not know when it made the call.
func (s *scene) switchRunning() {
	gate := make(chan struct{})
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(scripted.Text("One is "), scripted.Gate(gate), asks("c1", "note", "1")), asks("c2", "note", "2"),
		scripted.Text("I see.")), s.note())}
	one, two := s.process(), s.process()
	run := s.occupy(one)
	s.must(two.SwitchTools(s.Context(), "s", map[string]bool{"note": false}))
	close(gate)
	s.outcome(run)
}

// A pending call was made while its tool was on: it is executed. The next one is refused without approval.
func (s *scene) switchWaiting() {
	s.agents = []*cairn.Agent{bot(plays(
		asks("c1", "refund", "1"), scripted.Reply(asks("c2", "refund", "2"), asks("c3", "locate", "here")), scripted.Text("No more."),
		asks("c4", "refund", "3")),
		s.refund(), locate())}
	one, two := s.process(), s.process()
	one.turn("s", "go")
	s.must(two.SwitchTools(s.Context(), "s", map[string]bool{"refund": false, "locate": false}))
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	two.resume("s")
	s.must(one.SwitchTools(s.Context(), "s", map[string]bool{"refund": true}))
	one.turn("s", "once more")
}

// A process that takes over a call executes it, although its tool was switched off in the meantime.
func (s *scene) switchCrash() {
	s.agents = []*cairn.Agent{bot(plays(asks("c1", "note", "1"), asks("c2", "note", "2"), scripted.Text("I see.")), s.note())}
	s.agents[0].Durability = cairn.PerTool
	one, two := s.process(s.mortal()), s.process()
	one.dieAfter(func(o operation) bool { return o.name == "Stage" })
	s.awaitDeath(one.start("s", "go"))
	s.must(two.SwitchTools(s.Context(), "s", map[string]bool{"note": false}))
	two.work()
	s.awaitEnd("s", 1)
}
