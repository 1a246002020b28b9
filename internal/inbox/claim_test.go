package inbox_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/inbox"
)

func TestClaim(t *testing.T) {
	t.Parallel()
	later := noon.Add(time.Minute)
	for name, call := range map[string]cairn.PendingCall{
		"anybody's call":          approvalCall(),
		"a client tool's call":    clientCall(),
		"assigned to them":        approvalCall(assigned(cairn.AnyReviewer, "ann", "bob")),
		"theirs, to keep longer":  approvalCall(claimedBy("ann", noon.Add(time.Second))),
		"theirs, to keep shorter": approvalCall(claimedBy("ann", noon.Add(time.Hour))),
		"a claim that ran out":    approvalCall(claimedBy("bob", noon)),
		"a deadline to come":      approvalCall(due(noon.Add(1))),
	} {
		before := clone(t, call)
		got, err := inbox.Claim(call, "ann", time.Minute, noon)
		if err != nil || got.ClaimedBy != "ann" || !got.ClaimedUntil.Equal(later) || got.Status != cairn.CallOpen {
			t.Errorf("%s: claimed by %q until %s, %v", name, got.ClaimedBy, got.ClaimedUntil, err)
		}
		entry := cairn.Decision{Step: "step_1", Kind: cairn.DecisionClaimed, Reviewer: "ann", At: noon}
		if !reflect.DeepEqual(got.Trail, []cairn.Decision{entry}) || !reflect.DeepEqual(call, before) {
			t.Errorf("%s: trail %+v; the caller's copy %+v", name, got.Trail, call)
		}
	}
	for asked, lasts := range map[time.Duration]time.Duration{0: 15 * time.Minute, 1: 1, 24 * time.Hour: 24 * time.Hour} {
		if got, err := inbox.Claim(approvalCall(), "ann", asked, noon); err != nil || !got.ClaimedUntil.Equal(noon.Add(lasts)) {
			t.Errorf("a claim for %s lasts until %s, %v", asked, got.ClaimedUntil, err)
		}
	}
}

// Override ends the claim of another reviewer, and nothing else.
func TestOverride(t *testing.T) {
	t.Parallel()
	got, err := inbox.Override(approvalCall(claimedBy("ann", noon.Add(1))), "root", noon)
	entry := cairn.Decision{Step: "step_1", Kind: cairn.DecisionReleased, Reviewer: "root", At: noon, Notes: "claim of ann"}
	if err != nil || got.ClaimedBy != "" || !got.ClaimedUntil.IsZero() || !reflect.DeepEqual(got.Trail, []cairn.Decision{entry}) {
		t.Errorf("%+v, %v", got, err)
	}
	for name, call := range map[string]cairn.PendingCall{
		"not claimed":     approvalCall(),
		"it ran out":      approvalCall(claimedBy("ann", noon)),
		"their own claim": approvalCall(claimedBy("root", noon.Add(1))),
		"answered":        approvalCall(after(cairn.CallAnswered, cairn.DecisionDenied)),
	} {
		if got, err := inbox.Override(call, "root", noon); err != nil || !reflect.DeepEqual(got, call) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := inbox.Override(approvalCall(claimedBy("ann", noon.Add(1))), "", noon); cairn.AsError(err) == nil || cairn.AsError(err).Field != "reviewer" {
		t.Errorf("without a name: %v", err)
	}
}

func TestClaimRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		call     cairn.PendingCall
		reviewer string
		time     time.Duration
		code     cairn.Code
		field    string
		says     string
	}{
		"no name":             {approvalCall(), "", time.Minute, cairn.ErrInvalid, "reviewer", "empty"},
		"no name to speak of": {approvalCall(), "ann\n", time.Minute, cairn.ErrInvalid, "reviewer", "white space"},
		"bytes for a name":    {approvalCall(), "\xff", time.Minute, cairn.ErrInvalid, "reviewer", "UTF-8"},
		"more than a day":     {approvalCall(), "ann", 24*time.Hour + 1, cairn.ErrInvalid, "duration", "more than 24h"},
		"time gone by":        {approvalCall(), "ann", -time.Minute, cairn.ErrInvalid, "duration", "-1m0s"},
		"another has it":      {approvalCall(claimedBy("bob", noon.Add(1))), "ann", time.Minute, cairn.ErrClaimed, "reviewer", `"bob"`},
		"not assigned":        {approvalCall(assigned(cairn.AnyReviewer, "bob")), "ann", time.Minute, cairn.ErrInvalid, "reviewer", `"ann"`},
		"all decide":          {approvalCall(assigned(cairn.AllReviewers, "ann", "bob")), "ann", time.Minute, cairn.ErrInvalid, "call_id", "together"},
		"a majority decides":  {approvalCall(assigned(cairn.MostReviewers, "ann", "bob")), "ann", time.Minute, cairn.ErrInvalid, "call_id", "together"},
		"answered":            {approvalCall(after(cairn.CallAnswered, cairn.DecisionDenied)), "ann", time.Minute, cairn.ErrInvalid, "call_id", "answered"},
		"settled":             {approvalCall(after(cairn.CallSettled, cairn.DecisionDenied)), "ann", time.Minute, cairn.ErrInvalid, "call_id", "settled"},
		"dropped":             {approvalCall(dropped), "ann", time.Minute, cairn.ErrInvalid, "call_id", "dropped"},
		"overdue":             {approvalCall(due(noon)), "ann", time.Minute, cairn.ErrInvalid, "call_id", "past its deadline"},
	} {
		got, err := inbox.Claim(test.call, test.reviewer, test.time, noon)
		checkRefused(t, name, test.call, got, err, test.code, test.field, test.says)
	}
}

func TestRelease(t *testing.T) {
	t.Parallel()
	got, err := inbox.Release(approvalCall(claimedBy("ann", noon.Add(1))), "ann", noon)
	entry := cairn.Decision{Step: "step_1", Kind: cairn.DecisionReleased, Reviewer: "ann", At: noon}
	if err != nil || got.ClaimedBy != "" || !got.ClaimedUntil.IsZero() || got.Status != cairn.CallOpen || !reflect.DeepEqual(got.Trail, []cairn.Decision{entry}) {
		t.Errorf("%+v, %v", got, err)
	}
	for name, test := range map[string]struct {
		call  cairn.PendingCall
		code  cairn.Code
		field string
		says  string
	}{
		"nobody has it":  {approvalCall(), cairn.ErrInvalid, "call_id", "not claimed"},
		"it ran out":     {approvalCall(claimedBy("ann", noon)), cairn.ErrInvalid, "call_id", "not claimed"},
		"another has it": {approvalCall(claimedBy("bob", noon.Add(1))), cairn.ErrClaimed, "reviewer", `"bob"`},
		"answered":       {approvalCall(after(cairn.CallAnswered, cairn.DecisionDenied)), cairn.ErrInvalid, "call_id", "answered"},
		"dropped":        {approvalCall(claimedBy("ann", noon.Add(1)), dropped), cairn.ErrInvalid, "call_id", "dropped"},
		"overdue":        {approvalCall(claimedBy("ann", noon.Add(1)), due(noon)), cairn.ErrInvalid, "call_id", "past its deadline"},
	} {
		got, err := inbox.Release(test.call, "ann", noon)
		checkRefused(t, name, test.call, got, err, test.code, test.field, test.says)
	}
}

func checkRefused(t *testing.T, name string, given, got cairn.PendingCall, err error, code cairn.Code, field, says string) {
	t.Helper()
	e := cairn.AsError(err)
	if e == nil || e.Code != code || e.Field != field || !strings.Contains(e.Message, says) {
		t.Errorf("%s: error %v, want a %s in %q that says %q", name, err, code, field, says)
	}
	if !reflect.DeepEqual(got, given) {
		t.Errorf("%s: the call has changed to %+v", name, got)
	}
}

// TestClaimsEnd: whatever closes a call also ends the claim on it.
func TestClaimsEnd(t *testing.T) {
	t.Parallel()
	c := approvalCall(claimedBy("ann", noon.Add(time.Hour)))
	given := cairn.Approve(c.CallRef).By("ann")
	answered, _, err := inbox.Decide(c, &given, "mine", noon)
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]cairn.PendingCall{"answered": answered, "expired": inbox.Expire(c, noon), "dropped": inbox.Drop(c, "", noon)} {
		if got.Claimed(noon) || got.ClaimedBy != "" || !got.ClaimedUntil.IsZero() {
			t.Errorf("%s: still claimed by %q until %s", name, got.ClaimedBy, got.ClaimedUntil)
		}
	}
}
