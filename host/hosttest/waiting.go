package hosttest

import (
	"context"
	"errors"
	"sync"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/model/scripted"
)

// turnsWhileWaiting are scenarios of turns that arrive while the session waits for people, or has their answers.
var turnsWhileWaiting = []scenario{
	{"waiting-open-refuse", func(s *scene) { s.waitingOpen(engine.WaitingRefuse) }},
	{"waiting-open-withdraw", func(s *scene) { s.waitingOpen(engine.WaitingWithdraw) }},
	{"waiting-open-enqueue", func(s *scene) { s.waitingOpen(engine.WaitingEnqueue) }},
	{"waiting-answered-refuse", func(s *scene) { s.waitingAnswered(engine.WaitingRefuse) }},
	{"waiting-answered-withdraw", func(s *scene) { s.waitingAnswered(engine.WaitingWithdraw) }},
	{"waiting-answered-enqueue", func(s *scene) { s.waitingAnswered(engine.WaitingEnqueue) }},
	{"waiting-partly-refuse", func(s *scene) { s.waitingPartly(engine.WaitingRefuse) }},
	{"waiting-partly-withdraw", func(s *scene) { s.waitingPartly(engine.WaitingWithdraw) }},
	{"waiting-partly-enqueue", func(s *scene) { s.waitingPartly(engine.WaitingEnqueue) }},
	{"waiting-question-withdraw", (*scene).waitingQuestion},
	{"waiting-child-refuse", func(s *scene) { s.waitingChild(engine.WaitingRefuse) }},
	{"waiting-child-withdraw", func(s *scene) { s.waitingChild(engine.WaitingWithdraw) }},
	{"waiting-child-answered", (*scene).waitingChildAnswered},
	{"waiting-overdue", (*scene).waitingOverdue},
	{"waiting-answered-crash", (*scene).waitingAnsweredCrash},
	{"waiting-hooks", (*scene).waitingHooks},
	{"queue", (*scene).queue},
}

// withdraw makes a turn cancel the session's pending calls.
var withdraw = engine.WithOnWaiting(engine.WaitingWithdraw)

// next executes a turn on a session with pending calls in its tree. If the turn is refused, next checks that the
// error names the calls, and returns nil.
func (p *process) next(way engine.OnWaiting) *engine.Run {
	s := p.s
	s.Helper()
	run, err := p.Execute(s.Context(), "s", "bot", cairn.Text("and now?"), engine.WithOnWaiting(way))
	if way != engine.WaitingRefuse {
		s.must(err)
		return run
	}
	s.want("a turn on a session that waits", err, cairn.ErrWaiting)
	open := s.openCalls("s")
	var e *cairn.Error
	if errors.As(err, &e); len(e.Calls) != len(open) {
		s.Errorf("the error names %d calls, %d are open", len(e.Calls), len(open))
	}
	for i := range e.Calls {
		if e.Calls[i].ID != open[i].ID || e.Calls[i].ApprovalID != open[i].ApprovalID || e.Calls[i].RootID != "s" {
			s.Errorf("the error names %+v, %+v is open", e.Calls[i], open[i].CallRef)
		}
	}
	return nil
}

// The turn arrives while no call is answered.
func (s *scene) waitingOpen(way engine.OnWaiting) {
	s.agents = []*cairn.Agent{bot(plays(asks("c1", "refund", "42"), scripted.Text("Paid."), scripted.Text("Now this.")), s.refund())}
	one, two := s.process(), s.process()
	one.turn("s", "refund it")
	call := s.open("s", "refund")
	run := two.next(way)
	if way == engine.WaitingWithdraw {
		s.outcome(run)
		one.refused("an answer to a cancelled call", "s", cairn.Approve(call), cairn.OutcomeInvalid, cairn.ErrInvalid)
		return
	}
	s.say("%d turns are queued, the session is %s", s.row("s").Queued, s.row("s").Status)
	one.submit("s", cairn.Approve(call), cairn.OutcomeAccepted)
	one.resume("s")
	if run != nil {
		s.outcome(run)
		s.own(run)
		s.awaitHooks("s", 3)
	}
}

// All calls are answered, but no process has resumed the session. The next turn resumes it and follows, whatever
// its OnWaiting.
func (s *scene) waitingAnswered(way engine.OnWaiting) {
	s.agents = []*cairn.Agent{bot(plays(asks("c1", "refund", "42"), scripted.Text("Paid."), scripted.Text("Now this.")), s.refund())}
	one, two := s.process(), s.process()
	one.turn("s", "refund it")
	one.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	run := two.start("s", "and now?", engine.WithOnWaiting(way))
	s.outcome(run)
	s.own(run)
	s.awaitHooks("s", 3)
}

// Some calls are answered. A turn that cancels the others keeps these answers.
func (s *scene) waitingPartly(way engine.OnWaiting) {
	s.cast()
	one, two := s.process(), s.process()
	open := s.half(one)
	run := two.next(way)
	if way == engine.WaitingWithdraw {
		s.outcome(run)
		one.refused("an answer to a cancelled call", "s", cairn.Answer(open, place{"Rome"}), cairn.OutcomeInvalid, cairn.ErrInvalid)
		s.awaitHooks("s", 3)
		return
	}
	one.submit("s", cairn.Answer(open, place{"Rome"}), cairn.OutcomeAccepted)
	one.resume("s")
	if run != nil {
		s.outcome(run)
		s.awaitHooks("s", 3)
	}
}

// A call whose tool has asked a question that is then cancelled is closed as stopped: what it did before is not
// undone.
func (s *scene) waitingQuestion() {
	ask := s.tool("ask", func(ctx context.Context, call *cairn.Call, _ words) (string, error) {
		var size string
		if err := call.Ask(ctx, "Which size?", nil, &size); err != nil {
			return "", err
		}
		return size, nil
	})
	s.agents = []*cairn.Agent{bot(plays(scripted.Reply(asks("c1", "refund", "42"), asks("c2", "ask", "x")), scripted.Text("Paid."), scripted.Text("Now this.")), s.refund(), ask)}
	one, two := s.process(), s.process()
	one.turn("s", "go")
	question := s.open("s", "ask")
	one.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	s.outcome(two.next(engine.WaitingWithdraw))
	one.refused("an answer to a cancelled call", "s", cairn.Answer(question, "L"), cairn.OutcomeInvalid, cairn.ErrInvalid)
	s.awaitHooks("s", 3)
}

// The pending calls are a sub-agent's.
func (s *scene) waitingChild(way engine.OnWaiting) {
	s.family(s.refund(), locate())
	s.agents[0].Model = plays(delegates("c1", "helper"), scripted.Text("She did."), scripted.Text("Now this."))
	one, two := s.process(), s.process()
	one.turn("s", "refund it")
	call := s.open("s", "refund")
	if run := two.next(way); run != nil {
		s.outcome(run)
		one.refused("an answer to a cancelled call", "s", cairn.Approve(call), cairn.OutcomeInvalid, cairn.ErrInvalid)
		return
	}
	one.submit("s", cairn.Approve(call), cairn.OutcomeAccepted)
	one.resume("s")
}

// A sub-agent's call is answered: the next turn resumes the session and follows.
func (s *scene) waitingChildAnswered() {
	s.family(s.refund())
	s.agents[0].Model = plays(delegates("c1", "helper"), scripted.Text("She did."), scripted.Text("Now this."))
	one, two := s.process(), s.process()
	one.turn("s", "refund it")
	one.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	s.outcome(two.start("s", "and now?", withdraw))
	s.awaitHooks("s", 3)
}

// A call whose deadline has passed no longer holds up the next turn.
func (s *scene) waitingOverdue() {
	s.agents = []*cairn.Agent{bot(plays(asks("c1", "refund", "42"), scripted.Text("Nobody answers."), scripted.Text("Now this.")), s.refund(cairn.WaitAtMost(s.soon)))}
	one, two := s.process(), s.process()
	one.turn("s", "refund it")
	s.later()
	var run *engine.Run
	testclock.Await(s.T, "the deadline to pass", func() bool {
		var err error
		run, err = two.Execute(s.Context(), "s", "bot", cairn.Text("and now?"))
		return err == nil
	})
	s.outcome(run)
	s.awaitHooks("s", 3)
}

// The process dies once it has queued the turn: a worker resumes the session, and the turn follows.
func (s *scene) waitingAnsweredCrash() {
	s.agents = []*cairn.Agent{bot(plays(asks("c1", "refund", "42"), scripted.Text("Paid."), scripted.Text("Now this.")), s.refund())}
	one, two := s.process(), s.process(s.mortal())
	one.turn("s", "refund it")
	one.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	two.dieAfter(func(o operation) bool { return o.commit != nil && o.commit.Enqueue != nil })
	if _, err := two.Execute(s.Context(), "s", "bot", cairn.Text("and now?")); err == nil {
		s.say("the dead process heard that its turn was queued")
	}
	one.work()
	s.awaitEnd("s", 3)
}

// Hooks are not stored: a turn that would have to be queued cannot have them.
func (s *scene) waitingHooks() {
	s.agents = []*cairn.Agent{bot(plays(asks("c1", "refund", "42"), scripted.Text("Paid.")), s.refund())}
	p := s.process()
	p.turn("s", "refund it")
	p.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	_, err := p.Execute(s.Context(), "s", "bot", cairn.Text("and now?"), engine.WithHooks(&cairn.Hooks{}))
	s.want("a turn with hooks", err, cairn.ErrInvalid)
	s.say("%d turns are queued, the session is %s", s.row("s").Queued, s.row("s").Status)
	p.resume("s")
}

// Queued turns can be listed, and removed from the queue.
func (s *scene) queue() {
	free := s.occupied(s.note())
	one, two := s.process(), s.process()
	run := s.occupy(one)
	first, second := two.enqueue("two"), two.enqueue("three")
	steers := two.steer("four")
	turns, err := one.Queue(s.Context(), "s")
	s.must(err)
	for i, want := range []*engine.Run{steers, first, second} {
		if i >= len(turns) || turns[i].ID != want.ID() || turns[i].At.IsZero() {
			s.Fatalf("the queue is %+v, want %s at %d", turns, want.ID(), i)
		}
		s.say("queued: %s, steers: %t", turns[i].Messages[0].Text(), turns[i].Steer)
	}
	for _, gone := range []*engine.Run{first, steers} {
		s.must(one.Dequeue(s.Context(), "s", gone.ID()))
		_, err = gone.Wait(s.Context())
		if !errors.Is(err, cairn.ErrAborted) {
			s.Errorf("a turn that was taken out of the queue: %v", err)
		}
		if err := one.Dequeue(s.Context(), "s", gone.ID()); !errors.Is(err, cairn.ErrNotFound) {
			s.Errorf("a turn that is not queued: %v", err)
		}
	}
	if err := one.Dequeue(s.Context(), "s", run.ID()); !errors.Is(err, cairn.ErrNotFound) {
		s.Errorf("a turn that is under way: %v", err)
	}
	free()
	s.outcome(run)
	s.outcome(second)
	s.awaitHooks("s", 2)
}

// turnsThatSteer are scenarios of messages that join the turn under way.
var turnsThatSteer = []scenario{
	{"steer", (*scene).steerMidStep},
	{"steer-deferred", (*scene).steerDeferred},
	{"steer-end", (*scene).steerEnd},
	{"steer-waiting", (*scene).steerWaiting},
	{"steer-crash", func(s *scene) { s.steerCrash((*process).dieBefore) }},
	{"steer-crash-joined", func(s *scene) { s.steerCrash((*process).dieAfter) }},
}

// steer sends a message to the turn under way.
func (p *process) steer(text string) *engine.Run {
	p.s.Helper()
	return p.start("s", text, engine.WithOnBusy(engine.BusySteer))
}

// busied sets an agent whose tool "hold" runs until free is called. Its last reply lists the messages it has
// received.
func (s *scene) busied(tools ...cairn.Tool) (free func()) {
	gate := make(chan struct{})
	hold := s.tool("hold", func(ctx context.Context, _ *cairn.Call, in words) (string, error) {
		select {
		case <-gate:
			return "held " + in.Text, nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
	s.agents = []*cairn.Agent{bot(scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if err := wellFormed(req.Messages); err != nil {
			return scripted.Fail(cairn.Errorf(cairn.ErrModelRequest, "malformed request: %w", err))
		}
		if replies(req) == 0 {
			step := []scripted.Step{asks("c1", "hold", "x")}
			for _, t := range tools {
				step = append(step, asks("c2", t.Name(), "42"))
			}
			return scripted.Reply(step...)
		}
		heard := "I heard"
		for i := range req.Messages {
			if req.Messages[i].Role == cairn.RoleUser {
				heard += " " + req.Messages[i].Text()
			}
		}
		return scripted.Text(heard + ".")
	}), append(tools, hold)...)}
	return sync.OnceFunc(func() { close(gate) })
}

// joins checks that messages sent to a run have joined it.
func (s *scene) joins(run *engine.Run, sent ...*engine.Run) {
	s.Helper()
	for _, r := range sent {
		if res := s.outcome(r); res.RunID != run.ID() {
			s.Errorf("the message of %s was carried by run %s, want %s", r.ID(), res.RunID, run.ID())
		}
		last := cairn.Event{}
		for ev, err := range r.Events(s.Context()) {
			s.must(err)
			last = ev
		}
		if !last.Ends(run.ID()) {
			s.Errorf("the events end with %s of %s", last.Type, last.RunID)
		}
	}
}

// The model reads the messages at its next step, whichever process sent them.
func (s *scene) steerMidStep() {
	free := s.busied()
	one, two := s.process(), s.process()
	run := one.start("s", "one")
	s.atWork("hold")
	sent := []*engine.Run{two.steer("two"), one.steer("three")}
	s.say("%d turns are queued", s.row("s").Queued)
	free()
	s.outcome(run)
	s.joins(run, sent...)
	s.say("%d turns are queued", s.row("s").Queued)
	s.awaitHooks("s", 1)
}

// A step whose commit would be deferred is committed with the message.
func (s *scene) steerDeferred() {
	free := s.busied()
	s.agents[0].Durability = cairn.Manual
	one, two := s.process(), s.process()
	run := one.start("s", "one")
	s.atWork("hold")
	sent := two.steer("two")
	free()
	s.outcome(run)
	s.joins(run, sent)
	s.awaitHooks("s", 1)
}

// If the turn ends first, the message becomes the next turn, ahead of turns that were queued before.
func (s *scene) steerEnd() {
	free := s.occupied(s.note())
	one, two := s.process(), s.process()
	run := s.occupy(one)
	later := two.enqueue("later")
	sent := two.steer("two")
	free()
	s.outcome(run)
	s.joins(sent, sent)
	s.outcome(later)
	s.awaitHooks("s", 3)
}

// A suspended run is not over: the message joins the run that resumes it.
func (s *scene) steerWaiting() {
	free := s.busied(s.refund())
	one, two := s.process(), s.process()
	run := one.start("s", "one")
	s.atWork("hold")
	sent := two.steer("two")
	free()
	s.outcome(run)
	s.say("%d turns are queued, the session is %s", s.row("s").Queued, s.row("s").Status)
	two.submit("s", cairn.Approve(s.open("s", "refund")), cairn.OutcomeAccepted)
	resumed, err := one.Resume(s.Context(), "s")
	s.must(err)
	s.outcome(resumed)
	s.joins(resumed, sent)
	s.awaitHooks("s", 2)
}

// The process dies before or after the commit with which the message joins: the message is neither lost nor
// duplicated.
func (s *scene) steerCrash(die func(*process, func(operation) bool)) {
	free := s.busied()
	one, two := s.process(s.mortal()), s.process()
	run := one.start("s", "one")
	s.atWork("hold")
	sent := two.steer("two")
	die(one, step("s", 1))
	free()
	s.awaitDeath(run)
	two.work()
	s.outcome(sent)
	s.awaitHooks("s", 1)
}
