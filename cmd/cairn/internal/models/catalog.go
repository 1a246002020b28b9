package models

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"sort"

	"github.com/cairn-agents/cairn"
)

// The limits of a catalog. Those that exist are well below them.
const (
	maxCatalog = 64 << 20 // bytes
	maxName    = 200      // bytes of a model's name
	maxTokens  = 1 << 40  // of a window
)

// catalog is a public list of models of many providers.
type catalog struct {
	name, source string
	models       []listed
	skipped      map[string]int // by reason
	examples     map[string]string
}

// listed is a model of a catalog.
type listed struct {
	provider string // as the catalog has it
	cairn.ModelEntry
}

// skip counts a model that is not taken, by reason.
func (c *catalog) skip(reason, model string) {
	if c.skipped == nil {
		c.skipped, c.examples = map[string]int{}, map[string]string{}
	}
	if c.skipped[reason]++; c.examples[reason] == "" {
		c.examples[reason] = model
	}
}

// vendors are the table's names of the catalogs' providers whose prices are their own.
var vendors = map[string]string{
	"anthropic": "anthropic", "openai": "openai", "google": "gemini", "gemini": "gemini", "xai": "xai", "deepseek": "deepseek",
	"mistral": "mistral", "moonshotai": "moonshotai", "moonshot": "moonshotai", "zai": "zai", "alibaba": "alibaba", "dashscope": "alibaba",
	"minimax": "minimax", "cohere": "cohere", "cohere_chat": "cohere",
}

// read decodes the catalog of models.dev (api.json) or LiteLLM (model_prices_and_context_window.json). The error is
// ErrInvalid if it is neither.
func read(raw []byte) (*catalog, error) {
	if len(raw) > maxCatalog {
		return nil, cairn.Invalid("file", "is too large: %d bytes (max %d)", len(raw), maxCatalog)
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(raw, &top); err != nil {
		return nil, cairn.Invalid("file", "must be a JSON object: %v", err)
	}
	names := make([]string, 0, len(top))
	for name := range top {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		var first struct {
			Models   map[string]json.RawMessage `json:"models"`
			Provider json.RawMessage            `json:"litellm_provider"`
		}
		switch err := json.Unmarshal(top[name], &first); {
		case err == nil && first.Models != nil:
			return modelsDev(names, top), nil
		case first.Provider != nil:
			return liteLLM(names, top), nil
		}
	}
	return nil, cairn.Invalid("file", "must be the api.json of models.dev or the model_prices_and_context_window.json of LiteLLM")
}

// check completes an entry, or reports why it is not usable.
func (c *catalog) take(l listed) {
	id := l.provider + ":" + l.Name
	switch {
	case len(l.Name) == 0 || len(l.Name) > maxName || cairn.CheckText("name", l.Name) != nil || bytes.ContainsFunc([]byte(l.Name), func(r rune) bool { return r <= ' ' || r == 0x7f }):
		c.skip("without a usable name", fmt.Sprintf("%.40q", l.Name))
		return
	case l.Window < 0 || l.MaxOutput < 0:
		c.skip("with sizes that are not possible", id)
		return
	case l.NoPrice && l.Window == 0:
		c.skip("with neither price nor window", id)
		return
	}
	if l.NoPrice {
		l.Price, l.Long = cairn.Price{}, nil
	}
	l.Source = c.source
	c.models = append(c.models, l)
}

// amount is a price in a catalog.
type amount struct{ json.RawMessage }

func (a *amount) UnmarshalJSON(raw []byte) error {
	a.RawMessage = slices.Clone(raw)
	return nil
}

func (a amount) given() bool { return len(a.RawMessage) > 0 && string(a.RawMessage) != "null" }

// perToken and perMillion are the tokens that a price is for.
const perToken, perMillion = 1, 1_000_000

// dollars returns a price, rounded to millionths of a dollar per million tokens. It clears ok if that is not possible.
func (a amount) dollars(tokens int64, ok *bool) cairn.Dollars {
	if !a.given() {
		return 0
	}
	n := new(cairn.Dollars)
	if len(a.RawMessage) > 40 || a.RawMessage[0] < '0' || a.RawMessage[0] > '9' {
		*ok = false
		return 0
	}
	f, _, err := big.ParseFloat(string(a.RawMessage), 10, 64, big.ToNearestEven)
	if err != nil || f.Sign() != 0 && (f.MantExp(nil) > 64 || f.MantExp(nil) < -64) {
		*ok = false
		return 0
	}
	r, valid := new(big.Rat).SetString(string(a.RawMessage)) // of a size that the check above bounds
	if !valid {
		*ok = false
		return 0
	}
	r.Mul(r, big.NewRat(perMillion/tokens, 1))
	if err := n.UnmarshalJSON([]byte(r.FloatString(6))); err != nil {
		*ok = false
	}
	return *n
}

// size is a number of tokens in a catalog; -1 if it is none.
type size int

func (s *size) UnmarshalJSON(raw []byte) error {
	var n float64
	if err := json.Unmarshal(raw, &n); err != nil || n < 0 || n > maxTokens || n != float64(int64(n)) {
		n = -1
	}
	*s = size(n)
	return nil
}
