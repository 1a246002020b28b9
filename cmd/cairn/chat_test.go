package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/internal/testenv"
)

// chat talks to a server as alice and returns the output, without the remarks after each answer.
func (b *bench) chat(t *testing.T, want int, url, stdin string, args ...string) (stdout, stderr string) {
	t.Helper()
	b.env["CAIRN_TOKEN"] = aliceToken
	stdout, stderr, code := b.run(stdin, append([]string{"chat", "--url", url}, args...)...)
	if code != want {
		t.Errorf("exit %d, want %d: %s\n%s", code, want, stderr, stdout)
	}
	return strings.ReplaceAll(stdout, url, "URL"), stderr
}

// The terminal client streams answers, answers client tools and approvals, and shows the history of an existing
// session.
func TestChat(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.env["PATH"] = os.Getenv("PATH")
	echo := strings.Join(testenv.NodeCommand(t, "../../mcp/testdata/server.mjs", b.dir), `", "`)
	s := b.serve(t, b.file(t, "cairn.yaml", fmt.Sprintf(`  - name: guide
    model: 'scripted:0s'
    tools:
      - {client: get_location, description: Where., parameters: {type: object, additionalProperties: false}, result: {type: object}}
      - {agent: researcher}
      - {mcp: {command: ["%s"]}, allow: [echo], approve: [echo]}
  - {name: researcher, model: 'scripted:0s'}`, echo)))
	s.offers("echo")

	text, _ := b.chat(t, cli.ExitUsage, s.url, "hello\nmy location\nhere\n", "--agent", "guide", "--session", "s")
	wantWords(t, text, "you: hello\nguide: You said: hello\n\nI play a script", "completed · 1 model call",
		// The error ends a script.
		"→ get_location {}\n  ‖ get_location {} waits for a result\n", "Result for get_location {} (/help): here\nerror: ", "must be an object",
		"Nothing has to run while calls are pending.", "chat --url URL --session s\n")
	text, _ = b.chat(t, cli.ExitOK, s.url, `{"city": "Bern"}`+"\n", "--session", "s")
	wantWords(t, text, "you: hello\nguide: You said: hello", "you: my location\n", "‖ get_location {} waits for a result\nResult for get_location {} (/help): ",
		`← {"city":"Bern"}`, `guide: get_location returned {"city":"Bern"}.`)
	text, _ = b.chat(t, cli.ExitOK, s.url, "echo this\ne {\"text\": \"edited\"}\necho that\nn no noise\nask the researcher\nlocation\n/fail no idea\n", "--session", "s")
	wantWords(t, text, `Approve echo {"text":"echo this"}? [y]es / [n]o / [e]dit / [l]ater: e {"text": "edited"}`, "you said edited",
		"n no noise\n", "not approved by the user: no noise", `→ researcher {"input":"ask the researcher"}`, "guide: researcher returned", "← error: no idea")
	// The result and what the guide says of it, but not the sub-agent's stream.
	if strings.Count(text, "ask the researcher\\n") != 2 {
		t.Errorf("the sub-agent's answer is shown as well:\n%s", text)
	}
	if said := strings.Count(text, "You said: hello"); said != 1 {
		t.Errorf("the history is shown %d times:\n%s", said, text)
	}
	if _, stderr := b.chat(t, cli.ExitUsage, s.url, "hello\n"); !strings.Contains(stderr, "agent: is required for a new session") {
		t.Errorf("without an agent: %s", stderr)
	}
	b.chat(t, cli.ExitFailure, s.url, "", "--token", "fedcba9876543210")
	b.chat(t, cli.ExitUsage, s.url, "", "--session", "s", "--agent", "researcher")
	b.chat(t, cli.ExitUsage, "localhost", "")
	b.chat(t, cli.ExitUsage, "", "")

	// Another client's turn is shown as well, and nothing of it twice.
	p := b.start(t, "chat", "--url", s.url, "--session", "s")
	p.until("returned")
	p.until("no idea")
	p.until("\n")
	s.say("s", "from elsewhere")
	p.until("you: from elsewhere\nguide: You said: from elsewhere")
	p.until("completed")
	s.ask("DELETE", "/sessions/s", "", http.StatusNoContent, nil)
	p.until("The session was deleted.")
	if _, stderr, code := p.end(); code != cli.ExitOK {
		t.Errorf("exit %d: %s", code, stderr)
	}
	s.signal(syscall.SIGTERM)
	s.end()
}

// address is the address of successive servers.
type address struct {
	*httptest.Server
	behind atomic.Pointer[url.URL]
}

func newAddress(t *testing.T, s *servingProcess) *address {
	t.Helper()
	a := &address{}
	proxy := &httputil.ReverseProxy{FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(a.behind.Load()) }}
	a.Server = httptest.NewServer(proxy)
	t.Cleanup(a.Close)
	a.lead(s)
	return a
}

// lead makes the address lead to a server.
func (a *address) lead(s *servingProcess) { a.behind.Store(must(url.Parse(s.url))) }

// The server is killed halfway through an answer and started again: the client shows each word once.
func TestChatServerKilled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.env[withLease] = "3s"
	b.env["CAIRN_TOKEN"] = aliceToken
	file := b.file(t, "cairn.yaml", "  - {name: guide, model: 'scripted:150ms'}")
	s := b.serve(t, file)
	at := newAddress(t, s)
	p := b.start(t, "chat", "--url", at.URL, "--session", "s", "--agent", "guide")
	p.say("hello")
	p.until("guide: You said: ")
	s.signal(syscall.SIGKILL)
	again := b.serve(t, file)
	at.lead(again)
	p.until("completed")
	p.say("and on")
	stdout, stderr, code := p.end()
	if code != cli.ExitOK || stderr != "" {
		t.Errorf("exit %d: %s", code, stderr)
	}
	wantWords(t, stdout, "you: hello\nguide: You said: hello\n\nI play a script, without a provider of models.\n  completed", "you: and on\nguide: You said: and on\n\nI play a script")
	if strings.Count(stdout, "You said:") != 2 {
		t.Errorf("something is said twice:\n%s", stdout)
	}
	if runs := again.runs("s"); len(runs) != 2 || runs[0].Status != cairn.RunCompleted {
		t.Errorf("the runs are %+v", runs)
	}
	again.signal(syscall.SIGTERM)
	again.end()
}

// A client that is killed halfway through an answer changes nothing. Another client shows the answer from its
// beginning.
func TestChatKilled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.env["CAIRN_TOKEN"] = aliceToken
	// Slow enough for a process to end and another to join before the answer has ended, on a busy machine too.
	s := b.serve(t, b.file(t, "cairn.yaml", "  - {name: guide, model: 'scripted:600ms'}"))
	p := b.start(t, "chat", "--url", s.url, "--session", "s", "--agent", "guide")
	p.say("hello")
	p.until("guide: You said: ")
	p.signal(syscall.SIGKILL)
	p.end()
	text, _ := b.chat(t, cli.ExitOK, s.url, "", "--session", "s")
	wantWords(t, text, "you: hello\nAn answer is under way.\nguide: You said: hello\n\nI play a script, without a provider of models.\n  completed")
	s.signal(syscall.SIGTERM)
	s.end()
}
