package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/model/scripted"
)

// narrow is a model with a small window that is as strict as a provider: it refuses a request that is larger, or that
// has a use without a result. It counts four bytes as a token, and counts how often a request does not begin with the
// previous one.
type narrow struct {
	window, words int
	silent        bool // it does not report how many tokens it has read

	mu                       sync.Mutex
	refused, broken, summed  int
	last                     []string // the previous request
	unpaired, largest, calls int
}

func (n *narrow) model() cairn.Model { return scripted.Func(n.play) }

func sizeOf(req *cairn.Request) int {
	size := len(req.System)
	for _, m := range req.Messages {
		raw, _ := json.Marshal(m.Parts)
		size += len(raw)
	}
	return size / 4
}

func (n *narrow) play(_ context.Context, req *cairn.Request) scripted.Step {
	n.mu.Lock()
	defer n.mu.Unlock()
	size := sizeOf(req)
	if size > n.window {
		n.refused++
		return scripted.Fail(cairn.Errorf(cairn.ErrContextLength, "%d tokens are too many", size))
	}
	n.largest = max(n.largest, size)
	if req.System == cairn.SummaryInstructions {
		n.summed++
		return scripted.Text(fmt.Sprintf("summary %d", n.summed)).Usage(int64(size), 5)
	}
	n.calls++
	if !transcript.Balanced(req.Messages) || len(transcript.Heal(req.Messages)) != len(req.Messages) {
		n.unpaired++
	}
	n.prefix(req)
	step := n.answer(req)
	if n.silent {
		return step
	}
	return step.Usage(int64(size), 20)
}

// prefix counts requests that do not begin with the previous one.
func (n *narrow) prefix(req *cairn.Request) {
	var now []string
	for _, m := range req.Messages {
		raw, _ := json.Marshal(m.Parts)
		now = append(now, string(raw))
	}
	for i := range n.last {
		if i >= len(now) || now[i] != n.last[i] {
			n.broken++
			break
		}
	}
	n.last = now
}

// answer calls the tool twice for each message of the user, in one reply and then alone.
func (n *narrow) answer(req *cairn.Request) scripted.Step {
	round := 0
	for i := len(req.Messages) - 1; i >= 0 && (req.Messages[i].Role != cairn.RoleUser || req.Messages[i].Hidden); i-- {
		if req.Messages[i].Role == cairn.RoleAssistant {
			round++
		}
	}
	words := strings.Repeat("word ", n.words)
	switch round {
	case 0:
		return scripted.Reply(scripted.Text(words), scripted.Call("note", in{"a " + words}), scripted.Call("note", in{"b"}))
	case 1:
		return scripted.Reply(scripted.Call("note", in{"c"}))
	}
	return scripted.Text("Done with it. " + words)
}

// compacting returns an agent with a model that reports the size of its window.
func compacting(n *narrow) *cairn.Agent {
	a := bot(n.model(), echo("note"))
	a.Compaction = &cairn.Compaction{Window: n.window}
	return a
}

// A conversation of 300 turns stays within a small window, whatever kills the processes that drive it.
func TestLongConversationStaysWithinTheWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := &narrow{window: 2000, words: 30}
		agent := compacting(model)
		st := tapOn(nil)
		kills := 0
		eng := open(t, st, agent, shortLease, named("p0."))
		for n := range 300 {
			text := fmt.Sprintf("turn %d: remember that order %d is %s", n, n, strings.Repeat("blue ", n%7))
			if n%9 != 4 {
				wantStatus(t, turn(t, eng, "s", text), cairn.RunCompleted, cairn.ReasonReply)
				continue
			}
			// The process dies at one of the run's writes.
			left := 1 + n/9%3
			dying := st
			st.stepIn(func(_ context.Context, op string) error {
				if op != "Commit" {
					return nil
				}
				if left--; left < 0 {
					go dying.cut()
					return cairn.Errorf(cairn.ErrInternal, "cut off")
				}
				return nil
			}, nil)
			run := start(t, eng, "s", text)
			_, _ = run.Wait(t.Context())
			kills++
			st = tapOn(st.Store)
			eng = open(t, st, agent, shortLease, named(fmt.Sprintf("p%d.", kills)))
			stop := work(t, eng)
			testclock.Advance(3 * ttl)
			for load(t, st.Store, "s").Status == cairn.SessionActive {
				testclock.Advance(ttl)
			}
			stop()
			if row := load(t, st.Store, "s"); row.Status != cairn.SessionCompleted {
				if _, err := eng.Retry(t.Context(), "s"); err == nil {
					_ = wait(t, attach(t, eng, "s"))
				}
			}
		}
		if model.refused > 0 || model.unpaired > 0 {
			t.Errorf("%d requests were larger than the window, %d had uses without results", model.refused, model.unpaired)
		}
		row, all := load(t, st.Store, "s"), messages(t, st.Store, "s")
		summaries, ids := 0, map[string]bool{}
		for i := range all {
			if all[i].Summary != nil {
				summaries++
			}
			for _, use := range all[i].ToolUses() {
				if ids[use.CallID] {
					t.Fatalf("two calls have the id %s", use.CallID)
				}
				ids[use.CallID] = true
			}
		}
		if summaries < 20 || model.broken > summaries+kills || row.Summary.From == 0 || len(all)-row.Summary.From > 60 {
			t.Errorf("%d summaries, %d broken prefixes, %d kills; the last one is at %+v of %d", summaries, model.broken, kills, row.Summary, len(all))
		}
		if len(all) < 300*6 || !strings.Contains(all[0].Text(), "turn 0: remember") {
			t.Errorf("the transcript has %d messages and begins with %q", len(all), all[0].Text())
		}
		t.Logf("%d messages, %d calls of the model, %d summaries (%d made), %d broken prefixes, %d kills; the largest request has %d of %d tokens",
			len(all), model.calls, summaries, model.summed, model.broken, kills, model.largest, model.window)
		branchBefore(t, eng, model)
	})
}

// branchBefore branches from before all summaries, where a model reads the original messages.
func branchBefore(t *testing.T, eng *engine.Engine, model *narrow) {
	t.Helper()
	if _, err := eng.Branch(t.Context(), "s", "early", engine.AtMessage(6)); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, turn(t, eng, "early", "what was order 0?"), cairn.RunCompleted, cairn.ReasonReply)
	if got := strings.Join(model.last, ""); !strings.Contains(got, "turn 0: remember that order 0") || strings.Contains(got, "summary ") {
		t.Errorf("in the branch the model reads %s", got)
	}
}

// A process that takes a session over sends what the process with the session in memory would send.
func TestColdProcessSendsWhatAWarmOneWould(t *testing.T) {
	t.Parallel()
	requests := func(cold bool) (list []string) {
		model := &narrow{window: 1500, words: 20}
		agent, st := compacting(model), tapOn(nil)
		var off []string
		agent.Hooks = &cairn.Hooks{BeforeModel: func(_ context.Context, step *cairn.Step, req *cairn.Request) error {
			var texts []string
			for _, m := range req.Messages {
				texts = append(texts, m.Text())
			}
			list = append(list, strings.Join(texts, "|"))
			return nil
		}}
		eng := open(t, st, agent)
		for n := range 30 {
			if cold {
				eng = open(t, st, agent, named(fmt.Sprintf("p%d.", n)))
			}
			if n == 3 {
				if err := eng.SwitchTools(t.Context(), "s", map[string]bool{"note": false}); err != nil {
					t.Fatal(err)
				}
			}
			wantStatus(t, turn(t, eng, "s", fmt.Sprint("turn ", n)), cairn.RunCompleted, cairn.ReasonReply)
		}
		for _, m := range messages(t, st.Store, "s") {
			for _, r := range m.ToolResults() {
				off = append(off, string(r.Code))
			}
		}
		if len(off) < 60 || strings.Count(strings.Join(off, " "), string(cairn.ErrToolOff)) != len(off)-9 || model.summed == 0 {
			t.Errorf("the tool that is off was called %d times with the codes %q, %d summaries", len(off), off, model.summed)
		}
		return list
	}
	warm, cold := requests(false), requests(true)
	for i := range warm {
		if i >= len(cold) || warm[i] != cold[i] {
			t.Fatalf("request %d of the cold process is not that of the warm one:\n%s\n%s", i, cold[i], warm[i])
		}
	}
}

// A provider that refuses a request as too long is asked again with a summary, once.
func TestRequestThatIsTooLongIsSummarised(t *testing.T) {
	t.Parallel()
	model := &narrow{window: 1000, words: 20, silent: true}
	agent := bot(model.model(), echo("note"))
	eng := open(t, tapOn(nil), agent)
	for n := range 30 {
		wantStatus(t, turn(t, eng, "s", fmt.Sprint("turn ", n)), cairn.RunCompleted, cairn.ReasonReply)
	}
	if model.refused == 0 || model.summed < model.refused || model.unpaired > 0 {
		t.Errorf("%d requests were refused, %d summaries made, %d uses without results", model.refused, model.summed, model.unpaired)
	}
	agent.Compaction = &cairn.Compaction{Off: true}
	off := open(t, tapOn(nil), agent)
	for n := range 30 {
		if res := turn(t, off, "s", fmt.Sprint("turn ", n)); res.Status == cairn.RunFailed {
			wantError(t, res.Error, &cairn.Error{Code: cairn.ErrContextLength})
			return
		}
	}
	t.Error("without compaction no request is too long")
}

// A turn that is larger than the window fails and says so.
func TestTurnLargerThanTheWindow(t *testing.T) {
	t.Parallel()
	model := &narrow{window: 500, words: 10}
	eng := open(t, tapOn(nil), compacting(model))
	res := turn(t, eng, "s", strings.Repeat("long ", 2000))
	if res.Status != cairn.RunFailed || res.Error.Code != cairn.ErrContextLength || !strings.Contains(res.Error.Message, "the window") {
		t.Errorf("the run is %s: %v", res.Status, res.Error)
	}
}

// A turn of many steps is cut in the middle, at a step.
func TestLongTurnIsCutBetweenSteps(t *testing.T) {
	t.Parallel()
	for name, durability := range map[string]cairn.Durability{"per step": cairn.PerStep, "manual": cairn.Manual, "per tool": cairn.PerTool} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := &narrow{window: 1200}
			steps := 0
			agent := bot(scripted.Func(func(ctx context.Context, req *cairn.Request) scripted.Step {
				if step := model.play(ctx, req); req.System == cairn.SummaryInstructions {
					return step
				}
				if steps++; steps == 60 {
					return scripted.Text("done")
				}
				return scripted.Call("note", in{strings.Repeat("note ", 20)}).Usage(int64(sizeOf(req)), 20)
			}), echo("note"))
			agent.MaxSteps, agent.Durability, agent.Compaction = 100, durability, &cairn.Compaction{Window: model.window}
			st := tapOn(nil)
			eng := open(t, st, agent)
			res := turn(t, eng, "s", "go")
			wantStatus(t, res, cairn.RunCompleted, cairn.ReasonReply)
			if model.refused > 0 || model.unpaired > 0 || model.summed < 3 {
				t.Errorf("%d refused, %d unpaired, %d summaries", model.refused, model.unpaired, model.summed)
			}
			if want := int64(60 + model.summed); res.Usage.ModelCalls != want {
				t.Errorf("the run counts %d calls of the model, want %d", res.Usage.ModelCalls, want)
			}
			wantSound(t, st.Store, "s")
		})
	}
}

func TestCompactByHand(t *testing.T) {
	t.Parallel()
	model := &narrow{window: 1 << 20, words: 20}
	st := tapOn(nil)
	eng := open(t, st, bot(model.model(), echo("note")))
	for n := range 10 {
		turn(t, eng, "s", fmt.Sprint("turn ", n))
	}
	before := load(t, st.Store, "s")
	row, err := eng.Compact(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if row.Summary.At != before.MessageCount || row.Summary.From == 0 || row.Usage.ModelCalls != before.Usage.ModelCalls+1 {
		t.Errorf("the summary is at %+v of %d messages; usage %+v", row.Summary, before.MessageCount, row.Usage)
	}
	var seen *cairn.Event
	for _, ev := range history(t, st, "s") {
		if ev.Type == cairn.EventCompacted {
			seen = &ev
		}
	}
	if seen == nil || seen.Index != row.Summary.At || seen.MessageCount != row.Summary.From || !strings.Contains(seen.Text, "summary 1") {
		t.Errorf("the log says %+v", seen)
	} else if public := seen.Public(); public.Text != "" {
		t.Errorf("the public event has the text %q", public.Text)
	}
	turn(t, eng, "s", "and now?")
	if got := strings.Join(model.last, ""); strings.Contains(got, "turn 0") || !strings.Contains(got, "summary 1") || !strings.Contains(got, "turn 9") {
		t.Errorf("the model reads %s", got)
	}
	if _, err := eng.Compact(t.Context(), "nobody"); !errors.Is(err, cairn.ErrNotFound) {
		t.Errorf("no session: %v", err)
	}
	if _, err := eng.Compact(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if _, err := eng.Compact(t.Context(), "s"); !errors.Is(err, cairn.ErrInvalid) {
		t.Errorf("nothing has followed the summary: %v", err)
	}
}
