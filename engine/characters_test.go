package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// TestToolThatHasRunKeepsItsResult has tools that write a character which no session keeps: the tool runs once, the call
// does not fail, and U+FFFD replaces the character.
func TestToolThatHasRunKeepsItsResult(t *testing.T) {
	t.Parallel()
	raw := func(text string) func(*cairn.Call) (json.RawMessage, error) {
		return func(*cairn.Call) (json.RawMessage, error) { return json.RawMessage(text), nil }
	}
	does := func(fn func(call *cairn.Call) error) func(*cairn.Call) (json.RawMessage, error) {
		return func(call *cairn.Call) (json.RawMessage, error) { return json.RawMessage(`"did"`), fn(call) }
	}
	type state map[string]any
	for name, test := range map[string]struct {
		tool  func(call *cairn.Call) (json.RawMessage, error)
		want  string // the result
		state string
	}{
		"a NUL":               {tool: raw(`"a\u0000b"`), want: `"a\ufffdb"`},
		"a NUL as a byte":     {tool: raw("\"a\x00b\""), want: `"a\ufffdb"`},
		"half a pair":         {tool: raw(`{"a":"x\ud83d"}`), want: `{"a":"x\ufffd"}`},
		"the other half":      {tool: raw(`["\ude00"]`), want: `["\ufffd"]`},
		"a member's name":     {tool: raw(`{"\u0000":1}`), want: `{"\ufffd":1}`},
		"Latin-1":             {tool: raw("\"caf\xe9\""), want: `"caf\ufffd"`},
		"a line break":        {tool: raw("\"a\nb\""), want: `"a\u000ab"`},
		"state":               {tool: does(func(c *cairn.Call) error { return c.Set([]string{"a"}, "\x00") }), state: `{"a":"\ufffd"}`},
		"a member of state":   {tool: does(func(c *cairn.Call) error { return c.Set([]string{"a\x00"}, 1) }), state: "{\"a\uFFFD\":1}"},
		"an item of state":    {tool: does(func(c *cairn.Call) error { return c.Append([]string{"a"}, json.RawMessage(`"\ud800"`)) }), state: `{"a":["\ufffd"]}`},
		"state by type":       {tool: does(func(c *cairn.Call) error { return cairn.UpdateState(c, func(s *state) { *s = state{"a": "\x00"} }) }), state: `{"a":"\ufffd"}`},
		"an event":            {tool: does(func(c *cairn.Call) error { return c.Emit("e", "\x00") })},
		"context":             {tool: does(func(c *cairn.Call) error { return c.AddContext("caf\xe9 \x00") })},
		"a title":             {tool: does(func(c *cairn.Call) error { return c.SetTitle("caf\xe9 \x00") })},
		"an entry":            {tool: does(func(c *cairn.Call) error { return c.SetMetadata("k", "\x00") })},
		"an entry in Latin-1": {tool: does(func(c *cairn.Call) error { return c.SetMetadata("k", "\xff") })},
		"what is done once": {tool: does(func(c *cairn.Call) error {
			v, err := cairn.Once(context.Background(), c, func(context.Context) (string, error) { return "a\x00", nil })
			if v != "a\uFFFD" {
				err = errors.New("once returns " + v)
			}
			return err
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, durability := range []cairn.Durability{cairn.PerTool, cairn.PerStep, cairn.Manual} {
				st := memstore.New(nil)
				var ran atomic.Int64
				agent := bot(scripted.New(scripted.Call("t", `{}`).ID("c"), scripted.Text("done")), takes("t", func(call *cairn.Call) (json.RawMessage, error) {
					ran.Add(1)
					return test.tool(call)
				}))
				agent.Durability = durability
				wantStatus(t, turn(t, open(t, st, agent), "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
				r := result(t, messages(t, st, "s"), "c")
				if test.want == "" {
					test.want = `"did"`
				}
				if r.IsError || string(r.Output) != test.want || ran.Load() != 1 {
					t.Fatalf("%s: after %d calls of the tool the model reads %s, an error: %t; want %s", durability, ran.Load(), r.Output, r.IsError, test.want)
				}
				state, err := driver.State(t.Context(), st, "s", "")
				if err != nil || test.state != "" && string(state) != test.state {
					t.Fatalf("the state is %s, want %s; %v", state, test.state, err)
				}
				continues(t, st, agent)
			}
		})
	}
}

// TestResultBehindAHookIsKept has a hook that replaces the result of a tool that ran.
func TestResultBehindAHookIsKept(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	agent := bot(scripted.New(scripted.Call("t", `{}`).ID("c"), scripted.Text("done")), takes("t", func(*cairn.Call) (json.RawMessage, error) { return json.RawMessage(`1`), nil }))
	agent.Hooks = &cairn.Hooks{AroundTool: func(ctx context.Context, _ *cairn.Call, next func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
		if _, err := next(ctx); err != nil {
			return nil, err
		}
		return json.RawMessage(`"\u0000"`), nil
	}}
	wantStatus(t, turn(t, open(t, st, agent), "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
	if r := result(t, messages(t, st, "s"), "c"); r.IsError || string(r.Output) != `"\ufffd"` {
		t.Fatalf("the model reads %s", r.Output)
	}
	continues(t, st, agent)
}

// TestClientToolKeepsItsResult answers client tools with characters that no session keeps. Other answers with them are
// refused, and name the field.
func TestClientToolKeepsItsResult(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		give func(cairn.CallRef) cairn.Submission
		want string
		bad  bool
	}{
		"a NUL":       {give: func(c cairn.CallRef) cairn.Submission { return cairn.Answer(c, "a\x00") }, want: `"a\ufffd"`},
		"half a pair": {give: func(c cairn.CallRef) cairn.Submission { return cairn.Answer(c, json.RawMessage(`"\ud83d"`)) }, want: `"\ufffd"`},
		"an error":    {give: func(c cairn.CallRef) cairn.Submission { return cairn.AnswerError(c, "caf\xe9 \x00") }, want: "caf\uFFFD \uFFFD", bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := memstore.New(nil)
			agent := bot(scripted.New(scripted.Call("ask", `{}`).ID("c"), scripted.Text("done")), cairn.RawClientTool("ask", "", json.RawMessage(`{"type":"object"}`), nil))
			eng := open(t, st, agent)
			turn(t, eng, "s", "go")
			if _, err := eng.Submit(t.Context(), "s", test.give(onlyCall(t, eng))); err != nil {
				t.Fatal(err)
			}
			run, err := eng.Resume(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
			list := messages(t, st, "s")
			r := list[len(list)-2].ToolResults()[0]
			if r.IsError != test.bad || !strings.Contains(string(r.Output), test.want) {
				t.Fatalf("the model reads %s, want %s", r.Output, test.want)
			}
			continues(t, st, agent)
		})
	}
	t.Run("a reason", func(t *testing.T) {
		t.Parallel()
		eng := open(t, memstore.New(nil), bot(scripted.New(scripted.Call("t", `{}`)), takes("t", nil, cairn.RequireApproval())))
		turn(t, eng, "s", "go")
		_, err := eng.Submit(t.Context(), "s", cairn.Deny(onlyCall(t, eng), "\x00"))
		if e := cairn.AsError(err); err == nil || e.Code != cairn.ErrInvalid || e.Field != "reason" {
			t.Fatalf("error %v, want one that names the reason", err)
		}
	})
}

// onlyCall returns the only pending call of session s.
func onlyCall(t *testing.T, eng *engine.Engine) cairn.CallRef {
	t.Helper()
	page, err := eng.Inbox(t.Context(), store.CallQuery{RootID: "s"})
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("%d pending calls, %v", len(page.Items), err)
	}
	return page.Items[0].CallRef
}

// TestProviderDataKeepsItsReply has data that a provider wants back, of a reply that was paid for.
func TestProviderDataKeepsItsReply(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	agent := bot(scripted.New(scripted.Reply(scripted.Chunk(cairn.Chunk{Type: cairn.ChunkProvider, Provider: json.RawMessage(`{"out":"\u0000\ud800"}`)}), scripted.Text("done"))))
	res := turn(t, open(t, st, agent), "s", "go")
	if list := messages(t, st, "s"); res.Status != cairn.RunCompleted || string(list[1].Parts[0].Provider) != `{"out":"\ufffd\ufffd"}` {
		t.Fatalf("the run is %s, %v", res.Status, res.Error)
	}
	continues(t, st, agent)
}
