package redisstore

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/model/scripted"
)

// occupied returns the memory that a server uses, and how much of it each kind of key takes.
func occupied(t *testing.T, s *Store) (all int64, kinds map[string]int64) {
	t.Helper()
	text, err := s.client.Info(t.Context(), "memory").Result()
	if err == nil {
		all, err = strconv.ParseInt(facts(text)["used_memory"], 10, 64)
	}
	if err != nil {
		t.Fatal(err)
	}
	kinds = map[string]int64{}
	for keys := s.client.Scan(t.Context(), 0, s.opts.Prefix+":{*", 1000).Iterator(); keys.Next(t.Context()); {
		size, err := s.client.MemoryUsage(t.Context(), keys.Val(), 0).Result()
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(keys.Val(), "}:")
		kind, _, _ := strings.Cut(name, ":")
		kinds[kind] += size
	}
	return all, kinds
}

// TestStorageOfAConversation makes turns of one session, each of two steps with a tool between them, and holds what
// they take to what is said in them. It has a server of its own, whose memory nothing else uses.
func TestStorageOfAConversation(t *testing.T) {
	t.Parallel()
	s := openAt(t, testenv.RedisServer(t, "--appendonly", "no").URL(), nil)
	const question, result, answer = 100, 1000, 250
	turns := testenv.Choose(500, 2500)
	said := func(n int) string { return strings.Repeat("All that there is to say. ", n/26+1)[:n] }
	type input struct{}
	agent := &cairn.Agent{Name: "bot", Tools: []cairn.Tool{cairn.Func("look_up", "Look it up.",
		func(context.Context, *cairn.Call, input) (string, error) { return said(result), nil })},
		Model: scripted.Func(func(_ context.Context, r *cairn.Request) scripted.Step {
			if r.Messages[len(r.Messages)-1].Role == cairn.RoleTool {
				return scripted.Text(said(answer))
			}
			return scripted.Call("look_up", input{})
		})}
	eng, err := engine.New(s, []*cairn.Agent{agent}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close(context.Background()) })
	turn := func() {
		run, err := eng.Execute(t.Context(), "session", "bot", cairn.Text(said(question)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	turn()
	before, _ := occupied(t, s)
	for range turns {
		turn()
	}
	after, kinds := occupied(t, s)
	conversation := float64(turns * (question + result + answer))
	for name, size := range kinds {
		if share := float64(size) / conversation; share > 0.01 {
			t.Logf("%.2f bytes of %s per byte of conversation", share, name)
		}
	}
	all, log := float64(after-before)/conversation, float64(kinds["e"]+kinds["l"])/conversation
	t.Logf("%.2f bytes in all", all)
	if all > 4.3 || all-log > 2.55 {
		t.Errorf("%.2f bytes are stored per byte of conversation, %.2f of them outside the event log", all, all-log)
	}
}
