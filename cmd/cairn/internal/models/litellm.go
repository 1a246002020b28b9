package models

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-agents/cairn"
)

// liteModel is a model in the model_prices_and_context_window.json of LiteLLM, whose prices are in dollars per token.
type liteModel struct {
	Provider   string          `json:"litellm_provider"`
	Mode       string          `json:"mode"`
	Input      size            `json:"max_input_tokens"`
	Output     size            `json:"max_output_tokens"`
	InputCost  amount          `json:"input_cost_per_token"`
	OutputCost amount          `json:"output_cost_per_token"`
	Reasoning  amount          `json:"output_cost_per_reasoning_token"`
	Tiers      json.RawMessage `json:"tiered_pricing"`
}

// The fields of LiteLLM's prices. Those of long requests have the suffix _above_200k_tokens, with any number.
const (
	liteInput     = "input_cost_per_token"
	liteOutput    = "output_cost_per_token"
	liteRead      = "cache_read_input_token_cost"
	liteWrite     = "cache_creation_input_token_cost"
	liteWriteHour = "cache_creation_input_token_cost_above_1hr"
)

// liteLLM reads LiteLLM's catalog: models by name.
func liteLLM(names []string, top map[string]json.RawMessage) *catalog {
	c := &catalog{name: "LiteLLM", source: "https://github.com/BerriAI/litellm/blob/main/model_prices_and_context_window.json"}
	for _, name := range names {
		var m liteModel
		fields := map[string]amount{}
		switch {
		case name == "sample_spec": // describes the format
			continue
		case json.Unmarshal(top[name], &m) != nil || json.Unmarshal(top[name], &fields) != nil:
			c.skip("unreadable", name)
			continue
		case !slices.Contains([]string{"chat", "responses", "completion"}, m.Mode):
			c.skip("without text", name)
			continue
		}
		c.take(m.entry(name, fields))
	}
	return c
}

// entry returns the model's entry. Its price is left out if the table cannot express it.
func (m *liteModel) entry(name string, fields map[string]amount) listed {
	e := listed{m.Provider, cairn.ModelEntry{Name: strings.TrimPrefix(name, m.Provider+"/"), Window: int(m.Input), MaxOutput: int(m.Output)}}
	if !m.InputCost.given() || !m.OutputCost.given() {
		e.NoPrice, e.Note = true, "The catalog has no price."
		return e
	}
	ok, over := true, thresholds(fields)
	price := func(suffix string) cairn.Price {
		return cairn.Price{Input: fields[liteInput+suffix].dollars(perToken, &ok), Output: fields[liteOutput+suffix].dollars(perToken, &ok),
			CacheRead: fields[liteRead+suffix].dollars(perToken, &ok), CacheWrite: fields[liteWrite+suffix].dollars(perToken, &ok),
			CacheWriteHour: fields[liteWriteHour+suffix].dollars(perToken, &ok)}
	}
	e.Price = price("")
	if len(over) == 1 {
		long := price("_above_" + over[0] + "k_tokens")
		thousands, err := strconv.ParseInt(over[0], 10, 32)
		ok = ok && err == nil && thousands > 0
		if long.Input == 0 {
			long.Input = e.Input
		}
		if long.Output == 0 {
			long.Output = e.Output
		}
		e.Long = &cairn.LongPrice{Over: thousands * 1000, Price: long}
	}
	reasoning := m.Reasoning.dollars(perToken, &ok)
	switch {
	case !ok:
		e.NoPrice, e.Note = true, "The catalog's price is not usable."
	case len(over) > 1 || len(m.Tiers) > 0 && string(m.Tiers) != "null":
		e.NoPrice, e.Note = true, "The price depends on the input in more steps than this table has."
	case m.Reasoning.given() && reasoning != e.Output:
		e.NoPrice, e.Note = true, "Reasoning has a price of its own."
	}
	return e
}

// thresholds returns the sizes, in thousands of tokens, above which input or output has another price.
func thresholds(fields map[string]amount) (list []string) {
	for name, a := range fields {
		for _, base := range [...]string{liteInput, liteOutput} {
			n, ok := strings.CutPrefix(name, base+"_above_")
			if n, whole := strings.CutSuffix(n, "k_tokens"); ok && whole && a.given() && !slices.Contains(list, n) {
				list = append(list, n)
			}
		}
	}
	slices.Sort(list)
	return list
}
