package models

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
)

// devs is a catalog in the form of models.dev, lites one in that of LiteLLM.
const (
	devs = `{"anthropic": {"id": "anthropic", "models": {
	"claude-x": {"id": "claude-x", "limit": {"context": 200000, "output": 64000}, "modalities": {"input": ["text"], "output": ["text"]},
		"cost": {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75, "tiers": [{"input": 6, "output": 22.5, "cache_read": 0.6, "cache_write": 7.5, "tier": {"type": "context", "size": 200000}}], "context_over_200k": {"input": 6, "output": 22.5}}},
	"claude-free": {"limit": {"context": 1000, "output": 10}, "cost": {"input": 0, "output": 0}},
	"claude-plain": {"limit": {"context": 1000, "output": 10}}}},
"google": {"models": {"gemini-x": {"limit": {"context": 1048576, "input": 1000000, "output": 65536}, "cost": {"input": 0.1, "output": 0.4, "cache_read": 0.0028, "context_over_200k": {"input": 0.2, "output": 0.8}}},
	"gemini-painter": {"modalities": {"output": ["image"]}, "cost": {"input": 1, "output": 1}},
	"gemini-steps": {"limit": {"context": 9}, "cost": {"input": 1, "output": 1, "tiers": [{"input": 2, "output": 2, "tier": {"size": 5}}, {"input": 3, "output": 3, "tier": {"size": 7}}]}},
	"gemini-thinks": {"limit": {"context": 9}, "cost": {"input": 1, "output": 1, "reasoning": 3}}}},
"somehost": {"models": {"claude-x": {"cost": {"input": 1, "output": 1}}}}}`
	lites = `{"sample_spec": {"litellm_provider": "one of", "mode": "one of", "max_input_tokens": "a number"},
"claude-x": {"litellm_provider": "anthropic", "mode": "chat", "max_input_tokens": 200000, "max_output_tokens": 64000, "input_cost_per_token": 3e-06, "output_cost_per_token": 1.5e-05,
	"cache_read_input_token_cost": 3e-07, "cache_creation_input_token_cost": 3.75e-06, "cache_creation_input_token_cost_above_1hr": 6e-06,
	"input_cost_per_token_above_200k_tokens": 6e-06, "output_cost_per_token_above_200k_tokens": 2.25e-05, "cache_read_input_token_cost_above_200k_tokens": 6e-07, "cache_creation_input_token_cost_above_200k_tokens": 7.5e-06},
"gemini/gemini-x": {"litellm_provider": "gemini", "mode": "chat", "max_input_tokens": 1000000, "input_cost_per_token": 1.0000000000000002e-07, "output_cost_per_token": 4e-07, "input_cost_per_token_above_128k_tokens": null},
"dashscope/qwen-x": {"litellm_provider": "dashscope", "mode": "chat", "max_input_tokens": 9, "input_cost_per_token": 1e-06, "output_cost_per_token": 1e-06, "tiered_pricing": [{"range": [0, 5]}]},
"bedrock/claude-x": {"litellm_provider": "bedrock", "mode": "chat", "input_cost_per_token": 1e-06, "output_cost_per_token": 1e-06},
"dall-e": {"litellm_provider": "openai", "mode": "image_generation"},
"gpt-x": {"litellm_provider": "openai", "mode": "chat"}}`
)

// lines returns the entries of a table as text, one a line, without what all have.
func lines(table cairn.ModelTable) string {
	var b strings.Builder
	for _, e := range table {
		e.AsOf, e.Source = "", ""
		text, _ := json.Marshal(e) // numbers and texts
		fmt.Fprintf(&b, "%s\n", text)
	}
	return strings.ReplaceAll(b.String(), `,"as_of":"","source":""`, "")
}

func TestCatalogs(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, more, want, skipped string }{
		"models.dev": {devs, "", `{"provider":"anthropic","name":"claude-free","window":1000,"max_output":10,"input":0,"output":0}
{"provider":"anthropic","name":"claude-plain","window":1000,"max_output":10,"input":0,"output":0,"no_price":true,"note":"The catalog has no price."}
{"provider":"anthropic","name":"claude-x","window":200000,"max_output":64000,"input":3,"output":15,"cache_read":0.3,"cache_write":3.75,"cache_write_hour":6,"long":{"over":200000,"input":6,"output":22.5,"cache_read":0.6,"cache_write":7.5,"cache_write_hour":12}}
{"provider":"gemini","name":"gemini-steps","window":9,"input":0,"output":0,"no_price":true,"note":"The price depends on the input in more steps than this table has."}
{"provider":"gemini","name":"gemini-thinks","window":9,"input":0,"output":0,"no_price":true,"note":"Reasoning has a price of its own."}
{"provider":"gemini","name":"gemini-x","window":1000000,"max_output":65536,"input":0.1,"output":0.4,"cache_read":0.0028,"long":{"over":200000,"input":0.2,"output":0.8}}
`, "map[of other providers:1 without text:1]"},
		"LiteLLM": {lites, "bedrock", `{"provider":"bedrock","name":"claude-x","input":1,"output":1}
{"provider":"anthropic","name":"claude-x","window":200000,"max_output":64000,"input":3,"output":15,"cache_read":0.3,"cache_write":3.75,"cache_write_hour":6,"long":{"over":200000,"input":6,"output":22.5,"cache_read":0.6,"cache_write":7.5,"cache_write_hour":12}}
{"provider":"alibaba","name":"qwen-x","window":9,"input":0,"output":0,"no_price":true,"note":"The price depends on the input in more steps than this table has."}
{"provider":"gemini","name":"gemini-x","window":1000000,"input":0.1,"output":0.4}
`, "map[with neither price nor window:1 without text:1]"},
	} {
		c, err := read([]byte(test.text))
		if err != nil {
			t.Fatal(name, err)
		}
		table := c.table([]string{test.more}, "2026-11-01")
		if got := lines(table); sorted(got) != sorted(test.want) || fmt.Sprint(c.skipped) != test.skipped {
			t.Errorf("%s: skipped %v, want %s\n%s\nwant\n%s", name, c.skipped, test.skipped, got, test.want)
		}
	}
}

func sorted(text string) string {
	list := strings.Split(text, "\n")
	for i := range list {
		for j := range i {
			if list[i] < list[j] {
				list[i], list[j] = list[j], list[i]
			}
		}
	}
	return strings.Join(list, "\n")
}

// Broken and hostile catalogs are refused, or lose the models concerned.
func TestHostileCatalogs(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing": "", "an array": "[]", "a table": `[{"provider":"a","name":"b","input":1,"output":1,"as_of":"c"}]`, "no catalog": `{"a": {"b": 1}}`, "broken": devs[:100],
		"deep": strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000),
	} {
		if c, err := read([]byte(text)); err == nil {
			t.Errorf("%s is a catalog of %s", name, c.name)
		} else if name != "deep" && !strings.Contains(err.Error(), "file") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := read(make([]byte, maxCatalog+1)); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("a large file: %v", err)
	}
	for _, model := range []string{`"x": 5`, `"": {"limit": {"context": 5}}`, `"a\u0000b": {"limit": {"context": 5}}`, `"a b": {"limit": {"context": 5}}`, `"\u001b[31m": {"limit": {"context": 5}}`,
		`"` + strings.Repeat("x", 300) + `": {"limit": {"context": 5}}`, `"x": {"limit": {"context": -5}}`, `"x": {"limit": {"context": 1e300}}`, `"x": {"limit": {"context": "many"}}`,
		`"x": {"limit": []}`, `"x": {"cost": {"input": "1", "output": "1"}}`, `"x": {"cost": {"input": 1e999999999, "output": 1}}`, `"x": {"cost": {"input": -1, "output": 1}}`} {
		c, err := read([]byte(`{"anthropic": {"models": {` + model + `}}}`))
		if err != nil || len(c.models) > 0 || len(c.skipped) != 1 {
			t.Errorf("%.60s: %v, %+v, skipped %v", model, err, c.models, c.skipped)
		}
	}
	c, err := read([]byte(`{"anthropic": {"models": {"x": {"limit": {"context": 5}, "cost": {"input": 1e300, "output": 1}}}}}`))
	if err != nil || len(c.models) != 1 || !c.models[0].NoPrice {
		t.Errorf("%v: %+v", err, c)
	}
}

// The command writes a table that an engine reads, and says what it took.
func TestImport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in, out := filepath.Join(dir, "api.json"), filepath.Join(dir, "models.json")
	if err := os.WriteFile(in, []byte(devs), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	a := &cli.App{Stdout: &stdout, Stderr: &stderr}
	if err := (&Import{File: in, Output: out, AsOf: "2026-11-02"}).Run(a); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("6 models of models.dev, %d models of the built-in table.\nSkipped 1 model of other providers, such as somehost:claude-x.\nSkipped 1 model without text, such as google:gemini-painter.\n", len(cairn.DefaultModels()))
	if stderr.String() != want || stdout.Len() > 0 {
		t.Errorf("it says %q, want %q", stderr.String(), want)
	}
	raw, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	table, err := cairn.ParseModels(raw)
	if err != nil {
		t.Fatal(err)
	}
	if e, ok := table.Find(cairn.ModelInfo{Provider: "openai-chat", Name: "anthropic/claude-x"}); !ok || e.AsOf != "2026-11-02" || e.Source != "https://models.dev/api.json" {
		t.Errorf("found %+v", e)
	}
	if err := (&Import{File: in, Only: true}).Run(a); err != nil || strings.Count(stdout.String(), "\n") != 6+2 {
		t.Errorf("%v: %s", err, stdout.String())
	}
	for wrong, cmd := range map[string]*Import{"--as-of": {File: in, AsOf: "yesterday"}, "no such file": {File: filepath.Join(dir, "none")}, "must be a JSON object": {File: out}} {
		if err := cmd.Run(a); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// Whatever a file has, the result is an error or a table that can be read.
func FuzzCatalog(f *testing.F) {
	f.Add([]byte(devs))
	f.Add([]byte(lites))
	f.Add([]byte(`{"anthropic": {"models": {"x": {"cost": {"input": 1e-400, "output": 1e400}}}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := read(raw)
		if err != nil {
			return
		}
		table := c.table([]string{"somehost", "bedrock"}, "2026-11-01")
		if len(table) == 0 {
			return
		}
		if _, err := encode(table); err != nil {
			t.Errorf("%v\n%s", err, lines(table))
		}
	})
}

// Catalogs have no fees, so an imported entry has those of the built-in one.
func TestImportedEntriesHaveFees(t *testing.T) {
	t.Parallel()
	entry := func(name string, e cairn.ModelEntry) cairn.ModelEntry {
		e.Provider, e.Name = "anthropic", name
		return e
	}
	ten, own := &cairn.Fees{WebSearch: 10_000_000, AsOf: "2026-01-01"}, &cairn.Fees{WebSearch: 1, AsOf: "2026-01-02"}
	built := cairn.ModelTable{entry("a", cairn.ModelEntry{Fees: ten}), entry("b", cairn.ModelEntry{Fees: ten}), entry("c", cairn.ModelEntry{Fees: ten})}
	got := merged(cairn.ModelTable{entry("a", cairn.ModelEntry{Window: 5}), entry("b", cairn.ModelEntry{Fees: own}), entry("d", cairn.ModelEntry{})}, built)
	for i, want := range []*cairn.Fees{ten, own, nil, ten} {
		if got[i].Fees != want {
			t.Errorf("%s has the fees %+v", got[i].Name, got[i].Fees)
		}
	}
}
