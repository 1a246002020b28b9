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
	"testing"

	"github.com/cairn-agents/cairn"
)

// TestServerInReadme performs the README's commands for make serve: it starts a turn, follows it, finds the call that
// waits, approves it, and reads the answer that a worker has completed.
func TestServerInReadme(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.everyday = true
	b.env["CAIRN_DB"] = filepath.Join(b.dir, "cairn-demo.db") // which make serve and the command share
	url := serveDemo(t, b.dir)
	var block *sample
	for _, s := range samples(t, "README.md") {
		if strings.HasPrefix(s.lines[0], "curl ") {
			block = s
		}
	}
	if block == nil {
		t.Fatal("README.md has no block of curl")
	}
	want := []string{`"session_id":"s1"`, "I am asking a colleague", `"tool":"refund"`, "approved", "Done: 24.50 EUR"}
	lines := block.shellLines()
	if len(lines) != len(want) {
		t.Fatalf("the block has %d commands, want %d", len(lines), len(want))
	}
	for i, line := range lines {
		var got string
		if args, ok := ofCairn(line.commands[0]); ok {
			stdout, stderr, _ := b.run("", args...)
			got = stdout + stderr
			follow(t, url, 2) // the turn ends after the approval
		} else {
			got = curl(t, url, line.commands[0][1:])
		}
		if !strings.Contains(got, want[i]) {
			t.Fatalf("%s: %s\nprints %s, want %s", line.at, line.text, got, want[i])
		}
	}
}

// serveDemo serves the demo's assistants from a directory, as make serve does, until the test ends.
func serveDemo(t *testing.T, dir string) (url string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "serve", "--demo", "--listen", "127.0.0.1:0")
	cmd.Dir, cmd.Env = dir, []string{asCairn + "=1", "GORACE=" + os.Getenv("GORACE")}
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	log := bufio.NewReader(stderr)
	readUntil(t, log, "\nhttp://")
	url = "http://" + strings.TrimSpace(readUntil(t, log, "\n"))
	go io.Copy(io.Discard, log)
	return url
}

// curl performs a command line of curl at another address than localhost:8420, and returns what it prints. A stream,
// which -N shows, is read until its first run ends.
func curl(t *testing.T, url string, args []string) string {
	t.Helper()
	method, path, body := http.MethodGet, "", ""
	header := http.Header{}
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "-H":
			i++
			name, value, _ := strings.Cut(args[i], ": ")
			header.Set(name, value)
		case arg == "-d":
			i++
			method, body = http.MethodPost, args[i]
		case arg == "-N":
			return follow(t, url, 1)
		default:
			ok := false
			if path, ok = strings.CutPrefix(arg, "localhost:8420"); !ok {
				t.Fatalf("curl: this test does not know %q", arg)
			}
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// follow returns the text that the stream of the session s1 has until so many runs have ended.
func follow(t *testing.T, url string, runs int) (text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/sse?session_id=s1", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for runs > 0 && lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		var ev cairn.Event
		if !ok {
			continue
		}
		if err := json.Unmarshal([]byte(data), &ev); err != nil {
			t.Fatal(err)
		}
		switch ev.Type {
		case cairn.EventTextDelta:
			text += ev.Text
		case cairn.EventRunEnd:
			runs--
		}
	}
	return text
}

// The plain names of the store in memory and of the scripted model work in a file, without quotes.
func TestServeFromMemory(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	file := filepath.Join(b.dir, "cairn.yaml")
	text := fmt.Sprintf("listen: 127.0.0.1:0\nstore: memory\nauth: {tokens: [{token: %s, user: alice}]}\nassistants:\n  - name: guide\n    model: scripted\n", aliceToken)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := b.serve(t, file)
	if run := s.say("s", "hello"); !strings.Contains(run.Text, "You said: hello") {
		t.Errorf("the run came to %+v", run)
	}
	if _, err := os.Stat("memory"); err == nil {
		t.Error("the store is a file")
	}
}
