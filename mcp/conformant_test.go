package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/mcp"
	"github.com/cairn-agents/cairn/model/scripted"
	"github.com/cairn-agents/cairn/store/memstore"
)

// conformant is the program that the conformance suite runs as a client: an agent that calls each tool of a server once,
// for a user who answers every question and connects an account when asked.
type conformant struct {
	scenario string
	// given is what the suite gives the client of a scenario.
	given struct {
		ID        string `json:"client_id"`
		Secret    string `json:"client_secret"`
		ToolCalls []struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"toolCalls"`
	}
	app *httptest.Server
	eng *engine.Engine

	mu     sync.Mutex
	called []string
}

func runConformant(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	c := &conformant{scenario: os.Getenv("MCP_CONFORMANCE_SCENARIO")}
	if strings.HasPrefix(c.scenario, "sep-2640-") {
		return readSkills(ctx, address, c.scenario)
	}
	if raw := os.Getenv("MCP_CONFORMANCE_CONTEXT"); raw != "" {
		if err := json.Unmarshal([]byte(raw), &c.given); err != nil {
			return err
		}
	}
	st := memstore.New(nil)
	var handler http.Handler
	c.app = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	defer c.app.Close()
	connector, err := mcp.NewConnector(st, mcp.ConnectorOptions{Key: make([]byte, 32), Address: c.app.URL + "/connect",
		Authenticate: func(*http.Request) (string, error) { return "ada", nil }})
	if err != nil {
		return err
	}
	opts := &mcp.Options{NoPrefix: true, ListTimeout: testWait, Timeout: testWait}
	switch {
	case strings.HasPrefix(c.scenario, "auth/client-credentials"):
		opts.Auth = &mcp.ClientCredentials{ID: c.given.ID, Secret: c.given.Secret}
	case strings.HasPrefix(c.scenario, "auth/"):
		if c.given.ID == "" && c.scenario != "auth/basic-cimd" { // an operator has registered the program
			c.given.ID = "cairn"
			if strings.HasSuffix(c.scenario, "-basic") || strings.HasSuffix(c.scenario, "-post") {
				c.given.Secret = "secret"
			}
		}
		opts.Auth = connector.Server(mcp.Client{ID: c.given.ID, Secret: c.given.Secret})
	}
	s, err := mcp.URL("server", address, opts)
	if err != nil {
		return err
	}
	defer s.Close()
	c.eng, err = engine.New(st, []*cairn.Agent{{Name: "bot", Model: scripted.Func(c.next), Toolsets: []cairn.Toolset{s}}}, nil)
	if err != nil {
		return err
	}
	defer c.eng.Close(context.WithoutCancel(ctx))
	handler = connector.Handler(c.eng)
	for range 4 { // once an account is connected, the tools are there from the next turn on
		if err := c.turn(ctx); err != nil {
			return err
		}
		if c.done() {
			return nil
		}
	}
	return fmt.Errorf("no tool was called")
}

func (c *conformant) done() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.called) > 0 && !slices.Equal(c.called, []string{"connect"})
}

// next is the model's next reply: a call of a tool that was not called yet.
func (c *conformant) next(_ context.Context, req *cairn.Request) scripted.Step {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.given.ToolCalls) > 0 {
		call := c.given.ToolCalls[0]
		if slices.ContainsFunc(req.Tools, func(t cairn.ToolSpec) bool { return t.Name == call.Name }) {
			c.given.ToolCalls = c.given.ToolCalls[1:]
			c.called = append(c.called, call.Name)
			var arguments map[string]any
			_ = json.Unmarshal(call.Arguments, &arguments)
			maps.DeleteFunc(arguments, func(_ string, v any) bool { return v == nil }) // as the schema demands
			return scripted.Call(call.Name, arguments)
		}
	}
	for _, t := range req.Tools {
		if t.Name == "call_new_tool" || slices.Contains(c.called, t.Name) {
			continue
		}
		c.called = append(c.called, t.Name)
		arguments := sampleOf(t.Schema)
		if _, echoes := arguments["schema"]; echoes {
			arguments["schema"] = req.Tools[0].Schema
		}
		return scripted.Call(t.Name, arguments)
	}
	return scripted.Text("done")
}

// sampleOf returns a value for each required property of a schema.
func sampleOf(schema json.RawMessage) map[string]any {
	var s struct {
		Required   []string
		Properties map[string]struct {
			Type    string
			Enum    []any
			Default any
		}
	}
	_ = json.Unmarshal(schema, &s)
	value := map[string]any{}
	for _, name := range s.Required {
		switch p := s.Properties[name]; {
		case p.Default != nil:
			value[name] = p.Default
		case len(p.Enum) > 0:
			value[name] = p.Enum[0]
		case p.Type == "number" || p.Type == "integer":
			value[name] = 5
		case p.Type == "boolean":
			value[name] = true
		case p.Type == "array":
			value[name] = []any{}
		case p.Type == "object":
			value[name] = map[string]any{}
		default:
			value[name] = "text"
		}
	}
	return value
}

// turn runs a turn to its end.
func (c *conformant) turn(ctx context.Context) error {
	run, err := c.eng.Execute(ctx, "s", "bot", cairn.Text("go"), engine.WithUser("ada"))
	for {
		if err != nil {
			return err
		}
		res, err2 := run.Wait(ctx)
		if err2 != nil || res.Suspended == nil {
			return err2
		}
		for _, call := range res.Suspended.Calls {
			if err := c.answer(ctx, call); err != nil {
				return err
			}
		}
		run, err = c.eng.Resume(ctx, "s")
		if errors.Is(err, cairn.ErrNotResumable) || errors.Is(err, cairn.ErrAlreadyRunning) {
			run, err = c.eng.Attach(ctx, "s")
		}
	}
}

// answer does what the user is asked for.
func (c *conformant) answer(ctx context.Context, call cairn.CallRef) error {
	if call.Kind != cairn.CallConnect {
		full, err := c.eng.Call(ctx, call.RootID, call.ID)
		if err != nil {
			return err
		}
		_, err = c.eng.Submit(ctx, "s", cairn.Answer(call, sampleOf(full.Schema)))
		return err
	}
	var payload struct{ URL string }
	if err := json.Unmarshal(call.Payload, &payload); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, payload.URL, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the account is not connected: %s", resp.Status)
	}
	return nil
}
