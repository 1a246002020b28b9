package hosttest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
)

// memories are scenarios of an agent with a memory.
var memories = []scenario{
	{"memory", (*scene).memory},
	{"memory-waiting", (*scene).memoryWaiting},
	{"memory-crash", (*scene).memoryCrash},
	{"memory-crash-ended", (*scene).memoryCrashEnded},
	{"memory-retried", (*scene).memoryRetried},
}

// notebook is a memory that all processes of a scene share.
type notebook struct {
	s *scene

	mu      sync.Mutex
	read    map[int]int       // retrievals by turn
	learned []string          // ended turns, each as often as it was different
	kept    map[string]string // what the model kept, by the keys of its calls
}

// remembered gives the scene's agent a memory, and its processes the store's records.
func (s *scene) remembered(steps []scripted.Step, tools ...cairn.Tool) *notebook {
	n := &notebook{s: s, read: map[int]int{}, kept: map[string]string{}}
	s.agents = []*cairn.Agent{bot(plays(steps...), tools...)}
	s.agents[0].Memory = n
	s.recorded = true
	return n
}

func (n *notebook) Name() string { return "notebook" }

func (n *notebook) Offer(_ context.Context, step *cairn.Step, before json.RawMessage) (*cairn.Offer, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.read[step.Turn]++
	return &cairn.Offer{Pinned: json.RawMessage(fmt.Sprint(step.Turn)), Note: fmt.Sprintf("Page %d follows page %s.", step.Turn, before)}, nil
}

func (n *notebook) Tools(pinned json.RawMessage) ([]cairn.Tool, error) {
	return []cairn.Tool{n.s.tool("keep", func(_ context.Context, call *cairn.Call, in words) (string, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.kept[call.IdempotencyKey()] = in.Text
		return fmt.Sprintf("kept %s on page %s", in.Text, pinned), nil
	})}, nil
}

func (n *notebook) Learn(_ context.Context, turn *cairn.EndedTurn) error {
	var texts []string
	for i := range turn.Messages {
		if m := &turn.Messages[i]; m.Text() != "" && !m.Hidden {
			texts = append(texts, m.Text())
		}
	}
	line := fmt.Sprintf("%s, %s from %d: %s", turn.ID, turn.Run.Status, turn.First, strings.Join(texts, " | "))
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.Contains(n.learned, line) {
		n.learned = append(n.learned, line)
	}
	return nil
}

// awaitLearned waits until the memory has learned from a number of ended turns, a turn that was retried counted twice.
func (n *notebook) awaitLearned(turns int) {
	n.s.Helper()
	testclock.Await(n.s.T, "the memory to learn", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return len(n.learned) >= turns
	})
}

// show adds what the memory has to the golden text. It must have been read once in each turn.
func (n *notebook) show(turns int) {
	n.s.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, line := range n.learned {
		n.s.say("learned from %s", line)
	}
	for turn, times := range n.read {
		if times != 1 || len(n.read) != turns {
			n.s.Errorf("the memory was read %d times in turn %d, and in %d turns", times, turn, len(n.read))
		}
	}
	n.s.say("kept %q", slices.Sorted(maps.Values(n.kept)))
}

// A memory is read once per turn, and learns from each turn that has ended. What its tool got is in the next turn's.
func (s *scene) memory() {
	n := s.remembered([]scripted.Step{asks("c1", "keep", "tea"), scripted.Text("Kept."), asks("c2", "keep", "cake"), scripted.Text("As well.")})
	one, two := s.process(), s.process()
	one.turn("s", "tea please")
	n.awaitLearned(1)
	two.turn("s", "and cake")
	n.awaitLearned(2)
	n.show(2)
}

// A turn that waits is no ended turn. Another process resumes it with the memory's tools as they were, and the memory
// learns once from both runs.
func (s *scene) memoryWaiting() {
	n := s.remembered([]scripted.Step{scripted.Reply(scripted.Text("One moment."), asks("c1", "refund", "42"), asks("c2", "keep", "n")),
		asks("c3", "keep", "more"), scripted.Text("Done.")}, s.refund())
	one, two := s.process(), s.process()
	one.turn("s", "refund it")
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	two.resume("s")
	n.awaitLearned(1)
	n.show(1)
}

// A process that takes over a turn neither reads the memory again nor keeps twice what the dead process kept.
func (s *scene) memoryCrash() {
	n := s.remembered([]scripted.Step{asks("c1", "keep", "tea"), asks("c2", "keep", "cake"), scripted.Text("Kept.")})
	s.agents[0].Durability = cairn.PerTool
	one := s.process(s.mortal())
	one.dieBefore(step("s", 1))
	s.awaitDeath(one.start("s", "tea please"))
	s.process().work()
	s.awaitEnd("s", 1)
	n.awaitLearned(1)
	n.show(1)
}

// If the process dies with the commit that ends the turn, a worker has the memory learn from the turn.
func (s *scene) memoryCrashEnded() {
	n := s.remembered([]scripted.Step{asks("c1", "keep", "tea"), scripted.Text("Kept.")})
	one := s.process(s.mortal())
	one.dieAfter(func(o operation) bool { return o.ends("s") })
	s.awaitDeath(one.start("s", "tea please"))
	s.process().work()
	if s.place.OwnClock {
		s.must(testclock.Pause(s.Context(), 2*cairn.LearnTimeout)) // the dead process may take as long to learn
	}
	for range 3 {
		s.later()
	}
	n.awaitLearned(1)
	n.show(1)
}

// The memory learns from a failed turn, and from the same turn again if it is retried.
func (s *scene) memoryRetried() {
	n := s.remembered([]scripted.Step{scripted.Text("Kept."), scripted.Fail(cairn.Errorf(cairn.ErrAuth, "who is there?"))})
	one, two := s.process(), s.process()
	one.turn("s", "tea please")
	n.awaitLearned(1)
	one.turn("s", "and cake")
	n.awaitLearned(2)
	s.agents[0].Model = plays(scripted.Text("Kept."), scripted.Text("As well."))
	two.retry("s")
	n.awaitLearned(3)
	n.show(2)
}
