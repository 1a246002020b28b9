package scripted_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

// show prints the chunks of one call.
func show(m cairn.Model, messages ...cairn.Message) {
	req := &cairn.Request{SessionID: "session-1", Messages: messages}
	for c, err := range m.Stream(context.Background(), req) {
		switch {
		case err != nil:
			fmt.Println("error:", err)
		case c.Type == cairn.ChunkUsage:
			fmt.Println("usage:", c.Usage.InputTokens, c.Usage.OutputTokens)
		case c.Type == cairn.ChunkFinish:
			fmt.Println("finish:", c.FinishReason)
		case c.Type == cairn.ChunkToolStart:
			fmt.Println("tool_start:", c.Tool)
		default:
			fmt.Printf("%s: %q\n", c.Type, c.Text)
		}
	}
}

func ExampleNew() {
	model := scripted.New(
		scripted.Call("lookup", map[string]int{"order": 42}),
		scripted.Text("It shipped.").Usage(120, 4),
	)
	show(model)
	show(model)
	show(model)
	// Output:
	// tool_start: lookup
	// tool_args: "{\"order\":42}"
	// finish: tools
	// text: "It "
	// text: "shipped."
	// usage: 120 4
	// finish: end
	// error: scripted model: unexpected call 3: the script has 2 steps
}

func ExampleFunc() {
	model := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		last := req.Messages[len(req.Messages)-1]
		return scripted.Text("You said " + last.Text())
	})
	show(model, cairn.User(cairn.TextPart("hello")))
	// Output:
	// text: "You "
	// text: "said "
	// text: "hello"
	// finish: end
}

func ExampleText() {
	show(scripted.New(scripted.Text("Hello there.")))
	// Output:
	// text: "Hello "
	// text: "there."
	// finish: end
}

func ExampleThinking() {
	show(scripted.New(scripted.Reply(scripted.Thinking("Hm."), scripted.Text("Yes."))))
	// Output:
	// reasoning: "Hm."
	// text: "Yes."
	// finish: end
}

func ExampleCall() {
	show(scripted.New(scripted.Call("refund", `{"order": 42`)))
	// Output:
	// tool_start: refund
	// tool_args: "{\"order\": 42"
	// finish: tools
}

func ExampleReply() {
	show(scripted.New(scripted.Reply(
		scripted.Text("Looking."),
		scripted.Call("lookup", nil).ID("call-1"),
		scripted.Call("lookup", nil).ID("call-2"),
	).Usage(10, 20)))
	// Output:
	// text: "Looking."
	// tool_start: lookup
	// tool_args: "{}"
	// tool_start: lookup
	// tool_args: "{}"
	// usage: 10 20
	// finish: tools
}

func ExampleFail() {
	busy := &cairn.Error{Code: cairn.ErrOverloaded, Message: "too busy", RetryAfter: cairn.Duration(time.Second)}
	show(scripted.New(scripted.Reply(scripted.Text("I th"), scripted.Fail(busy))))
	show(scripted.New(scripted.Fail(errors.New("connection reset"))))
	// Output:
	// text: "I "
	// text: "th"
	// error: too busy
	// error: connection reset
}

func ExampleBreak() {
	show(scripted.New(scripted.Reply(scripted.Text("cut"), scripted.Break())))
	// Output:
	// text: "cut"
}

func ExamplePause() {
	show(scripted.New(scripted.Reply(scripted.Pause(time.Millisecond), scripted.Text("late"))))
	// Output:
	// text: "late"
	// finish: end
}

func ExampleGate() {
	open := make(chan struct{})
	close(open)
	show(scripted.New(scripted.Reply(scripted.Gate(open), scripted.Text("through"))))
	// Output:
	// text: "through"
	// finish: end
}

func ExampleDo() {
	show(scripted.New(scripted.Reply(
		scripted.Text("half"),
		scripted.Do(func() { fmt.Println("here") }),
		scripted.Text("whole"),
	)))
	// Output:
	// text: "half"
	// here
	// text: "whole"
	// finish: end
}

func ExampleChunk() {
	show(scripted.New(scripted.Reply(
		scripted.Chunk(cairn.Chunk{
			Type: cairn.ChunkReasoning, Text: "Hm.", Provider: json.RawMessage(`{"signature":"x"}`),
		}),
		scripted.Text("Yes."),
	).FinishReason(cairn.FinishReasonLength)))
	// Output:
	// reasoning: "Hm."
	// text: "Yes."
	// finish: length
}
