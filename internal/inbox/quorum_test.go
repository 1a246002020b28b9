package inbox_test

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/inbox"
)

// TestQuorum lets up to five reviewers vote in every order and in every way, and compares each step with an oracle.
func TestQuorum(t *testing.T) {
	t.Parallel()
	everyone := []string{"ann", "bob", "cat", "dan", "eve"}
	for _, quorum := range []cairn.Quorum{cairn.AnyReviewer, cairn.AllReviewers, cairn.MostReviewers} {
		for n := range len(everyone) {
			reviewers := everyone[:n+1]
			for order := range permutations(reviewers) {
				for votes := range 1 << len(order) {
					checkVotes(t, quorum, reviewers, order, votes)
				}
			}
		}
	}
}

// checkVotes makes reviewers vote in the given order. A reviewer whose bit in votes is set approves.
func checkVotes(t *testing.T, quorum cairn.Quorum, reviewers, order []string, votes int) {
	t.Helper()
	name := fmt.Sprintf("quorum %q of %d, votes %0*b by %s", quorum, len(reviewers), len(order), votes, strings.Join(order, ","))
	c := approvalCall(assigned(quorum, reviewers...))
	var cast []bool
	for i, reviewer := range order {
		approved := votes>>i&1 == 1
		if c.Status == cairn.CallOpen && i > 0 {
			// A reviewer who has voted cannot vote again, not even to agree.
			checkNoMore(t, name, c, vote(order[0], approved))
		}
		if c.Status != cairn.CallOpen {
			checkNoMore(t, name, c, vote(reviewer, approved))
			continue
		}
		given := vote(reviewer, approved)
		next, outcome, err := inbox.Decide(c, &given, fmt.Sprint("vote-", i), noon)
		if outcome != cairn.OutcomeAccepted || err != nil || len(next.Trail) != i+1 {
			t.Fatalf("%s: the vote of %s: %s, %v, trail %+v", name, reviewer, outcome, err, next.Trail)
		}
		c, cast = next, append(cast, approved)
		want := oracle(quorum, len(reviewers), cast)
		switch {
		case want == "" && (c.Status != cairn.CallOpen || c.Answer != nil):
			t.Fatalf("%s: after %d votes the call is %s, want it open", name, i+1, c.Status)
		case want != "" && (c.Status != cairn.CallAnswered || c.Answer.Kind != want || c.Answer.Reviewer != reviewer):
			t.Fatalf("%s: after %d votes the call is %s with %+v, want it %s by %s", name, i+1, c.Status, c.Answer, want, reviewer)
		}
	}
	if c.Status != cairn.CallAnswered {
		t.Fatalf("%s: everyone has voted and the call is %s", name, c.Status)
	}
}

func checkNoMore(t *testing.T, name string, c cairn.PendingCall, given cairn.Submission) {
	t.Helper()
	if next, outcome, err := inbox.Decide(c, &given, "again", noon); outcome != cairn.OutcomeAlreadyCompleted || err != nil || !reflect.DeepEqual(next, c) {
		t.Fatalf("%s: another vote of %s on a call that is %s: %s, %v", name, given.Reviewer, c.Status, outcome, err)
	}
}

func vote(reviewer string, approved bool) cairn.Submission {
	if approved {
		return cairn.Approve(approvalCall().CallRef).By(reviewer)
	}
	return cairn.Deny(approvalCall().CallRef, "").By(reviewer)
}

// oracle returns what n reviewers have decided with the votes cast so far, by trying all remaining votes. The call is
// decided once they cannot change the outcome. A denial decides immediately if all must approve.
func oracle(quorum cairn.Quorum, n int, cast []bool) cairn.DecisionKind {
	if quorum == cairn.AnyReviewer {
		cast, n = cast[:1], 1
	}
	outcomes := map[cairn.DecisionKind]bool{}
	rest := n - len(cast)
	for others := range 1 << rest {
		all := slices.Clone(cast)
		for i := range rest {
			all = append(all, others>>i&1 == 1)
		}
		yes, no := 0, 0
		for _, approved := range all {
			if approved {
				yes++
			} else {
				no++
			}
		}
		if no == 0 || quorum == cairn.MostReviewers && yes > no {
			outcomes[cairn.DecisionApproved] = true
		} else {
			outcomes[cairn.DecisionDenied] = true
		}
	}
	if len(outcomes) == 2 {
		return ""
	}
	if outcomes[cairn.DecisionApproved] {
		return cairn.DecisionApproved
	}
	return cairn.DecisionDenied
}

// permutations yields every order of a list.
func permutations(list []string) iter.Seq[[]string] {
	return func(yield func([]string) bool) { permute(nil, list, yield) }
}

func permute(head, rest []string, yield func([]string) bool) bool {
	if len(rest) == 0 {
		return yield(head)
	}
	for i, next := range rest {
		others := slices.Delete(slices.Clone(rest), i, i+1)
		if !permute(append(slices.Clone(head), next), others, yield) {
			return false
		}
	}
	return true
}
