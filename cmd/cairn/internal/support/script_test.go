package support_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/shop"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/support"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/store/memstore"
)

func ExampleAgent() {
	dir, err := os.MkdirTemp("", "shop")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	s, err := shop.Open(ctx, filepath.Join(dir, "shop.db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{support.Agent(s, support.Script(0))}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close(ctx)
	run, err := eng.Execute(ctx, "s1", support.Name, cairn.Text("Where is order 44?"))
	if err != nil {
		log.Fatal(err)
	}
	res, err := run.Wait(ctx)
	fmt.Println(res.Text, err)
	// Output:
	// Order 44 (Bicycle bell, 12.00 EUR) is on its way to 78 High Street, Bletchley. <nil>
}

// talk plays a conversation and returns the called tools and the last text. decide decides pending calls.
func talk(t *testing.T, decide func(cairn.CallRef) cairn.Submission, lines ...string) (calls []string, text string) {
	t.Helper()
	s, err := shop.Open(t.Context(), filepath.Join(t.TempDir(), "shop.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{support.Agent(s, support.Script(0))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close(t.Context())
	for _, line := range lines {
		run, err := eng.Execute(t.Context(), "s1", support.Name, cairn.Text(line))
		if err != nil {
			t.Fatal(err)
		}
		res, err := run.Wait(t.Context())
		for err == nil && res.Status == cairn.RunSuspended {
			for _, call := range res.Suspended.Calls {
				if _, err := eng.Submit(t.Context(), "s1", decide(call)); err != nil {
					t.Fatal(err)
				}
			}
			if run, err = eng.Resume(t.Context(), "s1"); err == nil {
				res, err = run.Wait(t.Context())
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		text = res.Text
	}
	messages, err := eng.Messages(t.Context(), "s1", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range messages {
		for _, use := range messages[i].ToolUses() {
			calls = append(calls, use.Tool+string(use.Input))
		}
	}
	return calls, text
}

func TestScript(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		says  string // lines, separated by |
		calls string
		hears string // part of the last text
	}{
		{"Orders 41 and 42 were never received",
			`lookup_order{"order":41} lookup_order{"order":42} refund{"order":41,"reason":"missing"} refund{"order":42,"reason":"missing"}`,
			"Done: 39.90 EUR for order 41 are on their way back to you (refund"},
		{"Order 45 has not arrived. It is lost.", `lookup_order{"order":45} refund{"order":45,"reason":"missing"}`, "Done: 58.00 EUR"},
		{"Orders 42, 44 & 99 are damaged",
			`lookup_order{"order":42} lookup_order{"order":44} lookup_order{"order":99} refund{"order":42,"reason":"broken"}`,
			"order 99 not found. Shall I refund order 44?"},
		{"I got the wrong thing in #50", `lookup_order{"order":50} refund{"order":50,"reason":"wrong"}`, "refund 1"},
		{"order 46 is late|nope", `lookup_order{"order":46}`, "nothing was changed"},
		{"order 46 is late|go ahead", `lookup_order{"order":46} lookup_order{"order":46} refund{"order":46,"reason":"late"}`, "Done: 45.00 EUR"},
		{"cancel order 51|Yes!", `lookup_order{"order":51} lookup_order{"order":51} refund{"order":51,"reason":"unwanted"}`, "Done: 149.00 EUR"},
		{"Please send order no. 48 to 1 Main Street, Springfield, please.",
			`change_address{"order":48,"address":"1 Main Street, Springfield"}`, "now goes to 1 Main Street, Springfield."},
		{"I moved. Change the address of order 43|which one?", ``, "I did not quite get that."},
		{"deliver it to 9 Hill Road, Oxford", ``, "Which order is it about?"},
		{"Which orders has Ada Lovelace?|Ada Lovelace's orders", `list_orders{"customer":"Ada Lovelace"}`, "Order 48"},
		{"list orders by Charles Babbage", `list_orders{"customer":"Charles Babbage"}`, "no orders under that name"},
		{"when will it arrive|the one with number 52", `lookup_order{"order":52}`, "Music stand"},
		{"Hi", ``, "Hello!"},
		{"🤷", ``, "I did not quite get that."},
	} {
		calls, text := talk(t, cairn.Approve, strings.Split(test.says, "|")...)
		if got := strings.Join(calls, " "); got != test.calls {
			t.Errorf("%q calls\n%s\nwant\n%s", test.says, got, test.calls)
		}
		if !strings.Contains(text, test.hears) {
			t.Errorf("%q ends with %q, want %q", test.says, text, test.hears)
		}
	}
}

// TestScriptIsDecidedAbout has refunds denied and changed by reviewers: the model requests neither again.
func TestScriptIsDecidedAbout(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		says   string
		decide func(cairn.CallRef) cairn.Submission
		hears  string
	}{
		{"order 42 is broken", func(c cairn.CallRef) cairn.Submission { return cairn.Deny(c, "") }, "I could not refund order 42: it was not approved."},
		{"order 42 is broken", func(c cairn.CallRef) cairn.Submission { return cairn.Deny(c, "show it first") },
			"I could not refund order 42: it was not approved: show it first."},
		{"order 42 is broken", func(c cairn.CallRef) cairn.Submission {
			return cairn.Approve(c).WithInput(map[string]any{"order": 41, "reason": "broken"})
		}, "Done: 39.90 EUR for order 41 are on their way back to you (refund 1). Nothing needs to be sent back."},
	} {
		calls, text := talk(t, test.decide, test.says)
		if text != test.hears || len(calls) != 2 {
			t.Errorf("%d calls, ends with %q, want %q", len(calls), text, test.hears)
		}
	}
}

// TestApprovalIsNeeded checks which refunds wait for approval: those that the shop would make, above an amount.
func TestApprovalIsNeeded(t *testing.T) {
	t.Parallel()
	s, err := shop.Open(t.Context(), filepath.Join(t.TempDir(), "shop.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Refund(t.Context(), "k", 41, "broken"); err != nil {
		t.Fatal(err)
	}
	refund := define.ToolOf(support.Agent(s, support.Script(0)).Tools, "refund")
	if refund == nil {
		t.Fatal("there is no tool refund")
	}
	for order, want := range map[int]bool{
		42: true, 50: true,
		44: false, // 12.00 EUR
		41: false, // refunded already
		49: false, // cancelled
		99: false, // no such order
	} {
		asks, err := refund.AsksApproval(t.Context(), nil, fmt.Appendf(nil, `{"order":%d,"reason":"broken"}`, order))
		if err != nil || (asks != nil) != want {
			t.Errorf("order %d: %v, %v; want %t", order, asks, err, want)
		}
	}
	if got := refund.Wait.AtMost; got != 24*time.Hour {
		t.Errorf("it waits for %s", got)
	}
}

// TestDescribe describes calls.
func TestDescribe(t *testing.T) {
	t.Parallel()
	s, err := shop.Open(t.Context(), filepath.Join(t.TempDir(), "shop.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, test := range []struct{ agent, tool, input, want string }{
		{support.Name, "refund", `{"order":42,"reason":"broken"}`, "refund of 24.50 EUR for order 42 (Espresso cups, set of 4, broken)"},
		{support.Name, "refund", `{"order":99,"reason":"broken"}`, `refund {"order":99,"reason":"broken"}`},
		{support.Name, "refund", `{"order":"x"}`, `refund {"order":"x"}`},
		{support.Name, "ship", `{"order":42}`, `ship {"order":42}`},
		{"other", "refund", `{"order":42}`, `refund {"order":42}`},
	} {
		call := cairn.PendingCall{CallRef: cairn.CallRef{Tool: test.tool, Input: json.RawMessage(test.input)}, Agent: test.agent}
		if got := support.Describe(t.Context(), s, &call); got != test.want {
			t.Errorf("%s %s: %q, want %q", test.agent, test.input, got, test.want)
		}
	}
}

// TestScriptResumes cuts a reply at each word and has the model resume it: together, the parts are the whole reply.
func TestScriptResumes(t *testing.T) {
	t.Parallel()
	model := support.Script(0)
	reply := func(messages ...cairn.Message) (text string, pieces []string) {
		for chunk, err := range model.Stream(t.Context(), &cairn.Request{SessionID: "s", Messages: messages}) {
			if err != nil {
				t.Fatal(err)
			}
			if chunk.Type == cairn.ChunkText {
				text += chunk.Text
				pieces = append(pieces, chunk.Text)
			}
		}
		return text, pieces
	}
	said := func(text string) cairn.Message {
		return cairn.Message{Role: cairn.RoleAssistant, Parts: []cairn.Part{cairn.TextPart(text)}}
	}
	hello := cairn.User(cairn.TextPart("hello"))
	whole, pieces := reply(hello)
	for n := range len(pieces) {
		half := strings.Join(pieces[:n], "")
		rest, more := reply(hello, said(half), cairn.Context("Continue where you stopped."))
		if half+rest != whole {
			t.Errorf("%q resumes with %q", half, rest)
		}
		if n == 0 { // interrupted a second time
			first := more[0]
			rest, _ := reply(hello, said(first), cairn.Context("Continue."), said(more[1]), cairn.Context("Continue."))
			if first+more[1]+rest != whole {
				t.Errorf("%q, %q resumes with %q", first, more[1], rest)
			}
		}
	}
	if rest, _ := reply(hello, said(whole), cairn.Context("Continue where you stopped.")); rest != "That was all." {
		t.Errorf("a whole reply resumes with %q", rest)
	}
}

// TestScriptCallsAgain checks that a call that was stopped before it ran is made again, and a failed one is not.
func TestScriptCallsAgain(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code cairn.Code
		want []string
	}{
		{cairn.ErrNotExecuted, []string{"lookup_order"}},
		{cairn.ErrTimeout, nil},
	} {
		messages := []cairn.Message{
			cairn.User(cairn.TextPart("Where is order 44?")),
			{Role: cairn.RoleAssistant, Parts: []cairn.Part{{Type: cairn.PartToolUse,
				ToolUse: &cairn.ToolUse{CallID: "c1", Tool: "lookup_order", Input: json.RawMessage(`{"order":44}`)}}}},
			{Role: cairn.RoleTool, Parts: []cairn.Part{{Type: cairn.PartToolResult,
				Result: &cairn.ToolResult{CallID: "c1", Tool: "lookup_order", Output: json.RawMessage(`"no"`), IsError: true, Code: test.code}}}},
		}
		var calls []string
		for chunk, err := range support.Script(0).Stream(t.Context(), &cairn.Request{SessionID: "s", Messages: messages}) {
			if err != nil {
				t.Fatal(err)
			}
			if chunk.Type == cairn.ChunkToolStart {
				calls = append(calls, chunk.Tool)
			}
		}
		if !slices.Equal(calls, test.want) {
			t.Errorf("%s: calls %v, want %v", test.code, calls, test.want)
		}
	}
}
