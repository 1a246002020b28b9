package mcp_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/mcp"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/memstore"
)

// clerk is an engine with an agent that refunds with approval and asks for the amount.
func clerk(t *testing.T) (*engine.Engine, *atomic.Int32) {
	t.Helper()
	var refunds atomic.Int32
	eng, err := newClerk(func() { refunds.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close(context.Background()) })
	return eng, &refunds
}

func newClerk(refunded func()) (*engine.Engine, error) {
	refund := cairn.Func("refund", "Refunds an order.", func(ctx context.Context, call *cairn.Call, _ none) (string, error) {
		var cents int
		if err := call.Ask(ctx, "How many cents?", nil, &cents); err != nil {
			return "", err
		}
		refunded()
		return "refunded", nil
	}, cairn.RequireApproval())
	model := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		last := req.Messages[len(req.Messages)-1]
		if last.Role == cairn.RoleTool {
			return scripted.Text("it came to " + string(last.ToolResults()[0].Output))
		}
		if strings.Contains(last.Text(), "refund") {
			return scripted.Call("refund", none{})
		}
		return scripted.Text("you said " + last.Text())
	})
	return engine.New(memstore.New(nil), []*cairn.Agent{{Name: "clerk", Model: model, Tools: []cairn.Tool{refund}}}, nil)
}

// clerkOverPipes serves the clerk over standard input and output, until the client disconnects.
func clerkOverPipes(ctx context.Context, dir string) error {
	eng, err := newClerk(func() { note(dir, "refunds", "one") })
	if err != nil {
		return err
	}
	defer eng.Close(ctx)
	agents, err := mcp.NewAgents(eng, []mcp.AgentTool{{Agent: "clerk", Description: "Helps with orders."}}, nil)
	if err != nil {
		return err
	}
	return agents.Stdio(ctx)
}

// office serves the clerk to users who authenticate with a token that is their name.
func office(t *testing.T, eng *engine.Engine) string {
	t.Helper()
	agents, err := mcp.NewAgents(eng, []mcp.AgentTool{{Agent: "clerk", Description: "Helps with orders."}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := agents.Handler(func(r *http.Request) (string, error) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if token == "broken" {
			return "", errors.New("the directory is away")
		}
		return token, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(handler)
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	return web.URL
}

// visit connects a client of the official SDK to the office.
func visit(t *testing.T, address, user string, decide func(*sdk.ElicitParams) *sdk.ElicitResult) *sdk.ClientSession {
	t.Helper()
	opts := &sdk.ClientOptions{}
	if decide != nil {
		opts.ElicitationHandler = func(_ context.Context, req *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return decide(req.Params), nil
		}
	}
	transport := &sdk.StreamableClientTransport{Endpoint: address, HTTPClient: &http.Client{Transport: bearer(user)}}
	session, err := sdk.NewClient(&sdk.Implementation{Name: "visitor", Version: "1"}, opts).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	r.Header.Set("X-Cairn-Authenticated-User", "mallory") // the handler must not believe it
	return http.DefaultTransport.RoundTrip(r)
}

func say(t *testing.T, c *sdk.ClientSession, args map[string]any) (map[string]any, string) {
	t.Helper()
	res, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "clerk", Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	var text string
	for _, c := range res.Content {
		if c, ok := c.(*sdk.TextContent); ok {
			text += c.Text
		}
	}
	out, _ := res.StructuredContent.(map[string]any)
	if res.IsError {
		out = nil
	}
	return out, text
}

func TestAgentAsTool(t *testing.T) {
	t.Parallel()
	eng, _ := clerk(t)
	address := office(t, eng)
	ada := visit(t, address, "ada", nil)
	out, text := say(t, ada, map[string]any{"message": "hello"})
	if out["text"] != "you said hello" {
		t.Fatalf("the call came to %v %s", out, text)
	}
	session := out["session"].(string)
	if out, text = say(t, ada, map[string]any{"message": "again", "session": session}); out["session"] != session || out["text"] != "you said again" {
		t.Errorf("the second call came to %v %s", out, text)
	}
	if out, text = say(t, visit(t, address, "bob", nil), map[string]any{"message": "mine", "session": session}); out != nil || !strings.Contains(text, "not found") {
		t.Errorf("a session was continued by another user: %v %s", out, text)
	}
	row, err := eng.Session(t.Context(), session)
	if err != nil || row.UserID != "ada" {
		t.Errorf("the session is that of %q, %v", row.UserID, err)
	}
}

// A client that supports elicitation is asked for the answers to pending calls.
func TestAgentElicits(t *testing.T) {
	t.Parallel()
	eng, refunds := clerk(t)
	var asked []string
	ada := visit(t, office(t, eng), "ada", func(p *sdk.ElicitParams) *sdk.ElicitResult {
		asked = append(asked, p.Message)
		if strings.Contains(p.Message, "cents") {
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"answer": 5}}
		}
		return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"approve": true}}
	})
	out, text := say(t, ada, map[string]any{"message": "refund it"})
	if out["text"] != `it came to "refunded"` || refunds.Load() != 1 || len(asked) != 2 {
		t.Errorf("the call came to %v %s after %q", out, text, asked)
	}
}

// A client without elicitation is directed to the inbox, where the turn continues.
func TestAgentPointsToTheInbox(t *testing.T) {
	t.Parallel()
	eng, refunds := clerk(t)
	_, text := say(t, visit(t, office(t, eng), "ada", nil), map[string]any{"message": "refund it"})
	page, err := eng.Inbox(t.Context(), store.CallQuery{})
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("the inbox has %v, %v", page.Items, err)
	}
	call := page.Items[0]
	if !strings.Contains(text, "inbox") || !strings.Contains(text, call.ID) || !strings.Contains(text, call.SessionID) || refunds.Load() != 0 {
		t.Errorf("the client is said %q", text)
	}
}

func TestAgentDeniedByElicitation(t *testing.T) {
	t.Parallel()
	eng, refunds := clerk(t)
	ada := visit(t, office(t, eng), "ada", func(*sdk.ElicitParams) *sdk.ElicitResult { return &sdk.ElicitResult{Action: "decline"} })
	if out, text := say(t, ada, map[string]any{"message": "refund it"}); out["text"] != `it came to "not approved by the user"` || refunds.Load() != 0 {
		t.Errorf("the call came to %v %s", out, text)
	}
}

// Users of two tenants have sessions of their own, which they know by names.
func TestAgentsOfTenants(t *testing.T) {
	t.Parallel()
	eng, _ := clerk(t)
	address := office(t, eng)
	text := func(res *sdk.CallToolResult) string {
		var b strings.Builder
		for _, c := range res.Content {
			if t, ok := c.(*sdk.TextContent); ok {
				b.WriteString(t.Text)
			}
		}
		return b.String()
	}
	say := func(user, message, session string) (*sdk.CallToolResult, string) {
		t.Helper()
		args := map[string]any{"message": message}
		if session != "" {
			args["session"] = session
		}
		res, err := visit(t, address, user, nil).CallTool(t.Context(), &sdk.CallToolParams{Name: "clerk", Arguments: args})
		if err != nil {
			t.Fatal(err)
		}
		out, _ := res.StructuredContent.(map[string]any)
		name, _ := out["session"].(string)
		return res, name
	}
	names := map[string]string{}
	for _, user := range []string{"acme::ann", "other::ann", "ann"} {
		res, name := say(user, "hello", "")
		tenant, _ := cairn.SplitTenant(user)
		row, err := eng.Session(t.Context(), cairn.InTenant(tenant, name))
		if res.IsError || name == "" || strings.Contains(name, "::") || err != nil || row.UserID != user || row.Tenant != tenant {
			t.Fatalf("%s: %s, session %q: %+v, %v", user, text(res), name, row, err)
		}
		names[user] = name
	}
	for _, user := range []string{"acme::ann", "other::ann", "ann"} {
		for of, name := range names {
			tenant, _ := cairn.SplitTenant(of)
			if res, _ := say(user, "again", name); res.IsError != (user != of) || res.IsError && !strings.Contains(text(res), "not found") {
				t.Errorf("%s continues the session of %s: %s", user, of, text(res))
			}
			if res, _ := say(user, "again", cairn.InTenant(tenant, name)); res.IsError != (user != of || tenant != "") {
				t.Errorf("%s continues the session of %s by its id: %s", user, of, text(res))
			}
		}
		if res, _ := say(user, "refund", names[user]); !res.IsError || strings.Contains(text(res), "::") {
			t.Errorf("%s is pointed to the inbox: %s", user, text(res))
		}
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(`{}`))
	req.Header.Set("Authorization", "Bearer a::b::c")
	if resp, err := http.DefaultClient.Do(req); err != nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a user who cannot be one: %v, %v", resp, err)
	}
}

func TestAgentsDemandAuthentication(t *testing.T) {
	t.Parallel()
	eng, _ := clerk(t)
	address := office(t, eng)
	for token, want := range map[string]int{"": http.StatusUnauthorized, "broken": http.StatusServiceUnavailable} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(`{}`))
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("with the token %q the status is %d, want %d", token, resp.StatusCode, want)
		}
	}
	agents, err := mcp.NewAgents(eng, []mcp.AgentTool{{Agent: "clerk", Description: "Helps."}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := agents.Handler(nil); !errors.Is(err, cairn.ErrInvalid) {
		t.Errorf("a handler without authentication: %v", err)
	}
}

// The same client is asked whether a call took effect whose outcome is unknown.
func TestAgentElicitsTheOutcomeOfAnEffect(t *testing.T) {
	t.Parallel()
	refund := cairn.Func("refund", "Refunds an order.", func(context.Context, *cairn.Call, none) (string, error) { panic("the line broke") }, cairn.Effectful())
	model := scripted.Func(func(_ context.Context, req *cairn.Request) scripted.Step {
		if last := req.Messages[len(req.Messages)-1]; last.Role == cairn.RoleTool {
			return scripted.Text("it came to " + string(last.ToolResults()[0].Output))
		}
		return scripted.Call("refund", none{})
	})
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{{Name: "clerk", Model: model, Tools: []cairn.Tool{refund}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close(context.Background()) })
	ada := visit(t, office(t, eng), "ada", func(*sdk.ElicitParams) *sdk.ElicitResult {
		return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"outcome": "happened"}}
	})
	out, text := say(t, ada, map[string]any{"message": "refund it"})
	if out["text"] != `it came to "the call took effect, as a person found out"` {
		t.Errorf("the call came to %v %s", out, text)
	}
}
