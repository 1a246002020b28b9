package crosshost_test

import (
	"context"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/client"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/mcp"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/server"
	"github.com/cairn-agents/cairn/store/memstore"
	"github.com/cairn-agents/cairn/traces"
	"github.com/cairn-agents/cairn/traces/otlptest"
)

// tracedServer serves agents over HTTP, and exports their spans when flush is called.
func tracedServer(t *testing.T, c *otlptest.Collector, agents ...*cairn.Agent) (url string, eng *engine.Engine, flush func()) {
	t.Helper()
	hooks := traces.Hooks(func() *engine.Engine { return eng }, nil)
	eng, err := engine.New(memstore.New(nil), agents, &engine.Options{Hooks: []*cairn.Hooks{hooks}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close(context.Background()) })
	h, err := server.New(eng, &server.Options{AllowUnauthenticated: true})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	x, err := traces.New(eng, c.Exporter(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	return web.URL, eng, func() {
		t.Helper()
		if err := x.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// A request with a traceparent begins a turn whose tool is on an MCP server and whose sub-agent is on another server of
// Cairn. All of them are in the caller's trace: the MCP server reads the span of the call, and the run of the other server is
// below the span of the agent that consults it.
func TestTraceparentPassesThrough(t *testing.T) {
	t.Parallel()
	const caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	c := otlptest.New(t, nil)
	asked := make(chan string, 1)
	look := sdk.NewServer(&sdk.Implementation{Name: "archive", Version: "1"}, nil)
	sdk.AddTool(look, &sdk.Tool{Name: "look", Description: "Looks."}, func(_ context.Context, req *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		asked <- req.Extra.Header.Get("Traceparent")
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "seen"}}}, nil, nil
	})
	archive := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return look }, nil))
	t.Cleanup(archive.Close)
	tools, err := mcp.URL("archive", archive.URL, &mcp.Options{HTTPClient: &http.Client{Transport: traces.Transport(nil)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tools.Close() })

	far, farEngine, flushFar := tracedServer(t, c, agent("teller", []scripted.Step{scripted.Text("Once upon a time.")}))
	to, err := client.New(far, &client.Options{HTTP: &http.Client{Transport: traces.Transport(nil)}})
	if err != nil {
		t.Fatal(err)
	}
	teller := client.RemoteAgent(to, client.RemoteOptions{Name: "teller", Description: "Tells stories."})
	bot := agent("bot", []scripted.Step{
		scripted.Reply(scripted.Call("archive_look", struct{}{}), scripted.Call("teller", map[string]string{"input": "Tell me."})),
		scripted.Text("Done."),
	}, cairn.SubAgent(teller))
	bot.Toolsets = []cairn.Toolset{tools}
	near, nearEngine, flushNear := tracedServer(t, c, bot)

	req, err := http.NewRequestWithContext(t.Context(), "POST", near+"/start", strings.NewReader(`{"session_id": "s", "agent": "bot", "input": {"text": "go"}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Traceparent", caller)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	run, err := nearEngine.Attach(t.Context(), "s")
	if res := outcome(t, run, err); res.Text != "Done." {
		t.Fatalf("%+v", res)
	}
	flushNear()
	flushFar()

	ids := map[string]string{} // of spans, by name and conversation
	for _, span := range c.Spans() {
		if got := hex.EncodeToString(span.TraceId); got != "0af7651916cd43dd8448eb211c80319c" {
			t.Errorf("%s is in trace %s", span.Name, got)
		}
		name := span.Name
		if strings.HasPrefix(name, "invoke_agent teller") && otlptest.Attribute(span, "session.id") != "s" {
			name = "far " + name
			if want := ids["invoke_agent teller"]; hex.EncodeToString(span.ParentSpanId) != want {
				t.Errorf("the far run is below %x, want %s", span.ParentSpanId, want)
			}
		}
		ids[name] = hex.EncodeToString(span.SpanId)
	}
	if got, want := <-asked, "00-0af7651916cd43dd8448eb211c80319c-"+ids["execute_tool archive_look"]+"-01"; got != want {
		t.Errorf("the MCP server reads %s, want %s", got, want)
	}
	if ids["far invoke_agent teller"] == "" {
		t.Errorf("no span of the other server: %v\n%s", farEngine.Agents(), c.Describe())
	}
}
