package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// said reads what a run says to its end, both piece by piece and as a reader that removes discarded text.
func said(t *testing.T, run *engine.Run) (pieces, counts string) {
	t.Helper()
	steps := map[int]string{}
	for text, err := range run.Text(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		pieces += fmt.Sprint(text)
		if steps[text.Step] += text.Delta; text.Discarded {
			delete(steps, text.Step)
		}
	}
	for n := range 10 {
		counts += steps[n]
	}
	return pieces, counts
}

func TestTextOfARun(t *testing.T) {
	t.Parallel()
	busy := cairn.Errorf(cairn.ErrOverloaded, "busy")
	helper := &cairn.Agent{Name: "helper", Model: scripted.New(scripted.Text("not for the user"))}
	for name, test := range map[string]struct {
		script         []scripted.Step
		pieces, counts string
	}{
		"one reply":                 {[]scripted.Step{scripted.Text("hello there")}, "hello there", "hello there"},
		"reasoning stays away":      {[]scripted.Step{scripted.Reply(scripted.Thinking("hm"), scripted.Text("yes"))}, "yes", "yes"},
		"the text of every step":    {[]scripted.Step{scripted.Reply(scripted.Text("One moment. "), scripted.Call("helper", task{"go"})), scripted.Text("Done.")}, "One moment. Done.", "One moment. Done."},
		"an attempt that failed":    {[]scripted.Step{scripted.Reply(scripted.Text("hello the"), scripted.Fail(busy)), scripted.Text("good morning")}, "hello the\n[discarded]\ngood morning", "good morning"},
		"one that had said nothing": {[]scripted.Step{scripted.Fail(busy), scripted.Text("good morning")}, "good morning", "good morning"},
		"two of them":               {[]scripted.Step{scripted.Reply(scripted.Text("a"), scripted.Fail(busy)), scripted.Reply(scripted.Text("b"), scripted.Fail(busy)), scripted.Text("c")}, "a\n[discarded]\nb\n[discarded]\nc", "c"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				eng := open(t, memstore.New(nil), bot(scripted.New(test.script...), cairn.SubAgent(helper)))
				run := start(t, eng, "s", "go")
				for _, reader := range []string{"live", "later"} {
					if pieces, counts := said(t, run); pieces != test.pieces || counts != test.counts {
						t.Errorf("%s: %q, of which %q counts; want %q, of which %q", reader, pieces, counts, test.pieces, test.counts)
					}
				}
				if res := wait(t, run); !strings.HasSuffix(test.counts, res.Text) {
					t.Errorf("the result is %q", res.Text)
				}
			})
		})
	}
}

// task is what a sub-agent's tool takes.
type task struct {
	Input string `json:"input"`
}

func TestTextOfARunThatIsTakenOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dead := tapOn(nil)
		gone := bot(scripted.New(scripted.Reply(scripted.Text("I was about "), scripted.Pause(time.Second), scripted.Do(dead.cut), scripted.Text("to"))))
		lost := start(t, open(t, dead, gone, shortLease), "s", "go")
		_, err := lost.Wait(t.Context())
		if err == nil {
			t.Fatal("the run did not end")
		}
		testclock.Advance(ttl)
		next := open(t, tapOn(dead.Store), bot(scripted.New(scripted.Text("here I am"))), shortLease, named("b"))
		if pieces, counts := said(t, taken(t, next, "s")); pieces != "I was about \n[discarded]\nhere I am" || counts != "here I am" {
			t.Errorf("%q, of which %q counts", pieces, counts)
		}
	})
}

// taken resumes a session and returns the run that is under way.
func taken(t *testing.T, eng *engine.Engine, id string) *engine.Run {
	t.Helper()
	run, err := eng.Resume(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// Whatever ends a reader before the run ends is an error that the reader gets.
func TestReadersAreGivenWhatEndsThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		eng := open(t, st, bot(scripted.New(scripted.Reply(scripted.Text("on my "), scripted.Pause(time.Hour), scripted.Text("way")))))
		run := start(t, eng, "s", "go")
		ends := func(ctx context.Context, eng *engine.Engine) (list []error) {
			for _, err := range run.Text(ctx) {
				if err != nil {
					list = append(list, err)
				}
			}
			for _, err := range run.Events(ctx) {
				if err != nil {
					list = append(list, err)
				}
			}
			for _, err := range eng.Events(ctx, "s", cairn.Cursor{}) {
				if err != nil {
					list = append(list, err)
				}
			}
			return list
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if list := ends(ctx, eng); fmt.Sprint(list) != fmt.Sprint([]error{context.DeadlineExceeded, context.DeadlineExceeded, context.DeadlineExceeded}) {
			t.Errorf("when the context is over: %v", list)
		}
		closing, stop := context.WithCancel(t.Context())
		stop()
		_ = eng.Close(closing)
		list := ends(t.Context(), eng)
		if len(list) != 3 {
			t.Errorf("when the engine is closed: %v", list)
		}
		for _, err := range list {
			wantError(t, err, cairn.ErrClosed)
		}
		res, err := run.Wait(t.Context())
		wantError(t, err, cairn.ErrClosed)
		if res == nil || res.Status != cairn.RunRunning || res.RunID != run.ID() || res.SessionID != "s" || res.Turn != 1 {
			t.Errorf("the outcome that is not known is %+v", res)
		}
	})
}
