package hosttest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/driver"
)

// sweeps are scenarios with accidents at every operation. They expect only what does not depend on the operation.
var sweeps = []scenario{
	{"crash-anywhere", func(s *scene) { s.crashAnywhere(cairn.PerStep) }},
	{"crash-anywhere-per-tool", func(s *scene) { s.crashAnywhere(cairn.PerTool) }},
	{"race-of-verbs", (*scene).raceOfVerbs},
}

// household sets a bot that asks for an approval and consults a helper who asks a client.
func (s *scene) household(d cairn.Durability) {
	helper := agent("helper", plays(
		scripted.Reply(scripted.Text("Where? "), asks("c1", "locate", "here"), asks("c2", "note", "n")), scripted.Text("Found.")),
		locate(), s.note())
	helper.Durability = d
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(scripted.Text("One moment. "), delegates("c1", "helper"), asks("c2", "refund", "42"), asks("c3", "note", "m")),
		scripted.Text("All done."), scripted.Text("Bye.")), cairn.SubAgent(helper), s.refund(), s.note())}
	s.agents[0].Durability = d
}

// crashAnywhere kills a process at each of its operations in turn, or at Host.Crashes of them, before and after the
// operation. Another process completes the conversation.
func (s *scene) crashAnywhere(d cairn.Durability) {
	s.household(d)
	s.roots = nil
	all := 0
	if s.host.Crashes > 0 {
		all = s.operations("s-undisturbed")
	}
	for _, before := range []bool{true, false} {
		crash := func(i, n int) (fired bool) { return s.crashAt(fmt.Sprintf("s-%t-%d-%d", before, i, n), n, before) }
		for i := range s.host.Crashes {
			// The number of operations depends on the machine's speed, too. The first operation always exists.
			for n := 1 + (2*i+1)*all/(2*s.host.Crashes); !crash(i, n); n /= 2 {
			}
		}
		for n := 1; s.host.Crashes == 0 && crash(0, n); n++ {
		}
	}
	s.sum("The conversation came to its end wherever a process died.")
}

// operations returns the number of operations of a process in an undisturbed conversation.
func (s *scene) operations(root string) int {
	s.Helper()
	p := s.process(coalesced)
	var count atomic.Int64
	p.tap.watch(func(operation) error { count.Add(1); return nil }, nil)
	s.must(p.converse(root))
	p.leave()
	return int(count.Load())
}

// sum replaces the golden text and the tool counts, which depend on where the accidents happened.
func (s *scene) sum(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ran, s.said = map[string]int{}, []string{text}
}

// crashAt kills a process at its n-th operation, and reports whether it reached that operation.
func (s *scene) crashAt(root string, n int, before bool) (fired bool) {
	s.Helper()
	one := s.process(s.mortal(), coalesced)
	var count atomic.Int64
	hit := func(o operation) {
		if count.Add(1) == int64(n) {
			one.die()
		}
	}
	if before {
		one.tap.watch(func(o operation) error { hit(o); return nil }, nil)
	} else {
		one.tap.watch(nil, hit)
	}
	err := one.converse(root)
	fired = !one.alive()
	if err != nil && !fired {
		s.Fatalf("the conversation %s failed though nobody died: %v", root, err)
	}
	one.leave()
	s.later()
	two := s.process(coalesced)
	testclock.Await(s.T, "the conversation to go on", func() bool {
		err := two.converse(root)
		if err != nil && !errors.Is(err, cairn.ErrAlreadyRunning) {
			s.Fatalf("%s: %v", root, err)
		}
		return err == nil
	})
	s.outcome(two.start(root, "bye"))
	two.leave()
	s.came(root)
	return fired
}

func coalesced(o *engine.Options) { o.Coalesce = 0 }

// came checks what a household's conversation has left behind.
func (s *scene) came(root string) {
	s.Helper()
	t, err := readTree(context.Background(), s.st, s.log, root)
	s.must(err)
	for _, problem := range t.unsound() {
		s.Errorf("%s: %s", root, problem)
	}
	if len(t.sessions) != 2 {
		s.Fatalf("%s: %d sessions, want two", root, len(t.sessions))
	}
	for i, want := range []string{`{"notes":["m"],"refunds":["42"]}`, `{"notes":["n"]}`} {
		if got := string(t.sessions[i].state); got != want {
			s.Errorf("%s: state %s, want %s", t.sessions[i].row.ID, got, want)
		}
	}
	for i := range t.calls {
		if c := &t.calls[i]; c.Status != cairn.CallSettled || len(c.Trail) != 1 {
			s.Errorf("%s: call %s is %s after %d decisions", root, c.Tool, c.Status, len(c.Trail))
		}
	}
	if s.Failed() {
		s.Fatalf("%s left behind:\n%s", root, named(t.describe(s.diary)))
	}
}

// converse completes a household's conversation from its current state, and answers its calls.
func (p *process) converse(root string) error {
	ctx := p.s.Context()
	for {
		row, err := p.Session(ctx, root)
		var run *engine.Run
		switch {
		case errors.Is(err, cairn.ErrNotFound):
			run, err = p.Execute(ctx, root, "bot", cairn.Text("go"))
		case err != nil:
		case row.Status == cairn.SessionPaused:
			if err = p.answerAll(ctx, root); err == nil {
				run, err = p.Resume(ctx, root)
			}
		case row.Status == cairn.SessionActive:
			run, err = p.Resume(ctx, root)
		case row.Status == cairn.SessionCompleted:
			return nil
		default:
			err = fmt.Errorf("the session is %s", row.Status)
		}
		if err != nil {
			return err
		}
		if _, err := run.Wait(ctx); err != nil {
			return err
		}
	}
}

// answerAll answers every open call of a tree.
func (p *process) answerAll(ctx context.Context, root string) error {
	page, err := p.Inbox(ctx, driver.CallQuery{RootID: root})
	if err != nil {
		return err
	}
	for _, c := range page.Items {
		answer := cairn.Approve(c.CallRef)
		if c.Kind == cairn.CallClientTool {
			answer = cairn.Answer(c.CallRef, place{"Oslo"})
		}
		if _, err := p.Submit(ctx, root, answer); err != nil {
			return err
		}
	}
	return nil
}

// raceOfVerbs makes several processes answer, resume, stop and execute on the same sessions concurrently.
func (s *scene) raceOfVerbs() {
	s.household(cairn.PerStep)
	s.roots = nil
	crowd := []*process{s.process(), s.process(), s.process()}
	rounds := 24
	if !s.place.Bubble {
		rounds = 6
	}
	for n := range rounds {
		s.raceFor(fmt.Sprint("s", n), crowd, n)
	}
	s.sum("Nothing was left waiting.")
}

func (s *scene) raceFor(root string, crowd []*process, n int) {
	s.Helper()
	ctx := s.Context()
	crowd[0].turn(root, "go")
	verbs := []func(p *process) (*engine.Run, error){
		func(p *process) (*engine.Run, error) { return nil, p.answerAll(ctx, root) },
		func(p *process) (*engine.Run, error) { return p.Resume(ctx, root) },
		func(p *process) (*engine.Run, error) { return p.Resume(ctx, root) },
		func(p *process) (*engine.Run, error) {
			if n%2 == 0 {
				return nil, p.Interrupt(ctx, root, "enough")
			}
			return p.Execute(ctx, root, "bot", cairn.Text("never mind"), withdraw)
		},
	}
	if n%3 == 0 { // otherwise another verb may come before the answer
		s.must(crowd[1].answerAll(ctx, root))
	}
	var all sync.WaitGroup
	for i, verb := range verbs {
		all.Go(func() {
			run, err := verb(crowd[(i+n)%len(crowd)])
			if run != nil {
				_, err = run.Wait(ctx)
			}
			if err != nil && !expected(err) {
				s.Errorf("%s, verb %d: %v", root, i, err)
			}
		})
	}
	all.Wait()
	if err := crowd[2].Interrupt(ctx, root, "that is all"); err != nil && !errors.Is(err, cairn.ErrNotRunning) {
		s.Fatal(err)
	}
	t, err := readTree(context.Background(), s.st, s.log, root)
	s.must(err)
	for _, problem := range t.unsound() {
		s.Errorf("%s: %s", root, problem)
	}
	for i := range t.calls {
		if c := &t.calls[i]; c.Status != cairn.CallSettled && c.Status != cairn.CallDropped {
			s.Errorf("%s: call %s is still %s", root, c.Tool, c.Status)
		}
	}
	if s.Failed() {
		s.Fatalf("%s left behind:\n%s", root, named(t.describe(s.diary)))
	}
}

// expected reports whether err means that another process was faster.
func expected(err error) bool {
	for _, target := range []error{cairn.ErrAlreadyRunning, cairn.ErrNotResumable, cairn.ErrNotRunning, cairn.ErrInvalid} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
