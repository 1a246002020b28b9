package mcp_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/mcp"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/skill"
)

// shelf is a server that publishes skills. Tests change what it lists and serves.
type shelf struct {
	mu      sync.Mutex
	entries []map[string]any
	files   map[string]string // by address
	reads   []string
	ttl     int
}

type shelfParams struct {
	sdk.ParamsBase
	Cursor string `json:"cursor,omitempty"`
	URI    string `json:"uri,omitempty"`
}

type shelfResult struct {
	sdk.ResultBase
	Skills     []map[string]any `json:"skills,omitempty"`
	Skill      map[string]any   `json:"skill,omitempty"`
	NextCursor string           `json:"nextCursor,omitempty"`
	TTLMs      int              `json:"ttlMs"`
}

// publish adds a skill with its files, by paths, and returns its description.
func (l *shelf) publish(root, front string, files map[string]string) map[string]any {
	var fields map[string]any
	if err := json.Unmarshal([]byte(front), &fields); err != nil {
		panic(err)
	}
	entry := map[string]any{"uri": root + "SKILL.md", "frontmatter": fields}
	l.entries = append(l.entries, entry)
	if l.files == nil {
		l.files = map[string]string{}
	}
	l.serve(entry, root, files)
	return entry
}

// serve replaces the files of a skill, and its description of them.
func (l *shelf) serve(entry map[string]any, root string, files map[string]string) {
	var resources []any
	for name, text := range files {
		uri := root + name
		l.files[uri] = text
		resources = append(resources, map[string]any{"uri": uri, "digest": skill.Digest([]byte(text)), "size": len(text)})
	}
	entry["resources"] = resources
}

func (l *shelf) server(t *testing.T, declares bool) *sdk.Server {
	t.Helper()
	caps := &sdk.ServerCapabilities{Resources: &sdk.ResourceCapabilities{}}
	if declares {
		caps.Extensions = map[string]any{"io.modelcontextprotocol/skills": map[string]any{}}
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "library", Version: "1"}, &sdk.ServerOptions{Capabilities: caps})
	handle := func(do func(*shelfParams) (*shelfResult, error)) func(context.Context, *sdk.ServerSession, *shelfParams) (*shelfResult, error) {
		return func(_ context.Context, _ *sdk.ServerSession, p *shelfParams) (*shelfResult, error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			return do(p)
		}
	}
	err := errors.Join(
		sdk.AddReceivingCustomMethod(s, "skills/list", handle(func(p *shelfParams) (*shelfResult, error) { // a page each
			at := len(p.Cursor)
			if at >= len(l.entries) {
				return &shelfResult{TTLMs: l.ttl}, nil
			}
			res := &shelfResult{Skills: l.entries[at : at+1], TTLMs: l.ttl}
			if at+1 < len(l.entries) {
				res.NextCursor = strings.Repeat("x", at+1)
			}
			return res, nil
		})),
		sdk.AddReceivingCustomMethod(s, "skills/get", handle(func(p *shelfParams) (*shelfResult, error) {
			for _, e := range l.entries {
				if e["uri"] == p.URI {
					return &shelfResult{Skill: e, TTLMs: l.ttl}, nil
				}
			}
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no skill is served there"}
		})))
	if err != nil {
		t.Fatal(err)
	}
	s.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: "skill://{+path}", Name: "skills"}, func(_ context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.reads = append(l.reads, req.Params.URI)
		text, there := l.files[req.Params.URI]
		if !there {
			return nil, sdk.ResourceNotFoundError(req.Params.URI)
		}
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: req.Params.URI, Text: text}}}, nil
	})
	return s
}

const refunds = "---\nname: refunds\ndescription: Refunds orders.\nallowed-tools: \"*\"\nmetadata:\n  since: 2026-01-02\n---\nLook the order up."

const refundsFront = `{"name": "refunds", "description": "Refunds orders.", "allowed-tools": "*", "metadata": {"since": "2026-01-02"}}`

func TestSkillsOfAServer(t *testing.T) {
	t.Parallel()
	l := &shelf{ttl: 60_000}
	l.publish("skill://acme/refunds/", refundsFront, map[string]string{"SKILL.md": refunds, "notes/a b.md": "one\ntwo"})
	l.files["skill://acme/refunds/notes/a%20b.md"] = "one\ntwo"
	for _, r := range l.entries[0]["resources"].([]any) {
		if r := r.(map[string]any); strings.HasSuffix(r["uri"].(string), "a b.md") {
			r["uri"] = "skill://acme/refunds/notes/a%20b.md"
		}
	}
	p := served(t, l.server(t, true), mcp.Options{}).Skills("")
	infos, err := p.List(t.Context())
	if err != nil || len(infos) != 1 {
		t.Fatalf("the skills are %+v, %v", infos, err)
	}
	if i := infos[0]; i.Name != "bench:refunds" || i.Description != "Refunds orders." || i.Origin != "the MCP server bench" || i.AllowedTools != nil || len(i.Digests) != 2 {
		t.Errorf("the skill is %+v", i)
	}
	if len(l.reads) > 0 {
		t.Errorf("files were read ahead of need: %q", l.reads)
	}
	s, err := p.Load(t.Context(), "bench:refunds")
	if err != nil || s.Body != "Look the order up." || !slices.Equal(s.Files, []skill.File{{Path: "notes/a b.md", Size: 7}}) || s.Digest != infos[0].Digests["SKILL.md"] {
		t.Errorf("the instructions are %+v, %v", s, err)
	}
	if raw, err := p.ReadFile(t.Context(), "bench:refunds", "notes/a b.md"); err != nil || string(raw) != "one\ntwo" {
		t.Errorf("a file: %q, %v", raw, err)
	}
	for _, name := range []string{"refunds", "other:refunds", "bench:none"} {
		if _, err := p.Load(t.Context(), name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := p.ReadFile(t.Context(), "bench:refunds", "other.md"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not listed: %v", err)
	}
	silent := served(t, l.server(t, false), mcp.Options{}).Skills("")
	if infos, err := silent.List(t.Context()); err != nil || len(infos) != 0 {
		t.Errorf("a server without the extension has %+v, %v", infos, err)
	}
}

// A file that differs from its description is not used. A description that is stale is read anew, once.
func TestSkillsAreVerified(t *testing.T) {
	t.Parallel()
	const root = "skill://refunds/"
	files := map[string]string{"SKILL.md": refunds, "a.md": "one"}
	for name, test := range map[string]struct {
		change func(l *shelf, entry map[string]any)
		loads  bool
		reads  bool
	}{
		"as described": {func(*shelf, map[string]any) {}, true, true},
		"other instructions": {func(l *shelf, _ map[string]any) {
			l.files[root+"SKILL.md"] = strings.Replace(refunds, "Look", "Book", 1)
		}, false, true},
		"longer instructions": {func(l *shelf, _ map[string]any) { l.files[root+"SKILL.md"] += "\n" }, false, true},
		"another file":        {func(l *shelf, _ map[string]any) { l.files[root+"a.md"] = "two" }, true, false},
		"no file":             {func(l *shelf, _ map[string]any) { delete(l.files, root+"a.md") }, true, false},
		"a new version": {func(l *shelf, entry map[string]any) {
			l.serve(entry, root, map[string]string{"SKILL.md": refunds + " Twice.", "a.md": "one"})
		}, true, true},
		"other front matter": {func(_ *shelf, entry map[string]any) {
			entry["frontmatter"] = map[string]any{"name": "refunds", "description": "Refunds nothing."}
		}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &shelf{ttl: 60_000}
			entry := l.publish(root, refundsFront, files)
			if name == "other front matter" {
				test.change(l, entry)
			}
			p := served(t, l.server(t, true), mcp.Options{}).Skills("")
			if infos, err := p.List(t.Context()); err != nil || len(infos) != 1 {
				t.Fatalf("the skills are %+v, %v", infos, err)
			}
			l.mu.Lock()
			test.change(l, entry)
			l.mu.Unlock()
			if s, err := p.Load(t.Context(), "bench:refunds"); (err == nil) != test.loads {
				t.Errorf("the instructions are %+v, %v", s, err)
			}
			if raw, err := p.ReadFile(t.Context(), "bench:refunds", "a.md"); (err == nil) != test.reads {
				t.Errorf("the file is %q, %v", raw, err)
			}
		})
	}
}

// Descriptions that break the rules of the extension are left out, with the reason in the log.
func TestSkillsThatAreLeftOut(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	l := &shelf{}
	front := func(name string) string { return fmt.Sprintf(`{"name": %q, "description": "Does."}`, name) }
	one := map[string]string{"SKILL.md": refunds}
	l.publish("skill://a/good/", front("good"), one)
	l.publish("skill://b/good/", front("good"), one)
	l.publish("skill://named/", front("other"), one)
	l.publish("skill://dynamic/", front("dynamic"), one)["resources"] = "dynamic"
	l.publish("skill://escapes/", front("escapes"), one)["resources"] = []any{
		map[string]any{"uri": "skill://escapes/SKILL.md", "digest": skill.Digest(nil), "size": 0}, map[string]any{"uri": "skill://other/x.md", "digest": skill.Digest(nil), "size": 0}}
	l.publish("skill://climbs/", front("climbs"), one)["resources"] = []any{
		map[string]any{"uri": "skill://climbs/SKILL.md", "digest": skill.Digest(nil), "size": 0}, map[string]any{"uri": "skill://climbs/..%2Fx.md", "digest": skill.Digest(nil), "size": 0}}
	l.publish("skill://plain/", front("plain"), one)["resources"] = []any{map[string]any{"uri": "skill://plain/SKILL.md", "digest": "md5:1", "size": 0}}
	l.publish("skill://huge/", front("huge"), one)["resources"] = []any{map[string]any{"uri": "skill://huge/SKILL.md", "digest": skill.Digest(nil), "size": 17 << 20}}
	l.publish("skill://headless/", front("headless"), map[string]string{"a.md": "a"})
	l.publish("skill://none/", front("none"), one)["resources"] = nil
	p := served(t, l.server(t, true), mcp.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))}).Skills("")
	infos, err := p.List(t.Context())
	var names []string
	for _, i := range infos {
		names = append(names, i.Name)
	}
	if err != nil || !slices.Equal(names, []string{"bench:a/good", "bench:b/good"}) {
		t.Errorf("the skills are %q, %v", names, err)
	}
	if n := strings.Count(logged.String(), "skill of an MCP server omitted"); n != 8 {
		t.Errorf("%d skills are logged:\n%s", n, &logged)
	}
}

// A session has a server's skills as they were when its turn began.
func TestSessionPinsSkillsOfAServer(t *testing.T) {
	t.Parallel()
	const root = "skill://refunds/"
	l := &shelf{}
	entry := l.publish(root, refundsFront, map[string]string{"SKILL.md": refunds, "a.md": "one"})
	set, err := skill.New([]skill.Provider{served(t, l.server(t, true), mcp.Options{}).Skills("")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	load := asks(skill.LoadTool, map[string]string{"name": "bench:refunds"})
	read := asks(skill.ReadTool, map[string]string{"skill": "bench:refunds", "path": "a.md"})
	change := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.serve(entry, root, map[string]string{"SKILL.md": refunds + " Twice.", "a.md": "two"})
	}
	k := newTalk(t, []cairn.Toolset{set}, load, read, scripted.Reply(scripted.Do(change), read), scripted.Text("done"), load, read)
	k.turn("go")
	k.turn("on")
	messages, err := k.eng.Messages(t.Context(), "s", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range messages {
		for _, r := range m.ToolResults() {
			var text string
			if err := json.Unmarshal(r.Output, &text); err != nil {
				t.Fatal(err)
			}
			_, after, _ := strings.Cut(text, "\n") // the heading has a hash
			got = append(got, cmp.Or(after, text))
		}
	}
	const origin = "From the MCP server bench, not from the user or the operator.\n\n"
	const list = "\n\nFiles of the skill, to be read with read_skill_file:\n- a.md (3 bytes)"
	want := []string{origin + "Look the order up." + list, "one", `skill "bench:refunds" has changed; its new version is available from the next turn on`,
		origin + "Look the order up. Twice." + list, "two"}
	if !slices.Equal(got, want) {
		t.Errorf("the model reads %q, want %q", got, want)
	}
}
