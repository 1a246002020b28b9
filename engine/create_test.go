package engine_test

import (
	"errors"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// A session can be created before its first turn, once.
func TestCreate(t *testing.T) {
	type state struct{ Count int }
	agent := &cairn.Agent{Name: "bot", Model: scripted.New(scripted.Text("hello")), State: cairn.StateOf(state{Count: 3})}
	st := memstore.New(nil)
	defer st.Close()
	eng, err := engine.New(st, []*cairn.Agent{agent}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(t.Context())
	row, err := eng.Create(t.Context(), "s", "bot", engine.WithUser("ann"), engine.WithTags("vip"))
	if err != nil || row.Status != cairn.SessionIdle || row.UserID != "ann" || row.Turn != 0 {
		t.Fatalf("got %+v, %v", row, err)
	}
	if got, err := eng.State(t.Context(), "s", ""); err != nil || string(got) != `{"Count":3}` {
		t.Errorf("its state is %s, %v", got, err)
	}
	if _, err := eng.Create(t.Context(), "s", "bot"); !errors.Is(err, cairn.ErrExists) {
		t.Errorf("a second time: %v", err)
	}
	run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("hi"))
	if err != nil {
		t.Fatal(err)
	}
	if res, err := run.Wait(t.Context()); err != nil || res.Turn != 1 {
		t.Errorf("its first turn: %+v, %v", res, err)
	}
	again, err := eng.Run(t.Context(), "s", run.ID())
	if err != nil {
		t.Fatal(err)
	}
	if record, err := again.Record(t.Context()); err != nil || record.Turn != 1 || record.Status != cairn.RunCompleted {
		t.Errorf("its record: %+v, %v", record, err)
	}
	if _, err := eng.Run(t.Context(), "s", "another"); !errors.Is(err, cairn.ErrNotFound) {
		t.Errorf("a run that there is not: %v", err)
	}
	if row, err := eng.Session(t.Context(), "s"); err != nil || row.UserID != "ann" {
		t.Errorf("after it: %+v, %v", row, err)
	}
	if err := eng.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if _, err := eng.Create(t.Context(), "s", "bot"); !errors.Is(err, cairn.ErrDeleted) {
		t.Errorf("while the id is reserved: %v", err)
	}
	for _, opt := range []engine.RunOption{engine.WithHooks(&cairn.Hooks{}), engine.WithInput(cairn.Text("hi")),
		engine.FromCheckpoint("c"), engine.WithOnBusy(engine.BusyEnqueue),
		engine.WithOnWaiting(engine.WaitingEnqueue), engine.WithModel("large"), engine.FromMessage(0)} {
		if _, err := eng.Create(t.Context(), "t", "bot", opt); !errors.Is(err, cairn.ErrInvalid) {
			t.Errorf("an option that it cannot honour: %v", err)
		}
	}
	if _, err := eng.Create(t.Context(), "t", "nobody"); !errors.Is(err, cairn.ErrNotFound) {
		t.Errorf("an unknown agent: %v", err)
	}
	if _, err := eng.Create(t.Context(), "", "bot"); !errors.Is(err, cairn.ErrInvalid) {
		t.Errorf("no id: %v", err)
	}
}
