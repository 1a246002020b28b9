package skill_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cairntest"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/skill"
)

func define(name, body string) skill.Provider {
	return skill.Define(skill.Skill{Info: skill.Info{Name: name, Description: "Does " + name + "."}, Body: body},
		fstest.MapFS{"notes/a.md": {Data: []byte("one\ntwo\nthree\n")}})
}

func set(t *testing.T, opts *skill.Options, providers ...skill.Provider) *skill.Set {
	t.Helper()
	s, err := skill.New(providers, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// bot returns an agent whose model notes its requests.
func bot(skills *skill.Set, steps ...scripted.Step) (agent *cairn.Agent, requests func() []*cairn.Request) {
	var mu sync.Mutex
	var list []*cairn.Request
	script := scripted.New(steps...)
	model := watched{script, func(req *cairn.Request) {
		mu.Lock()
		defer mu.Unlock()
		copied := *req
		copied.Messages = slices.Clone(req.Messages)
		list = append(list, &copied)
	}}
	return &cairn.Agent{Name: "bot", Model: model, Toolsets: []cairn.Toolset{skills}}, func() []*cairn.Request {
		mu.Lock()
		defer mu.Unlock()
		return list
	}
}

type watched struct {
	cairn.Model
	see func(*cairn.Request)
}

func (w watched) Stream(ctx context.Context, req *cairn.Request) iter.Seq2[cairn.Chunk, error] {
	w.see(req)
	return w.Model.Stream(ctx, req)
}

func load(name string) scripted.Step {
	return scripted.Call(skill.LoadTool, map[string]string{"name": name})
}

// results returns the texts that a tool returned, in order.
func results(t *testing.T, s *cairntest.Session, tool string) (list []string) {
	t.Helper()
	for _, m := range s.Messages(t) {
		for _, r := range m.ToolResults() {
			var text string
			if r.Tool == tool && json.Unmarshal(r.Output, &text) == nil {
				list = append(list, text)
			}
		}
	}
	return list
}

func notes(messages []cairn.Message) (list []string) {
	for _, m := range messages {
		if len(m.Pinned) > 0 {
			list = append(list, m.Text())
		}
	}
	return list
}

func TestSkillIsLoadedOnce(t *testing.T) {
	t.Parallel()
	agent, requests := bot(set(t, nil, define("pdf", "Read the file."), define("docx", "Write the file.")),
		load("pdf"), load("pdf"), scripted.Call(skill.ReadTool, map[string]any{"skill": "pdf", "path": "notes/a.md", "line": 2, "lines": 1}),
		scripted.Call(skill.ReadTool, map[string]any{"skill": "pdf", "path": "../secret"}), scripted.Text("done"))
	s := cairntest.New(t, agent)
	s.Say(t, "go")
	want := []string{
		"Skill pdf (", "The skill pdf is already loaded: follow its instructions above.",
		"Lines 2 to 2 of 3 of notes/a.md:\ntwo", `path: must be a path within the skill's folder, got "../secret"`,
	}
	got := append(results(t, s, skill.LoadTool), results(t, s, skill.ReadTool)...)
	if len(got) != len(want) || !strings.HasPrefix(got[0], want[0]) || !strings.HasSuffix(got[0], ")\n\nRead the file.\n\nFiles of the skill, to be read with read_skill_file:\n- notes/a.md (14 bytes)") ||
		!slices.Equal(got[1:], want[1:]) {
		t.Errorf("the model reads %q, want %q", got, want)
	}
	catalogue := "Skills are instructions for particular tasks. Before you work on a task that one of them describes, call load_skill with its name, and follow its instructions. " +
		"A skill is not a tool: it cannot be called.\n\n- docx: Does docx.\n- pdf: Does pdf."
	if got := notes(s.Messages(t)); !slices.Equal(got, []string{catalogue}) {
		t.Errorf("the catalogue is %q", got)
	}
	first := requests()[0]
	if i := slices.IndexFunc(first.Tools, func(s cairn.ToolSpec) bool { return s.Name == skill.LoadTool }); i < 0 || !strings.Contains(string(first.Tools[i].Schema), `"enum":["docx","pdf"]`) {
		t.Errorf("the tools are %+v", first.Tools)
	}
	var events []string
	for _, ev := range s.Events(t) {
		if ev.Type == cairn.EventSkillLoaded {
			events = append(events, ev.Name)
		}
	}
	if !slices.Equal(events, []string{"pdf"}) {
		t.Errorf("the events name %q", events)
	}
}

// A skill that a summary has replaced is loaded again, and the prefix of requests changes with the summary only.
func TestSkillIsLoadedAgainAfterASummary(t *testing.T) {
	t.Parallel()
	var steps []scripted.Step
	for turn := range 20 {
		switch turn {
		case 0, 1, 11, 12:
			steps = append(steps, load("pdf"))
		}
		steps = append(steps, scripted.Text(fmt.Sprint("reply ", turn)))
	}
	agent, requests := bot(set(t, &skill.Options{Preload: []string{"docx"}}, define("pdf", "Read the file."), define("docx", "Write the file.")), steps...)
	agent.Compaction = &cairn.Compaction{Model: scripted.Func(func(context.Context, *cairn.Request) scripted.Step { return scripted.Text("It was long.") })}
	s := cairntest.New(t, agent)
	var compacted int
	for turn := range 20 {
		if turn == 10 {
			compacted = len(requests())
			if _, err := s.Engine.Compact(t.Context(), s.ID); err != nil {
				t.Fatal(err)
			}
		}
		s.Say(t, fmt.Sprint("message ", turn))
	}
	var fresh []bool
	for _, text := range results(t, s, skill.LoadTool) {
		fresh = append(fresh, strings.HasPrefix(text, "Skill pdf ("))
	}
	if want := []bool{true, false, true, false}; !slices.Equal(fresh, want) {
		t.Errorf("the calls loaded %v, want %v", fresh, want)
	}
	list := requests()
	for i := 1; i < len(list); i++ {
		before, now := encoded(t, list[i-1]), encoded(t, list[i])
		if kept := bytes.HasPrefix(now, before); kept == (i == compacted) {
			t.Errorf("request %d keeps the one before as its prefix: %t", i, kept)
		}
	}
	if text := string(encoded(t, list[compacted])); !strings.Contains(text, "- pdf: Does pdf.") || !strings.Contains(text, "Write the file.") || strings.Contains(text, "Read the file.") {
		t.Errorf("after the summary the model reads %s", text)
	}
}

// encoded returns a request as bytes that a longer one begins with.
func encoded(t *testing.T, req *cairn.Request) []byte {
	t.Helper()
	raw, err := json.Marshal([]any{req.System, req.Tools})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range req.Messages {
		one, err := json.Marshal(m.Parts)
		if err != nil {
			t.Fatal(err)
		}
		raw = append(append(raw, m.Role...), one...)
	}
	return raw
}

func TestPreloadedSkills(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	agent, _ := bot(set(t, &skill.Options{Preload: []string{"pdf", "none"}, Logger: slog.New(slog.NewTextHandler(&logged, nil))}, define("pdf", "Read the file.")),
		load("pdf"), scripted.Text("done"), scripted.Text("again"))
	s := cairntest.New(t, agent)
	s.Say(t, "go")
	s.Say(t, "go")
	if got := notes(s.Messages(t)); len(got) != 1 || !strings.Contains(got[0], "\n\nRead the file.") {
		t.Errorf("the catalogue is %q", got)
	}
	if got := results(t, s, skill.LoadTool); len(got) != 1 || got[0] != "The skill pdf is already loaded: its instructions are with the list of skills." {
		t.Errorf("a preloaded skill: %q", got)
	}
	if n := strings.Count(logged.String(), "none: unknown skill"); n != 1 {
		t.Errorf("an unknown skill is logged %d times: %s", n, &logged)
	}
}

// changing is a provider whose skills the test sets.
type changing struct {
	mu sync.Mutex
	skill.Provider
}

func (c *changing) set(p skill.Provider) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Provider = p
}

func (c *changing) List(ctx context.Context) ([]skill.Info, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Provider == nil {
		return nil, nil
	}
	return c.Provider.List(ctx)
}

// A turn has the skills of its beginning; a session without skills has no tools for them.
func TestSkillsThatChange(t *testing.T) {
	t.Parallel()
	c := &changing{}
	agent, requests := bot(set(t, nil, c), scripted.Text("a"), scripted.Text("b"), load("pdf"), scripted.Text("c"), scripted.Text("d"))
	s := cairntest.New(t, agent)
	s.Say(t, "go")
	c.set(define("pdf", "Read the file."))
	s.Say(t, "go")
	c.set(skill.FS(fstest.MapFS{"pdf/SKILL.md": {Data: []byte("---\nname: pdf\ndescription: Reads.\n---\nRead all of it.")}}))
	s.Say(t, "go")
	c.set(nil)
	s.Say(t, "go")
	var offered []bool
	for _, req := range requests() {
		offered = append(offered, slices.ContainsFunc(req.Tools, func(t cairn.ToolSpec) bool { return t.Name == skill.LoadTool }))
	}
	if want := []bool{false, true, true, true, false}; !slices.Equal(offered, want) {
		t.Errorf("the requests offer skills: %v, want %v", offered, want)
	}
	got := notes(s.Messages(t))
	if len(got) != 3 || !strings.HasPrefix(got[1], "The skills have changed. Skills are") || !strings.HasSuffix(got[1], "- pdf: Reads.") || got[2] != "The skills have changed. No skills are available any more." {
		t.Errorf("the notes are %q", got)
	}
	if got := results(t, s, skill.LoadTool); len(got) != 1 || !strings.HasSuffix(got[0], "Read all of it.") {
		t.Errorf("the changed skill: %q", got)
	}
}

// A skill switches on those of the agent's tools that are off and that it names, and no others; an approval stays.
func TestAllowedTools(t *testing.T) {
	t.Parallel()
	tool := func(name string, opts ...cairn.ToolOption) cairn.Tool {
		return cairn.Func(name, "Does "+name+".", func(context.Context, *cairn.Call, struct{}) (string, error) { return "ok", nil }, opts...)
	}
	skills := set(t, nil, skill.Define(skill.Skill{Info: skill.Info{Name: "git", Description: "Uses git.", AllowedTools: []string{"git_*(push:*)", "unknown"}}, Body: "Push."}, nil))
	agent, _ := bot(skills, scripted.Text("ready"), load("git"), scripted.Call("git_push", struct{}{}), scripted.Text("done"))
	agent.Tools = []cairn.Tool{tool("git_push", cairn.RequireApproval()), tool("shell")}
	s := cairntest.New(t, agent)
	s.Say(t, "hello")
	if err := s.Engine.SwitchTools(t.Context(), s.ID, map[string]bool{"git_push": false, "shell": false}); err != nil {
		t.Fatal(err)
	}
	if res := s.Say(t, "go"); res.Status != cairn.RunSuspended || len(s.Calls(t)) != 1 {
		t.Fatalf("the call came to %+v", res)
	}
	if res := s.Approve(t); res.Text != "done" {
		t.Errorf("after the approval: %+v", res)
	}
	on := map[string]bool{}
	for _, m := range s.Messages(t) {
		for name, is := range m.Tools {
			on[name] = is
		}
	}
	if !on["git_push"] || on["shell"] {
		t.Errorf("the tools are on: %v", on)
	}
}

func TestDefinitions(t *testing.T) {
	t.Parallel()
	for want, providers := range map[string][]skill.Provider{
		"providers: are none":                            nil,
		"providers[1]: is nil":                           {define("pdf", ""), nil},
		"providers[0]: name: must be 1 to 64":            {define("P D F", "")},
		"providers[0]: description: must have 1 to 1024": {skill.Define(skill.Skill{Info: skill.Info{Name: "pdf"}}, nil)},
		"providers[0]: body: larger than 256 KiB":        {define("pdf", strings.Repeat("x", skill.MaxBody+1))},
	} {
		if _, err := skill.New(providers, nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	own := cairn.Func(skill.LoadTool, "Loads.", func(context.Context, *cairn.Call, struct{}) (string, error) { return "", nil })
	agent := &cairn.Agent{Name: "bot", Model: scripted.New(), Tools: []cairn.Tool{own}, Toolsets: []cairn.Toolset{set(t, nil, define("pdf", ""))}}
	if err := agent.Validate(); err == nil || !strings.Contains(err.Error(), `tool "load_skill": the name is reserved for the toolset "skills"`) {
		t.Errorf("an agent with a tool of that name: %v", err)
	}
}
