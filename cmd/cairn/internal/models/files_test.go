package models_test

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/provider/providertest"
	"github.com/cairn-agents/cairn/mcp"
	"github.com/cairn-agents/cairn/model/anthropic/anthropictest"
	"github.com/cairn-agents/cairn/model/gemini/geminitest"
	"github.com/cairn-agents/cairn/model/open"
	"github.com/cairn-agents/cairn/model/openai/openaitest"
	"github.com/cairn-agents/cairn/model/openaichat/openaichattest"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
	"github.com/cairn-agents/cairn/store/memstore"
)

// drawing and scrawl are the beginnings of images.
const drawing, scrawl = "\x89PNG\r\n\x1a\n", "\xff\xd8\xff\xe0 scrawl"

// gallery returns a server of the protocol whose tools answer with an image: draw with a result, scrawl with an error.
func gallery(t *testing.T) *mcp.Server {
	t.Helper()
	s := sdk.NewServer(&sdk.Implementation{Name: "gallery", Version: "1"}, nil)
	for name, data := range map[string]string{"draw": drawing, "scrawl": scrawl} {
		sdk.AddTool(s, &sdk.Tool{Name: name}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{IsError: name == "scrawl", Content: []sdk.Content{
				&sdk.TextContent{Text: "this is a " + name}, &sdk.ImageContent{MIMEType: http.DetectContentType([]byte(data)), Data: []byte(data)}}}, nil, nil
		})
	}
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	c, err := mcp.URL("gallery", web.URL, &mcp.Options{NoPrefix: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); web.CloseClientConnections(); web.Close() })
	return c
}

// turn runs a turn of the session "s" in an engine of its own.
func turn(t *testing.T, st store.Store, id, base string, set cairn.Toolset) *cairn.Result {
	t.Helper()
	model, err := open.Model(id, &open.Options{BaseURL: base, APIKey: "k"})
	if err != nil {
		t.Fatal(err)
	}
	eng, err := engine.New(st, []*cairn.Agent{{Name: "bot", Model: model, Toolsets: []cairn.Toolset{set}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = eng.Close(context.Background()) }()
	run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("Draw."))
	if err != nil {
		t.Fatal(err)
	}
	res, err := run.Wait(t.Context())
	if res == nil {
		t.Fatal(err)
	}
	return res
}

// shows returns the indexes of the results in a request that have an image, and how often the request has it.
func shows(t *testing.T, body, data string) (in []int, total int) {
	t.Helper()
	data = base64.StdEncoding.EncodeToString([]byte(data))
	for i, r := range providertest.Results(t, body) {
		if strings.Contains(r, data) {
			in = append(in, i)
		}
	}
	return in, strings.Count(body, data)
}

// TestFilesOfResultsAtAllProviders moves a conversation, in each turn of which two parallel calls of a server's tools
// answer with images, from provider to provider and back. Each is sent the images in results as far as it accepts them.
func TestFilesOfResultsAtAllProviders(t *testing.T) {
	t.Parallel()
	claude, gpt, gemini, chat := anthropictest.NewServer(), openaitest.NewServer(), geminitest.NewServer(), openaichattest.NewServer()
	for _, end := range []func(){claude.Close, gpt.Close, gemini.Close, chat.Close} {
		t.Cleanup(end)
	}
	set := gallery(t)
	st := memstore.New(nil)
	turns := []string{"anthropic:claude", "openai:gpt", "gemini:gemini-3-pro", "gemini:gemini-2.5-pro", "openai-chat:local", "anthropic:claude", "openai:gpt"}
	for i, id := range turns {
		var body func() string
		var base string
		drawn, scrawled := []int{}, []int{} // results that have the images
		for n := range i + 1 {
			drawn, scrawled = append(drawn, 2*n), append(scrawled, 2*n+1)
		}
		switch provider, name, _ := strings.Cut(id, ":"); provider {
		case "anthropic":
			claude.Add(anthropictest.Content(anthropictest.Part{Call: &anthropictest.Call{Tool: "draw", Arguments: "{}"}}, anthropictest.Part{Call: &anthropictest.Call{Tool: "scrawl", Arguments: "{}"}}), anthropictest.Text("There."))
			base, body = claude.BaseURL, func() string { r := claude.Requests(); return string(r[len(r)-1].Body) }
			scrawled = nil // an error has text only
		case "openai":
			gpt.Add(openaitest.Output(openaitest.Item{Call: &openaitest.Call{Tool: "draw", Arguments: "{}"}}, openaitest.Item{Call: &openaitest.Call{Tool: "scrawl", Arguments: "{}"}}), openaitest.Text("There."))
			base, body = gpt.BaseURL, func() string { r := gpt.Requests(); return string(r[len(r)-1].Body) }
		case "gemini":
			gemini.Add(geminitest.Content(geminitest.Part{Call: &geminitest.Call{Tool: "draw", Arguments: "{}"}}, geminitest.Part{Call: &geminitest.Call{Tool: "scrawl", Arguments: "{}"}}), geminitest.Text("There."))
			base, body = gemini.BaseURL, func() string { r := gemini.Requests(); return string(r[len(r)-1].Body) }
			if name == "gemini-2.5-pro" {
				drawn, scrawled = nil, nil
			}
		default:
			chat.Add(openaichattest.Reply{Calls: []openaichattest.Call{{Tool: "draw", Arguments: "{}"}, {Tool: "scrawl", Arguments: "{}"}}}, openaichattest.Text("There."))
			base, body = chat.BaseURL, func() string { r := chat.Requests(); return string(r[len(r)-1].Body) }
			drawn, scrawled = nil, nil
		}
		if res := turn(t, st, id, base, set); res.Status != cairn.RunCompleted {
			t.Fatalf("turn %d, of %s, is %s: %v", i+1, id, res.Status, res.Error)
		}
		for data, want := range map[string][]int{drawing: drawn, scrawl: scrawled} {
			if in, total := shows(t, body(), data); !slices.Equal(in, want) || total != i+1 {
				t.Errorf("turn %d, of %s: the results %v have %q, want %v; the request has it %d times", i+1, id, in, data, want, total)
			}
		}
	}
	list, err := driver.Messages(t.Context(), st, "s", 0, 100)
	if err != nil || len(list) != 6*len(turns)+1 { // user, reply, results, two messages with files, reply; a note of the server's tools
		t.Fatalf("the session has %d messages, %v", len(list), err)
	}
}

// A provider that refuses an image in a result gets the result without it, in later turns too.
func TestRefusedFileOfAResult(t *testing.T) {
	t.Parallel()
	call := anthropictest.Content(anthropictest.Part{Call: &anthropictest.Call{Tool: "draw", Arguments: "{}"}})
	server := anthropictest.NewServer(call, anthropictest.Fail(400, "", "messages.2.content.0.tool_result.content.1.image.source.base64: image exceeds 5 MB maximum"),
		anthropictest.Text("I cannot see it."), anthropictest.Text("Still not."))
	t.Cleanup(server.Close)
	set, st := gallery(t), memstore.New(nil)
	for n := 1; n <= 2; n++ {
		if res := turn(t, st, "anthropic:claude", server.BaseURL, set); res.Status != cairn.RunCompleted {
			t.Fatalf("turn %d is %s: %v", n, res.Status, res.Error)
		}
		requests := server.Requests()
		body := string(requests[len(requests)-1].Body)
		if _, total := shows(t, body, drawing); total != 0 || !strings.Contains(body, "was left out") || !strings.Contains(body, "this is a draw") || len(requests) != n+2 {
			t.Errorf("turn %d: request %d is %s", n, len(requests), body)
		}
	}
	if in, _ := shows(t, string(server.Requests()[1].Body), drawing); !slices.Equal(in, []int{0}) {
		t.Errorf("the image was first sent in the results %v", in)
	}
}
