package cairn_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cairn-agents/cairn"
)

func TestDefaultModels(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, e := range cairn.DefaultModels() {
		id := e.Provider + ":" + e.Name
		if _, err := time.Parse(time.DateOnly, e.AsOf); err != nil || seen[id] || e.Source == "" || e.Output < e.Input || e.CacheRead > e.Input ||
			e.NoPrice && (e.Note == "" || e.Window == 0) || e.CacheWriteHour != 0 && e.CacheWriteHour != 2*e.Input || e.Provider == "anthropic" && e.CacheWriteHour == 0 {
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
		`[{"provider":"a","name":"b","as_of":"c","inputs":1}]`, `[{"provider":"a","name":"b","as_of":"c","input":"1"}]`,
		`[{"provider":"a","name":"b","as_of":"c","input":1,"no_price":true}]`, `[{"provider":"a","name":"b","as_of":"c","input":1,"long":{"input":1,"output":1}}]`} {
		if _, err := cairn.ParseModels([]byte(bad)); err == nil {
			t.Errorf("%s is a table", bad)
		}
	}
}

// Any form of a model's name finds its entry, and no other.
func TestFindModels(t *testing.T) {
	t.Parallel()
	table := cairn.DefaultModels()
	for id, want := range map[string]string{
		"anthropic:claude-sonnet-4-5":                                                             "anthropic:claude-sonnet-4-5",
		"anthropic:claude-sonnet-4-5-20250929":                                                    "anthropic:claude-sonnet-4-5",
		"anthropic:claude-sonnet-4-5@20250929":                                                    "anthropic:claude-sonnet-4-5",
		"anthropic:claude-opus-4-6@default":                                                       "anthropic:claude-opus-4-6",
		"anthropic:us.anthropic.claude-sonnet-4-5-20250929-v1:0":                                  "anthropic:claude-sonnet-4-5",
		"anthropic:global.anthropic.claude-opus-4-6-v1":                                           "anthropic:claude-opus-4-6",
		"anthropic:anthropic.claude-haiku-4-5-20251001-v1:0":                                      "anthropic:claude-haiku-4-5",
		"bedrock:eu.anthropic.claude-opus-5-20260801-v1:0":                                        "anthropic:claude-opus-5",
		"anthropic:arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-opus-5-v1:0": "anthropic:claude-opus-5",
		"openai-chat:anthropic/claude-sonnet-4.5":                                                 "anthropic:claude-sonnet-4-5",
		"openai-chat:openrouter/anthropic/claude-opus-5.5":                                        "anthropic:claude-opus-5-5",
		"openai-chat:x-ai/grok-4.7":                                                               "xai:grok-4.7",
		"openai-chat:z-ai/glm-5.2":                                                                "zai:glm-5.2",
		"openai-chat:grok-4.3":                                                                    "xai:grok-4.3",
		"openai-chat:kimi-k2.6":                                                                   "moonshotai:kimi-k2.6",
		"openai-chat:minimax-m2.7":                                                                "minimax:MiniMax-M2.7",
		"anthropic:glm-4.6":                                                                       "zai:glm-4.6",
		"openai:gpt-5.2-2025-12-11":                                                               "openai:gpt-5.2",
		"openai:gpt-5.6-sol-2026-08-01":                                                           "openai:gpt-5.6-sol",
		"openai-chat:openai/gpt-5-mini":                                                           "openai:gpt-5-mini",
		"openai:gpt-4o-2024-05-13":                                                                "openai:gpt-4o-2024-05-13",
		"openai:gpt-4o-2024-11-20":                                                                "openai:gpt-4o-2024-11-20",
		"gemini:models/gemini-2.5-pro":                                                            "gemini:gemini-2.5-pro",
		"gemini:gemini-2.5-flash-001":                                                             "gemini:gemini-2.5-flash",
		"gemini:publishers/google/models/gemini-2.5-pro":                                          "gemini:gemini-2.5-pro",
		"openai-chat:google/gemini-3-pro-preview":                                                 "gemini:gemini-3-pro-preview",
		"openai-chat:mistral-nemo-latest":                                                         "mistral:mistral-nemo",
		"openai:gpt-5-nano-mini":                                                                  "",
		"openai:gpt-5.2-mini":                                                                     "",
		"openai:gpt-5.2-2025-13-45":                                                               "",
		"openai:gpt-5-0125":                                                                       "",
		"openai:gpt-5-001":                                                                        "",
		"openai:gpt":                                                                              "",
		"anthropic:claude-sonnet":                                                                 "",
		"anthropic:us.anthropic.claude-sonnet-4-5-mini-v1:0":                                      "",
		"anthropic:us.unknown.claude-sonnet-4-5":                                                  "",
		"openai-chat:openai/claude-opus-5":                                                        "",
		"openai-chat:anthropic/claude-opus-5:free":                                                "",
		"openai-chat:accounts/fireworks/models/kimi-k2.6":                                         "",
		"openai-chat:somewhere/gpt-5":                                                             "",
		"openai-chat:anthropic/":                                                                  "",
		"openai-chat:":                                                                            "",
		"openai-chat:-latest":                                                                     "",
		"mine:gpt-5":                                                                              "",
		"mine:grok-4":                                                                             "",
	} {
		provider, name, _ := strings.Cut(id, ":")
		got := ""
		if e, ok := table.Find(cairn.ModelInfo{Provider: provider, Name: name}); ok {
			got = e.Provider + ":" + e.Name
		}
		if got != want {
			t.Errorf("%s finds %q, want %q", id, got, want)
		}
	}
	own := append(cairn.ModelTable{{Provider: "openai-chat", Name: "anthropic/claude-opus-5", Window: 7}}, table...)
	if e, _ := own.Find(cairn.ModelInfo{Provider: "openai-chat", Name: "anthropic/claude-opus-5"}); e.Window != 7 {
		t.Errorf("an entry with the very name is passed over for %+v", e)
	}
}

// Every entry is found by its own name, at every adapter that can serve it.
func TestFindEveryModel(t *testing.T) {
	t.Parallel()
	table := cairn.DefaultModels()
	for _, e := range table {
		for _, provider := range []string{e.Provider, "openai-chat"} {
			if got, ok := table.Find(cairn.ModelInfo{Provider: provider, Name: e.Name}); !ok || got.Provider != e.Provider || got.Name != e.Name {
				t.Errorf("%s:%s at %s finds %s:%s", e.Provider, e.Name, provider, got.Provider, got.Name)
			}
		}
	}
}

// Cached input of an hour has a price of its own.
func TestCostOfHourlyCache(t *testing.T) {
	t.Parallel()
	e, _ := cairn.DefaultModels().Find(cairn.ModelInfo{Provider: "anthropic", Name: "claude-opus-5"})
	used := cairn.Usage{InputTokens: 1000, CachedTokens: 300, CacheWriteTokens: 200, CacheWriteHourTokens: 150, OutputTokens: 10}
	if got, want := e.Cost(used), int64(500*5000+300*500+50*6250+150*10_000+10*25_000); got != want {
		t.Errorf("it costs %d, want %d", got, want)
	}
}

// Searches of the provider's cost what the entry's fees say; a usage with searches without a fee is not covered.
func TestCostOfSearches(t *testing.T) {
	t.Parallel()
	table, err := cairn.ParseModels([]byte(`[
		{"provider":"a","name":"all","input":1,"output":1,"fees":{"web_search":10,"file_search":2.5,"as_of":"2026-01-02","source":"a page"},"as_of":"2026-01-02"},
		{"provider":"a","name":"web","input":1,"output":1,"fees":{"web_search":25.000001,"as_of":"2026-01-02","source":"a page"},"as_of":"2026-01-02"},
		{"provider":"a","name":"none","input":1,"output":1,"as_of":"2026-01-02"}]`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		used   cairn.Usage
		nanos  [3]int64
		covers [3]bool
	}{
		{cairn.Usage{InputTokens: 7}, [3]int64{7000, 7000, 7000}, [3]bool{true, true, true}},
		{cairn.Usage{InputTokens: 7, WebSearches: 3}, [3]int64{7000 + 30_000_000, 7000 + 75_000_003, 7000}, [3]bool{true, true, false}},
		{cairn.Usage{WebSearches: 1, FileSearches: 2}, [3]int64{15_000_000, 25_000_001, 0}, [3]bool{true, false, false}},
	} {
		for i := range table {
			if got, covers := table[i].Cost(c.used), table[i].Covers(c.used); got != c.nanos[i] || covers != c.covers[i] {
				t.Errorf("%s: %+v costs %d, covered: %t", table[i].Name, c.used, got, covers)
			}
		}
	}
	for _, bad := range []string{`{"web_search":10}`, `{"web_search":-1,"as_of":"2026-01-02"}`, `{"searches":1,"as_of":"2026-01-02"}`} {
		if _, err := cairn.ParseModels([]byte(`[{"provider":"a","name":"b","as_of":"c","fees":` + bad + `}]`)); err == nil {
			t.Errorf("%s are fees", bad)
		}
	}
	mine := cairn.DefaultModels()
	for i := range mine {
		if f := mine[i].Fees; f != nil {
			f.WebSearch++
		}
	}
	for _, e := range cairn.DefaultModels() {
		if f := e.Fees; f != nil && (f.Source == "" || f.AsOf < "2026" || f.WebSearch != 0 && f.WebSearch != map[string]cairn.Dollars{"anthropic": 10_000_000, "openai": 10_000_000, "gemini": 14_000_000}[e.Provider] || f.WebSearch+f.FileSearch == 0) {
			t.Errorf("%s:%s has the fees %+v", e.Provider, e.Name, f)
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
