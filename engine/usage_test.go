package engine_test

import (
	"context"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

// The usage of a run with the runs below it does not depend on the process, and includes neither that of the run that
// it resumes nor that of the one that follows it.
func TestTreeUsageOfARun(t *testing.T) {
	t.Parallel()
	costs := func(text string, n int64) scripted.Step { return scripted.Text(text).Usage(n, 0) }
	leaf := &cairn.Agent{Name: "leaf", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return costs("ok", 1) })}
	helper := &cairn.Agent{Name: "helper", Tools: []cairn.Tool{echo("act", cairn.RequireApproval()), cairn.SubAgent(leaf)},
		Model: scripted.New(scripted.Reply(scripted.Call("act", in{"now"}), scripted.Call("leaf", task{"x"})).Usage(10, 0), costs("helped", 20))}
	scribe := &cairn.Agent{Name: "scribe", Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return costs("written", 300) })}
	bot := &cairn.Agent{Name: "bot", Tools: []cairn.Tool{cairn.SubAgent(helper)}, Companions: []cairn.Companion{{Agent: scribe}},
		Model: scripted.New(
			scripted.Call("helper", task{"a"}).Usage(1000, 0), costs("done", 2000),
			scripted.Reply(spawn("c1", "ann", "write")).Usage(4000, 0), costs("done", 0),
			scripted.Reply(spawn("c2", "ann", "more")).Usage(8000, 0), costs("done", 0), costs("bye", 16000))}
	st := tapOn(nil)
	one, two := open(t, st, bot, named("one")), open(t, st, bot, named("two"))

	waits := turn(t, one, "s", "go")
	wantStatus(t, waits, cairn.RunSuspended, cairn.ReasonChildren)
	if _, err := one.Submit(t.Context(), "s", cairn.Approve(waits.Suspended.Calls[0])); err != nil {
		t.Fatal(err)
	}
	resumed, err := two.Resume(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, wait(t, resumed), cairn.RunCompleted, cairn.ReasonReply)
	for _, text := range []string{"write", "more", "bye"} {
		turn(t, two, "s", text)
	}

	var sum int64
	for i, want := range []int64{1011, 2020, 4300, 8300, 16000} {
		run, err := one.Run(t.Context(), "s", runsOf(t, st, "s")[i].ID)
		if err != nil {
			t.Fatal(err)
		}
		used, err := run.TreeUsage(t.Context())
		if err != nil || used.InputTokens != want {
			t.Errorf("turn %d has used %d tokens, want %d: %v", i+1, used.InputTokens, want, err)
		}
		sum += used.InputTokens
	}
	if all, err := one.TreeUsage(t.Context(), "s"); err != nil || all.InputTokens != sum {
		t.Errorf("the session has used %d tokens, its runs %d: %v", all.InputTokens, sum, err)
	}
	for _, run := range runsOf(t, st, waits.Suspended.Children[0].SessionID) {
		handle, err := one.Run(t.Context(), run.SessionID, run.ID)
		if err != nil {
			t.Fatal(err)
		}
		want := map[int]int64{1: 11, 2: 20}[run.Turn]
		if used, err := handle.TreeUsage(t.Context()); err != nil || used.InputTokens != want {
			t.Errorf("turn %d of the sub-agent has used %d tokens, want %d: %v", run.Turn, used.InputTokens, want, err)
		}
	}
}
