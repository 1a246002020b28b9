package engine_test

import (
	"context"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
)

// hooksPage reads the page about hooks: its rows by hook, the hooks in their order there, and its orders of hooks.
func hooksPage(t *testing.T) (rows map[string][]string, names []string, orders [][]string) {
	t.Helper()
	raw, err := os.ReadFile("../docs/HOOKS.md")
	if err != nil {
		t.Fatal(err)
	}
	rows = map[string][]string{}
	for _, line := range strings.Split(string(raw), "\n") {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		name := strings.Trim(cells[0], "`")
		rows[name], names = cells, append(names, name)
	}
	for _, block := range regexp.MustCompile("(?s)```text\n(.*?)```").FindAllStringSubmatch(string(raw), -1) {
		orders = append(orders, strings.Fields(block[1]))
	}
	return rows, names, orders
}

// everyHook returns hooks that each report their name, and then do what they must.
func everyHook(heard func(name string, handle *cairn.Step)) *cairn.Hooks {
	hooks := new(cairn.Hooks)
	v := reflect.ValueOf(hooks).Elem()
	for i := range v.NumField() {
		name, kind := v.Type().Field(i).Name, v.Field(i).Type()
		v.Field(i).Set(reflect.MakeFunc(kind, func(args []reflect.Value) []reflect.Value {
			switch handle := args[1].Interface().(type) {
			case *cairn.Step:
				heard(name, handle)
			case *cairn.Call:
				heard(name, handle.Step)
			}
			if strings.HasPrefix(name, "Around") {
				return args[len(args)-1].Call(args[:1])
			}
			out := make([]reflect.Value, kind.NumOut())
			for n := range out {
				out[n] = reflect.Zero(kind.Out(n))
			}
			return out
		}))
	}
	return hooks
}

func TestHooksPageListsEveryHook(t *testing.T) {
	t.Parallel()
	_, names, _ := hooksPage(t)
	var fields []string
	for i := range reflect.TypeFor[cairn.Hooks]().NumField() {
		fields = append(fields, reflect.TypeFor[cairn.Hooks]().Field(i).Name)
	}
	if !slices.Equal(names, fields) {
		t.Errorf("docs/HOOKS.md lists %v, cairn.Hooks has %v", names, fields)
	}
}

// hookTurns plays the turns of the page, in its order, with hooks of the agent.
func hookTurns(t *testing.T, hooks *cairn.Hooks) {
	t.Helper()
	helper := bot(scripted.New(scripted.Text("Done.")))
	helper.Name = "helper"
	slow := tool("slow", func(ctx context.Context, _ *cairn.Call, _ in) (string, error) { <-ctx.Done(); return "", ctx.Err() })
	pay := tool("pay", func(_ context.Context, call *cairn.Call, in in) (string, error) {
		return "paid", call.Append([]string{"paid"}, in.Text)
	}, cairn.RequireApproval())
	for _, turn := range [][]scripted.Step{
		{scripted.Call("note", in{"a"}), scripted.Text("ok")},
		{scripted.Call("helper", map[string]string{"input": "go"}), scripted.Text("ok")},
		{scripted.Call("pay", in{"a"}), scripted.Text("ok")},
		{scripted.Call("slow", in{})},
		{scripted.Fail(cairn.Errorf(cairn.ErrAuth, "no key"))},
	} {
		agent := bot(scripted.New(turn...), note(), cairn.SubAgent(helper), pay, slow)
		agent.Hooks = hooks
		eng := open(t, tapOn(nil), agent)
		run := start(t, eng, "s", "go")
		synctest.Wait()
		page, err := eng.Inbox(t.Context(), store.CallQuery{})
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range page.Items {
			if _, err := eng.Submit(t.Context(), "s", cairn.Approve(call.CallRef)); err != nil {
				t.Fatal(err)
			}
			if run, err = eng.Resume(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		_ = run.Interrupt(t.Context(), "") // a run that has ended is not running
		_, _ = run.Wait(t.Context())
		synctest.Wait()
	}
}

func TestHooksAreCalledInTheOrderOfThePage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []string
		hookTurns(t, everyHook(func(name string, _ *cairn.Step) {
			mu.Lock()
			defer mu.Unlock()
			if name != "TextDelta" || got[len(got)-1] != name { // one for each piece
				got = append(got, name)
			}
		}))
		_, _, orders := hooksPage(t)
		if want := slices.Concat(orders...); !slices.Equal(got, want) {
			t.Errorf("docs/HOOKS.md has\n%v\nthe hooks were called as\n%v", want, got)
		}
	})
}

func TestHooksWriteStateAsThePageHasIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rows, names, _ := hooksPage(t)
		var mu sync.Mutex
		tried := map[string]bool{}
		hookTurns(t, everyHook(func(name string, handle *cairn.Step) {
			err := handle.Set([]string{"by", name}, true)
			mu.Lock()
			defer mu.Unlock()
			tried[name] = true
			if want := rows[name][2] == "yes"; want != (err == nil) {
				t.Errorf("%s writes state: %v, want %t", name, err, want)
			}
		}))
		for _, name := range names {
			if !tried[name] {
				t.Errorf("%s was not called", name)
			}
		}
	})
}

func TestHooksFailAsThePageHasIt(t *testing.T) {
	t.Parallel()
	rows, names, _ := hooksPage(t)
	for _, bad := range names {
		helper := bot(scripted.New(scripted.Text("Done.")))
		helper.Name = "helper"
		agent := bot(scripted.New(scripted.Reply(scripted.Call("note", in{"a"}), scripted.Call("helper", map[string]string{"input": "go"})), scripted.Text("ok")),
			note(), cairn.SubAgent(helper))
		agent.Hooks = everyHook(func(name string, _ *cairn.Step) {
			if name == bad {
				panic("boom")
			}
		})
		st := tapOn(nil)
		res := turn(t, open(t, st, agent), "s", "go")
		got := "is logged"
		if res.Status == cairn.RunFailed {
			got = "fails the run"
		} else if res.Usage.ToolErrors > 0 {
			got = "is the call's error"
		}
		if want := rows[bad][3]; got != want {
			t.Errorf("%s: %q, docs/HOOKS.md says %q", bad, got, want)
		}
	}
}
