package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// A run that fails in a model call keeps the words that the call had shown. The transcript does not have them, so a
// retry begins after the last committed step.
func TestFailedRunKeepsWordsOfItsModelCall(t *testing.T) {
	t.Parallel()
	st := memstore.New(nil)
	broken := scripted.Fail(cairn.Errorf(cairn.ErrModelRequest, "overloaded"))
	model := scripted.New(scripted.Call("echo", in{}), scripted.Reply(scripted.Thinking("Hm."), scripted.Text("Once upon "), broken),
		scripted.Text("Right."))
	eng := open(t, st, bot(model, echo("echo")))
	res := turn(t, eng, "s", "a story")
	wantStatus(t, res, cairn.RunFailed, cairn.ReasonError)
	if runs := runsOf(t, st, "s"); runs[0].Text != "Once upon " {
		t.Errorf("the run has the text %q", runs[0].Text)
	}
	if n := len(messages(t, st, "s")); n != 3 {
		t.Errorf("the transcript has %d messages", n)
	}
	again, err := eng.Retry(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if res := wait(t, again); res.Text != "Right." {
		t.Errorf("the retry says %q", res.Text)
	}
}

// OnlyPaused resumes a session that has its answers, and no session that was stopped.
func TestResumeOnlyPaused(t *testing.T) {
	t.Parallel()
	eng := open(t, memstore.New(nil), bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if req.Messages[len(req.Messages)-1].Role == cairn.RoleTool {
			return scripted.Text("done")
		}
		return scripted.Call("echo", in{"x"})
	}), echo("echo", cairn.RequireApproval())))
	for session, stopped := range map[string]bool{"answered": false, "stopped": true} {
		res := turn(t, eng, session, "go")
		call := res.Suspended.Calls[0]
		if _, err := eng.Resume(t.Context(), session, engine.OnlyPaused()); !errors.Is(err, cairn.ErrNotResumable) {
			t.Errorf("%s: a session with an open call is resumed: %v", session, err)
		}
		if stopped {
			run, err := eng.Attach(t.Context(), session)
			if err == nil {
				err = run.Interrupt(t.Context(), "")
			}
			if err != nil {
				t.Fatal(err)
			}
		} else if _, err := eng.Submit(t.Context(), session, cairn.Approve(call)); err != nil {
			t.Fatal(err)
		}
		run, err := eng.Resume(t.Context(), session, engine.OnlyPaused())
		switch {
		case stopped && !errors.Is(err, cairn.ErrNotRunning):
			t.Errorf("a session that was stopped is resumed: %v", err)
		case !stopped && err != nil:
			t.Error(err)
		case !stopped:
			wantStatus(t, wait(t, run), cairn.RunCompleted, cairn.ReasonReply)
		}
	}
	for verb, err := range map[string]error{
		"Execute": failing(eng.Execute(t.Context(), "x", "bot", cairn.Text("go"), engine.OnlyPaused())),
		"Retry":   failing(eng.Retry(t.Context(), "answered", engine.OnlyPaused())),
	} {
		if !errors.Is(err, cairn.ErrInvalid) {
			t.Errorf("%s takes OnlyPaused: %v", verb, err)
		}
	}
}
