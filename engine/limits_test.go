package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/limits"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// takes returns a tool that takes anything and answers with JSON of its own.
func takes(name string, fn func(call *cairn.Call) (json.RawMessage, error), opts ...cairn.ToolOption) cairn.Tool {
	return cairn.RawFunc(name, "", json.RawMessage(`{"type":"object"}`), func(_ context.Context, call *cairn.Call, _ json.RawMessage) (json.RawMessage, error) {
		return fn(call)
	}, opts...)
}

// continues checks that another engine can read every row of a session and execute another turn there.
func continues(t *testing.T, st store.Store, agent *cairn.Agent) {
	t.Helper()
	list := messages(t, st, "s")
	for i := range list {
		if err := list[i].Validate(); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	if events := history(t, st.(driver.LogProvider), "s"); len(events) > 0 {
		for i := range events {
			if err := events[i].Validate(); err != nil {
				t.Fatalf("event %d: %v", i, err)
			}
		}
	}
	next := *agent
	next.Model, next.Guard, next.Hooks = scripted.New(scripted.Text("still here")), nil, nil
	cold := open(t, st, &next, named("cold"))
	if res := turn(t, cold, "s", "and now?"); res.Text != "still here" {
		t.Fatalf("the next turn answers %q, %v", res.Text, res.Error)
	}
}

// TestReplyThatCannotBeKept plays replies of which a part cannot be stored: the model gets an error or the run fails at
// once, and the session stays usable.
func TestReplyThatCannotBeKept(t *testing.T) {
	t.Parallel()
	begin := func(id, tool string) scripted.Step {
		return scripted.Chunk(cairn.Chunk{Type: cairn.ChunkToolStart, CallID: id, Tool: tool})
	}
	args := func(id, text string) scripted.Step {
		return scripted.Chunk(cairn.Chunk{Type: cairn.ChunkToolArgs, CallID: id, Text: text})
	}
	text := func(text string) scripted.Step { return scripted.Chunk(cairn.Chunk{Type: cairn.ChunkText, Text: text}) }
	reason := func(c cairn.Chunk) scripted.Step {
		c.Type = cairn.ChunkReasoning
		return scripted.Chunk(c)
	}
	for name, test := range map[string]struct {
		reply scripted.Step
		says  string     // the reply's text as stored
		told  string     // in the error that the model gets for the call
		fails cairn.Code // of the run
	}{
		"text that is not UTF-8":          {reply: text("caf\xe9!"), says: "caf\uFFFD!"},
		"text with a NUL":                 {reply: text("a\x00b"), says: "a\uFFFDb"},
		"a character in two deltas":       {reply: scripted.Reply(text("caf\xc3"), text("\xa9!")), says: "café!"},
		"a character in four deltas":      {reply: scripted.Reply(text("\xf0"), text("\x9f"), text("\x9c"), text("\x81.")), says: "🜁."},
		"half a character at the end":     {reply: text("caf\xc3"), says: "caf\uFFFD"},
		"half a character, then another":  {reply: scripted.Reply(text("caf\xc3"), text("a")), says: "caf\uFFFDa"},
		"half a thought":                  {reply: scripted.Reply(reason(cairn.Chunk{Text: "hm\xc3"}), text("yes")), says: "yes"},
		"arguments too deep":              {reply: scripted.Call("echo", `{"text":`+nested(9_998)+`}`), told: "nested more than 128 levels deep"},
		"arguments too deep of no tool":   {reply: scripted.Call("nosuchtool", `{"text":`+nested(9_998)+`}`), told: "unknown tool"},
		"arguments with a NUL":            {reply: scripted.Call("echo", `{"text":"\u0000"}`), told: "NUL"},
		"arguments with half a pair":      {reply: scripted.Call("echo", `{"text":"\ud83d"}`), told: "surrogate"},
		"an infinite argument":            {reply: scripted.Call("echo", `{"text":1e999}`), told: "not finite"},
		"arguments in Latin-1":            {reply: scripted.Reply(begin("c", "echo"), args("c", "{\"text\":\"caf\xe9\"}"))},
		"much that is no JSON":            {reply: scripted.Call("echo", strings.Repeat("\x01", 2<<20)), told: "invalid arguments"},
		"a call's id":                     {reply: scripted.Reply(begin("\xff\x00", "echo"), args("\xff\x00", `{"text":"x"}`))},
		"a tool's name":                   {reply: scripted.Reply(begin("c", "\xff\x00"), args("c", `{}`)), told: "unknown tool"},
		"provider data that is no JSON":   {reply: reason(cairn.Chunk{Text: "hm", Provider: json.RawMessage("nonsense")}), fails: cairn.ErrModelReply},
		"provider data that is too deep":  {reply: reason(cairn.Chunk{Text: "hm", Provider: json.RawMessage(nested(129))}), fails: cairn.ErrModelReply},
		"half a character, then an end":   {reply: scripted.Reply(text("caf\xc3"), scripted.Chunk(cairn.Chunk{Type: cairn.ChunkPartEnd}), text("\xa9")), says: "caf\uFFFD\uFFFD"},
		"a file's name":                   {reply: scripted.Chunk(cairn.Chunk{Type: cairn.ChunkFile, File: &cairn.File{Name: "\xff", MediaType: "a/b", URL: "u"}}), fails: cairn.ErrModelReply},
		"more than a message":             {reply: scripted.Reply(text(strings.Repeat("x", limits.Bytes)), text("x")), fails: cairn.ErrModelReply},
		"a call with more than a message": {reply: scripted.Call("echo", `{"text":"`+strings.Repeat("x", limits.Bytes)+`"}`), fails: cairn.ErrModelReply},
		"usage that is negative":          {reply: scripted.Text("fine").Usage(-1, 1), says: "fine"},
		"usage that is endless":           {reply: scripted.Text("fine").Usage(math.MaxInt64, 1), says: "fine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := memstore.New(nil)
			model := scripted.New(test.reply, scripted.Text("done"))
			agent := bot(model, echo("echo"))
			res := turn(t, open(t, st, agent), "s", "go")
			list := messages(t, st, "s")
			switch {
			case test.fails != "":
				if res.Status != cairn.RunFailed || res.Error.Code != test.fails || model.Calls() != 1 {
					t.Fatalf("the run is %s after %d calls of the model, %v", res.Status, model.Calls(), res.Error)
				}
			case test.says != "":
				if list[1].Text() != test.says {
					t.Fatalf("the reply is kept as %q, want %q", list[1].Text(), test.says)
				}
				if test.says == "fine" && res.Usage.InputTokens != 0 {
					t.Fatalf("usage %+v", res.Usage)
				}
			default:
				wantStatus(t, res, cairn.RunCompleted, cairn.ReasonReply)
				use := list[1].ToolUses()[0]
				r := result(t, list, use.CallID)
				if r.IsError != (test.told != "") || !strings.Contains(string(r.Output), test.told) {
					t.Fatalf("the model is told %.300s, want %q", r.Output, test.told)
				}
				if len(use.Input) > 8<<10 {
					t.Errorf("%d bytes are kept of the arguments", len(use.Input))
				}
			}
			said := ""
			for _, ev := range history(t, st, "s") {
				if ev.Type == cairn.EventTextDelta {
					said += ev.Text
				}
			}
			if test.says != "" && said != test.says {
				t.Errorf("the log says %q, want %q", said, test.says)
			}
			continues(t, st, agent)
		})
	}
}

// TestResultThatCannotBeKept runs tools whose result cannot be stored: that is the call's error, which the model gets,
// and the tool has run once.
func TestResultThatCannotBeKept(t *testing.T) {
	t.Parallel()
	// These take seconds each with the race detector. The others show that a result is refused with any durability.
	large := map[string]bool{"too large": true, "a long error": true, "state too large": true}
	for name, test := range map[string]struct {
		tool func(call *cairn.Call) (json.RawMessage, error)
		told string
	}{
		"too deep": {func(*cairn.Call) (json.RawMessage, error) { return json.RawMessage(nested(129)), nil }, "the tool has run"},
		"infinite": {func(*cairn.Call) (json.RawMessage, error) { return json.RawMessage(`1e999`), nil }, "not finite"},
		"no JSON":  {func(*cairn.Call) (json.RawMessage, error) { return json.RawMessage(`{`), nil }, "not valid JSON"},
		"nothing":  {func(*cairn.Call) (json.RawMessage, error) { return nil, nil }, "not valid JSON"},
		"too large": {func(*cairn.Call) (json.RawMessage, error) {
			return json.RawMessage(`"` + strings.Repeat("x", limits.Bytes) + `"`), nil
		}, "bytes"},
		"an error":     {func(*cairn.Call) (json.RawMessage, error) { return nil, errors.New("caf\xe9 \x00") }, "caf\uFFFD \uFFFD"},
		"a long error": {func(*cairn.Call) (json.RawMessage, error) { return nil, errors.New(strings.Repeat("\x01", 40<<20)) }, `\u0001`},
		"state too deep": {func(call *cairn.Call) (json.RawMessage, error) {
			return nil, call.Set([]string{"a"}, json.RawMessage(nested(128)))
		}, "128 levels"},
		"state too large": {func(call *cairn.Call) (json.RawMessage, error) {
			big := strings.Repeat("x", limits.Bytes/2)
			for _, name := range []string{"a", "b", "c"} {
				if err := call.Set([]string{name}, big); err != nil {
					return nil, err
				}
			}
			return json.RawMessage(`1`), nil
		}, "the state is too large"},
		"a deep one": {func(call *cairn.Call) (json.RawMessage, error) {
			return nil, call.Emit("e", json.RawMessage(nested(129)))
		}, "128 levels"},
		"usage whose sum is infinite": {func(call *cairn.Call) (json.RawMessage, error) {
			call.RecordUsage("cost", math.MaxFloat64)
			call.RecordUsage("cost", math.MaxFloat64)
			return json.RawMessage(`1`), nil
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			durabilities := []cairn.Durability{cairn.PerTool, cairn.PerStep, cairn.Manual}
			if large[name] {
				durabilities = testenv.Choose(durabilities[:1], durabilities)
			}
			lease := func(o *engine.Options) {
				if large[name] { // a busy machine is occupied with the value for longer than a lease lasts by default
					o.LeaseTTL = 10 * time.Minute
				}
			}
			for _, durability := range durabilities {
				st := memstore.New(nil)
				var ran atomic.Int64
				agent := bot(scripted.New(scripted.Call("t", `{}`).ID("c"), scripted.Text("done")), takes("t", func(call *cairn.Call) (json.RawMessage, error) {
					ran.Add(1)
					return test.tool(call)
				}))
				agent.Durability = durability
				res := turn(t, open(t, st, agent, lease), "s", "go")
				wantStatus(t, res, cairn.RunCompleted, cairn.ReasonReply)
				r := result(t, messages(t, st, "s"), "c")
				if r.IsError != (test.told != "") || !strings.Contains(string(r.Output), test.told) || len(r.Output) > 1<<20 || ran.Load() != 1 {
					t.Fatalf("%s: after %d calls of the tool the model is told %.200s, want %q", durability, ran.Load(), r.Output, test.told)
				}
				if cost := res.Usage.Custom["cost"]; math.IsInf(cost, 0) || test.told == "" && cost != math.MaxFloat64 {
					t.Fatalf("usage %+v", res.Usage)
				}
				continues(t, st, agent)
			}
		})
	}
}

// TestResultsTooLargeTogether has calls whose results fit one by one.
func TestResultsTooLargeTogether(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	agent := bot(scripted.New(scripted.Reply(scripted.Call("t", `{}`).ID("a"), scripted.Call("t", `{}`).ID("b")), scripted.Text("done")),
		takes("t", func(*cairn.Call) (json.RawMessage, error) {
			return json.RawMessage(`"` + strings.Repeat("x", limits.Bytes*2/3) + `"`), nil
		}))
	wantStatus(t, turn(t, open(t, st, agent), "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
	list := messages(t, st, "s")
	if a, b := result(t, list, "a"), result(t, list, "b"); a.IsError || b.Code != cairn.ErrTooLarge {
		t.Fatalf("results of %d bytes and %s", len(a.Output), b.Output)
	}
	continues(t, st, agent)
}

// TestUsageThatAddsUp records finite amounts in several turns whose sum is not finite.
func TestUsageThatAddsUp(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	agent := bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if req.Messages[len(req.Messages)-1].Role == cairn.RoleTool {
			return scripted.Text("done").Usage(1<<52, 1<<52)
		}
		return scripted.Call("t", `{}`).Usage(1<<52, 0)
	}), takes("t", func(call *cairn.Call) (json.RawMessage, error) {
		call.RecordUsage("cost", math.MaxFloat64)
		return json.RawMessage(`1`), nil
	}))
	eng := open(t, st, agent)
	for range 3 {
		wantStatus(t, turn(t, eng, "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
	}
	row := load(t, st, "s")
	if row.Usage.Custom["cost"] != math.MaxFloat64 || row.Usage.InputTokens != 1<<52 || row.Usage.Validate() != nil || row.Usage.ModelCalls != 6 {
		t.Fatalf("usage %+v", row.Usage)
	}
	continues(t, st, agent)
}

// TestWordsOfUserCodeThatCannotBeKept has hooks and guards return what cannot be stored: the run fails with an error
// that says so, after one attempt.
func TestWordsOfUserCodeThatCannotBeKept(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*cairn.Agent){
		"step context": func(a *cairn.Agent) {
			a.Hooks = &cairn.Hooks{StepContext: func(context.Context, *cairn.Step) ([]string, error) { return []string{"\x00"}, nil }}
		},
		"feedback": func(a *cairn.Agent) {
			a.Guard = func(context.Context, *cairn.Step, cairn.Completion) (cairn.Verdict, error) {
				return cairn.Verdict{Feedback: "\xff"}, nil
			}
		},
		"text": func(a *cairn.Agent) {
			a.Guard = func(context.Context, *cairn.Step, cairn.Completion) (cairn.Verdict, error) {
				return cairn.Verdict{Text: "\x00"}, nil
			}
		},
		"output": func(a *cairn.Agent) {
			a.Guard = func(context.Context, *cairn.Step, cairn.Completion) (cairn.Verdict, error) {
				return cairn.Verdict{Output: json.RawMessage(nested(129))}, nil
			}
		},
		"a refusal": func(a *cairn.Agent) {
			a.Guard = func(context.Context, *cairn.Step, cairn.Completion) (cairn.Verdict, error) {
				return cairn.Verdict{}, errors.New("\xff\x00")
			}
		},
		"a model's error": func(a *cairn.Agent) { a.Model = scripted.New(scripted.Fail(cairn.Errorf(cairn.ErrAuth, "\xff\x00"))) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, durability := range []cairn.Durability{cairn.PerStep, cairn.PerTool} {
				st := memstore.New(nil)
				model := scripted.New(scripted.Text("hello"))
				agent := bot(model)
				agent.Durability = durability
				change(agent)
				res := turn(t, open(t, st, agent), "s", "go")
				if res.Status != cairn.RunFailed || model.Calls() > 1 || res.Error.Validate() != nil {
					t.Fatalf("the run is %s after %d calls of the model, %v", res.Status, model.Calls(), res.Error)
				}
				if load(t, st, "s").Status != cairn.SessionFailed {
					t.Fatal("the session has not failed")
				}
				continues(t, st, agent)
			}
		})
	}
}

// TestStoreThatRefusesAStep has a store that cannot keep what passed every check before: the run fails, and no process
// takes it over to retry.
func TestStoreThatRefusesAStep(t *testing.T) {
	t.Parallel()
	refuse := cairn.Invalid("messages", "this store keeps no such thing")
	for _, durability := range []cairn.Durability{cairn.PerStep, cairn.PerTool, cairn.Manual} {
		for _, op := range []string{"Commit", "Stage"} {
			t.Run(fmt.Sprint(durability, " ", op), func(t *testing.T) {
				t.Parallel()
				st := tapOn(nil)
				var model, tools, on atomic.Int64
				agent := bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
					model.Add(1)
					if req.Messages[len(req.Messages)-1].Role == cairn.RoleTool {
						return scripted.Text("done")
					}
					on.Store(1)
					return scripted.Call("t", `{}`).ID("c")
				}), takes("t", func(call *cairn.Call) (json.RawMessage, error) {
					tools.Add(1)
					return json.RawMessage(`1`), call.Set([]string{"a"}, 1)
				}))
				agent.Durability = durability
				st.stepIn(func(_ context.Context, at string) error {
					if at == op && on.CompareAndSwap(1, 2) {
						return refuse
					}
					return nil
				}, nil)
				res := turn(t, open(t, st, agent), "s", "go")
				if on.Load() != 2 { // this durability does not stage
					wantStatus(t, res, cairn.RunCompleted, cairn.ReasonReply)
					return
				}
				if res.Status != cairn.RunFailed || !errors.Is(res.Error, cairn.ErrInvalid) || tools.Load() > 1 {
					t.Fatalf("the run is %s after %d calls of the model and %d of the tool, %v", res.Status, model.Load(), tools.Load(), res.Error)
				}
				if row := load(t, st, "s"); row.Status != cairn.SessionFailed || row.Lease.Owner != "" {
					t.Fatalf("the session is %s", row.Status)
				}
				if got := state(t, st, "s"); got != "{}" {
					t.Errorf("the state is %s", got)
				}
				st.stepIn(nil, nil)
				continues(t, st, agent)
			})
		}
	}
}

// TestCallersInputThatCannotBeKept checks that such input is refused by name, and changes nothing.
func TestCallersInputThatCannotBeKept(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	eng := open(t, st, bot(scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("hello") })))
	turn(t, eng, "s", "go")
	before := load(t, st, "s").Version
	part := cairn.TextPart("x")
	part.Provider = json.RawMessage("nonsense")
	execute := func(in cairn.Input, opts ...engine.RunOption) error {
		_, err := eng.Execute(t.Context(), "new", "bot", in, opts...)
		return err
	}
	for name, test := range map[string]struct {
		err   error
		field string
	}{
		"a text":        {execute(cairn.Text("a\x00")), "input"},
		"a part":        {execute(cairn.Messages(cairn.User(part))), "input"},
		"a file":        {execute(cairn.Messages(cairn.User(cairn.FilePart(cairn.File{MediaType: "a/b", URL: "\x00"})))), "input.file.url"},
		"a user":        {execute(cairn.Text("x"), engine.WithUser("\x00")), "user_id"},
		"metadata":      {execute(cairn.Text("x"), engine.WithMetadata(map[string]string{"a": "\x00"})), "metadata"},
		"a trace":       {execute(cairn.Text("x"), engine.WithTraceParent("\xff")), "trace_parent"},
		"a long trace":  {execute(cairn.Text("x"), engine.WithTraceParent(strings.Repeat("x", cairn.MaxMetadataBytes+1))), "metadata"},
		"context":       {eng.AddContext(t.Context(), "s", "\x00"), "input"},
		"a reason":      {eng.Interrupt(t.Context(), "s", "\xff"), "reason"},
		"a long reason": {eng.Abort(t.Context(), "s", strings.Repeat("x", cairn.MaxMetadataBytes+1)), "reason"},
	} {
		var e *cairn.Error
		if !errors.As(test.err, &e) || e.Field != test.field || e.Code != cairn.ErrInvalid && e.Code != cairn.ErrTooLarge {
			t.Errorf("%s: error %v, want one in %q", name, test.err, test.field)
		}
	}
	if _, err := driver.Load(t.Context(), st, "new"); !errors.Is(err, cairn.ErrNotFound) {
		t.Errorf("a session was begun: %v", err)
	}
	if load(t, st, "s").Version != before {
		t.Error("the session was changed")
	}
}
