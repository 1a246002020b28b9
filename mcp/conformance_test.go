package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/mcp"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

var update = flag.Bool("update", false, "write the results of the conformance suite into docs/MCP.md")

// exception is a reason for which checks of the suite fail, with the scenarios and, where others of a scenario pass,
// the checks.
type exception struct {
	why       string
	scenarios string
}

// exceptions are the failures that are meant, by the side that is tested. A check that passes must not be listed.
var exceptions = map[string][]exception{
	"client": {
		{"Clients are not registered dynamically, which revision 2026-07-28 deprecates: an operator registers them, or a document identifies them. Everything else in these scenarios passes.",
			"auth/metadata-default auth/metadata-var1 auth/metadata-var2 auth/metadata-var3 auth/authorization-server-migration"},
		{"The suite expects the address of its own document. The client sends the address of the document that `Connector.Handler` serves.", "auth/basic-cimd"},
		{"A server of an older revision asks during the call. Cairn asks through the inbox, and the call would have to end first.", "elicitation-sep1034-client-defaults"},
	},
	"server": {
		{"A turn writes no log to the client and does not use the client's model: neither is declared.",
			"tools-call-with-logging tools-call-sampling input-required-result-basic-sampling input-required-result-basic-list-roots " +
				"input-required-result-multiple-input-requests input-required-result-capability-check"},
		{"Questions are named after pending calls, not as the suite's tool names them.", "input-required-result-basic-elicitation"},
		{"Answers belong to a turn that waits. Without its state they begin another turn, which asks again.", "input-required-result-ignore-extra-params"},
		{"A client of an older revision is directed to the inbox, where any process can take the answer.", "tools-call-elicitation elicitation-sep1034-defaults elicitation-sep1330-enums"},
		{"A call of an agent needs no capability of the client: one that cannot ask its user is directed to the inbox. The suite's tool needs the client's model.", "server-stateless"},
		{"The server declares no prompts.", "prompts-list prompts-get-simple prompts-get-with-args prompts-get-embedded-resource prompts-get-with-image input-required-result-non-tool-request"},
		{"The server declares no resources.", "resources-list resources-read-text resources-read-binary resources-templates-read resources-subscribe resources-unsubscribe sep-2164-resource-not-found"},
		{"The server declares no completions, and no logging.", "completion-complete logging-set-level"},
		{"The server keeps no sessions of the protocol, which older revisions leave to it: any process may serve a request.", "server-sse-multiple-streams"},
		{"The lists of prompts and resources, which are not declared, have no hints. The hints of other lists pass.", "caching"},
	},
}

// checks are those that may fail of scenarios in which others must pass.
var checks = map[string]string{
	"auth/metadata-default": "client-registration", "auth/metadata-var1": "client-registration", "auth/metadata-var2": "client-registration",
	"auth/metadata-var3": "client-registration", "auth/authorization-server-migration": "sep-2352-reregister-on-as-change", "auth/basic-cimd": "cimd-client-id-used",
	"caching":          "sep-2549-prompts-list-caching-hints sep-2549-resources-list-caching-hints sep-2549-resources-templates-list-caching-hints",
	"server-stateless": "sep-2575-server-rejects-undeclared-capability sep-2575-missing-capability-http-400",
}

// The official suite, at the scenarios that a revision requires of each side. What fails is listed, with the reason,
// and docs/MCP.md has the results.
func TestConformance(t *testing.T) {
	t.Parallel()
	eng, tools := diagnostic(t)
	agents, err := mcp.NewAgents(eng, tools, nil)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := agents.Handler(func(*http.Request) (string, error) { return "ada", nil })
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(handler)
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	unused := map[string]bool{}
	for side, list := range exceptions {
		for _, e := range list {
			for _, scenario := range strings.Fields(e.scenarios) {
				unused[side+" "+scenario] = true
			}
		}
	}
	for _, side := range []string{"client", "server"} {
		for _, revision := range []string{"2026-07-28", "2025-11-25"} {
			dir := t.TempDir()
			args := []string{side, "--requirements", revision, "--timeout", "300000", "-o", dir}
			if side == "client" {
				args = append(args, "--command", self)
			} else {
				args = append(args, "--url", web.URL)
			}
			out := string(testenv.Conformance(t, []string{"MCP_TEST=conformance"}, args...))
			required := requiredScenarios(out)
			if len(required) < 15 {
				t.Fatalf("%s, %s: the suite says %s", side, revision, out)
			}
			failed := failedChecks(t, dir, side)
			passed := 0
			for _, scenario := range required {
				bad := failed[scenario]
				if len(bad) == 0 {
					passed++
					continue
				}
				if !isExcepted(side, scenario) {
					t.Errorf("%s, %s: %s fails:\n%s", side, revision, scenario, strings.Join(bad, "\n"))
				}
				delete(unused, side+" "+scenario)
				for _, line := range bad {
					id, _, _ := strings.Cut(line, ": ")
					if allowed, some := checks[scenario]; some && !slices.Contains(strings.Fields(allowed), id) {
						t.Errorf("%s, %s: %s fails: %s", side, revision, scenario, line)
					}
				}
			}
			rows = append(rows, fmt.Sprintf("| %s | %s | %d of %d |", side, revision, passed, len(required)))
		}
	}
	for name := range unused {
		t.Errorf("%s passes, and is listed as an exception", name)
	}
	document(t, rows)
}

// diagnostic returns agents that do what tools of the suite are to do, as far as agents can.
func diagnostic(t *testing.T) (*engine.Engine, []mcp.AgentTool) {
	t.Helper()
	type person struct {
		Name string `json:"name"`
	}
	type permission struct {
		OK bool `json:"ok"`
	}
	type color struct {
		Color string `json:"color"`
	}
	ask := func(answers ...any) cairn.Tool {
		return cairn.Func("ask", "Asks the user.", func(ctx context.Context, call *cairn.Call, _ none) (string, error) {
			for _, answer := range answers {
				if err := call.Ask(ctx, "Well?", nil, answer); err != nil {
					return "", err
				}
			}
			return "asked", nil
		})
	}
	work := cairn.Func("work", "Works.", func(context.Context, *cairn.Call, none) (string, error) { return "done", nil })
	png, wav, pdf := withFile(cairn.File{MediaType: "image/png", Data: []byte(drawing)}), withFile(cairn.File{MediaType: "audio/wav", Data: []byte("RIFF")}), withFile(cairn.File{MediaType: "application/pdf", Data: []byte("%PDF")})
	shown := map[string][]scripted.Step{"test_image_content": {png}, "test_audio_content": {wav}, "test_embedded_resource": {pdf}, "test_multiple_content_types": {png, pdf}}
	var agents []*cairn.Agent
	var tools []mcp.AgentTool
	for name, tool := range map[string]cairn.Tool{"clerk": {}, "test_simple_text": {}, "test_error_handling": {}, "test_logging_tool": {}, "test_tool_with_progress": work, "test_image_content": {}, "test_audio_content": {}, "test_embedded_resource": {}, "test_multiple_content_types": {}, "test_missing_capability": ask(new(person)),
		"test_streaming_elicitation": ask(new(person)), "test_input_required_result_elicitation": ask(new(person)), "test_input_required_result_request_state": ask(new(permission)),
		"test_input_required_result_tampered_state": ask(new(permission)), "test_input_required_result_multi_round": ask(new(person), new(color)), "test_input_required_result_capabilities": ask(new(person))} {
		model := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
			switch last := req.Messages[len(req.Messages)-1]; {
			case name == "test_error_handling":
				return scripted.Fail(errors.New("out of order"))
			case tool.Name() != "" && last.Role != cairn.RoleTool:
				return scripted.Call(tool.Name(), none{})
			}
			return scripted.Reply(append(shown[name], scripted.Text("done"))...)
		})
		agent := &cairn.Agent{Name: name, Model: model}
		if tool.Name() != "" {
			agent.Tools = []cairn.Tool{tool}
		}
		agents = append(agents, agent)
		tools = append(tools, mcp.AgentTool{Agent: name, Description: "Helps.", Message: "go"})
	}
	eng, err := engine.New(memstore.New(nil), agents, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close(context.Background()) })
	return eng, tools
}

func isExcepted(side, scenario string) bool {
	return slices.ContainsFunc(exceptions[side], func(e exception) bool { return slices.Contains(strings.Fields(e.scenarios), scenario) })
}

var (
	scenarioLine = regexp.MustCompile(`(?m)^[✓✗] (\S+): \d+ passed`)
	unscoredLine = regexp.MustCompile(`(?m)^  [✓✗] (\S+) \(`)
)

// requiredScenarios returns those of a summary that the revision requires. Others are of extensions, or newer.
func requiredScenarios(out string) (list []string) {
	unscored := unscoredLine.FindAllStringSubmatch(out, -1)
	for _, m := range scenarioLine.FindAllStringSubmatch(out, -1) {
		if !slices.ContainsFunc(unscored, func(u []string) bool { return u[1] == m[1] }) {
			list = append(list, m[1])
		}
	}
	return list
}

// failedChecks returns the checks that failed, or were only warned of, by their scenarios.
func failedChecks(t *testing.T, dir, side string) map[string][]string {
	t.Helper()
	failed := map[string][]string{}
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != "checks.json" {
			return err
		}
		name, err := filepath.Rel(dir, filepath.Dir(path))
		if err != nil {
			return err
		}
		name = regexp.MustCompile(`-\d{4}-\d\d-\d\dT[-\dZ]+$`).ReplaceAllString(filepath.ToSlash(name), "")
		if side == "server" {
			name = strings.TrimPrefix(name, "server-")
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var list []struct{ ID, Status, Description, ErrorMessage string }
		if err := json.Unmarshal(raw, &list); err != nil {
			return err
		}
		for _, c := range list {
			if c.Status == "FAILURE" || c.Status == "WARNING" {
				failed[name] = append(failed[name], c.ID+": "+c.Description+" "+c.ErrorMessage)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return failed
}

// document compares the tables in docs/MCP.md with the results, or writes them.
func document(t *testing.T, rows []string) {
	t.Helper()
	const file, from, to = "../docs/MCP.md", "<!-- conformance -->\n", "<!-- end -->\n"
	table := "\n| Side | Revision | Scenarios passed |\n| --- | --- | --- |\n" + strings.Join(rows, "\n") +
		"\n\n| Side | Failed scenarios | Why |\n| --- | --- | --- |\n"
	for _, side := range slices.Sorted(maps.Keys(exceptions)) {
		for _, e := range exceptions[side] {
			table += fmt.Sprintf("| %s | `%s` | %s |\n", side, strings.Join(strings.Fields(e.scenarios), "`, `"), e.why)
		}
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), from)
	_, after, ok2 := strings.Cut(rest, to)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the results", file)
	}
	text := before + from + table + "\n" + to + after
	switch {
	case text == string(raw):
	case *update && !t.Failed():
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s differs from the results: go test -run TestConformance . -update\n%s", file, table)
	}
}
