package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// Metadata is a JSON document, whatever Go values it was made of.
func TestMetadataIsJSON(t *testing.T) {
	t.Parallel()
	eng := open(t, memstore.New(nil), bot(scripted.New(scripted.Text("hello"))))
	type order struct {
		Lines []int `json:"lines"`
	}
	given := map[string]any{"plan": "pro", "seats": 3, "order": order{[]int{1, 2}}, "open": true, "note": nil, "raw": json.RawMessage(`{"a":[1.50]}`)}
	if _, err := eng.Create(t.Context(), "s", "bot", engine.WithMetadata(given)); err != nil {
		t.Fatal(err)
	}
	given["plan"] = "spoiled"
	row, err := eng.Session(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%#v %#v", row.Metadata["seats"], row.Metadata["plan"]); got != `3 "pro"` {
		t.Errorf("values are %s", got)
	}
	raw, _ := json.Marshal(row.Metadata)
	if want := `{"note":null,"open":true,"order":{"lines":[1,2]},"plan":"pro","raw":{"a":[1.5]},"seats":3}`; string(raw) != want {
		t.Errorf("metadata is %s, want %s", raw, want)
	}
	page, err := eng.Sessions(t.Context(), store.SessionQuery{Metadata: cairn.Metadata{"seats": 3, "raw": nil}})
	if err != nil || len(page.Items) != 0 {
		t.Errorf("by a value that is another: %v, %v", page.Items, err)
	}
	page, err = eng.Sessions(t.Context(), store.SessionQuery{Metadata: cairn.Metadata{"seats": 3, "note": nil}})
	if err != nil || len(page.Items) != 1 || fmt.Sprint(page.Items[0].Metadata["order"]) != "map[lines:[1 2]]" {
		t.Errorf("by its values: %v, %v", page.Items, err)
	}
	turn(t, eng, "strings", "go", engine.WithMetadata(map[string]string{"plan": "pro"}))
	if row, err = eng.Session(t.Context(), "strings"); err != nil || row.Metadata["plan"] != "pro" {
		t.Errorf("a map of strings becomes %v, %v", row.Metadata, err)
	}
}

// What a step writes to metadata and tags is committed with it, and on the log.
func TestStepWritesMetadataAndTags(t *testing.T) {
	t.Parallel()
	for name, durability := range map[string]cairn.Durability{"per step": cairn.PerStep, "per tool": cairn.PerTool, "manual": cairn.Manual} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := memstore.New(nil)
			file := tool("file", func(_ context.Context, call *cairn.Call, in in) (string, error) {
				return "filed", errors.Join(call.SetMetadata("case", map[string]any{"id": in.Text, "n": 1}), call.SetMetadata("draft", nil),
					call.SetMetadata("last", in.Text), call.AddTags("filed", in.Text))
			})
			agent := bot(scripted.New(scripted.Call("file", in{"a"}), scripted.Call("file", in{"b"}), scripted.Text("ok")), file)
			agent.Durability = durability
			var read []string
			agent.Hooks = &cairn.Hooks{BeforeModel: func(_ context.Context, step *cairn.Step, _ *cairn.Request) error {
				read = append(read, fmt.Sprint(step.Tags, step.Metadata))
				return nil
			}}
			eng := open(t, st, agent)
			turn(t, eng, "s", "go", engine.WithTags("old"), engine.WithMetadata(map[string]string{"draft": "yes", "keep": "1"}))
			row, err := eng.Session(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			want := "[old filed a b] map[case:map[id:b n:1] keep:1 last:b]"
			if got := fmt.Sprint(row.Tags, row.Metadata); got != want {
				t.Errorf("the session has %s, want %s", got, want)
			}
			if first := "[old] map[draft:yes keep:1]"; read[0] != first || durability == cairn.PerStep && read[2] != want {
				t.Errorf("hooks read %q", read)
			}
			var changes []string
			for _, ev := range history(t, st, "s") {
				if ev.Type == cairn.EventContextChanged {
					changes = append(changes, string(ev.Data))
				}
			}
			if want := `{"add_tags":["filed","b"],"metadata":{"case":{"id":"b","n":1},"draft":null,"last":"b"}}`; len(changes) != 2 || changes[1] != want {
				t.Errorf("the log has %q, want %q as the second", changes, want)
			}
		})
	}
}

// Entries that do not fit are an error of their call: of the write itself, or of the call that comes later in the reply
// if parallel calls only fit alone.
func TestMetadataOfAStepIsBounded(t *testing.T) {
	t.Parallel()
	half := strings.Repeat("x", cairn.MaxMetadataBytes*2/3)
	var errs []error
	put := tool("put", func(_ context.Context, call *cairn.Call, in in) (string, error) {
		if in.Text == "bad" {
			for key, value := range map[string]any{"a\n": 1, "function": func() {}, "inexact": 1 << 60, "large": half + half} {
				errs = append(errs, call.SetMetadata(key, value))
			}
			return "", errors.Join(call.AddTags("\n"), errs[0])
		}
		return "put", call.SetMetadata(in.Text, half)
	})
	eng := open(t, memstore.New(nil), bot(scripted.New(scripted.Reply(scripted.Call("put", in{"a"}), scripted.Call("put", in{"b"}), scripted.Call("put", in{"bad"})),
		scripted.Text("ok")), put))
	res := turn(t, eng, "s", "go")
	row, err := eng.Session(t.Context(), "s")
	if err != nil || res.Status != cairn.RunCompleted || row.Metadata["a"] != half || len(row.Metadata) != 1 || len(row.Tags) > 0 {
		t.Fatalf("the run is %s, and the session has %d entries and tags %v, %v", res.Status, len(row.Metadata), row.Tags, err)
	}
	for _, err := range errs {
		if e := cairn.AsError(err); err == nil || e.Field != "metadata" || e.Code != cairn.ErrInvalid && e.Code != cairn.ErrTooLarge {
			t.Errorf("error %v, want one of metadata", err)
		}
	}
	list, err := eng.Messages(t.Context(), "s", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, bad := range []bool{false, true, true} {
		if r := list[2].ToolResults()[i]; r.IsError != bad {
			t.Errorf("result %d is %s, an error: %t", i, r.Output, r.IsError)
		}
	}
}
