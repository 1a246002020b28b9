package hosttest

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/fallback"
	"github.com/cairn-agents/cairn/model/scripted"
)

// mended are scenarios of requests and replies that fail, in place of which others succeed.
var mended = []scenario{
	{"file-refused", (*scene).fileRefused},
	{"file-refused-crash", (*scene).fileRefusedCrash},
	{"file-refused-crash-staged", (*scene).fileRefusedCrashStaged},
	{"fallback-breaks", (*scene).fallbackBreaks},
	{"fallback-breaks-crash", (*scene).fallbackBreaksCrash},
}

// blind makes the scene's agent one whose model refuses files. It returns how many requests were refused.
func (s *scene) blind() *atomic.Int64 {
	var refused atomic.Int64
	s.agents = []*cairn.Agent{bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		for i := range req.Messages {
			for j := range req.Messages[i].Parts {
				if req.Messages[i].Parts[j].File != nil {
					refused.Add(1)
					return scripted.Fail(cairn.Errorf(cairn.ErrFileRefused, "this model reads no images"))
				}
			}
		}
		if !strings.Contains(req.Messages[0].Text(), "left out") {
			return scripted.Text("What?").Usage(5, 3)
		}
		return scripted.Text("I cannot see it.").Usage(5, 3)
	}))}
	return &refused
}

// look begins a turn with an image.
func (p *process) look() *engine.Run {
	run, err := p.Execute(p.s.Context(), "s", "bot", cairn.Messages(cairn.User(cairn.TextPart("Look. "),
		cairn.FilePart(cairn.File{Name: "x", MediaType: "image/png", Data: []byte("\x89PNG")}))))
	p.s.must(err)
	return run
}

// A file that the model's provider refuses is left out, also by another process.
func (s *scene) fileRefused() {
	refused := s.blind()
	s.outcome(s.process().look())
	before := refused.Load()
	s.process().turn("s", "hello")
	if n := refused.Load() - before; n != 0 || before == 0 {
		s.Errorf("%d requests of the next turn were refused", n)
	}
}

// A process dies with the commit that would have kept what is left out. The process that takes over finds it out again.
func (s *scene) fileRefusedCrash() {
	s.blind()
	s.leavesOutAndDies()
}

// With the reply, what is left out is staged.
func (s *scene) fileRefusedCrashStaged() {
	s.blind()
	s.agents[0].Durability = cairn.PerTool
	s.leavesOutAndDies()
}

func (s *scene) leavesOutAndDies() {
	one := s.process(s.mortal())
	one.dieBefore(func(o operation) bool {
		if o.commit == nil {
			return false
		}
		for i := range o.commit.Messages {
			if o.commit.Messages[i].LeftOut != nil {
				return true
			}
		}
		return false
	})
	s.awaitDeath(one.look())
	two := s.process()
	two.work()
	s.awaitEnd("s", 1)
	two.turn("s", "hello")
}

// chain makes the scene's agent one whose model breaks off, and is replaced by another one.
func (s *scene) chain(calls int) {
	var broken []scripted.Step
	for range calls {
		broken = append(broken, scripted.Reply(scripted.Text(strings.Repeat("no ", 3)), scripted.Break()))
	}
	next := scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("Yes.").Usage(5, 3) })
	s.agents = []*cairn.Agent{bot(fallback.New(&fallback.Options{Cooldown: -1}, scripted.New(broken...), next))}
}

// The next model answers in the place of one that breaks off.
func (s *scene) fallbackBreaks() {
	s.chain(1)
	s.process().turn("s", "go")
}

// A process dies with the reply of the next model. With it, its name and that of the model that broke off are staged.
func (s *scene) fallbackBreaksCrash() {
	s.chain(2)
	s.agents[0].Durability = cairn.PerTool
	one := s.process(s.mortal())
	one.dieBefore(func(o operation) bool {
		return o.commit != nil && len(o.commit.Messages) > 0 && o.commit.Messages[len(o.commit.Messages)-1].Role == cairn.RoleAssistant
	})
	s.awaitDeath(one.start("s", "go"))
	two := s.process()
	two.work()
	s.awaitEnd("s", 1)
}
