package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/internal/testenv"
)

// documentedProxy returns the configuration of nginx in docs/PROXIES.md for two servers. The second one gets requests once
// the first one is gone, so that its end cuts every answer.
func documentedProxy(t *testing.T, servers ...*servingProcess) string {
	t.Helper()
	_, rest, found := strings.Cut(string(must(os.ReadFile("../../docs/PROXIES.md"))), "```nginx\n")
	text, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatal("docs/PROXIES.md has no configuration of nginx")
	}
	for i, own := range []string{"10.0.0.1:8420", "10.0.0.2:8420"} {
		if !strings.Contains(text, own) {
			t.Fatalf("it names no server %s", own)
		}
		text = strings.Replace(text, own, strings.TrimPrefix(servers[i].url, "http://")+[]string{"", " backup"}[i], 1)
	}
	return strings.Replace(text, "listen 80;", "listen LISTEN;", 1)
}

// plainProxy returns a configuration of nginx that sets nothing, so that it asks its servers over HTTP/1.0.
func plainProxy(t *testing.T, servers ...*servingProcess) string {
	t.Helper()
	return fmt.Sprintf("upstream cairn { server %s; server %s backup; }\nserver { listen LISTEN; location / { proxy_pass http://cairn; } }",
		strings.TrimPrefix(servers[0].url, "http://"), strings.TrimPrefix(servers[1].url, "http://"))
}

// docs/PROXIES.md has the transport that the pages are tested with.
func TestDocumentedTransport(t *testing.T) {
	t.Parallel()
	code := must(os.ReadFile("../../examples/chatweb/web/whole.js"))
	if docs := string(must(os.ReadFile("../../docs/PROXIES.md"))); !strings.Contains(docs, "```js\n"+string(code)+"```\n") {
		t.Error("docs/PROXIES.md differs from examples/chatweb/web/whole.js")
	}
}

// Two servers are behind nginx, and one of them ends in the middle of answers. No client takes an answer that was cut
// for a whole one: each shows its whole answer, once.
func TestAnswersThroughNginxAreWhole(t *testing.T) {
	t.Parallel()
	for name, configuration := range map[string]func(*testing.T, ...*servingProcess) string{"HTTP 1.0": plainProxy, "HTTP 1.1": documentedProxy} {
		for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
			t.Run(name+", "+signal.String(), func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.env[withLease], b.env["CAIRN_TOKEN"] = "3s", aliceToken
				file := b.file(t, "cairn.yaml", "  - {name: guide, model: 'scripted:100ms'}")
				one, two := b.serve(t, file), b.serve(t, file)
				wantWholeAnswers(t, b, testenv.Nginx(t, configuration(t, one, two)), func() {
					one.signal(signal)
					if _, stderr, code := one.end(); signal == syscall.SIGTERM && code != cli.ExitOK {
						t.Errorf("exit %d: %s", code, stderr)
					}
				})
				two.signal(syscall.SIGTERM)
				two.end()
			})
		}
	}
}

// wantWholeAnswers has clients say something through a proxy, and ends a server once each shows the beginning of the
// answer.
func wantWholeAnswers(t *testing.T, b *bench, url string, end func()) {
	t.Helper()
	words := strings.TrimSpace(strings.Repeat("and on ", 15))
	answer := "You said: " + words + "\n\nI play a script, without a provider of models."

	pages := newPages(t, url, words)
	chat := b.start(t, "chat", "--url", url, "--session", "chat", "--agent", "guide")
	chat.say(words)
	events := newStream(t, url, "client", words)
	chat.until("guide: You said")
	<-events.begun
	pages.begun()

	end()

	chat.until("completed")
	stdout, stderr, code := chat.end()
	if code != cli.ExitOK || strings.Contains(stdout, "deleted") || strings.Count(stdout, "guide: "+answer) != 1 {
		t.Errorf("cairn chat: exit %d: %s\n%s", code, stderr, stdout)
	}
	if <-events.ended; events.text != answer || events.err != nil {
		t.Errorf("the Go client got %q, %v", events.text, events.err)
	}
	pages.end(answer)
}

// stream reads the answer to a turn with the Go client.
type stream struct {
	begun, ended chan struct{}
	text         string
	err          error
}

func newStream(t *testing.T, url, session, words string) *stream {
	t.Helper()
	c := must(client.New(url, &client.Options{Token: aliceToken}))
	run := must(c.Start(t.Context(), client.Turn{SessionID: session, Agent: "guide", Input: client.UserMessage{Text: words}}))
	s := &stream{begun: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		first := true
		for ev, err := range c.Events(t.Context(), session, &client.EventsOptions{RunID: run.RunID}) {
			if s.err = err; err != nil {
				break
			}
			switch ev.Type {
			case cairn.EventTextDelta:
				s.text += ev.Text
			case cairn.EventStepDiscarded:
				s.text = ""
			}
			if first && s.text != "" {
				first = false
				close(s.begun)
			}
		}
	}()
	return s
}

// pages are pages with each major version of the AI SDK.
type pages struct {
	t   *testing.T
	cmd *exec.Cmd
	out *bufio.Reader
}

func newPages(t *testing.T, url, words string) *pages {
	t.Helper()
	line := testenv.NodeCommand(t, "testdata/proxied.mjs", url, aliceToken, words, must(filepath.Abs("../../examples/chatweb/web/whole.js")))
	cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
	cmd.Stderr = os.Stderr
	p := &pages{t: t, cmd: cmd, out: bufio.NewReader(must(cmd.StdoutPipe()))}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	return p
}

// begun returns once each page shows the beginning of its answer.
func (p *pages) begun() {
	p.t.Helper()
	readUntil(p.t, p.out, "begun\n")
}

// end waits for the end of the pages, none of which may have shown anything but the whole answer as the end.
func (p *pages) end(answer string) {
	p.t.Helper()
	raw := must(io.ReadAll(p.out))
	if err := p.cmd.Wait(); err != nil {
		p.t.Fatal(err)
	}
	var found map[string]struct {
		Ends       []struct{ Status, Text string }
		Cut, Whole string
	}
	if err := json.Unmarshal(raw, &found); err != nil || len(found) != 3 {
		p.t.Fatalf("%v: %s", err, raw)
	}
	for major, is := range found {
		for _, end := range is.Ends {
			if end.Status == "ready" && end.Text != answer {
				p.t.Errorf("version %s: the page shows as ready: %q", major, end.Text)
			}
		}
		if len(is.Ends) < 2 {
			p.t.Errorf("version %s: the page was not cut off, which tests nothing", major)
		}
		if is.Cut != "error" || is.Whole != "ready" {
			p.t.Errorf("version %s: with the transport that requires an end, a cut response is %s and a whole one is %s", major, is.Cut, is.Whole)
		}
	}
}
