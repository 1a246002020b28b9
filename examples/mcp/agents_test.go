package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/examples/internal/process"
	"github.com/cairn-agents/cairn/mcp"
	"github.com/cairn-agents/cairn/store/sqlitestore"
)

// serveAgents serves the clerk to MCP clients until it is killed.
func serveAgents() {
	server := must(mcp.Command("shop", []string{os.Args[0], "server"}, &mcp.Options{Approve: []string{"ship"}, Env: os.Environ(), ListTimeout: time.Minute}))
	eng := must(engine.New(must(sqlitestore.Open("mcp.db", nil)), []*cairn.Agent{clerk(server)}, nil))
	agents := must(mcp.NewAgents(eng, []mcp.AgentTool{{Agent: "clerk", Description: "Ships orders."}}, nil))
	handler := must(agents.Handler(func(r *http.Request) (string, error) {
		user, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		return user, nil
	}))
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	fmt.Printf("http://%s\n", l.Addr())
	log.Fatal(http.Serve(l, handler))
}

// callResult is the result of a call of the clerk.
type callResult struct {
	ResultType    string
	RequestState  string
	InputRequests map[string]struct {
		Params struct{ Message string }
	}
	IsError           bool
	Content           []struct{ Text string }
	StructuredContent struct{ Text string }
	// Refused is the error of a call without a result.
	Refused string
}

// callClerk calls the clerk as a client of revision 2026-07-28 that can ask its user.
func callClerk(ctx context.Context, t *testing.T, address, user string, params map[string]any) (r callResult) {
	t.Helper()
	params = maps.Clone(params)
	params["name"], params["arguments"] = "clerk", map[string]string{"message": "Please ship order 42."}
	params["_meta"] = map[string]any{"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": map[string]string{"name": "visitor", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": map[string]any{"elicitation": map[string]any{"form": map[string]any{}}}}
	body := must(json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}))
	req := must(http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body)))
	for name, value := range map[string]string{"Authorization": "Bearer " + user, "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "clerk"} {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text := string(must(io.ReadAll(resp.Body)))
	if _, data, events := strings.Cut(text, "data: "); events {
		text, _, _ = strings.Cut(data, "\n")
	}
	var answer struct {
		Result callResult
		Error  *struct{ Message string }
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || (resp.StatusCode == http.StatusOK) != (answer.Error == nil) {
		t.Fatalf("the call is answered with %d %s", resp.StatusCode, text)
	}
	if r = answer.Result; answer.Error != nil {
		r.Refused = answer.Error.Message
	}
	return r
}

// A client calls the clerk, whose own call of the shop needs an approval and an address. After each question the process
// that asked it is killed, and another one gets the answer.
func TestElicitationOverKilledServers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	params := map[string]any{}
	for _, question := range []struct {
		want   string
		answer map[string]any
	}{
		{"shop_ship", map[string]any{"approve": true}},
		{"Where to?", map[string]any{"street": "Elm Street 5"}},
	} {
		p := process.Start(t, dir, "agents")
		r := callClerk(t.Context(), t, p.Await(t, "http://"), "ada", params)
		ids := slices.Collect(maps.Keys(r.InputRequests))
		if r.ResultType != "input_required" || len(ids) != 1 || !strings.Contains(r.InputRequests[ids[0]].Params.Message, question.want) || r.RequestState == "" {
			t.Fatalf("the client is asked %+v", r)
		}
		p.Kill(t)
		params = map[string]any{"requestState": r.RequestState, "inputResponses": map[string]any{ids[0]: map[string]any{"action": "accept", "content": question.answer}}}
	}
	p := process.Start(t, dir, "agents")
	address := p.Await(t, "http://")
	if r := callClerk(t.Context(), t, address, "eve", params); !strings.Contains(r.Refused, "not found") {
		t.Errorf("another user's client gets %+v", r)
	}
	for range 2 { // a client may repeat the request
		if r := callClerk(t.Context(), t, address, "ada", params); r.IsError || !strings.Contains(r.StructuredContent.Text, "on its way to Elm Street 5") {
			t.Errorf("the client gets %+v", r)
		}
	}
	if got := effects(t, dir); len(got["packed"]) != 1 || len(got["shipped"]) != 1 {
		t.Errorf("the shop did %v", got)
	}
}
