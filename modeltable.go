package cairn

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"sync"
)

//go:embed modeltable.json
var modelTable []byte

// ModelTable lists the window sizes of models and the prices of their tokens. The data has a date: replace it with
// engine.Options.Models if prices have changed or are your own.
type ModelTable []ModelEntry

// ModelEntry is the entry of one model in a [ModelTable].
type ModelEntry struct {
	// Provider and Name identify the model at its vendor, such as "anthropic" and "claude-opus-5". [ModelTable.Find]
	// says which other forms of a name find the entry.
	Provider string `json:"provider"`
	Name     string `json:"name"`
	// Window is the maximum number of tokens of a request; 0 if it is not known. MaxOutput is the maximum of a reply.
	Window    int `json:"window,omitempty"`
	MaxOutput int `json:"max_output,omitempty"`
	Price
	// NoPrice reports that the price is not known: the cost of calls of the model is unknown. A model with a price of 0
	// is free.
	NoPrice bool `json:"no_price,omitempty"`
	// Note is further information about the price.
	Note string `json:"note,omitempty"`
	// Long are the prices of requests with more than Over input tokens, if they differ.
	Long *LongPrice `json:"long,omitempty"`
	// Fees are the prices of the provider's own tools; nil if none is known.
	Fees *Fees `json:"fees,omitempty"`
	// AsOf is the date of the provider's page with these figures, as YYYY-MM-DD. Source is the address of that
	// page.
	AsOf   string `json:"as_of"`
	Source string `json:"source"`
}

// Price is the price of tokens. Reasoning costs as much as Output.
type Price struct {
	// Input is the price of tokens that a model reads and no cache has; Output is the price of tokens that it writes.
	Input  Dollars `json:"input"`
	Output Dollars `json:"output"`
	// CacheRead is the price of input that the provider has cached. CacheWrite is the price of input that it writes
	// into its cache. 0 means Input. CacheWriteHour is the price of input that the cache keeps for an hour; 0 means
	// CacheWrite.
	CacheRead      Dollars `json:"cache_read,omitempty"`
	CacheWrite     Dollars `json:"cache_write,omitempty"`
	CacheWriteHour Dollars `json:"cache_write_hour,omitempty"`
}

// LongPrice is the price of requests whose input exceeds a number of tokens.
type LongPrice struct {
	// Over is the number of input tokens above which all tokens of a request cost Price.
	Over int64 `json:"over"`
	Price
}

// Fees are the prices of tools that a provider runs for a model, in addition to the tokens: dollars for a thousand
// uses, 0 if the price is not known.
type Fees struct {
	// WebSearch is the price of [Usage].WebSearches, FileSearch the price of FileSearches.
	WebSearch  Dollars `json:"web_search,omitempty"`
	FileSearch Dollars `json:"file_search,omitempty"`
	// Note is further information about the prices, such as an allowance, which a cost does not take into account.
	Note string `json:"note,omitempty"`
	// AsOf is the date of the page with these prices, as YYYY-MM-DD. Source is the address of that page.
	AsOf   string `json:"as_of"`
	Source string `json:"source"`
}

// Dollars is an amount of US dollars per million tokens, or per thousand uses of a tool, in millionths of a dollar. In
// JSON it is a number of dollars.
type Dollars int64

// UnmarshalJSON reads a number of dollars with at most six decimal places. The error is ErrInvalid for any other
// value.
func (d *Dollars) UnmarshalJSON(raw []byte) error {
	r, ok := new(big.Rat).SetString(string(raw))
	if ok {
		r.Mul(r, big.NewRat(1_000_000, 1))
	}
	if !ok || !r.IsInt() || r.Sign() < 0 || !r.Num().IsInt64() || r.Num().Int64() > maxDollars {
		return Invalid("price", "%s is not an amount in dollars with at most six decimal places", raw)
	}
	*d = Dollars(r.Num().Int64())
	return nil
}

// maxDollars limits the price of a million tokens, so that costs fit into an int64.
const maxDollars = 100_000 * 1_000_000

// MarshalJSON writes a number of dollars.
func (d Dollars) MarshalJSON() ([]byte, error) { return []byte(d.String()), nil }

// String returns the dollars without trailing zeros.
func (d Dollars) String() string { return money(int64(d), 6) }

// DefaultModels returns a copy of the built-in table. The caller may modify it.
func DefaultModels() ModelTable {
	table := slices.Clone(defaultModels())
	for i := range table {
		if long := table[i].Long; long != nil {
			table[i].Long = new(*long)
		}
		if fees := table[i].Fees; fees != nil {
			table[i].Fees = new(*fees)
		}
	}
	return table
}

var defaultModels = sync.OnceValue(func() ModelTable {
	table, err := ParseModels(modelTable)
	if err != nil {
		panic(err) // a test reads it
	}
	return table
})

// ParseModels parses a table of models in JSON: an array of [ModelEntry]. The error is ErrInvalid and names the
// entry.
func ParseModels(raw []byte) (ModelTable, error) {
	var table ModelTable
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&table); err != nil {
		return nil, Invalid("models", "%v", err)
	}
	for i, e := range table {
		if e.Provider == "" || e.Name == "" || e.AsOf == "" || e.Window < 0 || e.MaxOutput < 0 {
			return nil, Invalid(fmt.Sprintf("models[%d]", i), "%s:%s: provider, name and as_of are required, and sizes must not be negative", e.Provider, e.Name)
		}
		if e.NoPrice && (e.Price != Price{} || e.Long != nil) {
			return nil, Invalid(fmt.Sprintf("models[%d].no_price", i), "must not be set: %s:%s has a price", e.Provider, e.Name)
		}
		if e.Fees != nil && e.Fees.AsOf == "" {
			return nil, Invalid(fmt.Sprintf("models[%d].fees.as_of", i), "is required: %s:%s has fees", e.Provider, e.Name)
		}
		if e.Long != nil && e.Long.Over <= 0 {
			return nil, Invalid(fmt.Sprintf("models[%d].long.over", i), "must be positive, not %d", e.Long.Over)
		}
	}
	return table, nil
}

// Covers reports whether the entry has the price of everything in a usage.
func (e *ModelEntry) Covers(u Usage) bool {
	fees := e.fees()
	return !e.NoPrice && (u.WebSearches == 0 || fees.WebSearch > 0) && (u.FileSearches == 0 || fees.FileSearch > 0)
}

func (e *ModelEntry) fees() Fees {
	if e.Fees == nil {
		return Fees{}
	}
	return *e.Fees
}

// Cost returns the cost of a request with the given usage, in nano-dollars, rounded up. Usage for which the entry has
// no price counts as 0, see [ModelEntry.Covers].
func (e *ModelEntry) Cost(u Usage) int64 {
	p := e.Price
	if e.Long != nil && u.InputTokens > e.Long.Over {
		p = e.Long.Price
	}
	read, write := cmp.Or(p.CacheRead, p.Input), cmp.Or(p.CacheWrite, p.Input)
	hour := cmp.Or(p.CacheWriteHour, write)
	hourly := min(u.CacheWriteHourTokens, u.CacheWriteTokens)
	fresh := max(u.InputTokens-u.CachedTokens-u.CacheWriteTokens, 0)
	sum := new(big.Int)
	for _, part := range [...]struct {
		tokens int64
		price  Dollars
	}{{fresh, p.Input}, {u.CachedTokens, read}, {u.CacheWriteTokens - hourly, write}, {hourly, hour}, {u.OutputTokens, p.Output}} {
		sum.Add(sum, new(big.Int).Mul(big.NewInt(max(part.tokens, 0)), big.NewInt(int64(part.price))))
	}
	fees := e.fees()
	for _, part := range [...]struct {
		uses int64
		fee  Dollars
	}{{u.WebSearches, fees.WebSearch}, {u.FileSearches, fees.FileSearch}} {
		nanos := new(big.Int).Mul(big.NewInt(max(part.uses, 0)), big.NewInt(int64(part.fee))) // per thousand, in millionths
		sum.Add(sum, nanos.Mul(nanos, big.NewInt(1000)))
	}
	// Millionths of a dollar per million tokens are thousandths of a nano-dollar per token.
	sum.Add(sum, big.NewInt(999)).Div(sum, big.NewInt(1000))
	if !sum.IsInt64() || sum.Int64() > 1<<53-1 {
		return 1<<53 - 1
	}
	return sum.Int64()
}
