package define_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/define"
)

func tool(name, description, argument string, keywords ...string) cairn.Tool {
	schema := fmt.Sprintf(`{"type":"object","properties":{%q:{"type":"string"}}}`, argument)
	return cairn.RawFunc(name, description, json.RawMessage(schema),
		func(context.Context, *cairn.Call, json.RawMessage) (json.RawMessage, error) { return nil, nil }, cairn.Deferred(keywords...))
}

// find calls the search tool, and returns the names that it finds.
func find(t *testing.T, list []cairn.Tool, input string, off ...string) (names []string, output string) {
	t.Helper()
	finder := define.Finder(list, func(name string) bool { return strings.Contains(strings.Join(off, " "), name) })
	if err := define.Of(&finder).Check(json.RawMessage(input)); err != nil {
		t.Fatal(err)
	}
	out, err := define.Of(&finder).Run(t.Context(), nil, json.RawMessage(input))
	if err != nil {
		t.Fatal(err)
	}
	return define.Found(out), string(out)
}

func TestRanking(t *testing.T) {
	t.Parallel()
	list := []cairn.Tool{
		tool("create_invoice", "Makes a bill for a customer.", "customer"),
		tool("listInvoices", "Lists the bills of the year.", "year"),
		tool("refund", "Returns a payment of an invoice.", "order", "money back"),
		tool("weather", "The weather in a town.", "town"),
		tool("überweisung", "Überweist Geld.", "konto"),
		tool("town", "Who lives where.", "person"),
	}
	for query, want := range map[string]string{
		// A whole word, the beginning of one, and one in the description.
		"invoice":              "create_invoice listInvoices refund",
		"INVOICES":             "listInvoices create_invoice refund",
		"list invoices":        "listInvoices create_invoice refund",
		"give the money back":  "refund listInvoices weather",
		"town":                 "town weather",
		"  Weather ":           "weather",
		"Überweisung":          "überweisung",
		"konto":                "überweisung",
		"customer":             "create_invoice",
		"volcano":              "",
		"?!":                   "",
		"in":                   "weather",
		"wea":                  "weather",
		"we":                   "",
		"create_invoice":       "create_invoice listInvoices refund",
		"makes a bill, a BILL": "create_invoice refund weather listInvoices",
	} {
		input, _ := json.Marshal(map[string]string{"query": query})
		names, _ := find(t, list, string(input))
		got := strings.Join(names, " ")
		if got != want {
			t.Errorf("%q finds %q, want %q", query, got, want)
		}
		for range 3 { // the same each time
			if again, _ := find(t, list, string(input)); strings.Join(again, " ") != strings.Join(names, " ") {
				t.Errorf("%q finds %q and %q", query, names, again)
			}
		}
	}
	if names, _ := find(t, list, `{"query":"town"}`, "town"); strings.Join(names, " ") != "weather" {
		t.Errorf("a tool that is off is found: %q", names)
	}
}

// The size of an answer is bounded, however many tools match and however large they are.
func TestAnswerIsBounded(t *testing.T) {
	t.Parallel()
	var list []cairn.Tool
	for i := range 50 {
		list = append(list, tool(fmt.Sprint("send_", i), "sends mail "+strings.Repeat("x", 11_000), "to"))
	}
	for input, want := range map[string]int{`{"query":"mail"}`: 5, `{"query":"mail","limit":1}`: 1, `{"query":"mail","limit":20}`: 5} {
		names, out := find(t, list, input)
		if len(names) != want || !strings.Contains(out, fmt.Sprintf(`"more":%d`, 50-want)) {
			t.Errorf("%s: %d tools", input, len(names))
		}
	}
	huge := []cairn.Tool{tool("huge", "huge "+strings.Repeat("x", 200_000), "x"), tool("other", "not so huge", "x")}
	if names, _ := find(t, huge, `{"query":"huge"}`); len(names) != 1 {
		t.Errorf("found %q", names)
	}
	if names, out := find(t, list, `{"query":"volcano"}`); len(names) != 0 || len(out) > 2000 || !strings.Contains(out, "40 of 50") {
		t.Errorf("nothing found: %s", out)
	}
	if names, _ := find(t, nil, `{"query":"mail"}`); len(names) != 0 {
		t.Errorf("found %q of nothing", names)
	}
}

// The definition that a model is sent changes as rarely as possible.
func TestFinderSaysHowManyToolsThereAre(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{1: "there are some.", 9: "there are some.", 10: "at least 10.", 19: "at least 10.", 20: "at least 20.", 399: "at least 300.", 1000: "at least 1000."} {
		finder := define.Finder(make([]cairn.Tool, n), nil)
		if got := finder.Description(); !strings.Contains(got, want) {
			t.Errorf("%d tools: %s", n, got)
		}
	}
}

// A model is sent its call again as it made it, in a form that does not change.
func TestUnwrap(t *testing.T) {
	t.Parallel()
	for input, want := range map[string]string{
		`{"name":"send","input":{"to":"ann"}}`:     `send {"to":"ann"}`,
		`{"input":{"to": 1.0e3}, "name":"send"}`:   `send {"to": 1.0e3}`,
		`{"name":"send"}`:                          `send {}`,
		`{"name":"send","input":{"name":"x"}}`:     `send {"name":"x"}`,
		`{"name":"send","input":null}`:             "",
		`{"name":"send","input":[]}`:               "",
		`{"name":"send","input":"{}"}`:             "",
		`{"name":"send","input":{},"more":1}`:      "",
		`{"NAME":"send","input":{}}`:               "",
		`{"name":"","input":{}}`:                   "",
		`{"name":"a b","input":{}}`:                "",
		`{"name":"tools__call","input":{}}`:        "",
		`{"name":"tools__find","input":{}}`:        "",
		`{"name":"__finish__","input":{}}`:         "",
		`{"name":"companion__spawnAgent"}`:         "",
		`{"name":7}`:                               "",
		`"send"`:                                   "",
		`null`:                                     "",
		`[]`:                                       "",
		`{"name":"send","input":{"a":{"b":[[]]}}}`: `send {"a":{"b":[[]]}}`,
	} {
		use := &cairn.ToolUse{CallID: "c", Tool: cairn.CallTool, Input: json.RawMessage(input)}
		define.Unwrap(use)
		got := ""
		if use.Deferred {
			got = use.Tool + " " + string(use.Input)
		} else if use.Tool != cairn.CallTool || string(use.Input) != input {
			t.Errorf("%s: became %+v", input, use)
		}
		if got != want {
			t.Errorf("%s: became %q, want %q", input, got, want)
		}
		if !use.Deferred {
			continue
		}
		wrapped := define.Wrap(use)
		if wrapped.Tool != cairn.CallTool || wrapped.Deferred || !json.Valid(wrapped.Input) || wrapped.CallID != "c" {
			t.Errorf("%s: is sent as %+v", input, wrapped)
		}
		define.Unwrap(wrapped)
		if wrapped.Tool != use.Tool || !bytes.Equal(wrapped.Input, use.Input) {
			t.Errorf("%s: is sent as another call, %+v", input, wrapped)
		}
	}
}
