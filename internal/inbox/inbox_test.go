package inbox_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/inbox"
)

var noon = time.Date(2026, time.March, 4, 12, 0, 0, 0, time.UTC)

// change returns a call with a modification.
type change func(*cairn.PendingCall)

func clientCall(changes ...change) cairn.PendingCall {
	return changed(cairn.PendingCall{
		CallRef: cairn.CallRef{ID: "call_1", RootID: "root", SessionID: "s1", Kind: cairn.CallClientTool, Tool: "locate", Input: json.RawMessage(`{}`)},
		StepID:  "step_1", Status: cairn.CallOpen, Version: 1,
		Schema: json.RawMessage(`{"type":"object","properties":{"lat":{"type":"number"},"lon":{"type":"number"}},"required":["lat","lon"]}`),
	}, changes)
}

func approvalCall(changes ...change) cairn.PendingCall {
	return changed(cairn.PendingCall{
		CallRef: cairn.CallRef{ID: "call_2", RootID: "root", SessionID: "s1", Kind: cairn.CallApproval, Tool: "refund", ApprovalID: "approval_1",
			Input: json.RawMessage(`{"amount":100}`)},
		StepID: "step_1", Status: cairn.CallOpen, Version: 1,
		Schema: json.RawMessage(`{"type":"object","properties":{"amount":{"type":"integer","maximum":500}},"required":["amount"]}`),
	}, changes)
}

func changed(c cairn.PendingCall, changes []change) cairn.PendingCall {
	for _, change := range changes {
		change(&c)
	}
	return c
}

func due(at time.Time) change { return func(c *cairn.PendingCall) { c.Deadline = at } }

func ofAnyKind(c *cairn.PendingCall) { c.Schema = nil }

func assigned(quorum cairn.Quorum, reviewers ...string) change {
	return func(c *cairn.PendingCall) { c.Quorum, c.Reviewers = quorum, reviewers }
}

func claimedBy(reviewer string, until time.Time) change {
	return func(c *cairn.PendingCall) { c.ClaimedBy, c.ClaimedUntil = reviewer, until }
}

func after(status cairn.CallStatus, kind cairn.DecisionKind) change {
	return func(c *cairn.PendingCall) { c.Status, c.Answer = status, &cairn.CallAnswer{Kind: kind} }
}

func dropped(c *cairn.PendingCall) { *c = inbox.Drop(*c, "stopped", noon) }

func expired(c *cairn.PendingCall) { *c = inbox.Expire(*c, noon) }

func settled(c *cairn.PendingCall) { *c = inbox.Settle(*c) }

func saidLate(c *cairn.PendingCall) {
	c.Trail = append(c.Trail, cairn.Decision{ID: "earlier", Kind: cairn.DecisionLate})
}

type point struct {
	Lat float64 `json:"lat"`
	Lon float64 `json:"lon"`
}

// TestDecide shows the outcome of a submission at noon. A submission that is not stored leaves the call unchanged.
func TestDecide(t *testing.T) {
	t.Parallel()
	var (
		client, approval = clientCall().CallRef, approvalCall().CallRef
		here, yes, no    = cairn.Answer(client, point{1, 2}), cairn.Approve(approval), cairn.Deny(approval, "too much")
		past, soon       = noon.Add(-time.Hour), noon.Add(time.Nanosecond)
	)
	other := approval
	other.ApprovalID = "approval_2"
	for name, test := range map[string]struct {
		call    cairn.PendingCall
		given   cairn.Submission
		outcome cairn.Outcome
		field   string // of the error
		says    string
	}{
		"a result":                         {clientCall(), here, cairn.OutcomeAccepted, "", ""},
		"a result of any kind":             {clientCall(ofAnyKind), cairn.Answer(client, nil), cairn.OutcomeAccepted, "", ""},
		"a result just in time":            {clientCall(due(soon)), here, cairn.OutcomeAccepted, "", ""},
		"an error instead of a result":     {clientCall(), cairn.AnswerError(client, "no signal"), cairn.OutcomeAccepted, "", ""},
		"an approval":                      {approvalCall(), yes, cairn.OutcomeAccepted, "", ""},
		"an approval of another input":     {approvalCall(), yes.WithInput(map[string]int{"amount": 50}), cairn.OutcomeAccepted, "", ""},
		"a denial":                         {approvalCall(), no, cairn.OutcomeAccepted, "", ""},
		"a named reviewer":                 {approvalCall(assigned(cairn.AnyReviewer, "ann", "bob")), yes.By("bob"), cairn.OutcomeAccepted, "", ""},
		"a vote":                           {approvalCall(assigned(cairn.AllReviewers, "ann", "bob")), yes.By("bob"), cairn.OutcomeAccepted, "", ""},
		"whoever has claimed it":           {approvalCall(claimedBy("ann", soon)), yes.By("ann"), cairn.OutcomeAccepted, "", ""},
		"a claim that ran out":             {approvalCall(claimedBy("ann", noon)), yes.By("bob"), cairn.OutcomeAccepted, "", ""},
		"a claim that ran out, by no name": {approvalCall(claimedBy("ann", noon)), yes, cairn.OutcomeAccepted, "", ""},

		"an answered call":          {clientCall(after(cairn.CallAnswered, cairn.DecisionResult)), here, cairn.OutcomeAlreadyCompleted, "", ""},
		"an answer that was used":   {approvalCall(after(cairn.CallSettled, cairn.DecisionDenied)), yes, cairn.OutcomeAlreadyCompleted, "", ""},
		"an answer past its time":   {approvalCall(due(past), after(cairn.CallAnswered, cairn.DecisionDenied)), yes, cairn.OutcomeAlreadyCompleted, "", ""},
		"a bad value, too late":     {clientCall(after(cairn.CallAnswered, cairn.DecisionError)), cairn.Answer(client, 1), cairn.OutcomeAlreadyCompleted, "", ""},
		"a second late answer":      {clientCall(expired, saidLate), here, cairn.OutcomeAlreadyCompleted, "", ""},
		"a third, after its result": {clientCall(expired, settled, saidLate), here, cairn.OutcomeAlreadyCompleted, "", ""},

		"the deadline":                  {clientCall(due(noon)), here, cairn.OutcomeLate, "", ""},
		"after the deadline":            {approvalCall(due(past)), no, cairn.OutcomeLate, "", ""},
		"after the call was expired":    {approvalCall(due(past), expired), yes, cairn.OutcomeLate, "", ""},
		"after the timeout was used":    {clientCall(due(past), expired, settled), here, cairn.OutcomeLate, "", ""},
		"a claim that outlives it all":  {approvalCall(due(noon), claimedBy("ann", soon)), yes.By("bob"), cairn.OutcomeLate, "", ""},
		"a late vote":                   {approvalCall(due(noon), assigned(cairn.MostReviewers, "ann")), no.By("ann"), cairn.OutcomeLate, "", ""},
		"a late answer that is no good": {clientCall(due(noon)), cairn.Answer(client, 1), cairn.OutcomeInvalid, "result", "schema"},

		"an approval of a client tool":    {clientCall(), yes, cairn.OutcomeInvalid, "type", "client_tool"},
		"a denial of a client tool":       {clientCall(), no, cairn.OutcomeInvalid, "type", "client_tool"},
		"a result for an approval":        {approvalCall(), here, cairn.OutcomeInvalid, "type", "approval"},
		"an error for an approval":        {approvalCall(), cairn.AnswerError(client, "no"), cairn.OutcomeInvalid, "type", "approval"},
		"another request's approval id":   {approvalCall(), cairn.Approve(other), cairn.OutcomeInvalid, "approval_id", `"call_2"`},
		"another's id for an old call":    {approvalCall(after(cairn.CallAnswered, cairn.DecisionDenied)), cairn.Deny(other, ""), cairn.OutcomeInvalid, "approval_id", `"call_2"`},
		"a result that is too little":     {clientCall(), cairn.Answer(client, map[string]int{}), cairn.OutcomeInvalid, "result", `lat: is required; lon: is required`},
		"a result of another type":        {clientCall(), cairn.Answer(client, "here"), cairn.OutcomeInvalid, "result", "schema"},
		"another input that is too much":  {approvalCall(), yes.WithInput(map[string]int{"amount": 501}), cairn.OutcomeInvalid, "input", "amount: must be at most 500"},
		"another input by one of several": {approvalCall(assigned(cairn.MostReviewers, "ann", "bob")), yes.By("ann").WithInput(map[string]int{"amount": 50}), cairn.OutcomeInvalid, "input", "together"},
		"a call that was dropped":         {clientCall(dropped), here, cairn.OutcomeInvalid, "call_id", "cancelled"},
		"dropped after its answer":        {approvalCall(after(cairn.CallAnswered, cairn.DecisionApproved), dropped), no, cairn.OutcomeInvalid, "call_id", "cancelled"},
		"dropped after its deadline":      {approvalCall(due(past), dropped), no, cairn.OutcomeInvalid, "call_id", "cancelled"},
		"nobody's name":                   {approvalCall(assigned(cairn.AnyReviewer, "ann")), yes, cairn.OutcomeInvalid, "reviewer", "is required"},
		"another's name":                  {clientCall(assigned(cairn.AnyReviewer, "ann")), here.By("eve"), cairn.OutcomeInvalid, "reviewer", `"eve"`},
		"another's vote":                  {approvalCall(assigned(cairn.AllReviewers, "ann", "bob")), no.By("eve"), cairn.OutcomeInvalid, "reviewer", `"eve"`},
		"another's claim":                 {approvalCall(claimedBy("ann", soon)), yes.By("bob"), cairn.OutcomeInvalid, "reviewer", `claimed by "ann" until 2026-03-04T12:00:00Z`},
		"a claim, by no name":             {clientCall(claimedBy("ann", soon)), here, cairn.OutcomeInvalid, "reviewer", `claimed by "ann"`},
	} {
		if err := test.given.Validate(); err != nil {
			t.Errorf("%s: the submission alone is invalid: %v", name, err)
		}
		before := clone(t, test.call)
		got, outcome, err := inbox.Decide(test.call, &test.given, "mine", noon)
		if outcome != test.outcome {
			t.Errorf("%s: %s, %v, want %s", name, outcome, err, test.outcome)
			continue
		}
		e := cairn.AsError(err)
		if (e != nil) != (outcome == cairn.OutcomeInvalid) || e != nil && (e.Field != test.field || !strings.HasPrefix(e.Message, test.field+": ") || !strings.Contains(e.Message, test.says)) {
			t.Errorf("%s: error %v, want one in %q that says %q", name, err, test.field, test.says)
		}
		stored := outcome == cairn.OutcomeAccepted || outcome == cairn.OutcomeLate
		if same := reflect.DeepEqual(got, before); same == stored {
			t.Errorf("%s: %s, and the call is unchanged: %t", name, outcome, same)
		}
		if !reflect.DeepEqual(test.call, before) {
			t.Errorf("%s: the caller's copy has changed", name)
		}
	}
}

// clone returns a copy that shares no memory with c.
func clone(t *testing.T, c cairn.PendingCall) cairn.PendingCall {
	t.Helper()
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var copied cairn.PendingCall
	if err := json.Unmarshal(raw, &copied); err != nil {
		t.Fatal(err)
	}
	return copied
}

func TestErrorsTellWhatToDo(t *testing.T) {
	t.Parallel()
	given := cairn.Approve(approvalCall().CallRef).By("bob")
	if _, _, err := inbox.Decide(approvalCall(claimedBy("ann", noon.Add(1))), &given, "", noon); !errors.Is(err, cairn.ErrClaimed) {
		t.Errorf("claimed by another: %v", err)
	}
	given = cairn.Answer(clientCall().CallRef, map[string]int{})
	var e *cairn.Error
	if _, _, err := inbox.Decide(clientCall(), &given, "", noon); !errors.As(err, &e) || e.Code != cairn.ErrInvalid || len(e.Details) != 2 {
		t.Errorf("a result that violates the schema twice: %v", err)
	}
}

// TestAnswers shows what is kept of an answer, and what the model gets, both in time and late.
func TestAnswers(t *testing.T) {
	t.Parallel()
	client, approval := clientCall().CallRef, approvalCall().CallRef
	for name, test := range map[string]struct {
		call   cairn.PendingCall
		given  cairn.Submission
		answer cairn.CallAnswer
		result *cairn.ToolResult
		late   string
	}{
		"result": {clientCall(), cairn.Answer(client, point{1, 2}),
			cairn.CallAnswer{Kind: cairn.DecisionResult, Value: json.RawMessage(`{"lat":1,"lon":2}`)},
			&cairn.ToolResult{CallID: "call_1", Tool: "locate", Output: json.RawMessage(`{"lat":1,"lon":2}`)},
			`After its deadline the call call_1 of locate was answered: {"lat":1,"lon":2}`},
		"error": {clientCall(), cairn.AnswerError(client, `no "signal"`).By("ann"),
			cairn.CallAnswer{Kind: cairn.DecisionError, Text: `no "signal"`, Reviewer: "ann"},
			&cairn.ToolResult{CallID: "call_1", Tool: "locate", Output: json.RawMessage(`"no \"signal\""`), IsError: true, Code: cairn.ErrTool},
			`After its deadline the call call_1 of locate was answered with an error: no "signal"`},
		"approval": {approvalCall(), cairn.Approve(approval),
			cairn.CallAnswer{Kind: cairn.DecisionApproved}, nil,
			`After its deadline the call call_2 of refund was approved. It was not run; call the tool again if it is still wanted.`},
		"approval of another input": {approvalCall(), cairn.Approve(approval).By("ann").WithInput(map[string]int{"amount": 50}),
			cairn.CallAnswer{Kind: cairn.DecisionApproved, Value: json.RawMessage(`{"amount":50}`), Reviewer: "ann"}, nil,
			`After its deadline the call call_2 of refund was approved. It was not run; call the tool again if it is still wanted.`},
		"denial": {approvalCall(), cairn.Deny(approval, ""),
			cairn.CallAnswer{Kind: cairn.DecisionDenied},
			&cairn.ToolResult{CallID: "call_2", Tool: "refund", Output: json.RawMessage(`"not approved by the user"`), IsError: true, Code: cairn.ErrDenied},
			`After its deadline the call call_2 of refund was denied.`},
		"denial with a reason": {approvalCall(), cairn.Deny(approval, "too much").By("bob"),
			cairn.CallAnswer{Kind: cairn.DecisionDenied, Text: "too much", Reviewer: "bob"},
			&cairn.ToolResult{CallID: "call_2", Tool: "refund", Output: json.RawMessage(`"not approved by the user: too much"`), IsError: true, Code: cairn.ErrDenied},
			`After its deadline the call call_2 of refund was denied: too much.`},
	} {
		test.answer.At = noon
		got, _, err := inbox.Decide(test.call, &test.given, "mine", noon)
		if err != nil || got.Status != cairn.CallAnswered || !reflect.DeepEqual(*got.Answer, test.answer) {
			t.Errorf("%s: %s with answer %+v, %v, want %+v", name, got.Status, got.Answer, err, test.answer)
			continue
		}
		entry := cairn.Decision{ID: "mine", Step: "step_1", Kind: test.answer.Kind, Reviewer: test.given.Reviewer, At: noon, Notes: test.answer.Text}
		if !reflect.DeepEqual(got.Trail, []cairn.Decision{entry}) {
			t.Errorf("%s: trail %+v, want %+v", name, got.Trail, entry)
		}
		if result := inbox.Result(&got); !reflect.DeepEqual(result, test.result) {
			t.Errorf("%s: the model is told %+v, want %+v", name, result, test.result)
		}
		if text := inbox.LateText(&test.call, &test.given); text != test.late {
			t.Errorf("%s: when late the model is told %q, want %q", name, text, test.late)
		}
	}
}

// TestTimeout follows a call past its deadline. An answer has the same outcome whether or not the call was expired
// before.
func TestTimeout(t *testing.T) {
	t.Parallel()
	given := cairn.Deny(approvalCall().CallRef, "too much").By("ann")
	for name, test := range map[string]struct {
		call cairn.PendingCall
		note cairn.Decision
	}{
		"answer first": {approvalCall(due(noon)), cairn.Decision{ID: "mine", Step: "step_1", Kind: cairn.DecisionLate, Reviewer: "ann", At: noon, Notes: "denied: too much"}},
		"expiry first": {inbox.Expire(approvalCall(due(noon)), noon), cairn.Decision{ID: "mine", Step: "step_1", Kind: cairn.DecisionLate, Reviewer: "ann", At: noon, Notes: "denied: too much"}},
	} {
		got, outcome, err := inbox.Decide(test.call, &given, "mine", noon)
		if outcome != cairn.OutcomeLate || err != nil {
			t.Errorf("%s: %s, %v", name, outcome, err)
		}
		if got.Status != cairn.CallAnswered || !reflect.DeepEqual(got.Answer, &cairn.CallAnswer{Kind: cairn.DecisionTimeout, At: noon}) {
			t.Errorf("%s: %s with answer %+v", name, got.Status, got.Answer)
		}
		if want := []cairn.Decision{{Step: "step_1", Kind: cairn.DecisionTimeout, At: noon}, test.note}; !reflect.DeepEqual(got.Trail, want) {
			t.Errorf("%s: trail %+v, want %+v", name, got.Trail, want)
		}
		want := &cairn.ToolResult{CallID: "call_2", Tool: "refund", Output: json.RawMessage(`"nobody answered in time"`), IsError: true, Code: cairn.ErrTimeout}
		if result := inbox.Result(&got); !reflect.DeepEqual(result, want) {
			t.Errorf("%s: the model is told %+v", name, result)
		}
	}
}

// TestRepeatedSubmission repeats a submission whose acknowledgement was lost: it gets the same acknowledgement, and is
// stored once.
func TestRepeatedSubmission(t *testing.T) {
	t.Parallel()
	ref := approvalCall().CallRef
	for name, test := range map[string]struct {
		call    cairn.PendingCall
		between func(cairn.PendingCall) cairn.PendingCall
		outcome cairn.Outcome // both times
	}{
		"at once":              {approvalCall(), nil, cairn.OutcomeAccepted},
		"a vote":               {approvalCall(assigned(cairn.AllReviewers, "ann", "bob")), nil, cairn.OutcomeAccepted},
		"after it was used":    {approvalCall(), inbox.Settle, cairn.OutcomeAccepted},
		"after it was dropped": {approvalCall(), func(c cairn.PendingCall) cairn.PendingCall { return inbox.Drop(c, "", noon) }, cairn.OutcomeAccepted},
		"a vote, after expiry": {approvalCall(assigned(cairn.AllReviewers, "ann", "bob")), func(c cairn.PendingCall) cairn.PendingCall { return inbox.Expire(c, noon) }, cairn.OutcomeAccepted},
		"a late one":           {approvalCall(due(noon)), nil, cairn.OutcomeLate},
		"a late one, dropped":  {approvalCall(due(noon)), func(c cairn.PendingCall) cairn.PendingCall { return inbox.Drop(c, "", noon) }, cairn.OutcomeLate},
	} {
		given := cairn.Approve(ref).By("ann")
		first, outcome, err := inbox.Decide(test.call, &given, "mine", noon)
		if err != nil || outcome != test.outcome {
			t.Errorf("%s: first %s, %v", name, outcome, err)
		}
		if test.between != nil {
			first = test.between(first)
		}
		again, outcome, err := inbox.Decide(first, &given, "mine", noon.Add(time.Hour))
		if err != nil || outcome != test.outcome || !reflect.DeepEqual(again, first) {
			t.Errorf("%s: then %s, %v, trail %+v; want %s and an unchanged call", name, outcome, err, again.Trail, test.outcome)
		}
	}
}

// TestNamelessSubmissions counts each submission without an id separately.
func TestNamelessSubmissions(t *testing.T) {
	t.Parallel()
	c, err := inbox.Claim(approvalCall(), "ann", time.Minute, noon)
	if err != nil {
		t.Fatal(err)
	}
	given := cairn.Approve(c.CallRef).By("ann")
	if c, outcome, err := inbox.Decide(c, &given, "", noon); outcome != cairn.OutcomeAccepted || err != nil || c.Status != cairn.CallAnswered {
		t.Errorf("%s, %v, the call is %s", outcome, err, c.Status)
	}
}

func TestDropAndSettle(t *testing.T) {
	t.Parallel()
	entry := cairn.Decision{Step: "step_1", Kind: cairn.DecisionDropped, At: noon, Notes: "rewound"}
	open := inbox.Drop(approvalCall(claimedBy("ann", noon.Add(time.Hour))), "rewound", noon)
	if open.Status != cairn.CallDropped || open.Answer != nil || open.ClaimedBy != "" || !open.ClaimedUntil.IsZero() || !reflect.DeepEqual(open.Trail, []cairn.Decision{entry}) {
		t.Errorf("an open call becomes %+v", open)
	}
	answered := inbox.Drop(approvalCall(after(cairn.CallAnswered, cairn.DecisionDenied)), "rewound", noon)
	if answered.Status != cairn.CallDropped || answered.Answer == nil || answered.Answer.Kind != cairn.DecisionDenied {
		t.Errorf("an answered call becomes %+v", answered)
	}
	given := approvalCall(after(cairn.CallAnswered, cairn.DecisionDenied))
	want := given
	want.Status = cairn.CallSettled
	if got := inbox.Settle(given); !reflect.DeepEqual(got, want) {
		t.Errorf("a settled call is %+v", got)
	}
}
