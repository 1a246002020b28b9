package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/testenv"
	"github.com/cairn-agents/cairn/mcp"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/skill"
	"github.com/cairn-agents/cairn/store/memstore"
)

// publishing serves an agent with skills over HTTP, and returns its address.
func publishing(t *testing.T, publish bool, logger *slog.Logger, providers ...skill.Provider) string {
	t.Helper()
	set, err := skill.New(providers, nil)
	if err != nil {
		t.Fatal(err)
	}
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{{Name: "clerk", Model: scripted.New(scripted.Text("done")), Toolsets: []cairn.Toolset{set}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close(context.Background()) })
	agents, err := mcp.NewAgents(eng, []mcp.AgentTool{{Agent: "clerk", Description: "Helps.", Message: "go", Skills: publish}}, &mcp.AgentOptions{Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := agents.Handler(func(*http.Request) (string, error) { return "ada", nil })
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(handler)
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	return web.URL
}

// published returns the skills that a client finds at an address.
func published(t *testing.T, address string) skill.Provider {
	t.Helper()
	s, err := mcp.URL("shop", address, &mcp.Options{ListTimeout: testWait, Timeout: testWait})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s.Skills("")
}

// What an agent's skills say is what a client of its server verifies and reads, whatever they come from.
func TestSkillsArePublished(t *testing.T) {
	t.Parallel()
	written := skill.Define(skill.Skill{Info: skill.Info{Name: "tone", Description: "How to write: short.", License: "MIT", Metadata: map[string]string{"since": "1"}, AllowedTools: []string{"a_*", "b"}}, Body: "Write short sentences."},
		fstest.MapFS{"more/a b.md": {Data: []byte("one")}})
	files := skill.FS(fstest.MapFS{"refunds/SKILL.md": {Data: []byte(refunds)}, "refunds/logo.png": {Data: []byte(drawing)}})
	p := published(t, publishing(t, true, nil, written, files))
	infos, err := p.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, i := range infos {
		names = append(names, i.Name+": "+i.Description)
	}
	if want := []string{"shop:refunds: Refunds orders.", "shop:tone: How to write: short."}; !slices.Equal(names, want) {
		t.Fatalf("the client finds %q, want %q", names, want)
	}
	for name, body := range map[string]string{"shop:refunds": "Look the order up.", "shop:tone": "Write short sentences."} {
		if s, err := p.Load(t.Context(), name); err != nil || s.Body != body {
			t.Errorf("%s: %+v, %v, want %q", name, s, err, body)
		}
	}
	for file, want := range map[[2]string]string{{"shop:tone", "more/a b.md"}: "one", {"shop:refunds", "logo.png"}: drawing} {
		if raw, err := p.ReadFile(t.Context(), file[0], file[1]); err != nil || string(raw) != want {
			t.Errorf("%q: %q, %v", file, raw, err)
		}
	}
}

// A list of many skills has pages. A skill that others cannot verify is left out and logged, and so are those of other
// servers.
func TestSkillsThatAreNotPublished(t *testing.T) {
	t.Parallel()
	var list []skill.Provider
	for i := range 60 {
		list = append(list, skill.Define(skill.Skill{Info: skill.Info{Name: fmt.Sprintf("s%02d", i), Description: "Helps."}}, nil))
	}
	list = append(list, skill.Define(skill.Skill{Info: skill.Info{Name: "theirs", Description: "Helps.", Origin: "the MCP server x"}}, nil),
		skill.FS(fstest.MapFS{"other/SKILL.md": {Data: []byte("---\ndescription: Has no name.\n---\nHelp.")}}),
		skill.Define(skill.Skill{Info: skill.Info{Name: "huge", Description: "Helps."}}, fstest.MapFS{
			"a": {Data: make([]byte, 4<<20)}, "b": {Data: make([]byte, 4<<20)}, "c": {Data: make([]byte, 4<<20)}, "d": {Data: make([]byte, 4<<20)}}))
	var logged lockedBuffer
	infos, err := published(t, publishing(t, true, slog.New(slog.NewTextHandler(&logged, nil)), list...)).List(t.Context())
	if err != nil || len(infos) != 60 || infos[0].Name != "shop:s00" || infos[59].Name != "shop:s59" {
		t.Errorf("the client finds %d skills, %v", len(infos), err)
	}
	for _, want := range []string{"skill=other", "skill=huge"} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("the log has no %s: %s", want, logged.String())
		}
	}
}

// Nothing but files of published skills can be read.
func TestOnlySkillsArePublished(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{"refunds/SKILL.md": {Data: []byte(refunds)}, "refunds/a.md": {Data: []byte("one")}, "secret.md": {Data: []byte("secret")}, "refunds/.git/config": {Data: []byte("secret")}}
	client := sdk.NewClient(&sdk.Implementation{Name: "c", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: publishing(t, true, nil, skill.FS(files))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if _, declared := session.InitializeResult().Capabilities.Extensions["io.modelcontextprotocol/skills"]; !declared {
		t.Error("the extension is not declared")
	}
	if res, err := session.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "skill://refunds/a.md"}); err != nil || res.Contents[0].Text != "one" || res.Contents[0].MIMEType != "text/markdown" {
		t.Errorf("a file of a skill: %+v, %v", res, err)
	}
	for _, uri := range []string{"skill://refunds/../secret.md", "skill://refunds/%2e%2e/secret.md", "skill://refunds/..%2Fsecret.md", "skill://../secret.md", "skill://refunds/.git/config",
		"skill://refunds/", "skill://refunds", "skill://none/SKILL.md", "skill://refunds/none.md", "file:///etc/passwd", "skill:///SKILL.md", "skill://refunds/%61.md"} {
		if res, err := session.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s: %+v", uri, res.Contents[0])
		}
	}
	list, err := session.ListResources(t.Context(), nil)
	if err != nil || len(list.Resources) != 1 || list.Resources[0].Name != "refunds" || list.CacheScope != "private" {
		t.Errorf("the resources are %+v, %v", list, err)
	}
}

// Skills are published only if that is asked for.
func TestSkillsStayPrivate(t *testing.T) {
	t.Parallel()
	own := skill.Define(skill.Skill{Info: skill.Info{Name: "tone", Description: "Helps."}}, nil)
	if infos, err := published(t, publishing(t, false, nil, own)).List(t.Context()); err != nil || len(infos) != 0 {
		t.Errorf("the client finds %v, %v", infos, err)
	}
	eng, _ := clerk(t)
	if _, err := mcp.NewAgents(eng, []mcp.AgentTool{{Agent: "clerk", Description: "Helps.", Skills: true}}, nil); err == nil || !strings.Contains(err.Error(), `tools[0]: agent "clerk" has no skills`) {
		t.Errorf("an agent without skills: %v", err)
	}
}

// skillScenarios are those of the conformance suite about skills, by the side that is tested.
var skillScenarios = map[string][]string{
	"server": {"sep-2640-skills-enumeration", "sep-2640-skills-manifest", "sep-2640-skills-directory"},
	"client": {"sep-2640-client-no-prefetch", "sep-2640-client-verify-digest", "sep-2640-client-verify-size", "sep-2640-client-verify-frontmatter"},
}

// The official suite's scenarios for skills pass.
func TestSkillsConformance(t *testing.T) {
	t.Parallel()
	address := publishing(t, true, nil, skill.FS(fstest.MapFS{"refunds/SKILL.md": {Data: []byte(refunds)}, "refunds/notes/a.md": {Data: []byte("one")}}),
		skill.Define(skill.Skill{Info: skill.Info{Name: "tone", Description: "How to write."}, Body: "Write short sentences."}, nil))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for side, scenarios := range skillScenarios {
		for _, scenario := range scenarios {
			t.Run(scenario, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				args := []string{side, "--scenario", scenario, "--force", "--timeout", "300000", "-o", dir}
				if side == "client" {
					args = append(args, "--command", self)
				} else {
					args = append(args, "--url", address)
				}
				out := testenv.Conformance(t, []string{"MCP_TEST=conformance"}, args...)
				for name, bad := range failedChecks(t, dir, side) {
					t.Errorf("%s fails:\n%s", name, strings.Join(bad, "\n"))
				}
				if succeeded(t, dir) == 0 && scenario != "sep-2640-skills-directory" { // an optional method, which is not declared
					t.Errorf("no check passes:\n%s", out)
				}
			})
		}
	}
}

// succeeded returns the number of checks about skills that passed.
func succeeded(t *testing.T, dir string) (n int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != "checks.json" {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var list []struct{ ID, Status string }
		if err := json.Unmarshal(raw, &list); err != nil {
			return err
		}
		for _, c := range list {
			if c.Status == "SUCCESS" && strings.HasPrefix(c.ID, "sep-2640") {
				n++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// readSkills is what the suite's client does in a scenario about skills: it lists them and, unless the scenario forbids
// it, loads one and reads a file of it.
func readSkills(ctx context.Context, address, scenario string) error {
	s, err := mcp.URL("server", address, &mcp.Options{ListTimeout: testWait, Timeout: testWait})
	if err != nil {
		return err
	}
	defer s.Close()
	p := s.Skills("")
	infos, err := p.List(ctx)
	if err != nil || scenario == "sep-2640-client-no-prefetch" {
		return err
	}
	for _, info := range infos {
		loaded, err := p.Load(ctx, info.Name)
		if err != nil {
			return err
		}
		for _, f := range loaded.Files {
			if _, err := p.ReadFile(ctx, info.Name, f.Path); err != nil {
				return err
			}
		}
	}
	return nil
}

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
