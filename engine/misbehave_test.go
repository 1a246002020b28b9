package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
)

// apiError is an error type whose nil pointer cannot be used.
type apiError struct{ status int }

func (e *apiError) Error() string { return fmt.Sprint("status ", e.status) }

// hostile does harm in whatever way it is inspected.
type hostile struct{}

func (hostile) Error() string                   { panic(hostile{}) }
func (hostile) String() string                  { panic(hostile{}) }
func (hostile) Format(fmt.State, rune)          { panic(hostile{}) }
func (hostile) Is(error) bool                   { panic("is") }
func (hostile) As(any) bool                     { panic("as") }
func (hostile) Unwrap() error                   { panic("unwrap") }
func (hostile) MarshalJSON() ([]byte, error)    { panic("marshal") }
func (hostile) JSONSchema() json.RawMessage     { panic("schema") }
func (*hostile) UnmarshalJSON(raw []byte) error { panic("unmarshal") }

// politeText is an error that can be printed, but neither compared nor unwrapped.
type politeText struct{ hostile }

func (politeText) Error() string { return "so there" }

// ways are the ways in which user code misbehaves. Each returns the error that the code returns, if it returns at all.
var ways = map[string]func(ctx context.Context) error{
	"a nil pointer as an error":           func(context.Context) error { var e *apiError; return e },
	"a nil error of Cairn's":              func(context.Context) error { var e *cairn.Error; return e },
	"a nil error of Cairn's, wrapped":     func(context.Context) error { var e *cairn.Error; return politeWrap{e} },
	"an error that panics":                func(context.Context) error { return hostile{} },
	"an error that panics when asked":     func(context.Context) error { return politeText{} },
	"an error with a cause that panics":   func(context.Context) error { return &cairn.Error{Code: cairn.ErrTool, Message: "x", Cause: hostile{}} },
	"a panic":                             func(context.Context) error { panic("boom") },
	"a panic with what cannot be printed": func(context.Context) error { panic(hostile{}) },
	"a panic with nil":                    func(context.Context) error { panic(nil) },
	"a panic with a nil pointer":          func(context.Context) error { panic((*apiError)(nil)) },
	"the end of its goroutine":            func(context.Context) error { runtime.Goexit(); return nil },
	"a hang":                              func(ctx context.Context) error { testclock.Deaf(24 * time.Hour); return nil },
	"a hang that ends too late":           func(ctx context.Context) error { <-ctx.Done(); testclock.Deaf(time.Hour); return ctx.Err() },
}

type politeWrap struct{ error }

func (politeWrap) Error() string   { return "wrapped" }
func (w politeWrap) Unwrap() error { return w.error }

// misbehaving is a model that misbehaves at one of its calls.
type misbehaving struct {
	do    func(context.Context) error
	calls atomic.Int64
	late  bool // after the first chunk
}

func (*misbehaving) Info() cairn.ModelInfo { return cairn.ModelInfo{} }

func (m *misbehaving) Stream(ctx context.Context, req *cairn.Request) iter.Seq2[cairn.Chunk, error] {
	if m.calls.Add(1) > 1 {
		return scripted.New(scripted.Text("there")).Stream(ctx, req)
	}
	return func(yield func(cairn.Chunk, error) bool) {
		if m.late && !yield(cairn.Chunk{Type: cairn.ChunkText, Text: "well"}, nil) {
			return
		}
		if err := m.do(ctx); err != nil {
			yield(cairn.Chunk{}, err)
		}
	}
}

// codes returns the codes of the errors with which user code of a kind may fail a run; none if its faults fail no run.
type kind struct {
	agent func(do func(context.Context) error) *cairn.Agent
	codes []cairn.Code
}

func hooked(set func(h *cairn.Hooks, do func(context.Context) error)) func(func(context.Context) error) *cairn.Agent {
	return func(do func(context.Context) error) *cairn.Agent {
		a := bot(counter(2), note())
		a.Hooks = &cairn.Hooks{}
		set(a.Hooks, do)
		return a
	}
}

// kinds holds all kinds of user code. A kind that cannot return an error drops it.
var kinds = map[string]kind{
	"a tool": {func(do func(context.Context) error) *cairn.Agent {
		return bot(counter(2), tool("note", func(ctx context.Context, _ *cairn.Call, _ in) (string, error) { return "ok", do(ctx) }, cairn.Timeout(time.Minute)))
	}, nil},
	"a tool's result": {func(do func(context.Context) error) *cairn.Agent {
		return bot(counter(2), cairn.Func("note", "", func(ctx context.Context, _ *cairn.Call, _ in) (acting, error) { return acting{do}, nil }, cairn.Timeout(time.Minute)))
	}, nil},
	"the condition of an approval": {func(do func(context.Context) error) *cairn.Agent {
		return bot(counter(2), echo("note", cairn.RequireApprovalIf(func(ctx context.Context, _ *cairn.Call, _ in) (bool, error) { return false, do(ctx) })))
	}, nil},
	"a model":               {func(do func(context.Context) error) *cairn.Agent { return bot(&misbehaving{do: do}) }, anyCode},
	"a model after a chunk": {func(do func(context.Context) error) *cairn.Agent { return bot(&misbehaving{do: do, late: true}) }, anyCode},
	"instructions": {func(do func(context.Context) error) *cairn.Agent {
		a := bot(counter(2), note())
		a.InstructionsFunc = func(ctx context.Context, _ *cairn.Step) (string, error) { return "", do(ctx) }
		return a
	}, []cairn.Code{cairn.ErrHook}},
	"a guard": {func(do func(context.Context) error) *cairn.Agent {
		a := bot(counter(2), note())
		a.Guard = func(ctx context.Context, _ *cairn.Step, _ cairn.Completion) (cairn.Verdict, error) {
			return cairn.Accept(), do(ctx)
		}
		return a
	}, []cairn.Code{cairn.ErrRejected, cairn.ErrTimeout}},
	"a guard's verdict": {func(do func(context.Context) error) *cairn.Agent {
		a := bot(counter(2), note())
		a.Guard = func(ctx context.Context, _ *cairn.Step, _ cairn.Completion) (cairn.Verdict, error) {
			return cairn.Fail(do(ctx)), nil
		}
		return a
	}, []cairn.Code{cairn.ErrRejected, cairn.ErrTimeout}},
	"a guard of an output": {func(do func(context.Context) error) *cairn.Agent {
		a := bot(scripted.New(scripted.Call(cairn.FinishTool, verdict{"yes"})))
		a.Output = cairn.OutputOf[verdict]()
		a.Guard = func(ctx context.Context, _ *cairn.Step, _ cairn.Completion) (cairn.Verdict, error) {
			return cairn.Accept(), do(ctx)
		}
		return a
	}, []cairn.Code{cairn.ErrRejected, cairn.ErrTimeout}},
	"a stop condition": {func(do func(context.Context) error) *cairn.Agent {
		a := bot(counter(2), note())
		a.StopWhen = func(ctx context.Context, _ *cairn.Step) bool { return do(ctx) == nil && false }
		return a
	}, nil},
	"RunStart": {hooked(func(h *cairn.Hooks, do func(context.Context) error) {
		h.RunStart = func(ctx context.Context, _ *cairn.Step) { _ = do(ctx) }
	}), nil},
	"RunComplete": {hooked(func(h *cairn.Hooks, do func(context.Context) error) {
		h.RunComplete = func(ctx context.Context, _ *cairn.Step, _ *cairn.Result) { _ = do(ctx) }
	}), nil},
	"StepContext": {hooked(func(h *cairn.Hooks, do func(context.Context) error) {
		h.StepContext = func(ctx context.Context, _ *cairn.Step) ([]string, error) { return nil, do(ctx) }
	}), []cairn.Code{cairn.ErrHook}},
	"BeforeModel": {hooked(func(h *cairn.Hooks, do func(context.Context) error) {
		h.BeforeModel = func(ctx context.Context, _ *cairn.Step, _ *cairn.Request) error { return do(ctx) }
	}), []cairn.Code{cairn.ErrHook}},
	"AfterModel": {hooked(func(h *cairn.Hooks, do func(context.Context) error) {
		h.AfterModel = func(ctx context.Context, _ *cairn.Step, _ *cairn.Message, _ cairn.Usage) { _ = do(ctx) }
	}), nil},
	"TextDelta": {hooked(func(h *cairn.Hooks, do func(context.Context) error) {
		h.TextDelta = func(ctx context.Context, _ *cairn.Step, _ string) { _ = do(ctx) }
	}), nil},
	"BeforeTool": {hooked(func(h *cairn.Hooks, do func(context.Context) error) {
		h.BeforeTool = func(ctx context.Context, _ *cairn.Call) error { return do(ctx) }
	}), nil},
	"OnStateChange": {hooked(func(h *cairn.Hooks, do func(context.Context) error) {
		h.OnStateChange = func(ctx context.Context, _ *cairn.Call, _ []cairn.Op) { _ = do(ctx) }
	}), nil},
	"OnMessage": {hooked(func(h *cairn.Hooks, do func(context.Context) error) {
		h.OnMessage = func(ctx context.Context, _ *cairn.Step, _ *cairn.Message) { _ = do(ctx) }
	}), nil},
	"AfterTool": {hooked(func(h *cairn.Hooks, do func(context.Context) error) {
		h.AfterTool = func(ctx context.Context, _ *cairn.Call, _ *cairn.ToolResult) { _ = do(ctx) }
	}), nil},
}

// anyCode is for models, whose errors may have any code.
var anyCode = []cairn.Code{"any"}

// acting is a result that does something when it is encoded.
type acting struct{ do func(context.Context) error }

func (acting) JSONSchema() json.RawMessage { return json.RawMessage(`{}`) }

func (a acting) MarshalJSON() ([]byte, error) {
	if err := a.do(context.Background()); err != nil {
		return nil, err
	}
	return []byte(`"ok"`), nil
}

// Whatever user code does costs only its own call: the run ends with an error of its own or continues, and the sessions
// of another agent of the process are not affected.
func TestMisbehavingUserCodeCostsItsOwnCall(t *testing.T) {
	t.Parallel()
	for what, k := range kinds {
		for how, do := range ways {
			t.Run(what+"/"+how, func(t *testing.T) {
				t.Parallel()
				if strings.HasPrefix(how, "a hang that ends") && what == "a tool's result" {
					return // which has no context to wait for
				}
				synctest.Test(t, func(t *testing.T) {
					st := tapOn(nil)
					bad := k.agent(do)
					good := &cairn.Agent{Name: "good", Model: counter(3), Tools: []cairn.Tool{note()}}
					eng, err := engine.New(st, []*cairn.Agent{bad, good}, &engine.Options{Coalesce: -1, NewID: counted(""), LeaseTTL: ttl})
					if err != nil {
						t.Fatal(err)
					}
					defer leave(t, eng)
					run := start(t, eng, "s", "go")
					for range 3 {
						begun := time.Now()
						other, err := eng.Execute(t.Context(), "t", "good", cairn.Text("go"))
						if err != nil {
							t.Fatal(err)
						}
						wantStatus(t, wait(t, other), cairn.RunCompleted, cairn.ReasonReply)
						if took := time.Since(begun); took > 0 {
							t.Errorf("the other agent's turn took %s", took)
						}
						testclock.Advance(time.Minute)
					}
					res := wait(t, run)
					switch {
					case res.Status == cairn.RunFailed:
						_ = errors.Is(res.Error, errors.New("other")) // must not do harm either
						if k.codes == nil || res.Error == nil || k.codes[0] != "any" && !contains(k.codes, res.Error.Code) {
							t.Errorf("failed with %+v, want one of %v", res.Error, k.codes)
						}
					case res.Status == cairn.RunSuspended && what == "the condition of an approval":
					case res.Status != cairn.RunCompleted:
						t.Errorf("the run is %s (%s)", res.Status, res.Reason)
					}
					if row := load(t, st, "s"); row.Status == cairn.SessionActive {
						t.Errorf("the session is %s", row.Status)
					}
					wantSound(t, st, "s")
					wantSound(t, st, "t")
					testclock.Advance(25 * time.Hour) // for those that hang
				})
			})
		}
	}
}

func contains(list []cairn.Code, c cairn.Code) bool {
	for _, other := range list {
		if other == c {
			return true
		}
	}
	return false
}
