package models

import (
	"encoding/json"
	"slices"
	"sort"

	"github.com/cairn-agents/cairn"
)

// devModel is a model in the api.json of models.dev, whose prices are in dollars per million tokens.
type devModel struct {
	ID    string   `json:"id"`
	Cost  *devCost `json:"cost"`
	Limit struct {
		Context size `json:"context"`
		Input   size `json:"input"`
		Output  size `json:"output"`
	} `json:"limit"`
	Modalities struct {
		Output []string `json:"output"`
	} `json:"modalities"`
	Updated string `json:"last_updated"`
}

type devCost struct {
	devPrice
	Reasoning amount `json:"reasoning"`
	Tiers     []struct {
		devPrice
		Tier struct {
			Type string `json:"type"`
			Size size   `json:"size"`
		} `json:"tier"`
	} `json:"tiers"`
	Over200K *devPrice `json:"context_over_200k"`
}

type devPrice struct {
	Input      amount `json:"input"`
	Output     amount `json:"output"`
	CacheRead  amount `json:"cache_read"`
	CacheWrite amount `json:"cache_write"`
}

func (p *devPrice) price(ok *bool) cairn.Price {
	return cairn.Price{Input: p.Input.dollars(perMillion, ok), Output: p.Output.dollars(perMillion, ok),
		CacheRead: p.CacheRead.dollars(perMillion, ok), CacheWrite: p.CacheWrite.dollars(perMillion, ok)}
}

// modelsDev reads the catalog of models.dev: providers by name, each with models by name.
func modelsDev(names []string, top map[string]json.RawMessage) *catalog {
	c := &catalog{name: "models.dev", source: "https://models.dev/api.json"}
	for _, provider := range names {
		var p struct {
			Models map[string]json.RawMessage `json:"models"`
		}
		if json.Unmarshal(top[provider], &p) != nil {
			c.skip("of an unreadable provider", provider)
			continue
		}
		ids := make([]string, 0, len(p.Models))
		for id := range p.Models {
			ids = append(ids, id)
		}
		sort.Strings(ids)
		for _, id := range ids {
			var m devModel
			if json.Unmarshal(p.Models[id], &m) != nil {
				c.skip("unreadable", provider+":"+id)
				continue
			}
			if len(m.Modalities.Output) > 0 && !slices.Contains(m.Modalities.Output, "text") {
				c.skip("without text", provider+":"+id)
				continue
			}
			c.take(m.entry(provider, id))
		}
	}
	return c
}

// entry returns the model's entry. Its price is left out if the table cannot express it.
func (m *devModel) entry(provider, id string) listed {
	e := listed{provider, cairn.ModelEntry{Name: id, Window: int(m.Limit.Context), MaxOutput: int(m.Limit.Output)}}
	if m.Limit.Input > 0 {
		e.Window = int(m.Limit.Input)
	}
	cost := m.Cost
	if cost == nil || !cost.Input.given() || !cost.Output.given() {
		e.NoPrice, e.Note = true, "The catalog has no price."
		return e
	}
	ok := true
	e.Price = cost.price(&ok)
	reasoning := cost.Reasoning.dollars(perMillion, &ok)
	switch {
	case len(cost.Tiers) == 1 && (cost.Tiers[0].Tier.Type == "" || cost.Tiers[0].Tier.Type == "context"):
		e.Long = &cairn.LongPrice{Over: int64(cost.Tiers[0].Tier.Size), Price: cost.Tiers[0].price(&ok)}
	case len(cost.Tiers) == 0 && cost.Over200K != nil:
		e.Long = &cairn.LongPrice{Over: 200_000, Price: cost.Over200K.price(&ok)}
	}
	switch {
	case !ok || e.Long != nil && e.Long.Over <= 0:
		e.NoPrice, e.Note = true, "The catalog's price is not usable."
	case len(cost.Tiers) > 1 || len(cost.Tiers) == 1 && e.Long == nil:
		e.NoPrice, e.Note = true, "The price depends on the input in more steps than this table has."
	case cost.Reasoning.given() && reasoning != e.Output:
		e.NoPrice, e.Note = true, "Reasoning has a price of its own."
	}
	return e
}
