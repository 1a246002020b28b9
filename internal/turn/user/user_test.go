package user

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine/settings"
	"github.com/cairn-agents/cairn/internal/ops"
	"github.com/cairn-agents/cairn/internal/turn/step"
)

func caller() *Caller {
	return &Caller{Go: func(fn func()) { go fn() },
		Options: &settings.Options{Logger: slog.New(slog.DiscardHandler), StopGrace: time.Second, HookTimeout: time.Minute}}
}

// evil is an error whose every method panics.
type evil struct{}

func (*evil) Error() string    { panic("no words") }
func (*evil) Is(error) bool    { panic("no answer") }
func (*evil) Unwrap() error    { panic("no cause") }
func (e *evil) String() string { panic("no string") }

func TestWhatCodeDoesIsItsOutcome(t *testing.T) {
	var none *evil
	for _, c := range []struct {
		name string
		fn   func() (int, error)
		says string
		code cairn.Code
	}{
		{"an error", func() (int, error) { return 0, errors.New("broken") }, "broken", ""},
		{"a panic", func() (int, error) { panic("oops") }, "the tool panicked: oops", cairn.ErrToolPanic},
		{"a panic that cannot be printed", func() (int, error) { panic(&evil{}) }, "the tool panicked: ", cairn.ErrToolPanic},
		{"a goroutine that ends", func() (int, error) { runtime.Goexit(); return 0, nil }, "the tool ended its goroutine", cairn.ErrToolPanic},
		{"an error that panics", func() (int, error) { return 0, &evil{} }, "whose Error method panicked", ""},
		{"a nil pointer as an error", func() (int, error) { return 0, none }, "returned as an error", ""},
		{"an error of Cairn, wrapped", func() (int, error) { return 0, fmt.Errorf("x: %w", cairn.Errorf(cairn.ErrTooLarge, "big")) }, "x: big", cairn.ErrTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Call(t.Context(), caller(), Code{What: "the tool", Err: cairn.ErrToolPanic}, func(context.Context) (int, error) { return c.fn() })
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("the error is %v, want one that says %q", err, c.says)
			}
			var e *cairn.Error
			if errors.As(err, &e); (e == nil) != (c.code == "") || e != nil && e.Code != c.code {
				t.Errorf("errors.As finds %v, want code %q", e, c.code)
			}
			if errors.Is(err, context.Canceled) {
				t.Error("it is taken for a cancelled context")
			}
		})
	}
}

func TestCodeIsAbandoned(t *testing.T) {
	for _, c := range []struct {
		name string
		code Code
		ctx  func(context.Context) (context.Context, context.CancelFunc)
		want error
		at   time.Duration
	}{
		{"when its limit has passed", Code{What: "the tool", Limit: 3 * time.Second}, nil, &cairn.Error{Code: cairn.ErrTimeout}, 3 * time.Second},
		{"a grace after its context has ended", Code{What: "the tool"},
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, 5*time.Second)
			},
			context.DeadlineExceeded, 6 * time.Second},
		{"when it is silent for too long", Code{What: "the model", Idle: 4 * time.Second}, nil, &cairn.Error{Code: cairn.ErrTimeout}, 4 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				by, done := caller(), make(chan struct{})
				ctx := t.Context()
				if c.ctx != nil {
					var cancel context.CancelFunc
					ctx, cancel = c.ctx(ctx)
					defer cancel()
				}
				if c.code.Idle > 0 {
					c.code.Pulse = NewPulse()
				}
				began := time.Now()
				_, err := Call(ctx, by, c.code, func(context.Context) (int, error) { <-done; return 1, nil })
				if took := time.Since(began); !errors.Is(err, c.want) || took != c.at || by.Abandoned() != 1 {
					t.Errorf("%v after %s with %d abandoned, want %v after %s with 1", err, took, by.Abandoned(), c.want, c.at)
				}
				close(done)
				synctest.Wait()
				if n := by.Abandoned(); n != 0 {
					t.Errorf("%d are abandoned once it has returned", n)
				}
			})
		})
	}
}

// room is a session for tests of scopes.
type room struct {
	state string
	hooks Hooks
}

func (r *room) Info(n int) cairn.Step {
	return cairn.Step{SessionID: "s", Agent: "a", Number: n}
}
func (r *room) Hooks() Hooks             { return r.hooks }
func (r *room) HasTool(name string) bool { return name == "known" }
func (r *room) Sent() []cairn.Message    { return nil }
func (r *room) SwitchedOff() []string    { return nil }
func (r *room) Tainted() bool            { return false }
func (r *room) Workspace() string        { return "" }
func (r *room) View(on ...*step.Writes) (json.RawMessage, error) {
	raw := json.RawMessage(r.state)
	for _, w := range on {
		var err error
		if raw, err = ops.Fold(raw, w.Ops); err != nil {
			return nil, err
		}
	}
	return raw, nil
}

func scopeOf(r *room, below ...*step.Writes) *Scope {
	s := new(Scope)
	s.Init(caller(), r, nil, 3, below)
	return s
}

func appended(v string) []cairn.Op {
	return []cairn.Op{{Kind: cairn.OpAppend, Path: "/list", Items: []json.RawMessage{json.RawMessage(v)}}}
}

func TestWritesThatAStateCannotKeepAreRefused(t *testing.T) {
	s := scopeOf(&room{state: `{"list":[1]}`})
	one := json.RawMessage("1")
	for name, op := range map[string]cairn.Op{
		"append to the whole":     {Kind: cairn.OpAppend, Items: []json.RawMessage{one}},
		"set the whole":           {Kind: cairn.OpReplace, Value: one},
		"delete the whole":        {Kind: cairn.OpDelete},
		"a value that is no JSON": {Kind: cairn.OpReplace, Path: "/a", Value: json.RawMessage("{")},
	} {
		if err := s.Update(op); !errors.Is(err, cairn.ErrState) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if err := s.Change(json.RawMessage(`[]`), json.RawMessage(`{}`)); !errors.Is(err, cairn.ErrState) {
		t.Errorf("a change of what is no object: error %v", err)
	}
	if w := s.End(); len(w.Ops) != 0 {
		t.Errorf("mistakes wrote %v", w.Ops)
	}
}

func TestCharactersThatAStateCannotKeepAreReplaced(t *testing.T) {
	s := scopeOf(&room{state: `{}`})
	given := cairn.Op{Kind: cairn.OpAppend, Path: "/\xff", Items: []json.RawMessage{json.RawMessage(`"\u0000"`)}}
	if err := s.Update(given); err != nil {
		t.Fatal(err)
	}
	if err := s.Change(json.RawMessage(`{}`), json.RawMessage(`{"a\u0000":"\ud800"}`)); err != nil {
		t.Fatal(err)
	}
	if string(given.Items[0]) != `"\u0000"` {
		t.Errorf("the caller's items are now %s", given.Items)
	}
	if w := s.End(); len(w.Ops) != 2 || w.Ops[0].Path != "/\uFFFD" || string(w.Ops[0].Items[0]) != `"\ufffd"` || w.Ops[1].Path != "/a\uFFFD" || string(w.Ops[1].Value) != `"\ufffd"` {
		t.Errorf("wrote %+v", w.Ops)
	}
}

func TestAChangeIsWrittenAsOperations(t *testing.T) {
	s := scopeOf(&room{state: `{"list":[1],"same":2}`})
	if err := s.Change(json.RawMessage(`{"list":[1],"same":2}`), json.RawMessage(`{"list":[1,3],"same":2}`)); err != nil {
		t.Fatal(err)
	}
	if w := s.End(); !reflect.DeepEqual(w.Ops, appended("3")) {
		t.Errorf("it wrote %v", w.Ops)
	}
}

func TestWritesAreSeenOnTopOfThoseBelow(t *testing.T) {
	s := scopeOf(&room{state: `{"list":[1]}`}, &step.Writes{Ops: appended("2")})
	if err := s.update(appended("3")...); err != nil {
		t.Fatal(err)
	}
	if raw, err := s.State(); err != nil || string(raw) != `{"list":[1,2,3]}` {
		t.Errorf("the state is %s, %v", raw, err)
	}
	if w := s.End(); len(w.Ops) != 1 {
		t.Errorf("it wrote %v, want its own operation only", w.Ops)
	}
	if err := scopeOf(&room{state: "{}"}).Freeze("by a guard").Update(appended("1")[0]); !errors.Is(err, cairn.ErrState) {
		t.Errorf("a frozen scope answers a write with %v", err)
	}
}

func TestAHandleEndsWithTheCall(t *testing.T) {
	s := scopeOf(&room{state: "{}"})
	var kept *cairn.Step
	_, err := Lent(t.Context(), s, Code{What: "the tool"}, func(_ context.Context, at *cairn.Step) (int, error) {
		kept = at
		at.RecordUsage("pages", 2)
		return 0, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	kept.RecordUsage("pages", 5)
	kept.AddContext("late")
	if err := kept.Emit("late", 1); !errors.Is(err, &cairn.Error{Code: cairn.ErrNotExecuted}) {
		t.Errorf("an event of a handle that has ended: %v", err)
	}
	if w := s.End(); w.Usage["pages"] != 2 || len(w.Context) != 0 {
		t.Errorf("it wrote %+v", w)
	}
}

func TestHooksAreCalledInOrder(t *testing.T) {
	var called []string
	named := func(name string, err error) *cairn.Hooks {
		return &cairn.Hooks{RunStart: func(context.Context, *cairn.Step) { called = append(called, name) }, BeforeModel: func(context.Context, *cairn.Step, *cairn.Request) error {
			called = append(called, name)
			return err
		}}
	}
	engine := make([]*cairn.Hooks, 1, 4)
	engine[0] = named("engine", nil)
	hooks := HooksOf(engine, &cairn.Agent{Hooks: named("agent", errors.New("no"))}, named("call", nil))
	s := scopeOf(&room{hooks: hooks})
	s.Observe(t.Context(), "RunStart", func(h *cairn.Hooks) Hook {
		return func(ctx context.Context, at *cairn.Step) error { h.RunStart(ctx, at); return errors.New("ignored") }
	})
	if want := []string{"engine", "agent", "call"}; !slices.Equal(called, want) {
		t.Errorf("observers were called in the order %v, want %v", called, want)
	}
	called = nil
	err := s.Veto(t.Context(), "BeforeModel", func(h *cairn.Hooks) Hook {
		return func(ctx context.Context, at *cairn.Step) error { return h.BeforeModel(ctx, at, nil) }
	})
	if err == nil || !slices.Equal(called, []string{"engine", "agent"}) {
		t.Errorf("a veto after %v: %v", called, err)
	}
	if again := HooksOf(engine, nil, named("other", nil)); len(again) != 2 || engine[:2][1] != nil {
		t.Error("a run's hooks are written into the engine's list")
	}
}
