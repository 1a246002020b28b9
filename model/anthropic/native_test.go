package anthropic_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/engine"
	"github.com/cairn-agents/cairn/model/anthropic/anthropictest"
	"github.com/cairn-agents/cairn/store/memstore"
)

// finished runs a turn of an agent whose native output has a schema.
func finished(t *testing.T, m cairn.Model, schema string) *cairn.Result {
	t.Helper()
	agent := &cairn.Agent{Name: "bot", Model: m, Output: cairn.RawOutput(json.RawMessage(schema)).Native()}
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
	if res == nil {
		t.Fatal(err)
	}
	return res
}

// The model reads in words the bounds that the API does not enforce. An output that violates them is sent back.
func TestBoundsOfNativeOutput(t *testing.T) {
	t.Parallel()
	m, server := serve(t, anthropictest.Text(`{"sum": 100, "tags": []}`), anthropictest.Text(`{"sum": 7, "tags": ["a", "b"]}`))
	res := finished(t, m, `{"type":"object","properties":{"sum":{"type":"integer","minimum":1,"maximum":9},
		"tags":{"type":"array","items":{"type":"string","maxLength":3},"minItems":2}},"required":["sum","tags"]}`)
	if res.Status != cairn.RunCompleted || !strings.Contains(string(res.Output), `"sum": 7`) {
		t.Fatalf("the run is %s: %v, %s", res.Status, res.Error, res.Output)
	}
	requests := server.Requests()
	for i, r := range requests {
		sent := string(r.OutputConfig.Format.Schema)
		for _, want := range []string{`{\"minimum\":1,\"maximum\":9}`, `{\"maxLength\":3}`, `{\"minItems\":2}`, `"minItems":1`} {
			if !strings.Contains(sent, want) {
				t.Errorf("the schema of request %d lacks %s: %s", i, want, sent)
			}
		}
	}
	if last := requests[len(requests)-1].Last().Text(); len(requests) != 2 || !strings.Contains(last, "Error: ") || !strings.Contains(last, "at most 9") {
		t.Errorf("after %d requests the model reads %q", len(requests), last)
	}
}

// A schema that the API cannot enforce is that of the tool.
func TestOutputThatCannotBeNative(t *testing.T) {
	t.Parallel()
	m, server := serve(t, anthropictest.CallTool(cairn.FinishTool, `{"counts": {"a": 1}}`))
	res := finished(t, m, `{"type":"object","properties":{"counts":{"type":"object","additionalProperties":{"type":"integer"}}},"required":["counts"]}`)
	if res.Status != cairn.RunCompleted || !strings.Contains(string(res.Output), `"a": 1`) {
		t.Fatalf("the run is %s: %v, %s", res.Status, res.Error, res.Output)
	}
	if r := server.Requests()[0]; r.OutputConfig.Format.Type != "" || len(r.Tools) != 1 || r.Tools[0].Name != cairn.FinishTool {
		t.Errorf("the request is %s", r.Body)
	}
}
