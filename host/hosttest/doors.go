package hosttest

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
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
)

// FuzzDoors writes arbitrary values into a session through an engine: as input, reply, arguments, result, state,
// event, usage, answer and metadata. Each value is either refused with an error that names it, and changes nothing;
// or it becomes the error of a call or of the run; or it reads back equal in another process. In every case the
// session can take another turn.
func FuzzDoors(f *testing.F, place Store) {
	deep := strings.Repeat("[", 9_998) + strings.Repeat("]", 9_998)
	for _, s := range []struct {
		text, name, raw string
		amount          float64
		count           int64
	}{
		{"hello", "name", `{"a":[1,"x"]}`, 1.5, 7},
		{"caf\xe9", "\xff", "\"caf\xe9\"", math.Inf(1), -1},
		{"a\x00b", "a\x00b", `"\u0000"`, math.NaN(), math.MaxInt64},
		{"half \xf0\x9f\x9c", "🜁", `{"v":` + deep + `}`, math.MaxFloat64, 1 << 53},
		{"", "", "", 0, 0},
		{"\x01\u2028<&>", "a/b~c", `{"a":1e999}`, -math.MaxFloat64, 12},
		{strings.Repeat("x", 300<<10), "note", `{"a":"\ud800"}`, math.SmallestNonzeroFloat64, 1<<53 - 1},
		{"words", " name ", `nonsense`, 1, 3},
		{"words", "work", `{"a":1,"a":2}`, 1, 4},
		{"words", "notes", `[{"op":"append"}]`, 1, 35},
		{"words", "notes", strings.Repeat(`{"a":`, 127) + "1" + strings.Repeat("}", 127), 1, 60},
	} {
		f.Add(s.text, s.name, []byte(s.raw), s.amount, s.count)
	}
	st := place.Open(f, time.Now)
	cold := st
	if place.Another != nil {
		cold = place.Another(f, st)
	}
	var sessions atomic.Int64
	f.Fuzz(func(t *testing.T, text, name string, raw []byte, amount float64, count int64) {
		d := &doors{T: t, st: st, cold: cold, id: fmt.Sprint("fuzz-", sessions.Add(1)), text: text, name: name, raw: raw, amount: amount, count: count}
		d.play()
	})
}

// doors holds the fuzzer's input and the session that it is written to.
type doors struct {
	*testing.T
	st, cold driver.Store
	id       string
	text     string
	name     string
	raw      json.RawMessage
	amount   float64
	count    int64

	calls  int             // model calls
	heard  []cairn.Message // the model's last request
	seen   json.RawMessage // the state at the begin of the last run
	guided bool
}

// every reports whether the count selects one of n cases.
func (d *doors) every(n int64) bool { return d.count%n == 0 }

func (d *doors) play() {
	eng := d.open(d.st)
	run, err := eng.Execute(d.Context(), d.id, "bot", cairn.Text(d.text), d.options()...)
	if d.refused("the first turn", err) {
		if _, err := driver.Load(d.Context(), d.cold, d.id); !errors.Is(err, cairn.ErrNotFound) {
			d.Fatalf("a turn that was refused left a session: %v", err)
		}
		run, err = eng.Execute(d.Context(), d.id, "bot", cairn.Text("go"))
		d.must(err)
	}
	d.settled(run)
	d.answer(eng)
	d.refused("context", eng.AddContext(d.Context(), d.id, d.text))
	_, err = driver.SetContext(d.Context(), d.st, d.id, driver.ContextChange{UserID: &d.text, Metadata: cairn.Metadata{d.name: d.text}})
	d.refused("the user context", err)

	before, err := driver.AllMessages(d.Context(), d.cold, d.id)
	d.must(err)
	state, err := driver.State(d.Context(), d.cold, d.id, "")
	d.must(err)
	d.sound(before)
	d.turn(eng, "and now?") // in a process with the session in its cache
	said, results := content(d.heard)
	wantSaid, wantResults := content(transcript.Sent(before))
	d.same("what was said", said[:len(wantSaid)], wantSaid)
	d.same("the results", results, wantResults)
	if len(d.seen) > 0 {
		d.same("the state", d.seen, state)
	}
	d.turn(d.open(d.cold), "and here?")
}

// content returns the parts of a transcript without results, in order, and the results by call. A model gets all
// results of a reply at once, whenever they arrived, so their order does not count.
func content(list []cairn.Message) (said []cairn.Part, results map[string]*cairn.ToolResult) {
	results = map[string]*cairn.ToolResult{}
	for i := range list {
		if list[i].Role != cairn.RoleTool {
			said = append(said, list[i].Parts...)
		}
		for _, r := range list[i].ToolResults() {
			results[r.CallID] = r
		}
	}
	return said, results
}

func (d *doors) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// refused reports whether err refuses a value. Any other error fails the test.
func (d *doors) refused(what string, err error) bool {
	d.Helper()
	var e *cairn.Error
	switch {
	case err == nil:
		return false
	case !errors.As(err, &e) || e.Code != cairn.ErrInvalid && e.Code != cairn.ErrTooLarge || e.Field == "":
		d.Fatalf("%s: error %v, want one that names what cannot be kept", what, err)
	}
	return true
}

func (d *doors) open(st driver.Store) *engine.Engine {
	d.Helper()
	eng, err := engine.New(st, []*cairn.Agent{d.agent()}, &engine.Options{Coalesce: -1})
	d.must(err)
	d.Cleanup(func() { _ = eng.Close(context.Background()) }) // nothing is running
	return eng
}

func (d *doors) options() []engine.RunOption {
	if d.every(2) {
		return nil
	}
	return []engine.RunOption{engine.WithUser(d.name), engine.WithTags(d.name), engine.WithMetadata(map[string]string{d.name: d.text}),
		engine.WithTraceParent(d.name)}
}

// agent returns an agent that uses the fuzzer's values in its first turn, and short fixed ones in later turns.
func (d *doors) agent() *cairn.Agent {
	object := json.RawMessage(`{"type":"object"}`)
	tool := func(name string, opts ...cairn.ToolOption) cairn.Tool {
		return cairn.RawFunc(name, "", object, d.work, opts...)
	}
	return &cairn.Agent{
		Name: "bot", Model: scripted.Func(d.reply),
		Tools: []cairn.Tool{tool("work", cairn.Cache(cairn.CachePolicy{})), tool("sure", cairn.RequireApproval()), cairn.RawClientTool("ask", "", object, nil)},
		Guard: func(context.Context, *cairn.Step, cairn.Completion) (cairn.Verdict, error) {
			if d.guided || !d.every(5) {
				return cairn.Verdict{}, nil
			}
			d.guided = true
			return cairn.Verdict{Feedback: d.text}, nil
		},
		Hooks: &cairn.Hooks{RunStart: func(_ context.Context, step *cairn.Step) { d.seen, _ = cairn.State[json.RawMessage](step) }},
		Retry: &cairn.RetryPolicy{Max: -1},
	}
}

// work uses the call's handle with the fuzzer's values. A refused value has no effect.
func (d *doors) work(_ context.Context, call *cairn.Call, _ json.RawMessage) (json.RawMessage, error) {
	call.RecordUsage(d.name, d.amount)
	call.RecordUsage(d.name, d.amount)
	_ = call.Emit(d.name, d.raw)
	_ = call.Set([]string{d.name, d.text}, d.raw)
	_ = call.Append([]string{"list"}, d.raw, d.text)
	_ = cairn.UpdateState(call, func(s *map[string]any) {
		if *s == nil {
			*s = map[string]any{}
		}
		(*s)[d.text] = d.amount
		(*s)[d.name] = d.name
	})
	if d.every(3) {
		_ = call.AddContext(d.text)
	}
	if d.every(4) {
		return nil, errors.New(d.text)
	}
	return d.raw, nil
}

func (d *doors) reply(_ context.Context, req *cairn.Request) scripted.Step {
	d.calls++
	d.heard = req.Messages
	chunk := func(c cairn.Chunk) scripted.Step { return scripted.Chunk(c) }
	call := func(id, tool, args string) scripted.Step {
		return scripted.Reply(chunk(cairn.Chunk{Type: cairn.ChunkToolStart, CallID: id, Tool: tool}), chunk(cairn.Chunk{Type: cairn.ChunkToolArgs, CallID: id, Text: args}))
	}
	switch d.calls {
	case 1:
		half := len(d.text) / 2
		thought := cairn.Chunk{Type: cairn.ChunkReasoning, Text: d.text}
		if d.every(7) {
			thought.Provider = d.raw
		}
		return scripted.Reply(chunk(cairn.Chunk{Type: cairn.ChunkUsage, Usage: cairn.Usage{InputTokens: d.count, OutputTokens: 1, Custom: map[string]float64{d.name: d.amount}}}),
			chunk(thought), chunk(cairn.Chunk{Type: cairn.ChunkText, Text: d.text[:half]}), chunk(cairn.Chunk{Type: cairn.ChunkText, Text: d.text[half:]}),
			call(d.name, d.name, string(d.raw)), call("c1", "work", string(d.raw)), call(d.text, "work", "{}"))
	case 2:
		return scripted.Reply(call("c3", "ask", string(d.raw)), call("c4", "sure", string(d.raw)), call("c5", "ask", "{}"), call("c6", "sure", "{}"))
	}
	return scripted.Text("I see.")
}

// settled waits until a run has ended or is suspended.
func (d *doors) settled(run *engine.Run) {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), time.Minute)
	defer cancel()
	out, err := run.Wait(ctx)
	if out == nil {
		d.Fatalf("the run has no outcome: %v", err)
	}
	if d.calls > 8 {
		d.Fatalf("the model was called %d times", d.calls)
	}
}

// answer answers the session's pending calls with the fuzzer's values and, if those are refused, with valid ones.
func (d *doors) answer(eng *engine.Engine) {
	page, err := eng.Inbox(d.Context(), driver.CallQuery{RootID: d.id})
	d.must(err)
	for i := range page.Items {
		ref := page.Items[i].CallRef
		var given, good cairn.Submission
		if ref.Kind == cairn.CallApproval {
			given, good = cairn.Approve(ref).By(d.name), cairn.Approve(ref)
			given.Input, given.Reason = d.raw, d.text
			if d.every(3) {
				given = cairn.Deny(ref, d.text)
			}
		} else {
			given, good = cairn.Answer(ref, nil), cairn.Answer(ref, 1)
			given.Result = d.raw
			if d.every(3) {
				given = cairn.AnswerError(ref, d.text)
			}
		}
		if _, err := eng.Submit(d.Context(), d.id, given); d.refused("an answer", err) {
			_, err = eng.Submit(d.Context(), d.id, good)
			d.must(err)
		}
	}
	if len(page.Items) == 0 {
		return
	}
	if d.every(2) {
		d.refused("a reason", eng.Interrupt(d.Context(), d.id, d.text))
	}
	run, err := eng.Resume(d.Context(), d.id)
	d.must(err)
	d.settled(run)
}

// sound validates all that another process reads of the session.
func (d *doors) sound(messages []cairn.Message) {
	d.Helper()
	for i := range messages {
		d.must(messages[i].Validate())
	}
	row, err := driver.Load(d.Context(), d.cold, d.id)
	d.must(err)
	d.must(row.Usage.Validate())
	d.must(row.ValidateContext())
	state, err := driver.State(d.Context(), d.cold, d.id, "")
	d.must(err)
	if problem := limits.JSON(state); problem != "" {
		d.Fatalf("the state %s", problem)
	}
	runs, err := d.cold.Runs(d.Context(), d.id, driver.PageQuery{})
	d.must(err)
	for i := range runs.Items {
		d.must(runs.Items[i].Validate())
	}
	calls, err := d.cold.Calls(d.Context(), driver.CallQuery{RootID: d.id})
	d.must(err)
	for i := range calls.Items {
		d.must(calls.Items[i].Validate())
	}
	events, err := d.cold.(driver.LogProvider).EventLog().Read(d.Context(), d.id, 0, 1000)
	d.must(err)
	for i := range events {
		d.must(events[i].Validate())
	}
}

// turn executes a turn with valid input.
func (d *doors) turn(eng *engine.Engine, text string) {
	d.Helper()
	d.calls, d.guided = 10, true
	run, err := eng.Execute(d.Context(), d.id, "bot", cairn.Text(text))
	d.must(err)
	res, err := run.Wait(d.Context())
	if err != nil || res.Text != "I see." {
		d.Fatalf("the turn %q answers %+v, %v", text, res, err)
	}
}

// same compares what one process has in memory with what another process reads.
func (d *doors) same(what string, got, want any) {
	d.Helper()
	g, err := json.Marshal(got)
	d.must(err)
	w, err := json.Marshal(want)
	d.must(err)
	if string(g) != string(w) {
		d.Fatalf("%s: in memory it is\n%.2000s\nand in another process\n%.2000s", what, g, w)
	}
}
