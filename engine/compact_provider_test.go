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
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/model/scripted"
)

// compactor is a model whose provider compacts histories.
type compactor struct {
	cairn.Model
	name string
	make func(n int) (cairn.Compacted, error)

	mu   sync.Mutex
	asks []*cairn.Request
}

func (c *compactor) Info() cairn.ModelInfo { return cairn.ModelInfo{Provider: "test", Name: c.name} }

func (c *compactor) Compact(_ context.Context, req *cairn.Request) (cairn.Compacted, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asks = append(c.asks, req)
	return c.make(len(c.asks))
}

func numbered(n int) (cairn.Compacted, error) {
	return cairn.Compacted{Provider: json.RawMessage(fmt.Sprintf(`[{"compacted":%d}]`, n)), Usage: cairn.Usage{InputTokens: 1000, OutputTokens: 7}}, nil
}

// summariesOf returns the first part of each summary of a transcript.
func summariesOf(list []cairn.Message) (parts []cairn.Part) {
	for i := range list {
		if list[i].Summary != nil {
			parts = append(parts, list[i].Parts[0])
		}
	}
	return parts
}

// The provider's form is stored next to the summary, goes into the next one, and is named by its model.
func TestCompactionByTheProvider(t *testing.T) {
	t.Parallel()
	model := &narrow{window: 1500, words: 20}
	c := &compactor{Model: model.model(), name: "large", make: numbered}
	agent := compacting(model)
	agent.Model, agent.Instructions, agent.Compaction.ByProvider = c, "Help.", true
	st := tapOn(nil)
	eng := open(t, st, agent)
	var used cairn.Usage
	for n := range 30 {
		res := turn(t, eng, "s", fmt.Sprint("turn ", n))
		wantStatus(t, res, cairn.RunCompleted, cairn.ReasonReply)
		used = used.Add(res.Usage)
	}
	parts := summariesOf(messages(t, st.Store, "s"))
	if len(parts) < 3 || len(parts) != len(c.asks) || model.unpaired > 0 || model.refused > 0 {
		t.Fatalf("%d summaries, %d compactions, %d unpaired, %d refused", len(parts), len(c.asks), model.unpaired, model.refused)
	}
	for i, p := range parts {
		if string(p.Provider) != fmt.Sprintf(`[{"compacted":%d}]`, i+1) || p.Model != "test:large" || !strings.Contains(p.Text, fmt.Sprint("summary ", i+1)) {
			t.Errorf("summary %d is %+v", i+1, p)
		}
		req := c.asks[i]
		if !transcript.Balanced(req.Messages) || req.System != "Help." || req.SessionID != "s" {
			t.Errorf("compaction %d is asked for with %d messages, balanced %t, of session %q", i+1, len(req.Messages), transcript.Balanced(req.Messages), req.SessionID)
		}
		if before := summariesOf(req.Messages); i > 0 && (len(before) != 1 || string(before[0].Provider) != string(parts[i-1].Provider)) {
			t.Errorf("compaction %d begins with %+v", i+1, before)
		}
	}
	if n := int64(len(parts)); used.ModelCalls != int64(model.calls)+2*n || used.OutputTokens != int64(model.calls)*20+n*(5+7) {
		t.Errorf("usage of %d calls and %d compactions is %+v", model.calls, n, used)
	}
	for _, ev := range history(t, st, "s") {
		if public, _ := json.Marshal(ev.Public()); strings.Contains(string(public), `"compacted":`) {
			t.Errorf("users may read %s", public)
		}
	}
	if row, err := eng.Compact(t.Context(), "s"); err != nil || row.Summary.At == 0 {
		t.Errorf("by hand: %v", err)
	}
	if parts := summariesOf(messages(t, st.Store, "s")); parts[len(parts)-1].Model != "test:large" {
		t.Errorf("the summary made by hand is %+v", parts[len(parts)-1])
	}
}

// If the provider fails, or answers with what cannot be stored, the summary stands alone.
func TestCompactionThatTheProviderFails(t *testing.T) {
	t.Parallel()
	given := func(raw string) func(int) (cairn.Compacted, error) {
		return func(int) (cairn.Compacted, error) {
			return cairn.Compacted{Provider: json.RawMessage(raw), Usage: cairn.Usage{InputTokens: -1}}, nil
		}
	}
	for name, c := range map[string]*compactor{
		"error":       {make: func(int) (cairn.Compacted, error) { return cairn.Compacted{}, errors.New("no") }},
		"unsupported": {make: func(int) (cairn.Compacted, error) { return cairn.Compacted{}, errors.ErrUnsupported }},
		"panic":       {make: func(int) (cairn.Compacted, error) { panic("no") }},
		"empty":       {make: given("")},
		"no JSON":     {make: given("[{")},
		"large":       {make: given(`["` + strings.Repeat("x", 4000) + `"]`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := &narrow{window: 1500, words: 20}
			c.Model = model.model()
			agent := compacting(model)
			agent.Model, agent.Compaction.ByProvider = c, true
			st := tapOn(nil)
			eng := open(t, st, agent)
			for n := range 10 {
				wantStatus(t, turn(t, eng, "s", fmt.Sprint("turn ", n)), cairn.RunCompleted, cairn.ReasonReply)
			}
			parts := summariesOf(messages(t, st.Store, "s"))
			if len(parts) == 0 || len(c.asks) < len(parts) {
				t.Fatalf("%d summaries, %d compactions", len(parts), len(c.asks))
			}
			for _, p := range parts {
				if p.Provider != nil || p.Model != "" || p.Text == "" {
					t.Errorf("the summary is %+v", p)
				}
			}
		})
	}
}

// Without ByProvider the provider is not asked.
func TestCompactionByTheProviderIsAskedFor(t *testing.T) {
	t.Parallel()
	model := &narrow{window: 1500, words: 20}
	c := &compactor{Model: model.model(), make: numbered}
	agent := compacting(model)
	agent.Model = c
	eng := open(t, tapOn(nil), agent)
	for n := range 10 {
		wantStatus(t, turn(t, eng, "s", fmt.Sprint("turn ", n)), cairn.RunCompleted, cairn.ReasonReply)
	}
	if model.summed == 0 || len(c.asks) > 0 {
		t.Errorf("%d summaries, %d compactions by the provider", model.summed, len(c.asks))
	}
}

// A process may die while a summary is made, while the provider compacts, while a model is asked or while a tool runs:
// the next one makes the summary, and no history is lost or sent with unpaired calls.
func TestProcessDiesWhileHistoryIsCompacted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := tapOn(nil)
		var dies string // where the process does next
		kills := map[string]int{}
		var mu sync.Mutex
		die := func(at string) {
			mu.Lock()
			defer mu.Unlock()
			if dies == at {
				dies = ""
				kills[at]++
				st.cut()
			}
		}
		model := &narrow{window: 1500, words: 20}
		c := &compactor{name: "large", make: func(n int) (cairn.Compacted, error) {
			die("compaction")
			return numbered(n)
		}}
		c.Model = scripted.Func(func(ctx context.Context, req *cairn.Request) scripted.Step {
			at := "model"
			if req.System == cairn.SummaryInstructions {
				at = "summary"
			}
			die(at)
			return model.play(ctx, req)
		})
		agent := bot(c, cairn.Func("note", "", func(_ context.Context, _ *cairn.Call, in in) (string, error) {
			die("tool")
			return in.Text, nil
		}))
		agent.Compaction = &cairn.Compaction{Window: model.window, ByProvider: true}
		eng := open(t, st, agent, shortLease, named("p0."))
		places := []string{"summary", "compaction", "model", "tool"}
		for n, processes := 0, 0; n < 60; n++ {
			if n%3 == 1 {
				mu.Lock()
				dies = places[n/3%len(places)]
				mu.Unlock()
			}
			run := start(t, eng, "s", fmt.Sprint("turn ", n))
			_, _ = run.Wait(t.Context())
			if load(t, st.Store, "s").Status == cairn.SessionCompleted {
				continue
			}
			processes++
			mu.Lock()
			st = tapOn(st.Store)
			mu.Unlock()
			eng = open(t, st, agent, shortLease, named(fmt.Sprintf("p%d.", processes)))
			stop := work(t, eng)
			for load(t, st.Store, "s").Status == cairn.SessionActive {
				testclock.Advance(ttl)
			}
			stop()
			if row := load(t, st.Store, "s"); row.Status != cairn.SessionCompleted {
				t.Fatalf("turn %d is %s after a process died", n, row.Status)
			}
		}
		list := messages(t, st.Store, "s")
		parts := summariesOf(list)
		if len(kills) != len(places) || model.unpaired > 0 || model.refused > 0 || len(parts) < 5 {
			t.Errorf("died at %v; %d unpaired, %d refused, %d summaries", kills, model.unpaired, model.refused, len(parts))
		}
		for _, p := range parts {
			if p.Model != "test:large" {
				t.Errorf("the summary is %+v", p)
			}
		}
		said := 0
		for i := range list {
			if list[i].Role == cairn.RoleUser && !list[i].Hidden && list[i].Text() == fmt.Sprint("turn ", said) {
				said++
			}
		}
		if said != 60 {
			t.Errorf("the transcript has %d of 60 turns", said)
		}
		wantSound(t, st.Store, "s")
	})
}
