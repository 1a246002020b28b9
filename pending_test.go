package cairn_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cairn-agents/cairn"
)

var (
	clientRef   = cairn.CallRef{ID: "call_1", RootID: "root", SessionID: "s1", Kind: cairn.CallClientTool, Tool: "locate"}
	approvalRef = cairn.CallRef{ID: "call_2", RootID: "root", SessionID: "s1", Kind: cairn.CallApproval, Tool: "refund", ApprovalID: "approval_1"}
)

// TestSubmissions checks the constructors against the wire format: their submissions are valid and survive a round
// trip.
func TestSubmissions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		given cairn.Submission
		want  string
	}{
		"result":         {cairn.Answer(clientRef, map[string]int{"lat": 1}), `{"type":"client-tool-result","call_id":"call_1","result":{"lat":1}}`},
		"no result":      {cairn.Answer(clientRef, nil), `{"type":"client-tool-result","call_id":"call_1","result":null}`},
		"text":           {cairn.Answer(clientRef, "here").By("ann"), `{"type":"client-tool-result","call_id":"call_1","result":"here","reviewer":"ann"}`},
		"error":          {cairn.AnswerError(clientRef, "no signal"), `{"type":"client-tool-result","call_id":"call_1","error":"no signal"}`},
		"approval":       {cairn.Approve(approvalRef), `{"type":"approval-response","call_id":"call_2","approval_id":"approval_1","approved":true}`},
		"other input":    {cairn.Approve(approvalRef).WithInput([]int{1}), `{"type":"approval-response","call_id":"call_2","approval_id":"approval_1","approved":true,"input":[1]}`},
		"denial":         {cairn.Deny(approvalRef, "no").By("bob"), `{"type":"approval-response","call_id":"call_2","approval_id":"approval_1","reason":"no","reviewer":"bob"}`},
		"tacit denial":   {cairn.Deny(approvalRef, ""), `{"type":"approval-response","call_id":"call_2","approval_id":"approval_1"}`},
		"named and back": {cairn.Deny(approvalRef, "").By("bob").By(""), `{"type":"approval-response","call_id":"call_2","approval_id":"approval_1"}`},
	} {
		if err := test.given.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		raw, err := json.Marshal(test.given)
		if err != nil || string(raw) != test.want {
			t.Errorf("%s: %s, %v, want %s", name, raw, err, test.want)
		}
		var back cairn.Submission
		if err := json.Unmarshal(raw, &back); err != nil || !reflect.DeepEqual(back, test.given) {
			t.Errorf("%s: %s comes back as %+v, %v", name, raw, back, err)
		}
	}
}

// TestSubmissionMistakes makes one mistake at a time: the error names the field.
func TestSubmissionMistakes(t *testing.T) {
	t.Parallel()
	result, approval := cairn.Answer(clientRef, 1), cairn.Approve(approvalRef)
	for name, test := range map[string]struct {
		given  cairn.Submission
		change func(*cairn.Submission)
		field  string
		says   string
	}{
		"no type":             {result, func(s *cairn.Submission) { s.Type = "" }, "type", `""`},
		"another type":        {result, func(s *cairn.Submission) { s.Type = "vote" }, "type", `"vote"`},
		"no call":             {result, func(s *cairn.Submission) { s.CallID = "" }, "call_id", "empty"},
		"a call id of bytes":  {result, func(s *cairn.Submission) { s.CallID = "\xff" }, "call_id", "UTF-8"},
		"a long call id":      {result, func(s *cairn.Submission) { s.CallID = strings.Repeat("x", 201) }, "call_id", "200"},
		"a reviewer of bytes": {result, func(s *cairn.Submission) { s.Reviewer = "\xff" }, "reviewer", "UTF-8"},
		"a padded reviewer":   {approval, func(s *cairn.Submission) { s.Reviewer = "ann " }, "reviewer", "white space"},
		"nothing":             {result, func(s *cairn.Submission) { s.Result = nil }, "result", "either"},
		"result and error":    {result, func(s *cairn.Submission) { s.Error = "no" }, "result", "either"},
		"no JSON":             {result, func(s *cairn.Submission) { s.Result = json.RawMessage(`{`) }, "result", "JSON"},
		"two JSON texts":      {result, func(s *cairn.Submission) { s.Result = json.RawMessage(`1 2`) }, "result", "JSON"},
		"a deep result": {result, func(s *cairn.Submission) {
			s.Result = json.RawMessage(strings.Repeat("[", 200) + strings.Repeat("]", 200))
		}, "result", "128 levels"},
		"an empty error":        {cairn.AnswerError(clientRef, ""), nil, "result", "either"},
		"an approving result":   {result, func(s *cairn.Submission) { s.Approved = true }, "approved", "must not be set"},
		"a result's approval":   {result, func(s *cairn.Submission) { s.ApprovalID = "a" }, "approved", "must not be set"},
		"a result's reason":     {result, func(s *cairn.Submission) { s.Reason = "r" }, "approved", "must not be set"},
		"a result's input":      {result.WithInput(1), nil, "approved", "must not be set"},
		"no approval id":        {approval, func(s *cairn.Submission) { s.ApprovalID = "" }, "approval_id", "empty"},
		"bytes for it":          {approval, func(s *cairn.Submission) { s.ApprovalID = "\xff" }, "approval_id", "UTF-8"},
		"a client's approval":   {cairn.Approve(clientRef), nil, "approval_id", "empty"},
		"an approval's result":  {approval, func(s *cairn.Submission) { s.Result = json.RawMessage(`1`) }, "result", "must not be set"},
		"an approval's error":   {approval, func(s *cairn.Submission) { s.Error = "no" }, "result", "must not be set"},
		"a denial's input":      {cairn.Deny(approvalRef, "").WithInput(1), nil, "input", "must not be set"},
		"input that is no JSON": {approval, func(s *cairn.Submission) { s.Input = json.RawMessage(`nope`) }, "input", "JSON"},
		"input with bytes":      {approval, func(s *cairn.Submission) { s.Input = json.RawMessage("{\"\xff\":1}") }, "input", "UTF-8"},
		"a reason of bytes":     {cairn.Deny(approvalRef, "\xff"), nil, "reason", "UTF-8"},
		"a result of a kind":    {cairn.Answer(clientRef, func() {}), nil, "submission", "func()"},
		"an input of a kind":    {approval.WithInput(make(chan int)), nil, "submission", "chan int"},
		"the first of two":      {cairn.Answer(clientRef, func() {}).WithInput(make(chan int)), nil, "submission", "func()"},
		"one that comes first":  {cairn.Answer(clientRef, func() {}).WithInput(1), nil, "submission", "func()"},
	} {
		if test.change != nil {
			test.change(&test.given)
		}
		var e *cairn.Error
		if err := test.given.Validate(); !errors.As(err, &e) || e.Code != cairn.ErrInvalid || e.Field != test.field ||
			!strings.HasPrefix(e.Message, test.field+": ") || !strings.Contains(e.Message, test.says) {
			t.Errorf("%s: error %v, want one in %q that says %q", name, err, test.field, test.says)
		}
	}
}

// TestSubmissionStorable has results of client tools, which have run, and an answer, which a person can give again.
func TestSubmissionStorable(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		given  cairn.Submission
		result string
		err    string
	}{
		{given: cairn.Answer(clientRef, json.RawMessage(`["\u0000","\ud83d"]`)), result: `["\ufffd","\ufffd"]`},
		{given: cairn.Submission{Type: cairn.SubmitResult, CallID: "c", Result: json.RawMessage("\"\xff\"")}, result: `"\ufffd"`},
		{given: cairn.AnswerError(clientRef, "caf\xe9\x00"), err: "caf\uFFFD\uFFFD"},
	} {
		if err := test.given.Validate(); err != nil {
			t.Errorf("%+v: %v", test.given, err)
		}
		if got := test.given.Storable(); string(got.Result) != test.result || got.Error != test.err || got.Validate() != nil {
			t.Errorf("%s %q, want %s %q", got.Result, got.Error, test.result, test.err)
		}
	}
	denial := cairn.Deny(approvalRef, "\x00")
	if got := denial.Storable(); got.Reason != denial.Reason || denial.Validate() == nil {
		t.Errorf("a reviewer's reason becomes %q", got.Reason)
	}
}

func TestSubmissionSize(t *testing.T) {
	t.Parallel()
	words := func(n int) string { return strings.Repeat("x", n) }
	for name, test := range map[string]struct {
		most cairn.Submission
		more func(*cairn.Submission)
	}{
		"result": {cairn.Answer(clientRef, words(cairn.MaxAnswerBytes-2)), func(s *cairn.Submission) { s.Result = append(s.Result, ' ') }},
		"error":  {cairn.AnswerError(clientRef, words(cairn.MaxAnswerBytes)), func(s *cairn.Submission) { s.Error += "x" }},
		"reason": {cairn.Deny(approvalRef, words(cairn.MaxAnswerBytes-3)).By("ann"), func(s *cairn.Submission) { s.Reviewer = "anne" }},
		"input":  {cairn.Approve(approvalRef).WithInput(words(cairn.MaxAnswerBytes - 2)), func(s *cairn.Submission) { s.Reason = "x" }},
	} {
		if err := test.most.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		test.more(&test.most)
		var e *cairn.Error
		if err := test.most.Validate(); !errors.As(err, &e) || e.Code != cairn.ErrTooLarge || e.Field != "submission" {
			t.Errorf("%s: one byte more: error %v", name, err)
		}
	}
}

// FuzzSubmission decodes arbitrary wire input. A submission that passes validation has one meaning; as it is stored it
// has only valid text and JSON, and survives another round trip.
func FuzzSubmission(f *testing.F) {
	for _, text := range []string{
		`{"type":"client-tool-result","call_id":"call_1","result":{"lat":1}}`, `{"type":"client-tool-result","call_id":"c","error":"no","reviewer":"ann"}`,
		`{"type":"approval-response","call_id":"call_2","approval_id":"a","approved":true,"input":{"n":1}}`, "{\"type\":\"client-tool-result\",\"call_id\":\"c\",\"result\":\"\xff\"}",
		`{"type":"approval-response","call_id":"c","approval_id":"a","reason":"no"}`, `{"type":"client-tool-result","call_id":"c","result":null}`, `{"type":"approval-response","input":null}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var s cairn.Submission
		if json.Unmarshal(text, &s) != nil {
			return
		}
		if err := s.Validate(); err != nil {
			if e := cairn.AsError(err); e.Field == "" || e.Code != cairn.ErrInvalid && e.Code != cairn.ErrTooLarge {
				t.Fatalf("%s: error %v of code %s about %q", text, err, e.Code, e.Field)
			}
			return
		}
		switch s.Type {
		case cairn.SubmitResult:
			if (s.Error == "") != json.Valid(s.Result) || s.Approved || len(s.Input) > 0 {
				t.Fatalf("%s is a valid result: %+v", text, s)
			}
		case cairn.SubmitApproval:
			if s.ApprovalID == "" || s.Error != "" || len(s.Result) > 0 || len(s.Input) > 0 && !s.Approved {
				t.Fatalf("%s is a valid approval: %+v", text, s)
			}
		default:
			t.Fatalf("%s is valid, of type %q", text, s.Type)
		}
		s = s.Storable()
		raw, err := json.Marshal(s)
		if err != nil || !utf8.Valid(raw) {
			t.Fatalf("%s becomes %q, %v", text, raw, err)
		}
		var again cairn.Submission
		if err := json.Unmarshal(raw, &again); err != nil || again.Validate() != nil {
			t.Fatalf("%s becomes %s, which is invalid: %v, %v", text, raw, err, again.Validate())
		}
		if twice, err := json.Marshal(again); err != nil || string(twice) != string(raw) {
			t.Fatalf("%s becomes %s and then %s, %v", text, raw, twice, err)
		}
	})
}

func TestClaimedAndOverdue(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	for name, test := range map[string]struct {
		call             cairn.PendingCall
		claimed, overdue bool
	}{
		"nothing":             {cairn.PendingCall{Status: cairn.CallOpen}, false, false},
		"claimed":             {cairn.PendingCall{Status: cairn.CallOpen, ClaimedBy: "ann", ClaimedUntil: now.Add(1)}, true, false},
		"no longer claimed":   {cairn.PendingCall{Status: cairn.CallOpen, ClaimedBy: "ann", ClaimedUntil: now}, false, false},
		"claimed by nobody":   {cairn.PendingCall{Status: cairn.CallOpen, ClaimedUntil: now.Add(1)}, false, false},
		"in time":             {cairn.PendingCall{Status: cairn.CallOpen, CallRef: cairn.CallRef{Deadline: now.Add(1)}}, false, false},
		"overdue":             {cairn.PendingCall{Status: cairn.CallOpen, CallRef: cairn.CallRef{Deadline: now}}, false, true},
		"answered, past time": {cairn.PendingCall{Status: cairn.CallAnswered, CallRef: cairn.CallRef{Deadline: now}}, false, false},
		"dropped, past time":  {cairn.PendingCall{Status: cairn.CallDropped, CallRef: cairn.CallRef{Deadline: now}}, false, false},
	} {
		if claimed, overdue := test.call.Claimed(now), test.call.Overdue(now); claimed != test.claimed || overdue != test.overdue {
			t.Errorf("%s: claimed %t, overdue %t", name, claimed, overdue)
		}
	}
}

// TestReadySessions: a session is ready if it is paused and nothing that it waited for is missing.
func TestReadySessions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		session cairn.Session
		want    bool
	}{
		"everything is there": {cairn.Session{Status: cairn.SessionPaused, SuspendedStep: "step_1"}, true},
		"something is not":    {cairn.Session{Status: cairn.SessionPaused, SuspendedStep: "step_1", OpenCalls: 1}, false},
		"paused otherwise":    {cairn.Session{Status: cairn.SessionPaused}, false},
		"under way again":     {cairn.Session{Status: cairn.SessionActive, SuspendedStep: "step_1"}, false},
		"stopped":             {cairn.Session{Status: cairn.SessionInterrupted, SuspendedStep: "step_1"}, false},
	} {
		if got := test.session.Ready(); got != test.want {
			t.Errorf("%s: ready %t", name, got)
		}
	}
}

func TestSuspendedRuns(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]cairn.RunStatus{
		"suspended_client_tool": cairn.RunSuspended, "suspended_awaiting_children": cairn.RunSuspended, "suspended_step_partial": cairn.RunSuspended,
		"suspended": cairn.RunSuspended, "suspender": "suspender", "running": cairn.RunRunning, "completed": cairn.RunCompleted, "": "",
	} {
		var run cairn.Run
		if err := json.Unmarshal([]byte(`{"status":"`+word+`"}`), &run); err != nil || run.Status != want {
			t.Errorf("status %q: %q, %v, want %q", word, run.Status, err, want)
		}
	}
	run := &cairn.Run{Suspended: &cairn.Suspension{StepID: "step_1", Calls: []cairn.CallRef{clientRef}}}
	if got := run.Result().Suspended; got != run.Suspended {
		t.Errorf("the result tells of %+v", got)
	}
}

func TestInputSwitchesNoTools(t *testing.T) {
	t.Parallel()
	m := cairn.Context("From now on without.")
	m.Tools = map[string]bool{"refund": false}
	var e *cairn.Error
	if err := cairn.Messages(m).Validate(); !errors.As(err, &e) || e.Code != cairn.ErrInvalid || e.Field != "input.tools" {
		t.Errorf("error %v", err)
	}
	if err := cairn.Messages(cairn.User(cairn.TextPart("hello")), m).Validate(); !errors.As(err, &e) || e.Field != "input.messages[1].tools" {
		t.Errorf("error %v", err)
	}
}
