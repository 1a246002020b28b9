package cairn_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
)

func TestDefaultModels(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, e := range cairn.DefaultModels() {
		id := e.Provider + ":" + e.Name
		if _, err := time.Parse(time.DateOnly, e.AsOf); err != nil || seen[id] || e.Source == "" || e.Input <= 0 || e.Output < e.Input || e.CacheRead > e.Input {
			t.Errorf("%s: %+v", id, e)
		}
		seen[id] = true
	}
}

func TestCostOfACall(t *testing.T) {
	t.Parallel()
	table, err := cairn.ParseModels([]byte(`[{"provider":"openai","name":"small","input":1.25,"output":10,"cache_read":0.125,"cache_write":1.5,
		"long":{"over":1000,"input":2.5,"output":20},"as_of":"2026-01-02","source":"a page"}]`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"small": true, "small-2026-01-02": true, "small-20260102": true, "small-latest": true,
		"small-mini": false, "smaller": false, "small-2": false} {
		if _, ok := table.Find(cairn.ModelInfo{Provider: "openai-chat", Name: name}); ok != want {
			t.Errorf("%s is found: %t", name, ok)
		}
	}
	for _, c := range []struct {
		used cairn.Usage
		want int64
	}{
		{cairn.Usage{}, 0},
		{cairn.Usage{InputTokens: 100, OutputTokens: 10}, 100*1250 + 10*10_000},
		{cairn.Usage{InputTokens: 100, CachedTokens: 60, CacheWriteTokens: 30, OutputTokens: 10, ReasoningTokens: 5}, 10*1250 + 60*125 + 30*1500 + 10*10_000},
		{cairn.Usage{InputTokens: 1001, CachedTokens: 1}, 1001 * 2500},
		{cairn.Usage{InputTokens: 1<<53 - 1}, 1<<53 - 1},
	} {
		if got := table[0].Cost(c.used); got != c.want {
			t.Errorf("%+v costs %d, want %d", c.used, got, c.want)
		}
	}
	for _, bad := range []string{`{}`, `[{}]`, `[{"provider":"a","name":"b","as_of":"c","input":-1}]`, `[{"provider":"a","name":"b","as_of":"c","input":0.0000001}]`,
		`[{"provider":"a","name":"b","as_of":"c","inputs":1}]`, `[{"provider":"a","name":"b","as_of":"c","input":"1"}]`} {
		if _, err := cairn.ParseModels([]byte(bad)); err == nil {
			t.Errorf("%s is a table", bad)
		}
	}
}

func ExampleUsage_Cost() {
	entry, _ := cairn.DefaultModels().Find(cairn.ModelInfo{Provider: "anthropic", Name: "claude-haiku-4-5"})
	used := cairn.Usage{InputTokens: 1200, CachedTokens: 1000, OutputTokens: 300, ModelCalls: 1}
	fmt.Println(used.Cost())
	used.CostNanos, used.PricedCalls = entry.Cost(used), 1
	fmt.Println(used.Cost())
	// Output:
	// unknown
	// $0.0018
}
