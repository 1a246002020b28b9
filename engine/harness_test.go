package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// counted returns a NewID that counts, so that a test's ids are the same each time.
func counted(owner string) func(string) string {
	var n atomic.Int64
	return func(prefix string) string { return fmt.Sprintf("%s_%s%d", prefix, owner, n.Add(1)) }
}

type option func(*engine.Options)

func with(set func(*engine.Options)) option { return set }

// open returns an engine for one agent on a store, closed with the test. Events are not buffered unless an option says
// so.
func open(t *testing.T, st store.Store, agent *cairn.Agent, opts ...option) *engine.Engine {
	t.Helper()
	o := engine.Options{Coalesce: -1, NewID: counted(""), UsageRetention: -1} // wantSound compares all rows
	for _, set := range opts {
		set(&o)
	}
	eng, err := engine.New(placed(st, &o), []*cairn.Agent{agent}, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { leave(t, eng) })
	return eng
}

// leave closes an engine without waiting for its runs.
func leave(t *testing.T, eng *engine.Engine) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := eng.Close(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("close: %v", err)
	}
}

// named makes an engine's ids differ from another engine's.
func named(owner string) option { return with(func(o *engine.Options) { o.NewID = counted(owner) }) }

// patient lets models pause for as long as they like.
var patient = with(func(o *engine.Options) { o.ModelIdle = -1 })

// bot returns an agent called "bot" that plays a script.
func bot(model cairn.Model, tools ...cairn.Tool) *cairn.Agent {
	return &cairn.Agent{Name: "bot", Model: model, Tools: tools}
}

// counter is a model that answers "done" after n-1 rounds of the tool "note". It decides from the request alone.
func counter(n int) cairn.Model {
	return scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		round := 1
		for i := len(req.Messages) - 1; i >= 0 && (req.Messages[i].Role != cairn.RoleUser || req.Messages[i].Hidden); i-- {
			if req.Messages[i].Role == cairn.RoleAssistant {
				round++
			}
		}
		if round >= n {
			return scripted.Text("all done here").Usage(10, 3)
		}
		return scripted.Reply(scripted.Text(fmt.Sprintf("round %d ", round)), scripted.Call("note", in{Text: fmt.Sprint(round)})).Usage(10, 5)
	})
}

type in struct {
	Text string `json:"text"`
}

// note is a tool that appends its text to the list "notes" of the state.
func note() cairn.Tool {
	return cairn.Func("note", "Takes a note.", func(_ context.Context, call *cairn.Call, in in) (string, error) {
		return "noted " + in.Text, call.Append([]string{"notes"}, in.Text)
	})
}

// tool returns a tool that runs fn.
func tool(name string, fn func(ctx context.Context, call *cairn.Call, in in) (string, error), opts ...cairn.ToolOption) cairn.Tool {
	return cairn.Func(name, "Does "+name+".", fn, opts...)
}

// echo returns a tool that answers with its text.
func echo(name string, opts ...cairn.ToolOption) cairn.Tool {
	return tool(name, func(_ context.Context, _ *cairn.Call, in in) (string, error) { return in.Text, nil }, opts...)
}

func start(t *testing.T, eng *engine.Engine, session, text string, opts ...engine.RunOption) *engine.Run {
	t.Helper()
	run, err := eng.Execute(t.Context(), session, "bot", cairn.Text(text), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// turn executes a turn and returns its outcome, success or failure.
func turn(t *testing.T, eng *engine.Engine, session, text string, opts ...engine.RunOption) *cairn.Result {
	t.Helper()
	return wait(t, start(t, eng, session, text, opts...))
}

// until yields events until the reader's context is done; any other end of them is a failure.
func until(t *testing.T, ctx context.Context, events iter.Seq2[cairn.Event, error]) iter.Seq[cairn.Event] {
	t.Helper()
	return func(yield func(cairn.Event) bool) {
		for ev, err := range events {
			if err == nil && yield(ev) {
				continue
			}
			if err != nil && !errors.Is(err, ctx.Err()) {
				t.Fatal(err)
			}
			return
		}
		t.Error("the events end without an error")
	}
}

// wait returns a run's outcome, success or failure.
func wait(t *testing.T, run *engine.Run) *cairn.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour) // of a fake clock, or never reached
	defer cancel()
	res, err := run.Wait(ctx)
	if res.Status == cairn.RunRunning {
		t.Fatalf("run %s has no outcome: %v", run.ID(), err)
	}
	if (res.Status == cairn.RunFailed) != (err != nil) {
		t.Fatalf("run %s is %s, but Wait's error is %v", run.ID(), res.Status, err)
	}
	return res
}

func wantStatus(t *testing.T, res *cairn.Result, status cairn.RunStatus, reason cairn.Reason) {
	t.Helper()
	if res.Status != status || res.Reason != reason {
		t.Fatalf("run %s: %s (%s), want %s (%s); error %v", res.RunID, res.Status, res.Reason, status, reason, res.Error)
	}
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

func messages(t *testing.T, st store.Store, id string) []cairn.Message {
	t.Helper()
	list, err := driver.AllMessages(context.Background(), st, id)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func runsOf(t *testing.T, st store.Store, id string) []cairn.Run {
	t.Helper()
	page, err := st.Runs(context.Background(), id, store.PageQuery{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return page.Items
}

func load(t *testing.T, st store.Store, id string) *cairn.Session {
	t.Helper()
	row, err := driver.Load(context.Background(), st, id)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func state(t *testing.T, st store.Store, id string) string {
	t.Helper()
	raw, err := driver.State(context.Background(), st, id, "")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func history(t *testing.T, st driver.LogProvider, id string) []cairn.Event {
	t.Helper()
	row, err := driver.Load(context.Background(), st.(store.Store), id)
	if err != nil {
		t.Fatal(err)
	}
	var all []cairn.Event
	for {
		page, err := st.EventLog().Read(context.Background(), row.Log(), int64(len(all)), 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			return all
		}
		for _, ev := range page {
			ev.Incarnation = row.Incarnation // as readers of the engine have it
			all = append(all, ev)
		}
	}
}

// result returns the result of a call in a transcript.
func result(t *testing.T, list []cairn.Message, callID string) *cairn.ToolResult {
	t.Helper()
	for i := range list {
		for _, r := range list[i].ToolResults() {
			if r.CallID == callID {
				return r
			}
		}
	}
	t.Fatalf("call %s has no result", callID)
	return nil
}

func decode[T any](t *testing.T, raw json.RawMessage) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v
}

// allSessions yields the sessions that an engine lists on its first page.
func allSessions(t *testing.T, eng *engine.Engine) iter.Seq2[cairn.Session, error] {
	return func(yield func(cairn.Session, error) bool) {
		page, err := eng.Sessions(t.Context(), store.SessionQuery{})
		if err != nil {
			yield(cairn.Session{}, err)
			return
		}
		for _, s := range page.Items {
			if !yield(s, nil) {
				return
			}
		}
	}
}

// withdraw executes a turn that ends the wait of its session.
var withdraw = engine.WithOnWaiting(engine.WaitingWithdraw)
