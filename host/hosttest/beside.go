package hosttest

import (
	"encoding/json"
	"errors"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

// beside are scenarios of replies that would end the turn beside a call that ends in an error. The model reads the error
// and ends the turn anew.
var beside = []scenario{
	{"finish-beside-error", func(s *scene) { s.finishBeside(asks("c1", "broken", "")) }},
	{"finish-beside-invalid-arguments", func(s *scene) { s.finishBeside(scripted.Call("note", json.RawMessage(`{"text":7}`)).ID("c1")) }},
	{"finish-beside-unknown-tool", func(s *scene) { s.finishBeside(asks("c1", "ghost", "")) }},
	{"finish-beside-invalid-finish", func(s *scene) {
		s.finishBeside(scripted.Call(cairn.FinishTool, json.RawMessage(`{}`)).ID("c1"))
	}},
	{"finish-beside-denial", (*scene).finishBesideDenial},
	{"finish-beside-client-error", (*scene).finishBesideClientError},
	{"finish-beside-timeout", (*scene).finishBesideTimeout},
	{"finish-beside-earlier-error", (*scene).finishBesideEarlierError},
	{"finish-beside-state", (*scene).finishBesideState},
	{"finish-tool-beside-error", (*scene).finishToolBesideError},
}

// besides sets an agent with a typed output that first calls FinishTool beside other calls, and then alone.
func (s *scene) besides(first []scripted.Step, tools ...cairn.Tool) {
	last := scripted.Call(cairn.FinishTool, verdict{"no"}).ID("c9")
	first = append(first, scripted.Call(cairn.FinishTool, verdict{"yes"}).ID("c8"))
	broken := s.raw("broken", func(*cairn.Call) (string, error) { return "", errors.New("out of order") })
	a := bot(plays(scripted.Reply(first...), last), append(tools, broken)...)
	a.Output = cairn.OutputOf[verdict]()
	s.agents = []*cairn.Agent{a}
}

// judged checks that the second output ended the turn.
func (s *scene) judged(res *cairn.Result) {
	s.Helper()
	out, err := cairn.OutputAs[verdict](res)
	s.must(err)
	if out.Verdict != "no" {
		s.Errorf("the turn ended with the output beside the error: %+v", out)
	}
}

// A tool fails, has invalid arguments or does not exist.
func (s *scene) finishBeside(call scripted.Step) {
	s.besides([]scripted.Step{call, asks("c2", "note", "a")}, s.note())
	s.judged(s.process().turn("s", "go"))
}

// A reviewer denies the call.
func (s *scene) finishBesideDenial() {
	s.besides([]scripted.Step{asks("c1", "refund", "42")}, s.refund())
	one, two := s.process(), s.process()
	one.turn("s", "go")
	two.submit("s", cairn.Deny(s.open("s", "refund"), "too much"), cairn.OutcomeAccepted)
	s.judged(two.resume("s"))
}

// A client reports that its tool failed.
func (s *scene) finishBesideClientError() {
	s.besides([]scripted.Step{asks("c1", "locate", "")}, locate())
	one, two := s.process(), s.process()
	one.turn("s", "go")
	two.submit("s", cairn.AnswerError(s.open("s", "locate"), "no signal"), cairn.OutcomeAccepted)
	s.judged(two.resume("s"))
}

// Nobody answers the call in time.
func (s *scene) finishBesideTimeout() {
	s.besides([]scripted.Step{asks("c1", "locate", "")}, locate(cairn.WaitAtMost(s.soon)))
	one, two := s.process(), s.process()
	one.turn("s", "go")
	s.later()
	s.judged(two.resume("s"))
}

// The error is of a run before the one in which the turn would end.
func (s *scene) finishBesideEarlierError() {
	s.besides([]scripted.Step{asks("c1", "broken", ""), asks("c2", "refund", "42")}, s.refund())
	one, two := s.process(), s.process()
	one.turn("s", "go")
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	s.judged(two.resume("s"))
}

// The error is found when the step is committed: what two calls wrote does not fit together.
func (s *scene) finishBesideState() {
	put := func(name string, value any) cairn.Tool {
		return s.raw(name, func(call *cairn.Call) (string, error) { return "1", call.Set([]string{"a"}, value) })
	}
	add := s.raw("add", func(call *cairn.Call) (string, error) { return "1", call.Add([]string{"a"}, 1) })
	s.besides([]scripted.Step{asks("c1", "text", ""), asks("c2", "add", "")}, put("text", "words"), add)
	s.judged(s.process().turn("s", "go"))
}

// A tool whose result would be the output does not run.
func (s *scene) finishToolBesideError() {
	broken := s.raw("broken", func(*cairn.Call) (string, error) { return "", errors.New("out of order") })
	s.agents = []*cairn.Agent{bot(plays(scripted.Reply(asks("c1", "close", "early"), asks("c2", "broken", "")), asks("c3", "close", "late")), broken, s.closing())}
	s.process().turn("s", "go")
}
