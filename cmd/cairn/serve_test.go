package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/store"
)

const aliceToken = "0123456789abcdef"

// servingProcess is cairn serve in its own process.
type servingProcess struct {
	*process
	url, file string
}

// file writes the file of a server that serves alice from the bench's store, with some assistants.
func (b *bench) file(t *testing.T, name, assistants string) string {
	t.Helper()
	text := fmt.Sprintf("listen: 127.0.0.1:0\nstore: %s\nauth: {tokens: [{token: %s, user: alice}]}\nassistants:\n%s\n", b.env["CAIRN_DB"], aliceToken, assistants)
	file := filepath.Join(b.dir, name)
	next := file + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, file); err != nil { // so that no half of it is read
		t.Fatal(err)
	}
	return file
}

// serve starts a server and waits until it listens.
func (b *bench) serve(t *testing.T, file string, args ...string) *servingProcess {
	t.Helper()
	s := &servingProcess{process: b.start(t, append([]string{"serve", "--config", file}, args...)...), file: file}
	readUntil(t, s.stderr, "\nhttp://")
	s.url = "http://" + strings.TrimSpace(readUntil(t, s.stderr, "\n"))
	return s
}

// logged waits until the server has logged a text.
func (s *servingProcess) logged(text string) {
	s.t.Helper()
	readUntil(s.t, s.stderr, text)
}

// ask makes a request as alice and decodes the response.
func (s *servingProcess) ask(method, path, body string, want int, into any) {
	s.t.Helper()
	status, raw := s.request(method, path, body)
	if status != want {
		s.t.Fatalf("%s %s: %d: %s", method, path, status, raw)
	}
	if into != nil {
		if err := json.Unmarshal(raw, into); err != nil {
			s.t.Fatal(err)
		}
	}
}

// request makes a request as alice and returns the response.
func (s *servingProcess) request(method, path, body string) (status int, answer []byte) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+aliceToken)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatalf("%s %s: %d, %v: %s", method, path, res.StatusCode, err, answer)
	}
	return res.StatusCode, answer
}

// say starts a turn, waits for its end and returns its run.
func (s *servingProcess) say(session, text string) cairn.Run {
	s.t.Helper()
	var begun client.Started
	s.ask("POST", "/start", fmt.Sprintf(`{"session_id": %q, "agent": "guide", "input": {"text": %q}}`, session, text), http.StatusAccepted, &begun)
	s.ask("GET", fmt.Sprintf("/sse?session_id=%s&run_id=%s&type=run_end", session, begun.RunID), "", http.StatusOK, nil)
	return s.runs(session)[begun.Turn-1]
}

// offers waits until the guide has a tool of an MCP server, which may take a while to start.
func (s *servingProcess) offers(tool string) {
	s.t.Helper()
	for n := 0; !strings.Contains(s.say(fmt.Sprintf("before-%d", n), "hello").Text, tool); n++ {
	}
}

func (s *servingProcess) runs(session string) []cairn.Run {
	s.t.Helper()
	var page store.Page[cairn.Run]
	s.ask("GET", "/sessions/"+session+"/runs", "", http.StatusOK, &page)
	return page.Items
}

// guide declares an assistant with a client tool.
func guide(instructions string) string {
	return fmt.Sprintf("  - {name: guide, model: 'scripted:0s', instructions: %q, tools: [{client: get_location, description: Where.}]}", instructions)
}

// A change of the file is a new version, in every process that serves the store. A suspended turn keeps the version
// that it began with. A file with a mistake changes nothing.
func TestServeVersions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one := b.serve(t, b.file(t, "one.yaml", guide("a")))
	two := b.serve(t, b.file(t, "two.yaml", guide("a")))
	if run := two.say("s1", "hello"); run.AgentVersion != "1" || run.Status != cairn.RunCompleted {
		t.Errorf("the first turn is %+v", run)
	}
	waits := two.say("s2", "location")
	if waits.Suspended == nil {
		t.Fatalf("the turn does not wait: %+v", waits)
	}
	b.file(t, "one.yaml", guide("b"))
	one.logged("config reloaded")
	two.logged("assistants updated")
	if run := two.say("s1", "again"); run.AgentVersion != "2" {
		t.Errorf("the next turn has version %q", run.AgentVersion)
	}
	two.ask("POST", "/submit-tool-result", fmt.Sprintf(`{"session_id": "s2", "call_id": %q, "type": "client-tool-result", "result": "here"}`, waits.Suspended.Calls[0].ID), http.StatusOK, nil)
	// A worker may be faster.
	if status, answer := one.request("POST", "/resume", `{"session_id": "s2"}`); status != http.StatusAccepted && status != http.StatusConflict {
		t.Fatalf("resume: %d: %s", status, answer)
	}
	one.ask("GET", "/sse?session_id=s2&run_id="+one.runs("s2")[1].ID, "", http.StatusOK, nil)
	if run := one.runs("s2")[1]; run.AgentVersion != "1" || run.Status != cairn.RunCompleted {
		t.Errorf("the resumed run is %+v", run)
	}
	b.file(t, "one.yaml", guide("c")+"\n  - {name: other}")
	one.logged("assistants[1].model: is required")
	if err := one.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	one.logged("assistants[1].model: is required")
	if run := one.say("s1", "and again"); run.AgentVersion != "2" {
		t.Errorf("after a mistake a turn has version %q", run.AgentVersion)
	}
	for _, s := range []*servingProcess{one, two} {
		s.signal(syscall.SIGTERM)
		if _, stderr, code := s.end(); code != cli.ExitOK {
			t.Errorf("exit %d: %s", code, stderr)
		}
	}
}

// A server that is terminated halfway through an answer completes it, and ends a client's stream so that it
// reconnects.
func TestServeTerminated(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	file := b.file(t, "cairn.yaml", "  - {name: guide, model: 'scripted:50ms'}")
	s := b.serve(t, file)
	s.ask("POST", "/start", `{"session_id": "s", "agent": "guide", "input": {"text": "hello"}}`, http.StatusAccepted, nil)
	s.signal(syscall.SIGTERM)
	if _, stderr, code := s.end(); code != cli.ExitOK {
		t.Errorf("exit %d: %s", code, stderr)
	}
	again := b.serve(t, file)
	if run := again.runs("s")[0]; run.Status != cairn.RunCompleted || !strings.Contains(run.Text, "You said: hello") {
		t.Errorf("the run came to %+v", run)
	}
	again.signal(syscall.SIGTERM)
	again.end()
}

// After a server was killed halfway through an answer, the next one completes the answer.
func TestServeKilled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.env[withLease] = "3s"
	s := b.serve(t, b.file(t, "cairn.yaml", "  - {name: guide, model: 'scripted:200ms'}"))
	var begun client.Started
	s.ask("POST", "/start", `{"session_id": "s", "agent": "guide", "input": {"text": "hello"}}`, http.StatusAccepted, &begun)
	s.signal(syscall.SIGKILL)
	again := b.serve(t, b.file(t, "cairn.yaml", "  - {name: guide, model: 'scripted:0s'}"))
	again.ask("GET", "/sse?session_id=s&run_id="+begun.RunID+"&type=run_end", "", http.StatusOK, nil)
	if run := again.runs("s")[0]; run.Status != cairn.RunCompleted || run.AgentVersion != "1" {
		t.Errorf("the run came to %+v", run)
	}
	again.signal(syscall.SIGTERM)
	again.end()
}

// Without authentication only loopback names and that of the key url are served, so that no page of another host gets
// in by its own name.
func TestServeWithoutAuthentication(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	file := b.file(t, "cairn.yaml", guide("a"))
	raw := must(os.ReadFile(file))
	text := strings.Replace(string(raw), "{tokens: [{token: "+aliceToken+", user: alice}]}", "{allow_unauthenticated: true}\nurl: https://chat.example/agents", 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := b.serve(t, file)
	for host, want := range map[string]int{"": http.StatusOK, "localhost:80": http.StatusOK, "[::1]": http.StatusOK, "chat.example": http.StatusOK, "evil.example": http.StatusForbidden, "127.0.0.1.evil.example:80": http.StatusForbidden} {
		req := must(http.NewRequestWithContext(t.Context(), "GET", s.url+"/sessions", nil))
		req.Host = host
		res := must(http.DefaultClient.Do(req))
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("for %q: %d, want %d", host, res.StatusCode, want)
		}
	}
}

// Every wrong way to start a server is reported before any file is created.
func TestServeWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		code int
		want []string
	}{
		"mistakes": {"stor: x\nlimit: {}\n", cli.ExitUsage, []string{"DIR/cairn.yaml:1:1: stor: unknown key; did you mean store?\n", "cairn: --config: 3 mistakes in DIR/cairn.yaml\n"}},
		"a store":  {"store: mysql://x\nauth: {allow_unauthenticated: true}", cli.ExitUsage, []string{`cairn: store: unknown kind of store "mysql"`}},
		"a host":   {"host: ftp://x\nstore: 'memory:'\nauth: {allow_unauthenticated: true}", cli.ExitUsage, []string{`cairn: host: unknown kind of host "ftp"`}},
		"a key":    {"store: 'memory:'\nauth: {allow_unauthenticated: true}\nassistants: [{name: a, model: 'anthropic:claude'}]", cli.ExitUsage, []string{`agent "a": model: `}},
		"a pace":   {"store: 'memory:'\nauth: {allow_unauthenticated: true}\nassistants: [{name: a, model: 'scripted:fast'}]", cli.ExitUsage, []string{`time per word must be a duration such as 30ms, not "fast"`}},
		"a variable": {"store: 'memory:'\nauth: {allow_unauthenticated: true}\nassistants: [{name: a, model: 'scripted:', tools: [{mcp: {url: 'http://${NOWHERE}'}}]}]", cli.ExitUsage,
			[]string{"environment variable NOWHERE is not set"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			file := filepath.Join(b.dir, "cairn.yaml")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			stdout, stderr, code := b.run("", "serve", "--config", file)
			if code != c.code || stdout != "" {
				t.Errorf("exit %d, want %d", code, c.code)
			}
			wantWords(t, stderr, c.want...)
			if made, err := os.ReadDir(b.dir); err != nil || len(made) != 1 {
				t.Errorf("there are %v, %v", made, err)
			}
		})
	}
	if _, stderr, code := newBench(t).run("", "serve"); code != cli.ExitUsage {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first, _, _ := b.run("", "token")
	second, _, code := b.run("", "token")
	if code != cli.ExitOK || len(first) < 30 || first == second {
		t.Errorf("exit %d: %q, %q", code, first, second)
	}
	entry, _, _ := b.run("", "token", "--user", "bob", "--roles", "user,reviewer")
	if !strings.HasPrefix(entry, "- token: cairn_") || !strings.HasSuffix(entry, "\n  user: \"bob\"\n  roles: [user, reviewer]\n") {
		t.Errorf("got %q", entry)
	}
	for tenant, want := range map[string]string{"acme": "  tenant: \"acme\"\n", "*": "  tenant: \"*\"\n"} {
		if entry, _, _ := b.run("", "token", "--user", "bob", "--tenant", tenant); !strings.Contains(entry, want) {
			t.Errorf("for tenant %s: %q", tenant, entry)
		}
	}
	for _, args := range [][]string{{"--user", "bob", "--tenant", "a::b"}, {"--user", "acme::bob"}} {
		if _, stderr, code := b.run("", append([]string{"token"}, args...)...); code != cli.ExitUsage {
			t.Errorf("%v: exit %d: %s", args, code, stderr)
		}
	}
}

// The build of make serve has neither hosts nor servers nor SDKs of providers. It serves the demo with its page.
func TestServeDemo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "cairn")
	if out, err := exec.Command("go", "build", "-tags", "demo,serve", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	list := must(exec.Command("go", "list", "-deps", "-tags", "demo,serve", ".").Output())
	for path := range strings.Lines(string(list)) {
		for _, unused := range []string{"temporal", "dbos", "pgx", "redis", "grpc", "anthropic", "cairn/mcp"} {
			if strings.Contains(path, unused) {
				t.Errorf("it has %s", path)
			}
		}
	}
	cmd := exec.Command(program, "serve", "--demo", "--listen", "127.0.0.1:0")
	cmd.Dir, cmd.Env = dir, []string{}
	p := &process{t: t, cmd: cmd, stdin: must(cmd.StdinPipe()), stdout: bufio.NewReader(must(cmd.StdoutPipe())), stderr: bufio.NewReader(must(cmd.StderrPipe()))}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	readUntil(t, p.stderr, "\nhttp://")
	s := &servingProcess{process: p, url: "http://" + strings.TrimSpace(readUntil(t, p.stderr, "\n"))}
	s.ask("GET", "/console/static/app.js", "", http.StatusOK, nil)
	var offered struct{ Items []struct{ Name string } }
	s.ask("GET", "/agents", "", http.StatusOK, &offered)
	if list := offered.Items; len(list) != 2 || list[0].Name != "guide" || list[1].Name != "support" {
		t.Errorf("it offers %v", list)
	}
	if run := s.say("s", "where is my location?"); run.Suspended == nil || run.Suspended.Calls[0].Tool != "get_location" {
		t.Errorf("the run came to %+v", run)
	}
	s.signal(syscall.SIGHUP) // its terminal is closed
	if _, stderr, code := s.end(); code != cli.ExitOK {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
