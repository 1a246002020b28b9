package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/store"
)

// counsel declares an assistant with two models that turns and forks may select.
const counsel = "  - {name: guide, model: 'scripted:0s', models: {deep: 'scripted:1ms', brief: 'scripted:2ms'}, tools: [{client: get_location, description: Where.}]}"

// A fork selects one of the assistant's models by its name, and a model of another name is refused.
func TestServeModels(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.serve(t, b.file(t, "cairn.yaml", counsel))
	var agents store.Page[client.Agent]
	s.ask("GET", "/agents", "", http.StatusOK, &agents)
	if got := agents.Items[0].Models; !slices.Equal(got, []string{"brief", "deep"}) {
		t.Fatalf("the models are %q", got)
	}
	if run := s.say("s", "hello"); run.Model != "" {
		t.Errorf("the turn has model %q", run.Model)
	}
	var fork cairn.Session
	s.ask("POST", "/sessions/s/fork", `{"session_id": "f", "messages": 1, "model": "deep"}`, http.StatusCreated, &fork)
	s.ask("GET", "/sse?session_id=f&run_id="+s.runs("f")[0].ID+"&type=run_end", "", http.StatusOK, nil)
	if run := s.runs("f")[0]; run.Model != "deep" || run.Status != cairn.RunCompleted || fork.Branch.Model != "deep" {
		t.Errorf("the fork %+v has run %+v", fork.Branch, run)
	}
	var problem struct{ Field, Detail string }
	s.ask("POST", "/sessions/s/fork", `{"session_id": "g", "messages": 1, "model": "deeper"}`, http.StatusBadRequest, &problem)
	if problem.Field != "model" {
		t.Errorf("the refusal is %+v", problem)
	}
	wantWords(t, problem.Detail, `no model "deeper"; its models are: brief, deep`)
	s.signal(syscall.SIGTERM)
	s.end()
}

// The command forks sessions on a server: with another model, other instructions, another answer or another result.
func TestForkCommand(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	file := b.file(t, "cairn.yaml", counsel)
	text := strings.Replace(string(must(os.ReadFile(file))), "user: alice", "user: alice, roles: [user, admin]", 1)
	for name, content := range map[string]string{"cairn.yaml": text, "strict.txt": "Be strict."} {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := b.serve(t, file)
	s.say("s", "hello")
	waits := s.say("s", "location")
	b.env["CAIRN_URL"], b.env["CAIRN_TOKEN"] = s.url, aliceToken
	b.names = map[string]string{"CALL": waits.Suspended.Calls[0].ID}
	wantScript(t, b, "testdata/serving/fork.txt")
	for want, args := range map[string][]string{ // what the server refuses
		`model: agent "guide" has no model "deeper"; its models are: brief, deep`: {"s", "wrong", "--message", "1", "--model", "deeper"},
		`session "s" has no pending call "call_x"`:                                {"s", "wrong", "--approve", "call_x"},
		`session "nobody" not found`:                                              {"nobody", "wrong"},
	} {
		if _, stderr, code := b.run("", append([]string{"sessions", "fork"}, args...)...); code == cli.ExitOK || !strings.Contains(stderr, want) {
			t.Errorf("exit %d: %q does not say %q", code, stderr, want)
		}
	}
	var made cairn.Session
	if err := json.Unmarshal([]byte(b.want(t, "", "sessions", "fork", "s", "--message", "1", "--json")), &made); err != nil || made.ID == "" || made.Branch.From != "s" {
		t.Errorf("a fork without an id is %+v, %v", made, err)
	}
	delete(b.env, "CAIRN_URL")
	if _, stderr, code := b.run("", "sessions", "fork", "s", "wrong", "--message", "1"); code != cli.ExitUsage {
		t.Errorf("without a server: exit %d: %s", code, stderr)
	}

	for id, want := range map[string]string{"modelled": "You said: hello", "instructed": "You said: hello", "answered": `{"city":"Bern"}`, "refused": "No signal.", "changed": "returned null", "failed": "failed with"} {
		s.ask("GET", "/sse?session_id="+id+"&run_id="+s.runs(id)[0].ID+"&type=run_end", "", http.StatusOK, nil)
		run := s.runs(id)[0]
		if run.Status != cairn.RunCompleted || !strings.Contains(run.Text, want) || (run.Model == "deep") != (id == "modelled") {
			t.Errorf("%s: the run is %+v", id, run)
		}
	}
	var fork cairn.Session
	if s.ask("GET", "/sessions/instructed", "", http.StatusOK, &fork); fork.Branch.Instructions != "Be strict." {
		t.Errorf("the fork has instructions %q", fork.Branch.Instructions)
	}
	s.signal(syscall.SIGTERM)
	s.end()
}
