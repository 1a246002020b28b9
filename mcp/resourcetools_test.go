package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/mcp"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// shelves is a server with resources and templates of them.
func shelves() *sdk.Server {
	s := archive()
	for _, kind := range []string{"book", "film", "song"} {
		s.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: kind + "://{title}/{page}", Name: kind, Title: "A " + kind, Description: "One page.", MIMEType: "text/plain"},
			func(_ context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
				return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: req.Params.URI, MIMEType: "text/plain", Text: "page of " + req.Params.URI}}}, nil
			})
	}
	return s
}

func TestResourceTemplates(t *testing.T) {
	t.Parallel()
	s := served(t, shelves(), mcp.Options{})
	var got []string
	for r, err := range s.ResourceTemplates(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if r.Title != "A "+r.Name || r.Description != "One page." || r.MIMEType != "text/plain" {
			t.Errorf("the template is %+v", r)
		}
		got = append(got, r.URITemplate)
	}
	if want := []string{"book://{title}/{page}", "film://{title}/{page}", "song://{title}/{page}"}; !slices.Equal(got, want) { // on several pages
		t.Errorf("the templates are %q", got)
	}
	contents, err := s.ReadResource(t.Context(), "", "film://dune/7")
	if err != nil || len(contents) != 1 || contents[0].Text != "page of film://dune/7" {
		t.Errorf("the resource is %+v, %v", contents, err)
	}
	bare := shelves()
	bare.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method == "resources/templates/list" {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found"}
			}
			return next(ctx, method, req)
		}
	})
	for r, err := range served(t, bare, mcp.Options{}).ResourceTemplates(t.Context(), "") {
		t.Errorf("a server that has never heard of templates offers %+v, %v", r, err)
	}
	for r, err := range command(t, "server", t.TempDir(), mcp.Options{}).ResourceTemplates(t.Context(), "") {
		t.Errorf("a server without resources offers %+v, %v", r, err)
	}
}

// A model lists the resources and templates of a server, and reads one by an address that it has filled in.
func TestResourceTools(t *testing.T) {
	t.Parallel()
	k := newTalk(t, []cairn.Toolset{served(t, shelves(), mcp.Options{Resources: true})},
		asks("bench_list_resources", none{}), asks("bench_list_resources", map[string]string{"query": "FILM"}),
		asks("bench_read_resource", map[string]string{"uri": "book://dune/7"}), asks("bench_read_resource", map[string]string{"uri": "file:///a"}),
		asks("bench_read_resource", map[string]string{"uri": "disc://dune"}))
	k.turn("go")
	if got := k.offered(0); got != "bench_list_resources bench_read_resource" {
		t.Errorf("the model has the tools %s", got)
	}
	if got := k.hidden()[0]; got != "Tools from bench: bench_list_resources, bench_read_resource." {
		t.Errorf("the model reads %q", got)
	}
	resource := func(name string) string {
		return fmt.Sprintf(`{"uri":"file:///%s","name":"%s","description":"File %s","media_type":"text/plain","size":4}`, name, name, name)
	}
	template := func(kind string) string {
		return fmt.Sprintf(`{"uri_template":"%s://{title}/{page}","name":"%s","title":"A %s","description":"One page.","media_type":"text/plain"}`, kind, kind, kind)
	}
	want := []string{
		`{"resources":[` + resource("a") + `,` + resource("b") + `,` + resource("c") + `],"templates":[` + template("book") + `,` + template("film") + `,` + template("song") + `]}`,
		`{"resources":[],"templates":[` + template("film") + `]}`,
		`[{"type":"resource","uri":"book://dune/7","media_type":"text/plain","text":"page of book://dune/7"}]`,
		`[{"type":"resource","uri":"file:///a","media_type":"text/plain","text":"text a"},{"type":"resource","uri":"file:///a","media_type":"image/png","note":"attached to this result"}]`,
	}
	for i, r := range k.results() {
		switch {
		case i < len(want) && string(r.Output) != want[i]:
			t.Errorf("call %d came to %s, want %s", i, r.Output, want[i])
		case i == len(want) && (!r.IsError || !strings.Contains(string(r.Output), `resource \"disc://dune\" not found`)):
			t.Errorf("a resource that does not exist: %s", r.Output)
		}
	}
	if text := k.everything(); !strings.Contains(text, "Files in the result of bench_read_resource") {
		t.Error("the model is not shown the image")
	}
}

// The tools are there only if they are asked for and the server has resources. Patterns hold them for approval, and the
// server's own tools of their names have other ones.
func TestResourceToolsAreOptional(t *testing.T) {
	t.Parallel()
	own := shelves()
	sdk.AddTool(own, &sdk.Tool{Name: "list_resources"}, func(context.Context, *sdk.CallToolRequest, none) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{}, nil, nil
	})
	for name, test := range map[string]struct {
		server *sdk.Server
		opts   mcp.Options
		want   string
		held   bool
	}{
		"not asked for":            {server: shelves()},
		"no resources":             {server: advising(""), opts: mcp.Options{Resources: true}, want: "bench_one bench_call_new_tool"},
		"approved by name":         {server: shelves(), opts: mcp.Options{Resources: true, Approve: []string{"resources/read"}}, want: "bench_list_resources bench_read_resource", held: true},
		"everything":               {server: shelves(), opts: mcp.Options{Resources: true, Approve: []string{"*"}}, want: "bench_list_resources bench_read_resource", held: true},
		"deferred":                 {server: shelves(), opts: mcp.Options{Resources: true, Deferred: true}, want: "tools__find tools__call"},
		"tools of those names":     {server: own, opts: mcp.Options{Resources: true}, want: "bench_list_resources_6545100d bench_list_resources bench_read_resource bench_call_new_tool"},
		"own tools, not asked for": {server: own, want: "bench_list_resources bench_call_new_tool"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newTalk(t, []cairn.Toolset{served(t, test.server, test.opts)})
			if test.held {
				k.script(asks("bench_read_resource", map[string]string{"uri": "file:///a"}))
			}
			res := k.turn("go")
			if got := k.offered(0); got != test.want {
				t.Errorf("the model has the tools %s", got)
			}
			if held := res.Suspended != nil; held != test.held {
				t.Fatalf("the call is held: %v", held)
			}
			if test.held {
				k.answer(res.Suspended.Calls[0], nil)
				if !strings.Contains(k.last(), "text a") {
					t.Errorf("the call came to %s", k.last())
				}
			}
		})
	}
}

// A list has a bounded number of entries, none of whose addresses the model would read otherwise than the server has
// it.
func TestManyResources(t *testing.T) {
	t.Parallel()
	s := sdk.NewServer(&sdk.Implementation{Name: "archive", Version: "1"}, nil)
	add := func(uri, name string) {
		s.AddResource(&sdk.Resource{URI: uri, Name: name, Description: strings.Repeat("long ", 1000)}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			return nil, errors.New("not read")
		})
	}
	for i := range 150 {
		add(fmt.Sprintf("file:///%03d", i), fmt.Sprintf("a\u202e%03d", i))
	}
	add("file:///\u202eodd", "odd")
	add("file:///"+strings.Repeat("x", 4<<10), "far")
	k := newTalk(t, []cairn.Toolset{served(t, s, mcp.Options{Resources: true})}, asks("bench_list_resources", none{}), asks("bench_list_resources", map[string]string{"query": "/14"}), scripted.Text("done"))
	k.turn("go")
	for i, want := range []struct{ n, left int }{{100, 50}, {10, 0}} {
		var got struct {
			Resources []struct{ URI, Name, Description string }
			LeftOut   int `json:"left_out"`
		}
		if err := json.Unmarshal(k.results()[i].Output, &got); err != nil || len(got.Resources) != want.n || got.LeftOut != want.left {
			t.Fatalf("list %d has %d resources, and %d more: %v", i, len(got.Resources), got.LeftOut, err)
		}
		for _, r := range got.Resources {
			if r.URI != "file:///"+strings.TrimPrefix(r.Name, "a") || len(r.Description) > 1100 {
				t.Errorf("the resource is %+v", r)
			}
		}
	}
}

// A call for resources that need an account asks the user to connect one.
func TestResourceToolsOfAUser(t *testing.T) {
	t.Parallel()
	b := newBank(t, shelves())
	c := newCustomerWith(t, b, mcp.Options{Resources: true})
	c.script(asks("bench_read_resource", map[string]string{"uri": "song://dune/1"}), scripted.Text("done"))
	c.turn("go on")
	if !strings.Contains(c.last(), "page of song://dune/1") {
		t.Errorf("the call came to %s", c.last())
	}
	b.revoke()
	b.mu.Lock()
	b.renew = "invalid_grant"
	b.mu.Unlock()
	c.script(asks("bench_read_resource", map[string]string{"uri": "song://dune/2"}), scripted.Text("done"))
	res := c.turn("go on")
	if res.Suspended == nil || res.Suspended.Calls[0].Kind != cairn.CallConnect {
		t.Fatalf("the call came to %s", c.last())
	}
	c.open(res.Suspended.Calls[0])
	if !strings.Contains(c.last(), "page of song://dune/2") {
		t.Errorf("after the account was connected the call came to %s", c.last())
	}
}

// The tools leave a session, and the model is informed, once the operator takes them from it.
func TestResourceToolsLeaveOldSessions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ listed, answers bool }{"a server with a list": {true, true}, "a server without tools": {false, true}, "a server that is away": {true, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, s := memstore.New(nil), shelves()
			if test.listed {
				sdk.AddTool(s, &sdk.Tool{Name: "one"}, func(context.Context, *sdk.CallToolRequest, none) (*sdk.CallToolResult, any, error) {
					return &sdk.CallToolResult{}, nil, nil
				})
			}
			newTalkIn(t, st, []cairn.Toolset{served(t, s, mcp.Options{Resources: true})}).turn("one")
			now := served(t, s, mcp.Options{})
			if !test.answers {
				now = command(t, "silent", t.TempDir(), mcp.Options{ListTimeout: time.Millisecond})
			} else if err := now.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			k := newTalkIn(t, st, []cairn.Toolset{now})
			for range 2 {
				k.turn("go on")
				if got := k.offered(len(k.sent) - 1); strings.Contains(got, "resource") {
					t.Errorf("the model has the tools %s", got)
				}
			}
			notes := strings.Join(k.hidden(), "\n")
			if test.listed && strings.Count(notes, "bench_read_resource is no longer available.") != 1 || !test.listed && !strings.HasSuffix(notes, "bench has no tools.") {
				t.Errorf("the model reads %q", notes)
			}
		})
	}
}
