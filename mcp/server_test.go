package mcp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
	"github.com/cairn-agents/cairn/internal/testclock"
	"github.com/cairn-agents/cairn/mcp"
	"github.com/cairn-agents/cairn/model/scripted"
)

// served is a server over HTTP.
func served(t *testing.T, s *sdk.Server, opts mcp.Options) *mcp.Server {
	t.Helper()
	opts.ListTimeout = testWait
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	c, err := mcp.URL("bench", web.URL, &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); web.CloseClientConnections(); web.Close() })
	return c
}

func TestToolsOfAServer(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T, dir string) *mcp.Server{
		"a command": func(t *testing.T, dir string) *mcp.Server { return command(t, "server", dir, mcp.Options{}) },
		"HTTP":      func(t *testing.T, dir string) *mcp.Server { return served(t, bench(dir), mcp.Options{}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newTalk(t, []cairn.Toolset{open(t, t.TempDir())}, asks("bench_echo", text{"hello"}), asks("bench_weather", none{}), asks("bench_draw", none{}),
				asks("bench_fail", none{}), asks("bench_echo", none{}), asks("bench_huge", map[string]int{"bytes": 2 << 20}))
			k.turn("go")
			want := []string{`"you said hello"`, `{"degrees":21}`, `[{"type":"text","text":"a drawing"},` +
				`{"type":"image","media_type":"image/png","note":"attached to this result"},` +
				`{"type":"resource_link","uri":"file:///a","name":"a"},` +
				`{"type":"audio","media_type":"audio/wav","note":"left out: not an image or a PDF"},` +
				`{"type":"resource","uri":"file:///b","media_type":"text/plain","text":"inside"}]`,
				`"out of paper"`, "", `"the server's result is too large (max 1048576 bytes); request less"`}
			for i, r := range k.results() {
				switch {
				case i == 4:
					if r.Code != cairn.ErrArguments {
						t.Errorf("wrong arguments: %s %s", r.Code, r.Output)
					}
				case string(r.Output) != want[i]:
					t.Errorf("call %d came to %s, want %s", i, r.Output, want[i])
				}
			}
			files := 0
			for _, m := range k.had[3] {
				for _, p := range m.Parts {
					if p.File != nil && string(p.File.Data) == drawing && p.File.MediaType == "image/png" && m.Hidden {
						files++
					}
				}
			}
			if files != 1 {
				t.Errorf("the model was shown %d images", files)
			}
		})
	}
}

func TestAllowedAndApproved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := command(t, "server", dir, mcp.Options{NoPrefix: true, Allow: []string{"e*", "pid"}, Approve: []string{"echo"}})
	k := newTalk(t, []cairn.Toolset{s}, asks("echo", text{"hello"}), asks("weather", none{}))
	res := k.turn("go")
	if res.Suspended == nil || res.Suspended.Calls[0].Kind != cairn.CallApproval || len(notes(dir, "echo")) != 0 {
		t.Fatalf("the call was not held: %+v", res)
	}
	if got := k.offered(0); got != "echo pid call_new_tool" {
		t.Errorf("the model has the tools %s", got)
	}
	k.answer(res.Suspended.Calls[0], nil)
	if r := k.results(); string(r[0].Output) != `"you said hello"` || r[1].Code != cairn.ErrUnknownTool {
		t.Errorf("the calls came to %+v", r)
	}
}

// Results are cached of tools that only read according to the server, in the step that first has the tools and in
// later turns, within the policy.
func TestCachedResults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := command(t, "server", dir, mcp.Options{NoPrefix: true, Allow: []string{"look", "echo"}, Cache: &cairn.CachePolicy{Max: 2}})
	look := func(what string) scripted.Step { return asks("look", text{what}) }
	k := newTalk(t, []cairn.Toolset{s}, look("a"), look("a"), asks("echo", text{"hello"}), asks("echo", text{"hello"}), scripted.Text("done"),
		look("a"), look("b"), look("c"), look("b"), look("a"), scripted.Text("done"))
	if res := k.turn("go"); res.Usage.ToolCacheHits != 1 {
		t.Errorf("the first turn has %d hits", res.Usage.ToolCacheHits)
	}
	if res := k.turn("again"); res.Usage.ToolCacheHits != 2 {
		t.Errorf("the second turn has %d hits", res.Usage.ToolCacheHits)
	}
	if got := strings.Join(notes(dir, "look"), ""); got != "abca" {
		t.Errorf("the server was asked for %s", got)
	}
	if got := notes(dir, "echo"); len(got) != 2 {
		t.Errorf("the server was asked for an echo %d times", len(got))
	}
	if r := k.results(); string(r[1].Output) != `"you see a"` {
		t.Errorf("the calls came to %+v", r)
	}
}

// A tool that asks the user something suspends the run. Each of its requests is made once.
func TestElicitation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := newTalk(t, []cairn.Toolset{command(t, "server", dir, mcp.Options{})}, asks("bench_deploy", text{"app"}))
	res := k.turn("deploy it")
	where := res.Suspended.Calls[0]
	if where.Kind != cairn.CallQuestion || where.Prompt != "Where to?" || string(where.Payload) != `{"server":"bench"}` {
		t.Fatalf("the first question is %+v", where)
	}
	if _, err := k.eng.Submit(t.Context(), "s", cairn.Answer(where, map[string]string{"region": "moon"})); err == nil {
		t.Error("an answer against the server's schema was taken")
	}
	res = k.answer(where, map[string]string{"region": "eu"})
	sign := res.Suspended.Calls[0]
	if sign.Prompt != "Sign here." || string(sign.Payload) != `{"server":"bench","url":"https://example.com/sign"}` {
		t.Fatalf("the second question is %+v", sign)
	}
	k.answer(sign, true)
	if want := `"deployed with \"state of app\" to eu, accept, accept"`; k.last() != want {
		t.Errorf("the call came to %s, want %s", k.last(), want)
	}
	first, second := notes(dir, "prepared"), notes(dir, "deployed")
	if len(first) != 1 || len(second) != 1 || first[0] == second[0] {
		t.Errorf("the requests had the keys %v and %v", first, second)
	}
}

func TestDeclinedElicitation(t *testing.T) {
	t.Parallel()
	k := newTalk(t, []cairn.Toolset{command(t, "server", t.TempDir(), mcp.Options{})}, asks("bench_deploy", text{"app"}))
	res := k.turn("deploy it")
	if _, err := k.eng.Submit(t.Context(), "s", cairn.AnswerError(res.Suspended.Calls[0], "no")); err != nil {
		t.Fatal(err)
	}
	res = k.outcome(k.eng.Resume(t.Context(), "s"))
	k.answer(res.Suspended.Calls[0], true)
	if want := `"deployed with \"state of app\" to \u003cnil\u003e, decline, accept"`; k.last() != want {
		t.Errorf("the call came to %s, want %s", k.last(), want)
	}
}

// A server of an older revision asks while the call is open, and gets no answer. Its tool gets an error that says
// why, and the inbox has no question. The server's other tools work.
func TestElicitationInsideACall(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{"2025-11-25", "2025-06-18"} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := sdk.NewServer(&sdk.Implementation{Name: "bench", Version: "1"}, &sdk.ServerOptions{SupportedProtocolVersions: []string{revision}})
			sdk.AddTool(s, &sdk.Tool{Name: "name"}, func(ctx context.Context, req *sdk.CallToolRequest, _ none) (*sdk.CallToolResult, any, error) {
				note(dir, "asked", req.Session.InitializeParams().ProtocolVersion)
				answer, err := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: "Who is it?", RequestedSchema: json.RawMessage(
					`{"type":"object","properties":{"name":{"type":"string"}}}`)})
				if err != nil {
					return nil, nil, err
				}
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: answer.Action}}}, nil, nil
			})
			sdk.AddTool(s, &sdk.Tool{Name: "echo"}, func(_ context.Context, _ *sdk.CallToolRequest, in text) (*sdk.CallToolResult, any, error) {
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: in.Text}}}, nil, nil
			})
			k := newTalk(t, []cairn.Toolset{served(t, s, mcp.Options{})}, asks("bench_name", none{}), asks("bench_echo", text{"still here"}))
			if res := k.turn("go"); res.Suspended != nil {
				t.Fatalf("the run waits for %+v", res.Suspended.Calls)
			}
			r := k.results()
			if !r[0].IsError || !strings.Contains(string(r[0].Output), "inbox") || !strings.Contains(string(r[0].Output), "2026-07-28") {
				t.Errorf("the call that asks came to %s (%s)", r[0].Output, r[0].Code)
			}
			if string(r[1].Output) != `"still here"` {
				t.Errorf("the call after it came to %s", r[1].Output)
			}
			if asked := notes(dir, "asked"); len(asked) != 1 {
				t.Errorf("the tool ran with the revisions %v", asked)
			}
		})
	}
}

// A server that dies fails the call under way, and is available again for the next one.
func TestServerDies(t *testing.T) {
	t.Parallel()
	k := newTalk(t, []cairn.Toolset{command(t, "server", t.TempDir(), mcp.Options{})}, asks("bench_pid", none{}), asks("bench_die", none{}), asks("bench_pid", none{}))
	k.turn("go")
	r := k.results()
	if !r[1].IsError || !strings.Contains(string(r[1].Output), "may have had effects") {
		t.Errorf("the call that the server died of came to %s", r[1].Output)
	}
	if r[2].IsError || string(r[2].Output) == string(r[0].Output) {
		t.Errorf("before and after it died the server is %s and %s", r[0].Output, r[2].Output)
	}
}

// A stop of the run cancels the request.
func TestStopCancels(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := newTalk(t, []cairn.Toolset{command(t, "server", dir, mcp.Options{})}, asks("bench_hang", none{}))
	run, err := k.eng.Execute(t.Context(), "s", "bot", cairn.Text("go"))
	if err != nil {
		t.Fatal(err)
	}
	testclock.Await(t, "the call to begin", func() bool { return len(notes(dir, "hang")) == 1 })
	if err := k.eng.Interrupt(t.Context(), "s", "enough"); err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	testclock.Await(t, "the server to learn of it", func() bool { return len(notes(dir, "hang")) == 2 })
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	k := newTalk(t, []cairn.Toolset{command(t, "server", t.TempDir(), mcp.Options{Timeout: 500 * time.Millisecond})}, asks("bench_hang", none{}))
	k.turn("go")
	if r := k.results()[0]; r.Code != cairn.ErrTimeout {
		t.Errorf("the call came to %s %s", r.Code, r.Output)
	}
}

// A server that does not respond delays a turn once, by the time in the options. Turns that do not call it are not
// delayed.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	s := command(t, "silent", t.TempDir(), mcp.Options{ListTimeout: 300 * time.Millisecond})
	k := newTalk(t, []cairn.Toolset{s})
	began := time.Now()
	k.turn("one")
	if took := time.Since(began); took < 300*time.Millisecond || took > 20*time.Second {
		t.Errorf("the first turn took %s", took)
	}
	k.turn("two")
	if len(k.sent) != 2 || len(k.sent[0])+len(k.sent[1]) != 0 {
		t.Errorf("the requests had tools: %v", k.sent)
	}
}

// Changes of a server apply from the next turn. The list of tools that is sent to the model stays the same.
func TestChangedList(t *testing.T) {
	t.Parallel()
	s := sdk.NewServer(&sdk.Implementation{Name: "bench", Version: "1"}, nil)
	add := func(name, description string) {
		sdk.AddTool(s, &sdk.Tool{Name: name, Description: description}, func(context.Context, *sdk.CallToolRequest, none) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: name + " " + description}}}, nil, nil
		})
	}
	add("keep", "Keeps.")
	add("change", "Changes.")
	add("remove", "Removes.")
	tools := served(t, s, mcp.Options{Approve: []string{"add*"}})
	k := newTalk(t, []cairn.Toolset{tools},
		asks("bench_keep", none{}), scripted.Text("So far."), asks("bench_change", none{}),
		asks("bench_call_new_tool", map[string]any{"tool": "bench_change", "arguments": none{}}), asks("bench_remove", none{}),
		asks("bench_call_new_tool", map[string]any{"tool": "bench_nothing", "arguments": none{}}),
		asks("bench_call_new_tool", map[string]any{"tool": "bench_added", "arguments": map[string]int{"wrong": 1}}))
	k.turn("one")
	add("change", "Has changed.")
	add("added", "Is new.")
	s.RemoveTools("remove")
	testclock.Await(t, "the new list", func() bool { // turns that have a list wait only 100 ms for it
		offer, err := tools.Offer(t.Context(), define.NewStep(cairn.Step{}, nil), nil)
		return err == nil && offer != nil && strings.Contains(string(offer.Pinned), "Is new.") && !strings.Contains(string(offer.Pinned), "Removes.")
	})
	res := k.turn("two")
	if res.Suspended == nil || res.Suspended.Calls[0].Prompt != "Call bench_added of bench?" {
		t.Fatalf("the new tool was not held: %+v", res)
	}
	k.answer(res.Suspended.Calls[0], nil)
	for i := range k.sent {
		if got := k.offered(i); got != "bench_change bench_keep bench_remove bench_call_new_tool" || string(k.sent[i][0].Description) != "Changes." {
			t.Errorf("request %d has the tools %s", i, got)
		}
	}
	want := []string{"keep Keeps.", "has changed", "change Has changed.", "has changed", "the added tools are: bench_added, bench_change", "violate the schema"}
	for i, r := range k.results() {
		if !strings.Contains(string(r.Output), want[i]) {
			t.Errorf("call %d came to %s, want %s", i, r.Output, want[i])
		}
	}
	var said string
	for _, m := range k.had[len(k.had)-1] {
		if m.Hidden {
			said += m.Text() + "\n"
		}
	}
	for _, line := range []string{"Tools from bench: bench_change, bench_keep, bench_remove.", "bench_change has changed.",
		"bench_remove is no longer available.", "Call bench_added with bench_call_new_tool. Its description: \"Is new.\""} {
		if !strings.Contains(said, line) {
			t.Errorf("the model was not informed that %q, but that %s", line, said)
		}
	}
}

// Deferred tools are found and called under approval like listed ones. A change of the list changes no definition.
func TestDeferred(t *testing.T) {
	t.Parallel()
	s := sdk.NewServer(&sdk.Implementation{Name: "bench", Version: "1"}, nil)
	add := func(name string) {
		sdk.AddTool(s, &sdk.Tool{Name: name, Description: "Is to " + name + "."}, func(context.Context, *sdk.CallToolRequest, none) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "did " + name}}}, nil, nil
		})
	}
	add("keep")
	add("remove")
	call := func(name string) scripted.Step {
		return asks(cairn.CallTool, map[string]any{"name": "bench_" + name, "input": none{}})
	}
	tools := served(t, s, mcp.Options{Deferred: true, Approve: []string{"keep"}})
	k := newTalk(t, []cairn.Toolset{tools},
		asks(cairn.FindTools, map[string]string{"query": "keep"}), call("keep"), scripted.Text("So far."),
		call("remove"), asks(cairn.FindTools, map[string]string{"query": "added"}), call("added"))
	res := k.turn("one")
	if res.Suspended == nil || res.Suspended.Calls[0].Tool != "bench_keep" {
		t.Fatalf("the tool was not held: %+v", res)
	}
	k.answer(res.Suspended.Calls[0], nil)
	add("added")
	s.RemoveTools("remove")
	testclock.Await(t, "the new list", func() bool {
		offer, err := tools.Offer(t.Context(), define.NewStep(cairn.Step{}, nil), nil)
		return err == nil && offer != nil && strings.Contains(string(offer.Pinned), "added") && !strings.Contains(string(offer.Pinned), "remove")
	})
	k.turn("two")
	for i := range k.sent {
		if got := k.offered(i); got != "tools__find tools__call" || k.sent[i][0].Description != k.sent[0][0].Description {
			t.Errorf("request %d has the tools %s", i, got)
		}
	}
	want := []string{"bench_keep", "did keep", "unknown tool", "bench_added", "did added"}
	for i, r := range k.results() {
		if !strings.Contains(string(r.Output), want[i]) {
			t.Errorf("call %d came to %s, want %s", i, r.Output, want[i])
		}
	}
	if text := k.everything(); !strings.Contains(text, "bench has 2 tools.") {
		t.Errorf("the model was not informed of the tools: %s", text)
	}
}
