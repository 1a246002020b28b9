package backend

import (
	"cmp"
	"encoding/json"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/fastjson"
	"github.com/cairn-agents/cairn/store/driver"
)

// UsageSums are sums of usage by their keys.
type UsageSums map[string]*driver.UsageSum

// Add adds a sum.
func (s UsageSums) Add(sum *driver.UsageSum) {
	key := sum.Key()
	if there := s[key]; there != nil {
		there.Add(sum)
		return
	}
	own := *sum
	s[key] = &own
}

// AddRow adds the entries of a row.
func (s UsageSums) AddRow(r *cairn.UsageRow) { driver.SumsOf(r, s.Add) }

// A usage row is stored as a short JSON object, since there is one for each step: s, r, p, n, a and t are SessionID, RunID,
// Step, Tenant, Agent and Tags; o and u are RootID and UserID, unless the store keeps them beside it. s is left out if it
// equals the root's id, which then is its own. e has a list for each entry: kind, name, microseconds, and a list of the
// counts in the order of usageCounts, without the zeros at its end, and the custom amounts if there are any.

// UsageRowText returns the stored form of a row without its time. whole includes root and user.
func UsageRowText(r *cairn.UsageRow, whole bool) (string, error) {
	to := make([]byte, 0, 256)
	text := func(name, value string) {
		if value != "" {
			to = fastjson.Text(append(append(append(to, ',', '"'), name...), '"', ':'), value)
		}
	}
	if whole {
		text("o", r.RootID)
		text("u", r.UserID)
	}
	if r.SessionID != r.RootID {
		text("s", r.SessionID)
	}
	text("r", r.RunID)
	text("n", r.Tenant)
	text("a", r.Agent)
	if r.Step != 0 {
		to = strconv.AppendInt(append(to, `,"p":`...), int64(r.Step), 10)
	}
	if len(r.Tags) > 0 {
		to = append(to, `,"t":[`...)
		for i, tag := range r.Tags {
			if i > 0 {
				to = append(to, ',')
			}
			to = fastjson.Text(to, tag)
		}
		to = append(to, ']')
	}
	to = append(to, `,"e":[`...)
	for i := range r.Entries {
		if i > 0 {
			to = append(to, ',')
		}
		var err error
		if to, err = appendUsageEntry(to, &r.Entries[i]); err != nil {
			return "", err
		}
	}
	to = append(to, "]}"...)
	to[0] = '{'
	return string(to), nil
}

func appendUsageEntry(to []byte, e *cairn.UsageEntry) ([]byte, error) {
	to = fastjson.Text(append(to, '['), string(e.Kind))
	to = fastjson.Text(append(to, ','), e.Name)
	to = strconv.AppendInt(append(to, ','), time.Duration(e.Duration).Microseconds(), 10)
	to = append(to, ",["...)
	counts := usageCounts(&e.Usage)
	last := len(counts)
	for last > 0 && *counts[last-1] == 0 {
		last--
	}
	for i, n := range counts[:last] {
		if i > 0 {
			to = append(to, ',')
		}
		to = strconv.AppendInt(to, *n, 10)
	}
	to = append(to, ']')
	if len(e.Usage.Custom) > 0 {
		custom, err := json.Marshal(e.Usage.Custom)
		if err != nil {
			return nil, cairn.Errorf(cairn.ErrInvalid, "encode usage row: %w", err)
		}
		to = append(append(to, ','), custom...)
	}
	return append(to, ']'), nil
}

// usageCounts are the counts of a usage in the order in which rows keep them. A new one is added at the end.
func usageCounts(u *cairn.Usage) [17]*int64 {
	return [...]*int64{&u.ModelCalls, &u.InputTokens, &u.OutputTokens, &u.CachedTokens, &u.CostNanos, &u.PricedCalls, &u.ReasoningTokens,
		&u.CacheWriteTokens, &u.DiscardedCalls, &u.ToolCalls, &u.ToolErrors, &u.WaitSeconds, &u.SubAgentRuns, &u.ToolCacheHits,
		&u.CacheWriteHourTokens, &u.WebSearches, &u.FileSearches}
}

// ReadUsageRow reads a text of UsageRowText. root and user are those that the store keeps beside it.
func ReadUsageRow(text string, at time.Time, root, user string) (r cairn.UsageRow, err error) {
	var s struct {
		O, U, S, R, N, A string
		P                int
		T                []string
		E                []usageEntry
	}
	err = DecodeJSON("usage row", text, &s)
	r = cairn.UsageRow{At: at, RootID: cmp.Or(root, s.O), UserID: cmp.Or(user, s.U), RunID: s.R, Step: s.P, Tenant: s.N, Agent: s.A, Tags: s.T}
	r.SessionID = cmp.Or(s.S, r.RootID)
	r.Entries = make([]cairn.UsageEntry, len(s.E))
	for i := range s.E {
		r.Entries[i] = s.E[i].UsageEntry
	}
	return r, err
}

// usageEntry decodes the list of an entry.
type usageEntry struct{ cairn.UsageEntry }

// UnmarshalJSON implements json.Unmarshaler.
func (e *usageEntry) UnmarshalJSON(raw []byte) error {
	var took int64
	var list []int64
	if err := json.Unmarshal(raw, &[]any{&e.Kind, &e.Name, &took, &list, &e.Usage.Custom}); err != nil {
		return err
	}
	e.Duration = cairn.Duration(time.Duration(took) * time.Microsecond)
	for i, n := range usageCounts(&e.Usage) {
		if i < len(list) {
			*n = list[i]
		}
	}
	return nil
}

// EncodeUsageSum returns the JSON of a sum.
func EncodeUsageSum(sum *driver.UsageSum) (string, error) { return EncodeJSON("usage sum", sum) }

// DecodeUsageSum decodes a text of EncodeUsageSum.
func DecodeUsageSum(text string) (sum driver.UsageSum, err error) {
	err = DecodeJSON("usage sum", text, &sum)
	return sum, err
}
