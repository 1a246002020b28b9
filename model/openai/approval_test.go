package openai_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/internal/provider/providertest"
	"github.com/cairn-agents/cairn/model/openai"
	"github.com/cairn-agents/cairn/store/memstore"
)

// TestApprovalOfAnMCPTool suspends a run while an MCP server at the provider asks for approval, and sends the decision
// back with the request.
func TestApprovalOfAnMCPTool(t *testing.T) {
	t.Parallel()
	ask := `data: {"type":"response.output_item.done","output_index":0,"item":{"type":"mcp_approval_request","id":"mcpr_1","server_label":"shop","name":"refund","arguments":"{\"order\":1}"}}` + "\n\n"
	text := `data: {"type":"response.output_text.delta","output_index":0,"delta":"Done."}` + "\n\n"
	end := `data: {"type":"response.completed","response":{"status":"completed"}}` + "\n\n"
	for name, c := range map[string]struct {
		decide func(cairn.CallRef) cairn.Submission
		want   string
	}{
		"approved": {cairn.Approve, `{"type":"mcp_approval_response","approval_request_id":"mcpr_1","approve":true}`},
		"denied":   {func(c cairn.CallRef) cairn.Submission { return cairn.Deny(c, "too much") }, `"approve":false,"reason":"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var bodies [][]byte
			transport := providertest.Transport(func(r *http.Request) (*http.Response, error) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					return nil, err
				}
				if bodies = append(bodies, body); len(bodies) == 1 {
					return providertest.Plays(ask + end)(r)
				}
				return providertest.Plays(text + end)(r)
			})
			m := openai.Model("m", &openai.Options{BaseURL: "https://model.example", HTTPClient: transport.Client(),
				ServerTools: []any{map[string]any{"type": "mcp", "server_label": "shop"}}})
			eng, err := engine.New(memstore.New(nil), []*cairn.Agent{{Name: "bot", Model: m}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = eng.Close(context.Background()) }()
			run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("Refund it"))
			if err != nil {
				t.Fatal(err)
			}
			res, err := run.Wait(t.Context())
			if err != nil || res.Suspended == nil || len(res.Suspended.Calls) != 1 {
				t.Fatalf("%+v, %v", res, err)
			}
			if _, err := eng.Submit(t.Context(), "s", c.decide(res.Suspended.Calls[0])); err != nil {
				t.Fatal(err)
			}
			if run, err = eng.Resume(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			if res, err = run.Wait(t.Context()); err != nil || res.Status != cairn.RunCompleted || res.Text != "Done." {
				t.Fatalf("%+v, %v", res, err)
			}
			var sent bytes.Buffer
			if err := json.Compact(&sent, bodies[1]); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{c.want, `"type":"mcp_approval_request"`} {
				if !strings.Contains(sent.String(), want) {
					t.Errorf("the second request lacks %s\n%s", want, sent.String())
				}
			}
		})
	}
}
