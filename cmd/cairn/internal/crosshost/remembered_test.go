package crosshost_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/host/hosttest"
	"github.com/cairn-agents/cairn/memory"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
)

// rememberer is an agent with a user's memory, and what its models were asked. It saves what a user says and asks for
// a refund in one session, and searches in the next one.
type rememberer struct {
	memory *memory.Memory
	agent  *cairn.Agent

	mu        sync.Mutex
	requests  []string // texts of the last requests
	extracted int      // calls of the model that extracts
}

func remembers(t *testing.T, st driver.Store) *rememberer {
	t.Helper()
	r := &rememberer{}
	extractor := scripted.Func(func(context.Context, *cairn.Request) scripted.Step {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.extracted++
		return scripted.Text(`{"facts":[{"text":"Clara has moved to Lisbon.","entity":"Clara","attribute":"home","by":"user"}]}`).Usage(100, 10)
	})
	m, err := memory.New(st, &memory.Options{Agent: memory.AgentOptions{Extract: &memory.Extract{Model: extractor}, Trusted: []string{"refund"}}})
	if err != nil {
		t.Fatal(err)
	}
	r.memory = m
	r.agent = &cairn.Agent{Name: "bot", Tools: []cairn.Tool{refund()}, Memory: m, Model: scripted.Func(r.reply)}
	return r
}

func (r *rememberer) reply(_ context.Context, req *cairn.Request) scripted.Step {
	var texts []string
	given, results := false, 0
	for i := range req.Messages {
		m := &req.Messages[i]
		texts = append(texts, m.Text())
		given = given || !m.Hidden && strings.HasPrefix(m.Text(), "Clara")
		results += len(m.ToolResults())
	}
	r.mu.Lock()
	r.requests = append(r.requests, strings.Join(texts, "\n"))
	r.mu.Unlock()
	switch {
	case given && results == 0:
		return scripted.Call(memory.SaveTool, map[string]string{"text": "Clara is allergic to nuts.", "entity": "Clara", "attribute": "allergy"}).ID("c1")
	case given && results == 1:
		return asks("c2", "refund", "42")
	case !given && results == 0:
		return scripted.Call(memory.SearchTool, map[string]string{"query": "Clara allergic"}).ID("c1")
	case !given:
		last := req.Messages[len(req.Messages)-1]
		return scripted.Text("It says " + string(last.ToolResults()[0].Output))
	}
	return scripted.Text("Noted.")
}

// The texts, saved facts and extracted facts of one session of a user are given to the next session once, on whichever
// hosts the sessions begin and end.
func TestMemoryHopsHosts(t *testing.T) {
	t.Parallel()
	all, place := hosts(t), files(t)
	want := remember(t, place, slices.Repeat(all[:1], 3))
	for i := range all {
		way := []hosttest.Host{all[i], all[(i+1)%len(all)], all[(i+2)%len(all)]}
		back := []hosttest.Host{all[i], all[i], all[(i+1)%len(all)]}
		for _, way := range [][]hosttest.Host{way, back} {
			t.Run(way[0].Name+"-"+way[1].Name+"-"+way[2].Name, func(t *testing.T) {
				t.Parallel()
				if got := remember(t, place, way); !slices.Equal(got, want) {
					t.Errorf("remembered:\n%s\nin one process:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			})
		}
	}
}

// remember has a session that begins on the first host and ends on the second one, and another one on the third. It
// returns the user's memory.
func remember(t *testing.T, place hosttest.Store, way []hosttest.Host) (list []string) {
	t.Helper()
	st := place.Open(t, nil)
	process := func(n int, verb func(*engine.Engine) (*engine.Run, error), status cairn.RunStatus) *rememberer {
		handle := place.Another(t, st)
		r := remembers(t, handle)
		eng := way[n].Start(t, handle, []*cairn.Agent{r.agent}, &engine.Options{Coalesce: -1})
		run, err := verb(eng)
		if res := outcome(t, run, err); res.Status != status {
			t.Fatalf("part %d, on %s, came to %+v", n+1, way[n].Name, res)
		}
		if err := eng.Close(t.Context()); err != nil { // it waits for the memory
			t.Fatal(err)
		}
		return r
	}
	user := engine.WithUser("ann")
	first := process(0, func(eng *engine.Engine) (*engine.Run, error) {
		return eng.Execute(t.Context(), "s", "bot", cairn.Text("Clara lives in Lisbon now."), user)
	}, cairn.RunSuspended)
	if first.extracted > 0 || len(entries(t, first.memory)) != 1 {
		t.Errorf("of a turn that waits, the memory has\n%s", strings.Join(entries(t, first.memory), "\n"))
	}
	answer(t, place.Another(t, st))
	second := process(1, func(eng *engine.Engine) (*engine.Run, error) { return eng.Resume(t.Context(), "s") }, cairn.RunCompleted)
	if second.extracted != 1 {
		t.Errorf("facts were extracted %d times", second.extracted)
	}
	third := process(2, func(eng *engine.Engine) (*engine.Run, error) {
		return eng.Execute(t.Context(), "next", "bot", cairn.Text("Where does Clara live, and to what is she allergic?"), user)
	}, cairn.RunCompleted)
	for _, text := range []string{"Clara is allergic to nuts.", "Clara lives in Lisbon now."} {
		if strings.Count(third.requests[0], text) != 1 {
			t.Errorf("the request of the next session does not have %q once:\n%s", text, third.requests[0])
		}
	}
	list = entries(t, third.memory)
	if n := strings.Count(strings.Join(list, "\n"), "fact of s at 0: Clara has moved to Lisbon."); n != 1 {
		t.Errorf("the extracted fact is there %d times", n)
	}
	return list
}

// entries are the entries of ann's memory.
func entries(t *testing.T, m *memory.Memory) (list []string) {
	t.Helper()
	for e, err := range m.All(t.Context(), memory.User("ann"), memory.ListQuery{OldestFirst: true}) {
		if err != nil {
			t.Fatal(err)
		}
		text := e.Text
		if found, ok := strings.CutPrefix(text, "It says "); ok { // ids and dates differ
			var hits []struct{ Text string }
			if err := json.Unmarshal([]byte(found), &hits); err != nil {
				t.Fatal(err)
			}
			text = fmt.Sprint("It says ", hits)
		}
		list = append(list, fmt.Sprintf("%s %s %s of %s at %d: %s", e.State, e.Source.Kind, e.Kind, e.Source.Session, e.Source.Position, text))
	}
	return list
}
