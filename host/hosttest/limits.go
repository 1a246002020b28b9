package hosttest

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

// limited are scenarios of values that no store can keep.
var limited = []scenario{
	{"limits", func(s *scene) { s.limits(cairn.PerStep) }},
	{"limits-per-tool", func(s *scene) { s.limits(cairn.PerTool) }},
	{"limits-provider", (*scene).limitsProvider},
}

// raw is a tool that accepts any arguments and returns the JSON that fn returns.
func (s *scene) raw(name string, fn func(call *cairn.Call) (string, error), opts ...cairn.ToolOption) cairn.Tool {
	return cairn.RawFunc(name, "", json.RawMessage(`{"type":"object"}`), func(_ context.Context, call *cairn.Call, _ json.RawMessage) (json.RawMessage, error) {
		s.count(name)
		out, err := fn(call)
		return json.RawMessage(out), err
	}, opts...)
}

// The model gets an error for each value, its own or a tool's, that no store can keep. In text and in what tools give
// back and write, U+FFFD replaces characters that no store can keep. Each tool runs once, and the session continues in
// another process.
func (s *scene) limits(d cairn.Durability) {
	deep := strings.Repeat("[", 130) + strings.Repeat("]", 130)
	b := bot(plays(
		scripted.Reply(scripted.Chunk(cairn.Chunk{Type: cairn.ChunkText, Text: "caf\xe9 \x00"}),
			scripted.Call("echo", `{"text":`+deep+`}`).ID("c1"), scripted.Call("echo", `{"text":"\u0000"}`).ID("c2"),
			scripted.Call("ghost", `{"text":1e999}`).ID("c3")),
		scripted.Reply(asks("c4", "latin", ""), asks("c5", "deep", ""), asks("c6", "cost", ""), asks("c7", "broken", ""), asks("c8", "state", "")),
		scripted.Text("Done."), scripted.Text("Done again.")),
		s.tool("echo", func(_ context.Context, _ *cairn.Call, in words) (string, error) { return in.Text, nil }),
		s.raw("latin", func(*cairn.Call) (string, error) { return "\"caf\xe9\"", nil }),
		s.raw("deep", func(*cairn.Call) (string, error) { return deep, nil }),
		s.raw("cost", func(call *cairn.Call) (string, error) {
			call.RecordUsage("cost", math.MaxFloat64)
			call.RecordUsage("cost", math.MaxFloat64)
			return "1", nil
		}),
		s.raw("broken", func(*cairn.Call) (string, error) { return "", errors.New("caf\xe9 \x00") }),
		s.raw("state", func(call *cairn.Call) (string, error) { return "1", call.Set([]string{"a"}, "\x00") }))
	b.Durability = d
	s.agents = []*cairn.Agent{b}
	one, two := s.process(), s.process()
	one.turn("s", "go")
	two.turn("s", "go on")
}

// Provider data that no store can keep fails the run at once.
func (s *scene) limitsProvider() {
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(scripted.Text("Well, "), scripted.Chunk(cairn.Chunk{Type: cairn.ChunkReasoning, Text: "hm", Provider: json.RawMessage(strings.Repeat("[", 130) + strings.Repeat("]", 130))})),
		scripted.Text("unheard")))}
	one, two := s.process(), s.process()
	one.turn("s", "go")
	two.turn("s", "go on")
}
