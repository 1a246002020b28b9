package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/setup"
	"github.com/cairn-agents/cairn/model/openaichat/openaichattest"
)

// ask plays the demo on the bench with the model of a server.
func (b *bench) ask(server *openaichattest.Server, stdin string) (stdout, stderr string, code int) {
	b.env["OPENAI_BASE_URL"], b.env["OPENAI_MODEL"], b.env["OPENAI_API_KEY"] = server.BaseURL, "test-model", "key-1"
	return b.run(stdin, "demo")
}

// TestOpenAI checks that the environment selects a server's model.
func TestOpenAI(t *testing.T) {
	t.Parallel()
	server := openaichattest.NewServer(
		openaichattest.CallTool("lookup_order", lookupArgs{42}),
		openaichattest.Reply{Reasoning: "It is broken.", Calls: []openaichattest.Call{{Tool: "refund", Arguments: `{"order":42,"reason":"broken"}`}}},
		openaichattest.Text("Your 24.50 EUR are on their way."),
	)
	defer server.Close()
	server.RequireKey("key-1")
	b := newBench(t)
	stdout, stderr, code := b.ask(server, "Order 42 arrived broken\ny\n")
	if code != cli.ExitOK || stderr != "" {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	at := 0
	for _, part := range []string{
		"model openai-chat:test-model.\n", "you: Order 42 arrived broken\n",
		`→ lookup_order {"order":42}`, `← {"order":42,"customer":"Ada Lovelace"`,
		"  It is broken.\n", `‖ refund {"order":42,"reason":"broken"} waits for approval`,
		"  waiting · 2 model calls · 1 tool call · ", "Approve refund of 24.50 EUR for order 42 (Espresso cups, set of 4, broken)? ",
		`→ refund {"order":42,"reason":"broken"}`, `← {"refund":1,`,
		"support: Your 24.50 EUR are on their way.\n", "  completed · 1 model call · 1 tool call · ",
	} {
		i := strings.Index(stdout[at:], part)
		if i < 0 {
			t.Fatalf("%q is missing after %q:\n%s", part, stdout[:at], stdout)
		}
		at += i
	}
	wantRefunds(t, b, 1)
	if asked := server.Requests(); asked[0].Model != "test-model" || len(asked[0].Tools) != 4 {
		t.Errorf("the server was asked %+v", asked[0])
	}
}

// TestSwitchedModel has one model begin a conversation and another continue it.
func TestSwitchedModel(t *testing.T) {
	t.Parallel()
	server := openaichattest.NewServer(openaichattest.Text("Hello!"), openaichattest.Text("Again."))
	defer server.Close()
	stdout, stderr, code := newBench(t).ask(server, "Hi\n/model telepathy:x\n/model openai-chat:other\nHi again\n")
	if code != cli.ExitOK || !strings.Contains(stdout, "error: model: \"telepathy:x\"") || !strings.Contains(stdout, "Model openai-chat:other answers from now on.") {
		t.Fatalf("exit %d: %s\n%s", code, stderr, stdout)
	}
	asked := server.Requests()
	if len(asked) != 2 || asked[0].Model != "test-model" || asked[1].Model != "other" || len(asked[1].Messages) <= len(asked[0].Messages) {
		t.Errorf("the server was asked %d times", len(asked))
	}
}

// TestFallback checks that another model answers if the requested one is overloaded or rejects the key.
func TestFallback(t *testing.T) {
	t.Parallel()
	for name, failed := range map[string]openaichattest.Reply{
		"overloaded": openaichattest.Fail(503, "overloaded", "Try later."), "refused": openaichattest.Fail(401, "invalid_api_key", "Wrong key."),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := openaichattest.NewServer(failed, failed, openaichattest.Text("Hello from afar."))
			defer server.Close()
			b := newBench(t)
			b.env["OPENAI_BASE_URL"], b.env["OPENAI_MODEL"] = server.BaseURL, "test-model"
			stdout, stderr, code := b.run("Hi\n", "demo", "--fallback", "openai-chat:second", "--fallback", "openai-chat:third")
			if code != cli.ExitOK || stderr != "" || !strings.Contains(stdout, "model openai-chat:test-model.\n") ||
				!strings.Contains(stdout, "(openai-chat:third answers)\n") || !strings.Contains(stdout, "support: Hello from afar.\n") {
				t.Fatalf("exit %d: %s\n%s", code, stderr, stdout)
			}
			var asked []string
			for _, r := range server.Requests() {
				asked = append(asked, r.Model)
			}
			if got := strings.Join(asked, " "); got != "test-model second third" {
				t.Errorf("the server was asked for %s", got)
			}
		})
	}
	for _, bad := range []string{"telepathy", "telepathy:x", ""} {
		if _, stderr, code := newBench(t).run("", "demo", "--fallback", bad); code == cli.ExitOK || !strings.Contains(stderr, "telepathy") && !strings.Contains(stderr, "--fallback") {
			t.Errorf("%q: exit %d: %s", bad, code, stderr)
		}
	}
}

type lookupArgs struct {
	Order int `json:"order"`
}

// TestFailedAnswer has an answer fail, and retries it in the next process.
func TestFailedAnswer(t *testing.T) {
	t.Parallel()
	server := openaichattest.NewServer(
		openaichattest.Fail(401, "invalid_api_key", "Wrong key."),
		openaichattest.Text("Hello!"),
	)
	defer server.Close()
	b := newBench(t)
	stdout, stderr, code := b.ask(server, "hello\n")
	if code != cli.ExitFailure || !strings.HasPrefix(stderr, "cairn: ") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit %d: %q", code, stderr)
	}
	if !strings.Contains(stdout, "error: ") || !strings.Contains(stdout, "  failed · ") {
		t.Errorf("the failure is not shown:\n%s", stdout)
	}
	stdout, stderr, code = b.ask(server, "/retry\n")
	if code != cli.ExitOK || stderr != "" {
		t.Errorf("exit %d: %q", code, stderr)
	}
	if !strings.Contains(stdout, "Enter /retry to try again.") || !strings.Contains(stdout, "support: Hello!\n") {
		t.Errorf("the retry is not shown:\n%s", stdout)
	}
}

// TestBrokenOffAnswer has the server break off halfway through an answer, which is then repeated.
func TestBrokenOffAnswer(t *testing.T) {
	t.Parallel()
	server := openaichattest.NewServer(
		openaichattest.Reply{Text: "One two three four.", Wire: openaichattest.Wire{BreakAfter: 3}},
		openaichattest.Text("One two three four."),
	)
	defer server.Close()
	b := newBench(t)
	stdout, stderr, code := b.ask(server, "count\n")
	if code != cli.ExitOK || stderr != "" {
		t.Errorf("exit %d: %q", code, stderr)
	}
	if !strings.Contains(stdout, "(the answer was interrupted and starts again: ") || !strings.Contains(stdout, "support: One two three four.\n") {
		t.Errorf("the second attempt is not shown:\n%s", stdout)
	}
	messages, _, _ := b.run("", "sessions", "messages", "demo")
	if strings.Count(messages, "One") != 1 {
		t.Errorf("the broken answer is in the transcript:\n%s", messages)
	}
}

// TestControlCharacters has a model and a user write control characters.
func TestControlCharacters(t *testing.T) {
	t.Parallel()
	server := openaichattest.NewServer(openaichattest.Text("red \x1b[31m alert\x07\nnext line"))
	defer server.Close()
	b := newBench(t)
	stdout, _, _ := b.ask(server, "hi \x1b[2J there\n")
	messages, _, _ := b.run("", "sessions", "messages", "demo")
	for _, shown := range []string{stdout, messages} {
		if strings.ContainsAny(shown, "\x1b\x07") || !strings.Contains(shown, "red  [31m alert \n") || !strings.Contains(shown, "next line\n") {
			t.Errorf("%q", shown)
		}
	}
}

func TestDefaultModel(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ base, key, name, want string }{
		{"", "", "", "scripted"},
		{"", "", "some-model", "scripted"},
		{"", "key", "", "openai-chat:gpt-5-mini"},
		{"http://localhost:1/v1", "", "", "openai-chat:gpt-5-mini"},
		{"", "key", "some-model", "openai-chat:some-model"},
		{"http://localhost:1/v1", "", "some-model", "openai-chat:some-model"},
	} {
		env := map[string]string{"OPENAI_BASE_URL": test.base, "OPENAI_API_KEY": test.key, "OPENAI_MODEL": test.name}
		if got := setup.DefaultModel(env); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
	b := newBench(t)
	b.env["OPENAI_API_KEY"] = "key"
	if stdout, _, _ := b.run("", "demo"); !strings.Contains(stdout, "model openai-chat:gpt-5-mini.") || !strings.Contains(stdout, "Set OPENAI_MODEL") {
		t.Errorf("a key without a model:\n%s", stdout)
	}
}

// TestCost prints the cost of a conversation with a priced model: of each step, run, session and tree.
func TestCost(t *testing.T) {
	t.Parallel()
	server := openaichattest.NewServer(openaichattest.Text("Hello!"))
	defer server.Close()
	b := newBench(t)
	b.env["OPENAI_BASE_URL"], b.env["OPENAI_MODEL"], b.env["OPENAI_API_KEY"] = server.BaseURL, "gpt-5-mini", "key-1"
	if _, stderr, code := b.run("Hi\n", "demo"); code != cli.ExitOK {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	stdout, stderr, code := b.run("", "sessions", "usage", "demo")
	if code != cli.ExitOK || strings.Count(stdout, " $0.0") != 3 {
		t.Errorf("exit %d: %s\n%s", code, stderr, stdout)
	}
	if stdout, _, _ = b.run("", "sessions", "events", "demo"); !strings.Contains(stdout, " tokens $0.0") {
		t.Errorf("no step has a cost:\n%s", stdout)
	}
	var printed struct {
		Items []struct {
			Of, Cost string
			Usage    cairn.Usage
		}
	}
	stdout, _, _ = b.run("", "sessions", "usage", "demo", "--json")
	err := json.Unmarshal([]byte(stdout), &printed)
	if list := printed.Items; err != nil || len(list) != 3 || list[2].Of != "tree" || list[2].Usage.CostNanos == 0 || list[2].Cost != list[0].Cost {
		t.Errorf("%v: %s", err, stdout)
	}
}
