package mcp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/mcp"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// library is a server of another team.
func library() *httptest.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "library", Version: "1"}, nil)
	type title struct {
		Title string `json:"title"`
	}
	sdk.AddTool(s, &sdk.Tool{Name: "find", Description: "Finds a book."}, func(_ context.Context, _ *sdk.CallToolRequest, in title) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: in.Title + " is on shelf 4"}}}, nil, nil
	})
	return httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
}

func ExampleURL() {
	web := library()
	defer web.Close()
	server, err := mcp.URL("library", web.URL, &mcp.Options{Allow: []string{"find"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	model := scripted.New(scripted.Call("library_find", map[string]string{"title": "Walden"}), scripted.Text("On shelf 4."))
	librarian := &cairn.Agent{Name: "librarian", Model: model, Toolsets: []cairn.Toolset{server}}
	eng, _ := engine.New(memstore.New(nil), []*cairn.Agent{librarian}, nil)
	ctx := context.Background()
	defer eng.Close(ctx)
	run, _ := eng.Execute(ctx, "session-1", "librarian", cairn.Text("Where is Walden?"))
	res, _ := run.Wait(ctx)
	messages, _ := eng.Messages(ctx, "session-1", 0, 100)
	fmt.Println(messages[1].Text())
	fmt.Println(string(messages[3].ToolResults()[0].Output))
	fmt.Println(res.Text)
	// Output:
	// Tools from library: library_find.
	// "Walden is on shelf 4"
	// On shelf 4.
}

func ExampleNewAgents() {
	clerk := &cairn.Agent{Name: "clerk", Model: scripted.New(scripted.Text("We open at nine."))}
	eng, _ := engine.New(memstore.New(nil), []*cairn.Agent{clerk}, nil)
	ctx := context.Background()
	defer eng.Close(ctx)
	agents, err := mcp.NewAgents(eng, []mcp.AgentTool{{Agent: "clerk", Description: "Knows the shop."}}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	handler, _ := agents.Handler(func(r *http.Request) (user string, err error) {
		if r.Header.Get("Authorization") == "Bearer ada's token" {
			user = "ada"
		}
		return user, nil
	})
	web := httptest.NewServer(handler)
	defer web.Close()

	client := sdk.NewClient(&sdk.Implementation{Name: "client", Version: "1"}, nil)
	session, _ := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: web.URL, HTTPClient: &http.Client{Transport: bearer("ada's token")}}, nil)
	defer session.Close()
	res, _ := session.CallTool(ctx, &sdk.CallToolParams{Name: "clerk", Arguments: map[string]any{"message": "When do you open?"}})
	fmt.Println(res.StructuredContent.(map[string]any)["text"])
	// Output: We open at nine.
}

func ExampleNewConnector() {
	st := memstore.New(nil)
	connector, err := mcp.NewConnector(st, mcp.ConnectorOptions{
		Key:          make([]byte, 32), // from mcp.KeyFromEnv in a program that is used
		Address:      "https://app.example.com/connect/",
		Authenticate: func(r *http.Request) (string, error) { return r.Header.Get("X-User"), nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	server, _ := mcp.URL("mail", "https://mail.example.com/mcp", &mcp.Options{Auth: connector.Server(mcp.Client{})})
	defer server.Close()
	agent := &cairn.Agent{Name: "secretary", Model: scripted.New(), Toolsets: []cairn.Toolset{server}}
	eng, _ := engine.New(st, []*cairn.Agent{agent}, nil)
	defer eng.Close(context.Background())

	mux := http.NewServeMux()
	mux.Handle("/connect/", connector.Handler(eng))
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/connect/client", nil))
	fmt.Print(w.Body)
	// Output: {"client_id":"https://app.example.com/connect/client","client_name":"Cairn","grant_types":["authorization_code","refresh_token"],"redirect_uris":["https://app.example.com/connect/callback"],"response_types":["code"],"token_endpoint_auth_method":"none"}
}
