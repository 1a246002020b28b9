package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

var limitTests = []storeTest{
	{name: "CommitRefuses", run: commitRefuses},
	{name: "CreateRefuses", run: createRefuses},
	{name: "StageRefuses", run: stageRefuses},
	{name: "StopRefuses", run: stopRefuses},
	{name: "JustWithin", run: justWithin},
}

// deep returns JSON that is nested to n levels.
func deep(n int) json.RawMessage {
	return json.RawMessage(strings.Repeat("[", n) + strings.Repeat("]", n))
}

func useOf(input json.RawMessage) []cairn.Message {
	return []cairn.Message{{Role: cairn.RoleAssistant, Parts: []cairn.Part{
		{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{CallID: "c", Tool: "t", Input: input}}}}}
}

// unkeepable returns commits of a session that no store may accept: each would be read back as something else, or not
// at all. It is one table, and therefore long.
func unkeepable() map[string]*driver.Commit {
	run := func(change func(*cairn.Run)) *driver.Commit {
		r := &cairn.Run{ID: "run", Agent: agentName, Status: cairn.RunRunning}
		change(r)
		return &driver.Commit{StartRun: r}
	}
	state := func(op cairn.Op) *driver.Commit {
		return &driver.Commit{State: &driver.StateChange{Ops: []cairn.Op{op}}}
	}
	part := func(p cairn.Part) *driver.Commit {
		return &driver.Commit{Messages: []cairn.Message{{Role: cairn.RoleAssistant, Parts: []cairn.Part{p}}}}
	}
	call := func(change func(*cairn.PendingCall)) *driver.Commit {
		c := cairn.PendingCall{CallRef: cairn.CallRef{ID: "call", Kind: cairn.CallApproval, Tool: "t"}, Status: cairn.CallOpen}
		change(&c)
		return &driver.Commit{Calls: []driver.CallWrite{{Call: c}}}
	}
	inf, half := math.Inf(1), json.RawMessage(`"\ud800"`)
	return map[string]*driver.Commit{
		"text with a NUL":        {Messages: says("a\x00b")},
		"text that is not UTF-8": {Messages: says("bad \xff\xfe UTF-8")},
		"half a character":       {Messages: says("half a \xf0\x9f\x9c")},
		"a message's id":         {Messages: []cairn.Message{{ID: "\x00", Role: cairn.RoleUser}}},
		"a message's time":       {Messages: []cairn.Message{{Role: cairn.RoleUser, CreatedAt: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}}},
		"a message that is too large": {Messages: []cairn.Message{cairn.User(cairn.TextPart(strings.Repeat("x", cairn.MaxMessageBytes/2)),
			cairn.TextPart(strings.Repeat("x", cairn.MaxMessageBytes/2)), cairn.TextPart("x"))}},
		"arguments with a NUL":       {Messages: useOf(json.RawMessage(`"\u0000"`))},
		"arguments with half a pair": {Messages: useOf(half)},
		"arguments too deep":         {Messages: useOf(deep(cairn.MaxJSONDepth + 1))},
		"arguments much too deep":    {Messages: useOf(deep(9_998))},
		"an infinite argument":       {Messages: useOf(json.RawMessage(`1e999`))},
		"arguments that are no JSON": {Messages: useOf(json.RawMessage(`{`))},
		"provider data":              part(cairn.Part{Type: cairn.PartReasoning, Provider: json.RawMessage(`nonsense`)}),
		"a result in Latin-1": part(cairn.Part{Type: cairn.PartToolResult,
			Result: &cairn.ToolResult{CallID: "c", Tool: "t", Output: json.RawMessage("\"caf\xe9\"")}}),
		"a file's name": part(cairn.FilePart(cairn.File{Name: "\x00", MediaType: "a/b", URL: "u"})),

		"state too deep":               state(cairn.Op{Kind: cairn.OpReplace, Path: "/a", Value: deep(cairn.MaxJSONDepth)}),
		"state too deep by its path":   state(cairn.Op{Kind: cairn.OpAppend, Path: strings.Repeat("/a", cairn.MaxJSONDepth), Items: []json.RawMessage{json.RawMessage("1")}}),
		"a member with a NUL":          state(cairn.Op{Kind: cairn.OpReplace, Path: "/\x00", Value: json.RawMessage("1")}),
		"a whole state that is none":   {State: &driver.StateChange{Keyframe: json.RawMessage(`[1]`)}},
		"a whole state with a NUL":     {State: &driver.StateChange{Keyframe: json.RawMessage(`{"a":"\u0000"}`)}},
		"an operation of another kind": state(cairn.Op{Kind: "move", Path: "/a"}),

		"infinite usage":  {Usage: cairn.Usage{Custom: map[string]float64{"cost": inf}}},
		"usage like NaN":  {Usage: cairn.Usage{Custom: map[string]float64{"cost": math.NaN()}}},
		"usage's name":    {Usage: cairn.Usage{Custom: map[string]float64{"\xff": 1}}},
		"negative tokens": {Usage: cairn.Usage{InputTokens: -1}},
		"endless tokens":  {Usage: cairn.Usage{OutputTokens: math.MaxInt64}},

		"a run's text":   run(func(r *cairn.Run) { r.Text = "\x00" }),
		"a run's output": run(func(r *cairn.Run) { r.Output = half }),
		"a run's error":  run(func(r *cairn.Run) { r.Error = cairn.Errorf(cairn.ErrTool, "\xff") }),
		"a run's usage":  run(func(r *cairn.Run) { r.Usage.Custom = map[string]float64{"cost": inf} }),

		"a call's input":      call(func(c *cairn.PendingCall) { c.Input = half }),
		"a call's answer":     call(func(c *cairn.PendingCall) { c.Answer = &cairn.CallAnswer{Value: deep(129)} }),
		"an answer's words":   call(func(c *cairn.PendingCall) { c.Answer = &cairn.CallAnswer{Text: "\x00"} }),
		"a reviewer's name":   call(func(c *cairn.PendingCall) { c.Reviewers = []string{"\xff"} }),
		"a note in a trail":   call(func(c *cairn.PendingCall) { c.Trail = []cairn.Decision{{Notes: "\x00"}} }),
		"a queued message":    {Enqueue: &driver.QueuedTurn{ID: "turn", Messages: says("\x00")}},
		"a cached result":     {Cache: []driver.CacheEntry{{Key: "k", Tool: "t", Output: half}}},
		"an unnamed entry":    {Context: &driver.ContextChange{Metadata: cairn.Metadata{"": "1"}}},
		"a user's name":       {Context: &driver.ContextChange{UserID: new("\xff")}},
		"metadata":            {Context: &driver.ContextChange{Metadata: cairn.Metadata{"a": "\x00"}}},
		"too much metadata":   {Context: &driver.ContextChange{Metadata: cairn.Metadata{"a": strings.Repeat("x", cairn.MaxMetadataBytes)}}},
		"metadata too deep":   {Context: &driver.ContextChange{Metadata: cairn.Metadata{"a": deep(cairn.MaxJSONDepth)}}},
		"an inexact number":   {Context: &driver.ContextChange{Metadata: cairn.Metadata{"a": json.RawMessage(`[9007199254740993]`)}}},
		"metadata of no JSON": {Context: &driver.ContextChange{Metadata: cairn.Metadata{"a": make(chan int)}}},
		"added tag":           {Context: &driver.ContextChange{AddTags: []string{"a\n"}}},
		"a checkpoint's step": {Checkpoint: &cairn.Checkpoint{ID: "cp", StepID: "\xff"}},
	}
}

// wantRefused checks that an error is about an invalid value, and names it.
func (h *harness) wantRefused(err error, what string) {
	h.Helper()
	var e *cairn.Error
	if !errors.As(err, &e) || e.Code != cairn.ErrInvalid && e.Code != cairn.ErrTooLarge || e.Field == "" || !strings.HasPrefix(e.Message, e.Field) {
		h.Fatalf("%s: error %v, want one that names the field", what, err)
	}
}

func commitRefuses(h *harness) {
	h.create("session")
	for what, c := range unkeepable() {
		h.unchanged("session", what, func() {
			_, err := h.st.Commit(h.Context(), "session", c)
			h.wantRefused(err, what)
		})
	}
	h.commit("session", &driver.Commit{Messages: says("still there")})
}

func createRefuses(h *harness) {
	for what, c := range map[string]*driver.Commit{
		"user":          {Create: &cairn.Session{ID: "new", Agent: agentName, UserID: "\xff"}},
		"tag":           {Create: &cairn.Session{ID: "new", Agent: agentName, Tags: []string{"\x00"}}},
		"metadata":      {Create: &cairn.Session{ID: "new", Agent: agentName, Metadata: cairn.Metadata{"a": "\x00"}}},
		"trace":         {Create: &cairn.Session{ID: "new", Agent: agentName, TraceParent: "\x00"}},
		"name":          {Create: &cairn.Session{ID: "new", Agent: agentName, Name: "\xff"}},
		"initial state": {Create: &cairn.Session{ID: "new", Agent: agentName}, InitialState: json.RawMessage(`{"a":"\u0000"}`)},
		"a list":        {Create: &cairn.Session{ID: "new", Agent: agentName}, InitialState: json.RawMessage(`[]`)},
		"too deep":      {Create: &cairn.Session{ID: "new", Agent: agentName}, InitialState: json.RawMessage(fmt.Sprintf(`{"a":%s}`, deep(cairn.MaxJSONDepth)))},
	} {
		c.Guard.New = true
		_, err := h.st.Commit(h.Context(), "new", c)
		h.wantRefused(err, what)
		if h.content("new") != nil {
			h.Fatalf("%s: the session was created", what)
		}
	}
	h.create("new")
}

func stageRefuses(h *harness) {
	h.create("session")
	s := h.begin("session", "run")
	for what, p := range map[string]driver.Staged{
		"no JSON": {StepID: "run/1", Key: "reply", Data: json.RawMessage(`{`)},
		"a step":  {StepID: "\xff", Key: "reply", Data: json.RawMessage(`{}`)},
		"a key":   {StepID: "run/1", Key: "\x00", Data: json.RawMessage(`{}`)},
	} {
		h.unchanged("session", what, func() {
			h.wantRefused(h.st.Stage(h.Context(), "session", s.Lease.Token, p), what)
		})
	}
}

func stopRefuses(h *harness) {
	h.create("session")
	h.begin("session", "run")
	for _, reason := range []string{"\xff", "a\x00", strings.Repeat("x", cairn.MaxMetadataBytes+1)} {
		h.unchanged("session", reason, func() {
			h.wantRefused(h.st.RequestStop(h.Context(), "session", cairn.Stop{RunID: "run", Kind: cairn.StopInterrupt, Reason: reason}), "a reason")
		})
	}
	h.must(h.st.RequestStop(h.Context(), "session", cairn.Stop{RunID: "run", Kind: cairn.StopInterrupt, Reason: strings.Repeat("x", cairn.MaxMetadataBytes)}))
}

// justWithin stores values that are exactly at the limits. largeMessages tests the size of messages; values that grow
// when they are escaped need not be as large.
func justWithin(h *harness) {
	h.create("session")
	given := append(says("\x01\u007f\u2028", strings.Repeat("\x01", 1<<16)), useOf(deep(cairn.MaxJSONDepth))...)
	given = append(given, useOf(json.RawMessage(`{"a":1,"a":2,"n":[1e308,-0,1e-400,12345678901234567890123],"t":"\ud83d\ude00\u0001"}`))...)
	h.commit("session", &driver.Commit{Messages: given, Usage: cairn.Usage{InputTokens: 1<<53 - 1, Custom: map[string]float64{"cost": math.MaxFloat64}},
		State: &driver.StateChange{Ops: []cairn.Op{{Kind: cairn.OpReplace, Path: "/a", Value: deep(cairn.MaxJSONDepth - 1)}}}})
	list := h.messages("session")
	for i := range given {
		same(h.T, fmt.Sprint("parts of message ", i), list[i].Parts, given[i].Parts)
	}
	same(h.T, "state", h.state("session", ""), json.RawMessage(fmt.Sprintf(`{"a":%s}`, deep(cairn.MaxJSONDepth-1))))
	if u := h.load("session").Usage; u.InputTokens != 1<<53-1 || u.Custom["cost"] != math.MaxFloat64 {
		h.Fatalf("usage %+v", u)
	}
}

// logRefuses appends events that no log may accept.
func logRefuses(h *logHarness) {
	h.append("log", say("first"))
	for what, ev := range map[string]cairn.Event{
		"text with a NUL":          {Type: cairn.EventTextDelta, SessionID: "s", Text: "a\x00"},
		"text that is not UTF-8":   {Type: cairn.EventTextDelta, SessionID: "s", Text: "\xff"},
		"a tool's name":            {Type: cairn.EventToolStart, SessionID: "s", Tool: "\xff"},
		"data that is not JSON":    {Type: cairn.EventCustom, SessionID: "s", Name: "n", Data: json.RawMessage(`{`)},
		"data that is too deep":    {Type: cairn.EventCustom, SessionID: "s", Name: "n", Data: deep(cairn.MaxJSONDepth + 1)},
		"data with a NUL":          {Type: cairn.EventCustom, SessionID: "s", Name: "n", Data: json.RawMessage(`"\u0000"`)},
		"usage that is not finite": {Type: cairn.EventUsage, SessionID: "s", Usage: &cairn.Usage{Custom: map[string]float64{"cost": math.Inf(1)}}},
		"an error's words":         {Type: cairn.EventError, SessionID: "s", Error: cairn.Errorf(cairn.ErrTool, "\xff")},
		"a patch":                  {Type: cairn.EventStatePatch, SessionID: "s", Patch: []cairn.PatchOp{{Op: "add", Path: "/a", Value: json.RawMessage(`1e999`)}}},
	} {
		_, err := h.log.Append(h.Context(), "log", driver.AnySequence, say("before"), ev)
		wantError(h.T, err, cairn.ErrInvalid, what)
	}
	h.append("log", say("second"))
	h.wantTexts("events", h.all("log", 0), 1, "first", "second")
}
