package hosttest

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
)

// choices are scenarios of agents with several models.
var choices = []scenario{
	{"models", (*scene).models},
	{"models-crash", (*scene).modelsCrash},
	{"models-queued", (*scene).modelsQueued},
	{"models-lost", (*scene).modelsLost},
	{"sources", (*scene).sources},
	{"reply-files", (*scene).replyFiles},
}

// speaker returns a model that says its name. Asked for a refund or a note, it calls that tool first. Asked to
// fail, it fails.
func speaker(name string) cairn.Model {
	return scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		last := req.Messages[len(req.Messages)-1]
		if last.Role == cairn.RoleUser {
			switch verb, _, _ := strings.Cut(last.Text(), " "); verb {
			case "refund", "note":
				return asks("c"+string(rune('0'+replies(req))), verb, "42")
			case "fail":
				return scripted.Fail(cairn.Errorf(cairn.ErrAuth, "%s failed", name))
			}
		}
		return scripted.Text("I am " + name + ".")
	})
}

// severalModels sets an agent with two models in addition to its own.
func (s *scene) severalModels(tools ...cairn.Tool) {
	a := bot(speaker("the usual one"), tools...)
	a.Models = map[string]cairn.Model{"fast": speaker("fast"), "deep": speaker("deep")}
	s.agents = []*cairn.Agent{a}
}

// A turn uses the model that was chosen for it, and so do the runs that resume or retry it in other processes.
func (s *scene) models() {
	s.severalModels(s.refund())
	one, two := s.process(), s.process()
	one.turn("s", "hello")
	one.turn("s", "refund it", engine.WithModel("deep"))
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	two.resume("s")
	one.turn("s", "thanks")
	two.turn("s", "fail now", engine.WithModel("fast"))
	one.retry("s")
	one.retry("s", engine.WithModel("deep"))
	one.retry("s", engine.WithModel(""))
	_, err := two.Retry(s.Context(), "s", engine.WithModel("slow"))
	s.want("a retry with a model that is not there", err, cairn.ErrInvalid)
	_, err = two.Execute(s.Context(), "s", "bot", cairn.Text("hello"), engine.WithModel("slow"))
	s.want("a turn with a model that is not there", err, cairn.ErrInvalid)
	_, err = two.Execute(s.Context(), "another", "bot", cairn.Text("hello"), engine.WithModel("slow"))
	s.want("a session with a model that is not there", err, cairn.ErrInvalid)
}

// A worker that takes over a run uses the run's model.
func (s *scene) modelsCrash() {
	s.severalModels(s.note())
	one := s.process(s.mortal())
	one.dieAfter(func(o operation) bool { return o.commit != nil && o.commit.Step == 1 })
	s.awaitDeath(one.start("s", "note this", engine.WithModel("deep")))
	s.process().work()
	s.awaitEnd("s", 1)
}

// A queued turn keeps its model.
func (s *scene) modelsQueued() {
	free := s.occupied(s.note())
	s.agents[0].Models = map[string]cairn.Model{"deep": speaker("deep")}
	one, two := s.process(), s.process()
	run := s.occupy(one)
	next := two.start("s", "two", engine.WithOnBusy(engine.BusyEnqueue), engine.WithModel("deep"))
	free()
	s.outcome(run)
	s.outcome(next)
	s.awaitHooks("s", 2)
	two.turn("s", "three")
}

// If the agent no longer has a run's model, the agent's own model is used.
func (s *scene) modelsLost() {
	s.severalModels(s.refund())
	one := s.process()
	one.turn("s", "refund it", engine.WithModel("deep"))
	one.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	changed := *s.agents[0]
	changed.Models = map[string]cairn.Model{"fast": speaker("fast")}
	s.agents = []*cairn.Agent{&changed}
	two := s.process()
	two.resume("s")
	two.turn("s", "hello", engine.WithModel("fast"))
}

// The sources that a model cites and its provider finds are on the log as often as in the transcript, although an
// attempt at the step failed halfway through them and the process died after the commit.
func (s *scene) sources() {
	found := func(url string) scripted.Step {
		return scripted.Chunk(cairn.Chunk{Type: cairn.ChunkProvider, Provider: json.RawMessage(`{"search":"grass"}`), Model: "searcher", Sources: []cairn.Source{{URL: url}}})
	}
	cites := func(text, quote string) scripted.Step {
		return scripted.Reply(scripted.Text(text), scripted.Chunk(cairn.Chunk{Type: cairn.ChunkPartEnd, Sources: []cairn.Source{
			{URL: "https://a.example/1", Title: "Grass", Quote: quote}, {Title: "A document of the user's"}}}))
	}
	var failed atomic.Bool
	a := bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if replies(req) > 0 {
			return cites("As I said.", "green")
		}
		if !failed.Swap(true) {
			return scripted.Reply(found("https://a.example/dead"), cites("Grass is", "gr"), scripted.Break())
		}
		return scripted.Reply(found("https://a.example/1"), cites("Grass is green", "green"), cites(" and high.", "high"), asks("c1", "note", "it"))
	}), s.note())
	a.Durability = cairn.PerTool
	s.agents = []*cairn.Agent{a}
	one := s.process(s.mortal())
	one.dieAfter(func(o operation) bool { return o.commit != nil && o.commit.Step == 1 })
	s.awaitDeath(one.start("s", "what about grass?"))
	s.process().work()
	s.awaitEnd("s", 1)
}

// The files of a reply are on the log once the transcript has them; files of a failed attempt never are. The
// process dies after the commit, before it can publish them.
func (s *scene) replyFiles() {
	draws := func(name string) scripted.Step {
		return scripted.Chunk(cairn.Chunk{Type: cairn.ChunkFile, File: &cairn.File{Name: name, MediaType: "image/png", Data: []byte(name)}})
	}
	var failed atomic.Bool
	a := bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		switch {
		case replies(req) > 0:
			return draws("last.png")
		case !failed.Swap(true):
			return scripted.Reply(draws("void.png"), scripted.Break())
		}
		return scripted.Reply(scripted.Text("Here they are:"), draws("a.png"), draws("b.png"), asks("c1", "note", "it"))
	}), s.note())
	s.agents = []*cairn.Agent{a}
	one := s.process(s.mortal())
	one.dieAfter(func(o operation) bool { return o.commit != nil && o.commit.Step == 1 })
	s.awaitDeath(one.start("s", "draw two pictures"))
	s.process().work()
	s.awaitEnd("s", 1)
}
