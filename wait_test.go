package cairn_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
)

type place struct {
	City string `json:"city" schema:"minLength=1"`
}

func clientTool(opts ...cairn.ToolOption) cairn.Tool {
	return cairn.ClientTool[struct{}, place]("x", "", opts...)
}

func serverTool(opts ...cairn.ToolOption) cairn.Tool { return cairn.Func("x", "", nothing, opts...) }

func never(context.Context, *cairn.Call, struct{}) (bool, error) { return false, nil }

// checkTools compares the validation of each tool's agent with the expectation: no error, or one that names the
// tool.
func checkTools(t *testing.T, says map[string]string, tools map[string]cairn.Tool) {
	t.Helper()
	for name, tool := range tools {
		a := &cairn.Agent{Name: "support", Model: silent{}, Tools: []cairn.Tool{tool}}
		err, want := a.Validate(), says[name]
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		field := `tool "` + tool.Name() + `"`
		var e *cairn.Error
		if !errors.As(err, &e) || e.Code != cairn.ErrInvalid || e.Field != field || !strings.HasPrefix(e.Message, `agent "support": `+field+": ") || !strings.Contains(e.Message, want) {
			t.Errorf("%s: error %v, want one that says %q", name, err, want)
		}
	}
	for name := range says {
		if _, ok := tools[name]; !ok {
			t.Errorf("there is no tool for %q", name)
		}
	}
}

// TestWaitingTools lists the waits that can be defined, and the mistakes in others.
func TestWaitingTools(t *testing.T) {
	t.Parallel()
	object, approve := json.RawMessage(`{"type":"object"}`), cairn.RequireApproval()
	checkTools(t, map[string]string{
		"client that finishes":            "client-executed tools cannot finish a turn",
		"client with approval":            "client-executed tools cannot require approval",
		"client with approval at times":   "client-executed tools cannot require approval",
		"raw client with approval":        "client-executed tools cannot require approval",
		"client with a timeout":           "WaitAtMost",
		"client with a negative timeout":  "timeout is negative",
		"client that all answer":          "only AnyReviewer",
		"client that most answer":         "only AnyReviewer",
		"client without an object":        "must be an object",
		"client with a recursive input":   "recursive",
		"client with a recursive result":  "result: ",
		"raw client without input":        "JSON",
		"raw client without an object":    "must be an object",
		"raw client with a broken result": "result: ",
		"raw client with an empty result": "result: ",
		"approval that finishes":          "tools that require approval cannot finish a turn",
		"finishing that is approved":      "tools that require approval cannot finish a turn",
		"approval at times that finishes": "tools that require approval cannot finish a turn",
		"approval by no function":         "RequireApprovalIf: function is nil",
		"approval twice":                  "either RequireApproval or RequireApprovalIf",
		"approval always and at times":    "either RequireApproval or RequireApprovalIf",
		"approval at times and always":    "either RequireApproval or RequireApprovalIf",
		"assigned without waiting":        "only for client-executed tools",
		"bounded without waiting":         "only for client-executed tools",
		"no time":                         "WaitAtMost: must be positive",
		"time gone by":                    "WaitAtMost: must be positive",
		"client with no time":             "WaitAtMost: must be positive",
		"a reviewer twice":                `AssignTo: duplicate reviewer "ann"`,
		"no reviewers":                    "AssignTo: no reviewers",
		"a reviewer without a name":       "AssignTo: reviewer name is empty",
		"a reviewer with a broken name":   "AssignTo: reviewer name contains a control character",
		"an unknown quorum":               `AssignTo: unknown quorum "two"`,
	}, map[string]cairn.Tool{
		"client":                 clientTool(),
		"client with everything": clientTool(cairn.AssignTo(cairn.AnyReviewer, "ann", "bob"), cairn.WaitAtMost(time.Hour)),
		"raw client":             cairn.RawClientTool("x", "", object, nil),
		"raw client with result": cairn.RawClientTool("x", "", object, json.RawMessage(`{"type":"string"}`)),
		"approval":               serverTool(approve),
		"approval at times":      serverTool(cairn.RequireApprovalIf(never), cairn.Timeout(time.Second)),
		"approval of all":        serverTool(approve, cairn.AssignTo(cairn.AllReviewers, "ann", "bob"), cairn.WaitAtMost(time.Hour)),
		"approval of most":       serverTool(cairn.AssignTo(cairn.MostReviewers, "ann"), cairn.WaitAtMost(1), approve),

		"client that finishes":            clientTool(cairn.FinishWith()),
		"client with approval":            clientTool(approve),
		"client with approval at times":   clientTool(cairn.RequireApprovalIf(never)),
		"raw client with approval":        cairn.RawClientTool("x", "", object, nil, approve),
		"client with a timeout":           clientTool(cairn.Timeout(time.Second)),
		"client with a negative timeout":  clientTool(cairn.Timeout(-1)),
		"client that all answer":          clientTool(cairn.AssignTo(cairn.AllReviewers, "ann", "bob")),
		"client that most answer":         clientTool(cairn.AssignTo(cairn.MostReviewers, "ann")),
		"client without an object":        cairn.ClientTool[string, string]("x", ""),
		"client with a recursive input":   cairn.ClientTool[loop, string]("x", ""),
		"client with a recursive result":  cairn.ClientTool[struct{}, loop]("x", ""),
		"raw client without input":        cairn.RawClientTool("x", "", nil, nil),
		"raw client without an object":    cairn.RawClientTool("x", "", json.RawMessage(`{"type":"array"}`), nil),
		"raw client with a broken result": cairn.RawClientTool("x", "", object, json.RawMessage(`{`)),
		"raw client with an empty result": cairn.RawClientTool("x", "", object, json.RawMessage{}),
		"approval that finishes":          serverTool(approve, cairn.FinishWith()),
		"finishing that is approved":      serverTool(cairn.FinishWith(), approve),
		"approval at times that finishes": serverTool(cairn.RequireApprovalIf(never), cairn.FinishWith()),
		"approval by no function":         serverTool(cairn.RequireApprovalIf[struct{}, bool](nil)),
		"approval twice":                  serverTool(approve, approve),
		"approval always and at times":    serverTool(approve, cairn.RequireApprovalIf(never)),
		"approval at times and always":    serverTool(cairn.RequireApprovalIf(never), approve),
		"assigned without waiting":        serverTool(cairn.AssignTo(cairn.AnyReviewer, "ann")),
		"bounded without waiting":         serverTool(cairn.WaitAtMost(time.Hour)),
		"no time":                         serverTool(approve, cairn.WaitAtMost(0)),
		"time gone by":                    serverTool(approve, cairn.WaitAtMost(-time.Hour)),
		"client with no time":             clientTool(cairn.WaitAtMost(0)),
		"a reviewer twice":                serverTool(approve, cairn.AssignTo(cairn.AllReviewers, "ann", "bob", "ann")),
		"no reviewers":                    serverTool(approve, cairn.AssignTo(cairn.AnyReviewer)),
		"a reviewer without a name":       serverTool(approve, cairn.AssignTo(cairn.AnyReviewer, "ann", "")),
		"a reviewer with a broken name":   clientTool(cairn.AssignTo(cairn.AnyReviewer, "a\x00n")),
		"an unknown quorum":               serverTool(approve, cairn.AssignTo("two", "ann", "bob")),
	})
}

func TestAsksApproval(t *testing.T) {
	t.Parallel()
	asks := func(yes bool, err error) cairn.Tool {
		return serverTool(cairn.RequireApprovalIf(func(context.Context, *cairn.Call, struct{}) (bool, error) { return yes, err }))
	}
	typed := cairn.Func("x", "", func(context.Context, *cairn.Call, transfer) (int, error) { return 0, nil },
		cairn.RequireApprovalIf(func(_ context.Context, call *cairn.Call, in transfer) (bool, error) {
			return in.Amount > 10 && call.ID == "call_1", nil
		}))
	for name, test := range map[string]struct {
		tool  cairn.Tool
		input string
		waits cairn.CallKind
		asks  bool
		fails bool
	}{
		"plain":             {serverTool(), `{}`, "", false, false},
		"client":            {clientTool(), `{}`, cairn.CallClientTool, false, false},
		"always":            {serverTool(cairn.RequireApproval()), `{}`, cairn.CallApproval, true, false},
		"yes":               {asks(true, nil), `{}`, cairn.CallApproval, true, false},
		"no":                {asks(false, nil), `{}`, cairn.CallApproval, false, false},
		"an error":          {asks(false, io.EOF), `{}`, cairn.CallApproval, true, true},
		"little":            {typed, `{"to":"bob","amount":10}`, cairn.CallApproval, false, false},
		"much":              {typed, `{"to":"bob","amount":11}`, cairn.CallApproval, true, false},
		"does not decode":   {typed, `{"to":"bob","amount":"11"}`, cairn.CallApproval, true, true},
		"not JSON, somehow": {asks(false, nil), `{`, cairn.CallApproval, true, true},
	} {
		call := &cairn.Call{Step: &cairn.Step{}, ID: "call_1"}
		tool := of(test.tool)
		got, err := tool.AsksApproval(t.Context(), call, json.RawMessage(test.input))
		if (got != nil) != test.asks || (err != nil) != test.fails || tool.Wait.Kind != test.waits {
			t.Errorf("%s: asks %v, %v, waits for %q", name, got, err, tool.Wait.Kind)
		}
	}
}

// TestPending checks the row of a call that begins to wait.
func TestPending(t *testing.T) {
	t.Parallel()
	input, result := json.RawMessage(`{"type":"object"}`), json.RawMessage(`{"type":"string"}`)
	for name, test := range map[string]struct {
		tool      cairn.Tool
		kind      cairn.CallKind
		schema    string
		reviewers []string
		quorum    cairn.Quorum
		atMost    time.Duration
	}{
		"client":           {clientTool(), cairn.CallClientTool, `"minLength":1`, nil, "", 0},
		"client of any":    {cairn.ClientTool[struct{}, any]("x", ""), cairn.CallClientTool, "", nil, "", 0},
		"bounded client":   {clientTool(cairn.WaitAtMost(time.Hour)), cairn.CallClientTool, `"city"`, nil, "", time.Hour},
		"assigned client":  {clientTool(cairn.AssignTo(cairn.AnyReviewer, "ann")), cairn.CallClientTool, `"city"`, []string{"ann"}, "", 0},
		"raw client":       {cairn.RawClientTool("x", "", input, result), cairn.CallClientTool, `{"type":"string"}`, nil, "", 0},
		"raw client, any":  {cairn.RawClientTool("x", "", input, nil), cairn.CallClientTool, "", nil, "", 0},
		"approval":         {cairn.RawFunc("x", "", input, raw, cairn.RequireApproval()), cairn.CallApproval, `{"type":"object"}`, nil, "", 0},
		"approval of all":  {serverTool(cairn.RequireApproval(), cairn.AssignTo(cairn.AllReviewers, "ann", "bob")), cairn.CallApproval, `"object"`, []string{"ann", "bob"}, cairn.AllReviewers, 0},
		"bounded approval": {serverTool(cairn.RequireApproval(), cairn.WaitAtMost(time.Nanosecond)), cairn.CallApproval, `"object"`, nil, "", 1},
	} {
		tool := of(test.tool)
		c := tool.Pending(tool.Wait.Kind, nil)
		if c.Kind != test.kind || c.Tool != "x" || c.Status != cairn.CallOpen || c.Quorum != test.quorum || !slices.Equal(c.Reviewers, test.reviewers) ||
			!c.Deadline.IsZero() || c.WaitAtMost != cairn.Duration(test.atMost) || (len(c.Schema) == 0) != (test.schema == "") || !strings.Contains(string(c.Schema), test.schema) {
			t.Errorf("%s: %+v with schema %s", name, c, c.Schema)
		}
	}
}

// TestReviewersAreTheToolsOwn: a tool's reviewers change neither with the list that it was made with nor with a
// list that it returned.
func TestReviewersAreTheToolsOwn(t *testing.T) {
	t.Parallel()
	names := []string{"ann", "bob"}
	option := cairn.AssignTo(cairn.AllReviewers, names...)
	names[0] = "mallory"
	tool := of(serverTool(cairn.RequireApproval(), option))
	given := tool.Pending(cairn.CallApproval, nil)
	given.Reviewers[1] = "mallory"
	if got := tool.Pending(cairn.CallApproval, nil).Reviewers; !slices.Equal(got, []string{"ann", "bob"}) {
		t.Errorf("the reviewers are %q", got)
	}
}

func TestCheckValue(t *testing.T) {
	t.Parallel()
	c := of(clientTool()).Pending(cairn.CallClientTool, nil)
	c.ID = "call_1"
	if err := c.CheckValue("result", json.RawMessage(`{"city":"Oslo"}`)); err != nil {
		t.Error(err)
	}
	for value, violations := range map[string]int{`{}`: 1, `{"city":"","more":1}`: 2, `"Oslo"`: 1, `{`: 1, ``: 1} {
		var e *cairn.Error
		err := c.CheckValue("result", json.RawMessage(value))
		if !errors.As(err, &e) || e.Code != cairn.ErrInvalid || e.Field != "result" || len(e.Details) != violations ||
			!strings.HasPrefix(e.Message, "result: violates the schema of the call: ") || !strings.Contains(e.Message, e.Details[violations-1]) {
			t.Errorf("%s: error %v with details %q", value, err, e.Details)
		}
	}
	c.Schema = nil
	if err := c.CheckValue("result", json.RawMessage(`"anything"`)); err != nil {
		t.Errorf("without a schema: %v", err)
	}
	c.Schema = json.RawMessage(`{`)
	if err := c.CheckValue("result", json.RawMessage(`1`)); cairn.AsError(err) == nil || cairn.AsError(err).Code != cairn.ErrCorrupt || !strings.Contains(err.Error(), `"call_1"`) {
		t.Errorf("a schema that was damaged: %v", err)
	}
}
