package hosttest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/scripted"
)

// questions are scenarios of tools that ask people, and of approvals with a prompt.
var questions = []scenario{
	{"ask", (*scene).ask},
	{"ask-twice", (*scene).askTwice},
	{"ask-parallel", (*scene).askParallel},
	{"ask-child", (*scene).askChild},
	{"ask-staged", (*scene).askStaged},
	{"ask-approved", (*scene).askApproved},
	{"ask-deadline", (*scene).askDeadline},
	{"ask-declined", (*scene).askDeclined},
	{"ask-votes", (*scene).askVotes},
	{"ask-late", (*scene).askLate},
	{"ask-bad", (*scene).askBad},
	{"ask-refused", (*scene).askRefused},
	{"ask-stopped", (*scene).askStopped},
	{"ask-replaced", (*scene).askReplaced},
	{"crash-asking", (*scene).crashAsking},
	{"crash-asked", (*scene).crashAsked},
	{"crash-asked-answered", (*scene).crashAskedAnswered},
	{"crash-asked-resuming", (*scene).crashAskedResuming},
	{"crash-asked-again", (*scene).crashAskedAgain},
	{"crash-asked-done", (*scene).crashAskedDone},
	{"crash-asked-child", (*scene).crashAskedChild},
	{"approval-prompt", (*scene).approvalPrompt},
	{"approval-as-it-is", (*scene).approvalAsItIs},
}

// amount is the answer to the questions of the tool pay.
type amount struct {
	Cents int `json:"cents" schema:"min=1"`
}

// pay is a tool that asks for one amount per character of its text. What it does before each question would count
// twice if an execution that ended with a question counted. For letters it also emits events; for digits it does
// not, because events have no fixed position among those of parallel calls.
func (s *scene) pay(opts ...cairn.ToolOption) cairn.Tool {
	return s.tool("pay", func(ctx context.Context, call *cairn.Call, in words) (string, error) {
		sum := 0
		for i, letter := range in.Text {
			if letter >= 'a' {
				s.must(call.Emit("asking", i))
			}
			s.must(cmp.Or(call.Append([]string{"asked"}, string(letter)), call.AddContext("asks "+string(letter))))
			call.RecordUsage("questions", 1)
			var a amount
			if err := call.Ask(ctx, "How much for "+string(letter)+"?", map[string]int{"so far": sum}, &a, opts...); err != nil {
				return "", fmt.Errorf("asking: %w", err)
			}
			sum += a.Cents
		}
		return fmt.Sprintf("paid %d for %s", sum, in.Text), nil
	})
}

func (s *scene) onePay(text string, opts ...cairn.ToolOption) {
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(scripted.Text("Let me see. "), asks("c1", "pay", text)),
		scripted.Text("That is that."), scripted.Text("You are welcome.")), s.pay(opts...))}
}

// The function runs from its start again with the answer. What the first execution did counts once.
func (s *scene) ask() {
	s.onePay("a")
	p := s.process()
	res := p.turn("s", "pay it")
	call := s.open("s", "pay")
	if got := res.Suspended.Calls[0]; got.ID != call.ID || got.Kind != cairn.CallQuestion || got.Prompt != "How much for a?" ||
		string(got.Payload) != `{"so far":0}` || string(got.Input) != `{"text":"a"}` {
		s.Errorf("the run is suspended for %+v", got)
	}
	p.submit("s", cairn.Answer(res.Suspended.Calls[0], amount{7}).By("ann"), cairn.OutcomeAccepted)
	p.resume("s")
	p.turn("s", "thanks")
}

// Each answer is kept while the next one is pending, in whichever process.
func (s *scene) askTwice() {
	s.onePay("abc")
	s.process().turn("s", "pay it")
	for n := range 3 {
		s.process().submit("s", cairn.Answer(s.open("s", "pay"), amount{n + 1}), cairn.OutcomeAccepted)
		s.process().resume("s")
	}
}

// Tools of one step ask concurrently. The step resumes when all of its questions are answered.
func (s *scene) askParallel() {
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "pay", "1"), asks("c2", "note", "n"), asks("c3", "pay", "23")),
		scripted.Text("All paid.")), s.pay(), s.note())}
	p := s.process()
	calls := p.turn("s", "pay all").Suspended.Calls
	p.submit("s", cairn.Answer(calls[1], amount{1}), cairn.OutcomeAccepted)
	_, err := p.Resume(s.Context(), "s")
	s.want("resume with a question open", err, cairn.ErrNotResumable)
	p.submit("s", cairn.Answer(calls[0], amount{10}), cairn.OutcomeAccepted)
	p.resume("s")
	p.submit("s", cairn.Answer(s.open("s", "pay"), amount{100}), cairn.OutcomeAccepted)
	p.resume("s")
}

// A question of a sub-agent's tool is answered through the root.
func (s *scene) askChild() {
	s.family(s.pay())
	one, two := s.process(), s.process()
	call := one.turn("s", "pay it").Suspended.Calls[0]
	if call.Prompt != "How much for 4?" {
		s.Errorf("the root is suspended for %+v", call)
	}
	two.submit("s", cairn.Answer(call, amount{1}), cairn.OutcomeAccepted)
	two.resume("s")
	one.submit("s", cairn.Answer(s.open("s", "pay"), amount{2}), cairn.OutcomeAccepted)
	one.resume("s")
}

// With PerTool, the results of the other tools are staged, and the question is asked as usual.
func (s *scene) askStaged() {
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "note", "n"), asks("c2", "pay", "1")), scripted.Text("Paid.")), s.pay(), s.note())}
	s.agents[0].Durability = cairn.PerTool
	one, two := s.process(), s.process()
	one.turn("s", "pay it")
	two.submit("s", cairn.Answer(s.open("s", "pay"), amount{7}), cairn.OutcomeAccepted)
	two.resume("s")
}

// A tool that needs approval asks after the approval, with the approved arguments.
func (s *scene) askApproved() {
	approved := s.tool("pay", func(ctx context.Context, call *cairn.Call, in words) (string, error) {
		var a amount
		if err := call.Ask(ctx, "How much for "+in.Text+"?", nil, &a); err != nil {
			return "", err
		}
		return fmt.Sprintf("paid %d for %s", a.Cents, in.Text), nil
	}, cairn.RequireApproval(), cairn.AssignTo(cairn.AnyReviewer, "ann", "bob"))
	s.agents = []*cairn.Agent{bot(plays(asks("c1", "pay", "a"), scripted.Text("Paid.")), approved)}
	p := s.process()
	p.turn("s", "pay it")
	p.submit("s", cairn.Approve(s.open("s", "pay")).WithInput(words{"b"}).By("ann"), cairn.OutcomeAccepted)
	p.resume("s")
	p.refused("a stranger's answer", "s", cairn.Answer(s.open("s", "pay"), amount{7}).By("mallory"), cairn.OutcomeInvalid, cairn.ErrInvalid)
	p.submit("s", cairn.Answer(s.open("s", "pay"), amount{7}).By("bob"), cairn.OutcomeAccepted)
	p.resume("s")
}

// After the deadline Ask returns a timeout, which the tool may handle.
func (s *scene) askDeadline() {
	pay := s.tool("pay", func(ctx context.Context, call *cairn.Call, in words) (string, error) {
		var a amount
		err := call.Ask(ctx, "How much?", nil, &a, cairn.WaitAtMost(s.soon))
		if errors.Is(err, &cairn.Error{Code: cairn.ErrTimeout}) && in.Text == "b" {
			return "paid nothing", nil
		}
		return "never said", err
	})
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "pay", "a"), asks("c2", "pay", "b")), scripted.Text("Nobody there?")), pay)}
	s.process().turn("s", "pay it")
	s.later()
	s.process().work()
	s.awaitEnd("s", 2)
}

// A question that is answered with an error makes Ask return that error.
func (s *scene) askDeclined() {
	s.onePay("a")
	p := s.process()
	p.turn("s", "pay it")
	p.submit("s", cairn.AnswerError(s.open("s", "pay"), "ask my boss").By("ann"), cairn.OutcomeAccepted)
	p.resume("s")
}

// Several reviewers must give the same answer. Otherwise the question ends without one.
func (s *scene) askVotes() {
	s.onePay("ab", cairn.AssignTo(cairn.MostReviewers, "ann", "bob", "cat"))
	p := s.process()
	p.turn("s", "pay it")
	first := s.open("s", "pay")
	p.submit("s", cairn.Answer(first, amount{7}).By("ann"), cairn.OutcomeAccepted)
	p.submit("s", cairn.Answer(first, amount{8}).By("ann"), cairn.OutcomeAlreadyCompleted)
	p.submit("s", cairn.Answer(first, amount{8}).By("bob"), cairn.OutcomeAccepted)
	p.submit("s", cairn.Answer(first, amount{7}).By("cat"), cairn.OutcomeAccepted)
	p.resume("s")
	second := s.open("s", "pay")
	p.submit("s", cairn.Answer(second, amount{1}).By("ann"), cairn.OutcomeAccepted)
	p.submit("s", cairn.Answer(second, amount{2}).By("bob"), cairn.OutcomeAccepted)
	p.submit("s", cairn.AnswerError(second, "I do not know").By("cat"), cairn.OutcomeAccepted)
	p.resume("s")
}

// A late answer to a question is recorded, and shown to the model once.
func (s *scene) askLate() {
	s.onePay("a", cairn.WaitAtMost(s.soon))
	p := s.process()
	p.turn("s", "pay it")
	call := s.open("s", "pay")
	s.pass(call)
	p.submit("s", cairn.Answer(call, amount{7}), cairn.OutcomeLate)
	p.submit("s", cairn.Answer(call, amount{8}), cairn.OutcomeAlreadyCompleted)
	p.resume("s")
}

// A question accepts an answer of its type only, and no submission for another kind of call.
func (s *scene) askBad() {
	s.onePay("ab")
	p := s.process()
	p.turn("s", "pay it")
	call := s.open("s", "pay")
	other := call
	other.Kind = cairn.CallClientTool
	for what, bad := range map[string]cairn.Submission{
		"a client's result":       cairn.Answer(other, amount{7}),
		"an approval":             cairn.Approve(cairn.CallRef{ID: call.ID, ApprovalID: "approval"}),
		"an answer too small":     cairn.Answer(call, amount{0}),
		"an answer of words":      cairn.Answer(call, "seven"),
		"neither value nor error": {Type: cairn.SubmitAnswer, CallID: call.ID},
		"a value and an error":    {Type: cairn.SubmitAnswer, CallID: call.ID, Value: []byte(`{}`), Error: "e"},
		"a value and a result":    {Type: cairn.SubmitAnswer, CallID: call.ID, Value: []byte(`{}`), Result: []byte(`{}`)},
		"the tool call's id":      {Type: cairn.SubmitAnswer, CallID: call.ToolCallID, Value: []byte(`{"cents":7}`)},
	} {
		r, err := p.Submit(s.Context(), "s", bad)
		if !errors.Is(err, cairn.ErrInvalid) && !errors.Is(err, cairn.ErrNotFound) || r.Outcome == cairn.OutcomeAccepted {
			s.Errorf("%s: %s, %v", what, r.Outcome, err)
		}
	}
	p.submit("s", cairn.Answer(call, amount{7}), cairn.OutcomeAccepted)
	p.resume("s")
	// This answers the first question, not the second.
	p.submit("s", cairn.Answer(call, amount{8}), cairn.OutcomeAlreadyCompleted)
	p.submit("s", cairn.Answer(s.open("s", "pay"), amount{9}), cairn.OutcomeAccepted)
	p.resume("s")
}

// A tool that swallows or replaces the error of Ask fails, and so do a tool that ends the turn and one with invalid
// questions.
func (s *scene) askRefused() {
	asking := func(name string, fn func(ctx context.Context, call *cairn.Call, err error) error, opts ...cairn.ToolOption) cairn.Tool {
		return s.tool(name, func(ctx context.Context, call *cairn.Call, _ words) (string, error) {
			var a amount
			return "never said", fn(ctx, call, call.Ask(ctx, "How much?", nil, &a))
		}, opts...)
	}
	swallow := asking("swallow", func(context.Context, *cairn.Call, error) error { return nil })
	replace := asking("replace", func(_ context.Context, _ *cairn.Call, err error) error {
		return errors.New("failed: " + strings.ToUpper("no"))
	})
	end := asking("end", func(_ context.Context, _ *cairn.Call, err error) error { return err }, cairn.FinishWith())
	odd := s.tool("odd", func(ctx context.Context, call *cairn.Call, _ words) (string, error) {
		var a amount
		for what, err := range map[string]error{
			"no pointer":  call.Ask(ctx, "How much?", nil, a),
			"no answer":   call.Ask(ctx, "How much?", nil, nil),
			"no prompt":   call.Ask(ctx, "", nil, &a),
			"a payload":   call.Ask(ctx, "How much?", func() {}, &a),
			"an option":   call.Ask(ctx, "How much?", nil, &a, cairn.FinishWith()),
			"an approval": call.Ask(ctx, "How much?", nil, &a, cairn.RequireApproval()),
			"a quorum":    call.Ask(ctx, "How much?", nil, &a, cairn.AssignTo("two", "ann")),
			"a time":      call.Ask(ctx, "How much?", nil, &a, cairn.WaitAtMost(-1)),
			"a type":      call.Ask(ctx, "How much?", nil, new(chan int)),
		} {
			if !errors.Is(err, cairn.ErrInvalid) {
				s.Errorf("%s: %v", what, err)
			}
		}
		return "odd", nil
	})
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "swallow", "a"), asks("c2", "replace", "b"), asks("c4", "odd", "d")), asks("c3", "end", "c"),
		scripted.Text("None of them.")), swallow, replace, end, odd)}
	s.process().turn("s", "ask me")
}

// A stop closes an open question, which then accepts no answer.
func (s *scene) askStopped() {
	s.onePay("ab")
	one, two := s.process(), s.process()
	one.turn("s", "pay it")
	one.submit("s", cairn.Answer(s.open("s", "pay"), amount{1}), cairn.OutcomeAccepted)
	one.resume("s")
	call := s.open("s", "pay")
	s.must(two.Interrupt(s.Context(), "s", "never mind"))
	two.refused("an answer to a cancelled question", "s", cairn.Answer(call, amount{2}), cairn.OutcomeInvalid, cairn.ErrInvalid)
	one.turn("s", "and now?")
}

// A tool that now asks something else does not get the answer to the old question.
func (s *scene) askReplaced() {
	s.onePay("a")
	s.process().turn("s", "pay it")
	s.agents = []*cairn.Agent{bot(s.agents[0].Model, s.tool("pay", func(ctx context.Context, call *cairn.Call, _ words) (string, error) {
		var who place
		return "never said", call.Ask(ctx, "Where?", nil, &who)
	}))}
	next := s.process()
	next.submit("s", cairn.Answer(s.open("s", "pay"), amount{7}), cairn.OutcomeAccepted)
	next.resume("s")
}

// The process dies before the suspension is committed: the execution is repeated, and the question is asked once.
func (s *scene) crashAsking() {
	s.onePay("a")
	one := s.process(s.mortal())
	one.dieBefore(func(o operation) bool { return o.ends("s") })
	s.awaitDeath(one.start("s", "pay it"))
	two := s.process()
	two.work()
	s.awaitEnd("s", 1)
	two.submit("s", cairn.Answer(s.open("s", "pay"), amount{7}), cairn.OutcomeAccepted)
	s.awaitEnd("s", 2)
}

// The process dies after the suspension is committed, before it is published.
func (s *scene) crashAsked() {
	s.onePay("a")
	one := s.process(s.mortal())
	one.dieAfter(func(o operation) bool { return o.ends("s") })
	s.awaitDeath(one.start("s", "pay it"))
	two := s.process()
	two.submit("s", cairn.Answer(s.open("s", "pay"), amount{7}), cairn.OutcomeAccepted)
	two.resume("s")
}

// The process that accepted the answer dies.
func (s *scene) crashAskedAnswered() {
	s.onePay("a")
	one, two := s.process(s.mortal()), s.process(s.mortal())
	one.turn("s", "pay it")
	one.die()
	two.submit("s", cairn.Answer(s.open("s", "pay"), amount{7}), cairn.OutcomeAccepted)
	two.die()
	s.process().work()
	s.awaitEnd("s", 2)
}

// The process that resumes dies once its resume is committed.
func (s *scene) crashAskedResuming() {
	s.onePay("a")
	s.process().turn("s", "pay it")
	two := s.process(s.mortal())
	two.submit("s", cairn.Answer(s.open("s", "pay"), amount{7}), cairn.OutcomeAccepted)
	two.dieAfter(func(o operation) bool { return o.commit != nil && o.commit.StartRun != nil })
	if _, err := two.Resume(s.Context(), "s"); err == nil {
		s.Fatal("a dead process resumed")
	}
	s.later()
	s.process().work()
	s.awaitEnd("s", 2)
}

// The process dies in the second execution, before the next question is committed.
func (s *scene) crashAskedAgain() {
	s.onePay("ab")
	s.process().turn("s", "pay it")
	two := s.process(s.mortal())
	two.submit("s", cairn.Answer(s.open("s", "pay"), amount{1}), cairn.OutcomeAccepted)
	two.dieBefore(func(o operation) bool { return o.ends("s") })
	run, err := two.Resume(s.Context(), "s")
	s.must(err)
	s.awaitDeath(run)
	three := s.process()
	three.work()
	s.awaitEnd("s", 2)
	three.submit("s", cairn.Answer(s.open("s", "pay"), amount{2}), cairn.OutcomeAccepted)
	s.awaitEnd("s", 3)
}

// The process dies once the function has returned, before the step is committed.
func (s *scene) crashAskedDone() {
	s.onePay("a")
	s.process().turn("s", "pay it")
	two := s.process(s.mortal())
	two.submit("s", cairn.Answer(s.open("s", "pay"), amount{7}), cairn.OutcomeAccepted)
	two.dieBefore(step("s", 1))
	run, err := two.Resume(s.Context(), "s")
	s.must(err)
	s.awaitDeath(run)
	s.process().work()
	s.awaitEnd("s", 2)
}

// The process dies once a sub-agent's question is committed, before its parent is suspended.
func (s *scene) crashAskedChild() {
	s.family(s.pay())
	one := s.process(s.mortal())
	one.dieAfter(s.stepOf("helper", 1))
	s.awaitDeath(one.start("s", "pay it"))
	two := s.process()
	two.work()
	s.awaitEnd("s", 1)
	two.submit("s", cairn.Answer(s.open("s", "pay"), amount{1}), cairn.OutcomeAccepted)
	s.awaitEnd("s", 2)
	two.submit("s", cairn.Answer(s.open("s", "pay"), amount{2}), cairn.OutcomeAccepted)
	s.awaitEnd("s", 3)
}

// The condition of an approval returns a prompt.
func (s *scene) approvalPrompt() {
	pay := s.tool("pay", func(_ context.Context, _ *cairn.Call, in words) (string, error) { return "paid " + in.Text, nil },
		cairn.RequireApprovalIf(func(_ context.Context, _ *cairn.Call, in words) (*cairn.Prompt, error) {
			switch in.Text {
			case "small":
				return nil, nil
			case "unreadable":
				return &cairn.Prompt{Text: "Why?", Payload: func() {}}, nil
			}
			return &cairn.Prompt{Text: "Pay " + in.Text + "?", Payload: words{"more than usual"}}, nil
		}))
	s.agents = []*cairn.Agent{bot(plays(
		scripted.Reply(asks("c1", "pay", "small"), asks("c2", "pay", "large"), asks("c3", "pay", "unreadable")),
		scripted.Text("All paid.")), pay)}
	p := s.process()
	calls := p.turn("s", "pay all").Suspended.Calls
	if calls[0].Prompt != "Pay large?" || string(calls[0].Payload) != `{"text":"more than usual"}` {
		s.Errorf("the run is suspended for %+v", calls[0])
	}
	for _, call := range calls {
		p.submit("s", cairn.Approve(call), cairn.OutcomeAccepted)
	}
	p.resume("s")
}

// With NoEdits, a call can only be approved unchanged.
func (s *scene) approvalAsItIs() {
	pay := s.tool("pay", func(_ context.Context, _ *cairn.Call, in words) (string, error) { return "paid " + in.Text, nil },
		cairn.RequireApproval(cairn.NoEdits()))
	s.agents = []*cairn.Agent{bot(plays(asks("c1", "pay", "99"), scripted.Text("Paid.")), pay)}
	p := s.process()
	call := p.turn("s", "pay it").Suspended.Calls[0]
	p.refused("other arguments", "s", cairn.Approve(call).WithInput(words{"1"}), cairn.OutcomeInvalid, cairn.ErrInvalid)
	p.submit("s", cairn.Approve(call), cairn.OutcomeAccepted)
	p.resume("s")
}
