package openaichat_test

import (
	"context"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/openaichat/openaichattest"
	"github.com/cairn-agents/cairn/store/memstore"
)

// TestNativeOutput runs an agent whose output is the provider's: a reply that violates the schema is sent back.
func TestNativeOutput(t *testing.T) {
	t.Parallel()
	type total struct {
		Sum int `json:"sum"`
	}
	m, server := serve(t, openaichattest.Text(`{"sum": "many"}`), openaichattest.Text(`{"sum": 7}`))
	agent := &cairn.Agent{Name: "bot", Model: m, Output: cairn.OutputOf[total]().Native()}
	eng, err := engine.New(memstore.New(nil), []*cairn.Agent{agent}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = eng.Close(context.Background()) }()
	run, err := eng.Execute(t.Context(), "s", "bot", cairn.Text("How many?"))
	if err != nil {
		t.Fatal(err)
	}
	res, err := run.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if out, err := cairn.OutputAs[total](res); err != nil || out.Sum != 7 || res.Status != cairn.RunCompleted {
		t.Errorf("the output is %+v, %v: %+v", out, err, res)
	}
	for i, r := range server.Requests() {
		if body := string(r.Body); !strings.Contains(body, `"response_format":{"json_schema":{"name":"output","schema":`) || strings.Contains(body, cairn.FinishTool) {
			t.Errorf("request %d is %s", i, body)
		}
	}
}
