package inbox_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/inbox"
)

// story is a call and the actions on it, one minute after another.
type story struct {
	t    *testing.T
	call cairn.PendingCall
	now  time.Time
}

func (s *story) next() time.Time {
	s.now = s.now.Add(time.Minute)
	return s.now
}

func (s *story) submit(given cairn.Submission, id string, want cairn.Outcome) {
	s.t.Helper()
	var outcome cairn.Outcome
	s.call, outcome, _ = inbox.Decide(s.call, &given, id, s.next())
	if outcome != want {
		s.t.Fatalf("submission %q of %q: %s, want %s", id, given.Reviewer, outcome, want)
	}
}

func (s *story) claim(reviewer string) {
	s.t.Helper()
	now := s.next()
	var err error
	if s.call, err = inbox.Claim(s.call, reviewer, 10*time.Minute, now); err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) release(reviewer string) {
	s.t.Helper()
	now := s.next()
	var err error
	if s.call, err = inbox.Release(s.call, reviewer, now); err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) check(want ...cairn.Decision) {
	s.t.Helper()
	for i := range want {
		want[i].Step = "step_1"
	}
	if !reflect.DeepEqual(s.call.Trail, want) {
		got, _ := json.MarshalIndent(s.call.Trail, "", "  ")
		s.t.Errorf("trail %s\nwant %+v", got, want)
	}
}

func minute(n time.Duration) time.Time { return noon.Add(n * time.Minute) }

// TestTrail plays stories of calls. The trail has every decision, and nothing else.
func TestTrail(t *testing.T) {
	t.Parallel()
	ref := approvalCall().CallRef

	s := &story{t, approvalCall(assigned(cairn.AnyReviewer, "ann", "bob")), noon}
	s.claim("ann")
	s.submit(cairn.Approve(ref).By("bob"), "1", cairn.OutcomeInvalid)
	s.release("ann")
	s.claim("bob")
	s.submit(cairn.Deny(ref, "too much").By("bob"), "2", cairn.OutcomeAccepted)
	s.submit(cairn.Deny(ref, "too much").By("bob"), "2", cairn.OutcomeAccepted)
	s.submit(cairn.Approve(ref).By("ann"), "3", cairn.OutcomeAlreadyCompleted)
	s.call = inbox.Settle(s.call)
	s.check(
		cairn.Decision{Kind: cairn.DecisionClaimed, Reviewer: "ann", At: minute(1)},
		cairn.Decision{Kind: cairn.DecisionReleased, Reviewer: "ann", At: minute(3)},
		cairn.Decision{Kind: cairn.DecisionClaimed, Reviewer: "bob", At: minute(4)},
		cairn.Decision{ID: "2", Kind: cairn.DecisionDenied, Reviewer: "bob", At: minute(5), Notes: "too much"},
	)

	s = &story{t, approvalCall(assigned(cairn.MostReviewers, "ann", "bob", "cat"), due(minute(3))), noon}
	s.submit(cairn.Approve(ref).By("ann"), "1", cairn.OutcomeAccepted)
	s.submit(cairn.Deny(ref, "").By("bob"), "2", cairn.OutcomeAccepted)
	s.submit(cairn.Approve(ref).By("cat"), "3", cairn.OutcomeLate)
	s.submit(cairn.Approve(ref).By("cat"), "3", cairn.OutcomeLate)
	s.submit(cairn.Approve(ref).By("bob"), "4", cairn.OutcomeAlreadyCompleted)
	s.call = inbox.Drop(s.call, "rewound", s.next())
	s.check(
		cairn.Decision{ID: "1", Kind: cairn.DecisionApproved, Reviewer: "ann", At: minute(1)},
		cairn.Decision{ID: "2", Kind: cairn.DecisionDenied, Reviewer: "bob", At: minute(2)},
		cairn.Decision{Kind: cairn.DecisionTimeout, At: minute(3)},
		cairn.Decision{ID: "3", Kind: cairn.DecisionLate, Reviewer: "cat", At: minute(3), Notes: string(cairn.DecisionApproved)},
		cairn.Decision{Kind: cairn.DecisionDropped, At: minute(6), Notes: "rewound"},
	)
}

// TestTrailsShareNothing changes one row in two ways, like two writers that read the same version. Neither change may
// show in the other, or in the original row.
func TestTrailsShareNothing(t *testing.T) {
	t.Parallel()
	trail := append(make([]cairn.Decision, 0, 8), cairn.Decision{Kind: cairn.DecisionReleased, Reviewer: "ann"})
	ways := map[string]func(cairn.PendingCall) cairn.PendingCall{
		"answer": func(c cairn.PendingCall) cairn.PendingCall {
			given := cairn.Approve(c.CallRef).By("bob")
			c, _, _ = inbox.Decide(c, &given, "mine", noon)
			return c
		},
		"late answer": func(c cairn.PendingCall) cairn.PendingCall {
			given := cairn.Deny(c.CallRef, "no").By("cat")
			c, _, _ = inbox.Decide(c, &given, "other", noon.Add(time.Hour))
			return c
		},
		"claim": func(c cairn.PendingCall) cairn.PendingCall {
			c, _ = inbox.Claim(c, "dan", time.Minute, noon)
			return c
		},
		"release": func(c cairn.PendingCall) cairn.PendingCall {
			c.ClaimedBy, c.ClaimedUntil = "eve", noon.Add(1)
			c, _ = inbox.Release(c, "eve", noon)
			return c
		},
		"expiry": func(c cairn.PendingCall) cairn.PendingCall { return inbox.Expire(c, noon) },
		"drop":   func(c cairn.PendingCall) cairn.PendingCall { return inbox.Drop(c, "why", noon) },
	}
	for one, first := range ways {
		for two, second := range ways {
			given := approvalCall(due(noon.Add(time.Hour)))
			given.Trail = trail
			before := clone(t, given)
			a := first(given)
			asOfA := clone(t, a)
			b := second(given)
			b.Trail[0].Reviewer, b.Trail[len(b.Trail)-1].Reviewer = "mallory", "mallory"
			if len(a.Trail) < 2 || len(b.Trail) < 2 {
				t.Fatalf("%s, %s: trails of %d and %d entries", one, two, len(a.Trail), len(b.Trail))
			}
			if !reflect.DeepEqual(a, asOfA) {
				t.Errorf("%s, then %s: the first row's trail is now %+v", one, two, a.Trail)
			}
			if !reflect.DeepEqual(given, before) || !reflect.ValueOf(trail[:2][1]).IsZero() {
				t.Errorf("%s, then %s: the given row's trail is now %+v", one, two, trail[:2])
			}
		}
	}
}

// FuzzDecide checks the outcome of any submission against the contract of Decide.
func FuzzDecide(f *testing.F) {
	for i, given := range []cairn.Submission{
		cairn.Answer(clientCall().CallRef, point{1, 2}), cairn.AnswerError(clientCall().CallRef, "no"), cairn.Approve(approvalCall().CallRef).By("ann"),
		cairn.Deny(approvalCall().CallRef, "no").By("bob"), cairn.Approve(approvalCall().CallRef).WithInput(map[string]int{"amount": 1}),
	} {
		raw, err := json.Marshal(given)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, "mine", uint8(i))
		f.Add(raw, "earlier", uint8(7)) // the submission that was late
	}
	calls := []cairn.PendingCall{
		clientCall(), clientCall(ofAnyKind), approvalCall(), approvalCall(assigned(cairn.AllReviewers, "ann", "bob")), approvalCall(claimedBy("ann", noon.Add(1))),
		approvalCall(due(noon)), clientCall(expired), clientCall(expired, saidLate), approvalCall(dropped), approvalCall(after(cairn.CallAnswered, cairn.DecisionDenied)),
	}
	f.Fuzz(func(t *testing.T, text []byte, id string, which uint8) {
		var given cairn.Submission
		if json.Unmarshal(text, &given) != nil || given.Validate() != nil {
			return
		}
		call := calls[int(which)%len(calls)]
		got, outcome, err := inbox.Decide(call, &given, id, noon)
		if (err != nil) != (outcome == cairn.OutcomeInvalid) {
			t.Fatalf("%s with error %v", outcome, err)
		}
		repeated := slices.ContainsFunc(call.Trail, func(d cairn.Decision) bool { return id != "" && d.ID == id })
		stored := outcome == cairn.OutcomeAccepted || outcome == cairn.OutcomeLate
		if (stored && !repeated) == reflect.DeepEqual(got, call) {
			t.Fatalf("%s, and the call became %+v", outcome, got)
		}
		if len(got.Trail) < len(call.Trail) || !slices.EqualFunc(got.Trail[:len(call.Trail)], call.Trail, same) {
			t.Fatalf("the trail %+v became %+v", call.Trail, got.Trail)
		}
		if (got.Status == cairn.CallAnswered) != (got.Answer != nil) {
			t.Fatalf("%s with answer %+v", got.Status, got.Answer)
		}
		if outcome == cairn.OutcomeAccepted && got.Status == cairn.CallAnswered && got.Answer.Kind != cairn.DecisionApproved {
			if result := inbox.Result(&got); !json.Valid(result.Output) {
				t.Fatalf("the model is told %s", result.Output)
			}
		}
	})
}

func same(a, b cairn.Decision) bool { return reflect.DeepEqual(a, b) }
