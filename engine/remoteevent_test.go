package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host/hosttest"
	"github.com/cairn-agents/cairn/model/scripted"
)

// passes is what a model passes on from an agent on another server.
func passes(ev cairn.Event) scripted.Step {
	ev.Origin = "far"
	return scripted.Chunk(cairn.Chunk{Type: cairn.ChunkEvent, Event: &ev})
}

// passing returns an agent whose model passes events on, in a step that calls a tool and in one that does not.
func passing(d cairn.Durability) *cairn.Agent {
	agent := bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if len(req.Messages) <= 1 {
			return scripted.Reply(scripted.Text("first "), passes(cairn.Event{Type: cairn.EventToolStart, CallID: "c1", Tool: "look"}),
				passes(cairn.Event{Type: cairn.EventToolEnd, CallID: "c1", Tool: "look", Agent: "clerk", Data: json.RawMessage(`"42"`)}),
				scripted.Call("note", in{"n"}).ID("c1"))
		}
		return scripted.Reply(passes(cairn.Event{Type: cairn.EventCustom, Name: "progress", Data: json.RawMessage(`1`)}), scripted.Text("done"))
	}), note())
	agent.Durability = d
	return agent
}

// passedOn lists the events of other servers on a session's log.
func passedOn(t *testing.T, eng *engine.Engine) (list []cairn.Event) {
	t.Helper()
	all, err := eng.History(t.Context(), "s", cairn.Cursor{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range all {
		switch {
		case ev.Type == cairn.EventStepDiscarded:
			list = slices.DeleteFunc(list, func(before cairn.Event) bool { return ev.Voids(&before) })
		case ev.Origin != "":
			list = append(list, ev)
		}
	}
	return list
}

// What a model passes on from another server is on the log once, wherever the process dies. The transcript that readers
// build from the log does not contain it.
func TestEventsThatArePassedOnStandOnce(t *testing.T) {
	t.Parallel()
	const want = "1 bot tool_start look; 1 clerk tool_end look; 2 bot custom progress; "
	for _, d := range durabilities {
		for _, f := range faults {
			if !strings.HasPrefix(f.name, "the process dies") {
				continue
			}
			t.Run(d.String()+"/"+f.name, func(t *testing.T) {
				t.Parallel()
				for k, fired := 1, true; fired; k++ {
					synctest.Test(t, func(t *testing.T) {
						st, agent := tapOn(nil), passing(d)
						eng := open(t, st, agent, shortLease)
						hit := f.arm(st, k, func() {})
						if run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("go")); err == nil {
							_, _ = run.Wait(t.Context())
						}
						fired = hit()
						after := open(t, bringToEnd(t, st, agent), agent, named("c"))
						got := ""
						for _, ev := range passedOn(t, after) {
							got += fmt.Sprint(ev.Step, " ", ev.Agent, " ", ev.Type, " ", ev.Tool, ev.Name, "; ")
							if ev.SessionID != "s" || ev.RunID == "" || ev.Origin != "far" {
								t.Errorf("event %+v", ev)
							}
						}
						if got != want {
							t.Errorf("call %d: %s", k, got)
						}
						snap, err := after.Snapshot(t.Context(), "s")
						if err != nil {
							t.Fatal(err)
						}
						all, err := after.History(t.Context(), "s", cairn.Cursor{}, 1000)
						if lines := hosttest.Lines(snap.Messages); err != nil || fmt.Sprint(hosttest.Fold("s", nil, all)) != fmt.Sprint(lines) {
							t.Errorf("call %d: readers have %v, want %v; %v", k, hosttest.Fold("s", nil, all), lines, err)
						}
					})
				}
			})
		}
	}
}

// What another server sends is converted into what a log can store, or refused.
func TestEventsThatArePassedOnAreNotTrusted(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	for name, ev := range map[string]cairn.Event{
		"no text":       {Type: cairn.EventToolStart, CallID: "c\xff\x00", Tool: "\xff", Name: "\x00", ChildID: "\xff", Agent: "\xff"},
		"no JSON":       {Type: cairn.EventToolEnd, CallID: "c", Data: json.RawMessage(`{`)},
		"a NUL in JSON": {Type: cairn.EventCustom, Name: "n", Data: json.RawMessage(`"\u0000"`)},
		"too large":     {Type: cairn.EventCustom, Name: "n", Data: json.RawMessage(`"` + long + `"`)},
		"a long name":   {Type: cairn.EventToolStart, CallID: long, Tool: long},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eng := open(t, tapOn(nil), bot(scripted.New(scripted.Reply(passes(ev), scripted.Text("done")))))
			wantStatus(t, turn(t, eng, "s", "go"), cairn.RunCompleted, cairn.ReasonReply)
			if list := passedOn(t, eng); len(list) != 1 || name != "no text" && name != "a NUL in JSON" && name != "a long name" && !list[0].Truncated ||
				name == "a NUL in JSON" && string(list[0].Data) != `"\ufffd"` {
				t.Errorf("the log has %d events of it", len(list))
			}
		})
	}
	for name, c := range map[string]cairn.Chunk{
		"no event":     {Type: cairn.ChunkEvent},
		"no origin":    {Type: cairn.ChunkEvent, Event: &cairn.Event{Type: cairn.EventToolStart}},
		"another type": {Type: cairn.ChunkEvent, Event: &cairn.Event{Type: cairn.EventRunEnd, Origin: "far"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agent := bot(scripted.New(scripted.Reply(scripted.Chunk(c), scripted.Text("done"))))
			agent.Retry = &cairn.RetryPolicy{Max: -1}
			wantStatus(t, turn(t, open(t, tapOn(nil), agent), "s", "go"), cairn.RunFailed, cairn.ReasonError)
		})
	}
}
