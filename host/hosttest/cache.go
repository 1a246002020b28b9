package hosttest

import (
	"context"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
)

// caches are scenarios of tools whose results are cached.
var caches = []scenario{
	{"cache", (*scene).cache},
	{"cache-expired", (*scene).cacheExpired},
	{"cache-full", (*scene).cacheFull},
	{"cache-not-kept", (*scene).cacheNotKept},
	{"cache-branch", (*scene).cacheBranch},
	{"cache-answers", (*scene).cacheAnswers},
	{"cache-crash", func(s *scene) { s.cacheCrash(cairn.PerStep) }},
	{"cache-crash-per-tool", func(s *scene) { s.cacheCrash(cairn.PerTool) }},
}

// rate is a tool whose results are cached.
func (s *scene) rate(name string, p cairn.CachePolicy) cairn.Tool {
	return s.tool(name, func(_ context.Context, _ *cairn.Call, in words) (string, error) {
		return "rate of " + in.Text, nil
	}, cairn.Cache(p))
}

// A call with the same arguments is answered from the cache, also in a later turn and in another process. Calls of
// one reply run in parallel.
func (s *scene) cache() {
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "rate", "x"), asks("c2", "rate", "x"), asks("c3", "rate", "y")),
		scripted.Call("rate", `{"text":"\u0078"}`).ID("c4"), scripted.Text("Done."),
		scripted.Reply(asks("c5", "rate", "y"), asks("c6", "rate", "z")), scripted.Text("Done again."),
		asks("c7", "rate", "z"), scripted.Text("Done for good.")),
		s.rate("rate", cairn.CachePolicy{}))}
	one, two := s.process(), s.process()
	one.turn("s", "go")
	two.turn("s", "go on")
	one.turn("s", "go on")
}

// The answer of a client and that of a sub-agent are given again, in the same turn and in another process.
func (s *scene) cacheAnswers() {
	cached := cairn.Cache(cairn.CachePolicy{})
	helper := agent("helper", plays(scripted.Text("I did it.")))
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "locate", "here"), delegates("c2", "helper")), scripted.Reply(asks("c3", "locate", "here"), delegates("c4", "helper")),
		scripted.Text("Nice."), scripted.Reply(asks("c5", "locate", "here"), delegates("c6", "helper")), scripted.Text("Still nice.")),
		locate(cached), cairn.SubAgent(helper, cached))}
	one, two := s.process(), s.process()
	one.turn("s", "hello")
	one.submit("s", cairn.Answer(s.open("s", "locate"), place{"Oslo"}), cairn.OutcomeAccepted)
	one.resume("s")
	two.turn("s", "and now?")
}

// elapse waits until cached results have expired by the clock of the processes.
func (s *scene) elapse() {
	s.Helper()
	over := s.now().Add(s.soon)
	s.later()
	testclock.Await(s.T, "the time to pass", func() bool { return !s.now().Before(over) })
}

// A result expires even while the session is suspended.
func (s *scene) cacheExpired() {
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "quote", "x"), asks("c2", "rate", "x"), asks("c3", "refund", "42")),
		scripted.Reply(asks("c4", "quote", "x"), asks("c5", "rate", "x")), scripted.Text("Done.")),
		s.rate("quote", cairn.CachePolicy{TTL: s.soon}), s.rate("rate", cairn.CachePolicy{}), s.refund())}
	one, two := s.process(), s.process()
	one.turn("s", "go")
	s.elapse()
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	two.resume("s")
}

// Above the limit the least recently used result is evicted.
func (s *scene) cacheFull() {
	s.agents = []*cairn.Agent{bot(plays(
		asks("c1", "rate", "x"), asks("c2", "rate", "y"), asks("c3", "rate", "x"), scripted.Text("Two are kept."),
		asks("c4", "rate", "z"), asks("c5", "rate", "x"), asks("c6", "rate", "y"), scripted.Text("One is gone.")),
		s.rate("rate", cairn.CachePolicy{Max: 2}))}
	one, two := s.process(), s.process()
	one.turn("s", "go")
	two.turn("s", "go on")
}

// Errors are not cached, and neither are results of calls with other effects.
func (s *scene) cacheNotKept() {
	refuse := s.tool("refuse", func(context.Context, *cairn.Call, words) (string, error) { return "", errors.New("not today") },
		cairn.Cache(cairn.CachePolicy{}))
	write := s.tool("write", func(_ context.Context, call *cairn.Call, in words) (string, error) {
		return "written", call.Append([]string{"notes"}, in.Text)
	}, cairn.Cache(cairn.CachePolicy{}))
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "refuse", "x"), asks("c2", "write", "x")),
		scripted.Reply(asks("c3", "refuse", "x"), asks("c4", "write", "x")),
		scripted.Text("Done.")), refuse, write)}
	s.process().turn("s", "go")
}

// A branch begins with an empty cache. A rewind does not clear it.
func (s *scene) cacheBranch() {
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Text("Hello."), asks("c1", "rate", "x"), scripted.Text("Done."),
		asks("c2", "rate", "x"), scripted.Text("Done again.")),
		s.rate("rate", cairn.CachePolicy{}))}
	p := s.process()
	p.turn("s", "hello")
	first := s.row("s").CheckpointID
	p.turn("s", "go")
	_, err := p.Branch(s.Context(), "s", "b")
	s.must(err)
	p.turn("b", "go on")
	_, err = p.Rewind(s.Context(), "s", first)
	s.must(err)
	p.turn("s", "go")
	s.roots = []string{"s", "b"}
}

// Results cached before the last commit survive a crash. Of the current step, only staged results do.
func (s *scene) cacheCrash(d cairn.Durability) {
	s.agents = []*cairn.Agent{bot(plays(
		asks("c1", "rate", "x"), scripted.Reply(asks("c2", "rate", "x"), asks("c3", "rate", "y")),
		scripted.Reply(asks("c4", "rate", "x"), asks("c5", "rate", "y")), scripted.Text("Done.")), s.rate("rate", cairn.CachePolicy{}))}
	s.agents[0].Durability = d
	one := s.process(s.mortal())
	one.dieBefore(step("s", 2))
	s.awaitDeath(one.start("s", "go"))
	s.process().work()
	s.awaitEnd("s", 1)
}
