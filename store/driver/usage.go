package driver

import (
	"context"
	"slices"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/ids"
)

// UsageProvider is a Store that keeps a row of the usage of each commit, written with the commit, see [UsageRowOf].
type UsageProvider interface {
	// Usages returns the store's usage rows.
	Usages() Usages
}

// Usages are the usage rows of a store and their sums by day. A row counts in exactly one of two ways: by itself, or
// once it was folded, in the sums. All methods are safe for concurrent use by any number of processes.
type Usages interface {
	// Rows pages through the rows, folded or not, oldest first. q.Newest is ignored.
	Rows(ctx context.Context, q PageQuery) (Page[cairn.UsageRow], error)
	// Sums calls visit with each sum of a span of days, and with the sums of each row of that span that is not folded:
	// a day's usage is the total of all its sums. All are from one point in time. visit may be called again from the
	// start after a failure: reset is called before each attempt.
	Sums(ctx context.Context, days DaySpan, reset func(), visit func(*UsageSum)) error
	// Fold adds the entries of the oldest rows that are not folded to the sums of their days, in one write. It returns
	// how many rows it folded: at most limit, and 0 if there are none. Of concurrent calls, one folds a row.
	Fold(ctx context.Context, limit int) (int, error)
	// Trim removes the oldest folded rows that were written more than age ago, and returns how many: at most limit.
	// Their sums stay.
	Trim(ctx context.Context, age time.Duration, limit int) (int, error)
	// Forget removes ids from rows and sums, whose usage stays. It need not be one write; it can be repeated.
	Forget(ctx context.Context, who Forget) error
	// Put replaces sums of the same day and names, or adds them. It is for copies.
	Put(ctx context.Context, sums []UsageSum) error
}

// Forget names the ids that [Usages.Forget] removes.
type Forget struct {
	// Roots are roots of trees. Rows of their sessions lose the ids of session, root and run.
	Roots []string
	// UserID is a user. Their rows and sums lose it, and rows of theirs the ids of session, root and run too.
	UserID string
}

// Matches reports whether a row of a root and a user loses ids.
func (f *Forget) Matches(root, user string) bool {
	return f.UserID != "" && user == f.UserID || root != "" && slices.Contains(f.Roots, root)
}

// Apply removes the ids from a row, and reports whether it changed.
func (f *Forget) Apply(r *cairn.UsageRow) bool {
	if !f.Matches(r.RootID, r.UserID) {
		return false
	}
	if r.UserID == f.UserID {
		r.UserID = ""
	}
	r.SessionID, r.RootID, r.RunID = "", "", ""
	return true
}

// Day is a day in UTC, as in 2026-11-27.
type Day = string

// DayOf returns the day of a time.
func DayOf(at time.Time) Day { return at.UTC().Format(time.DateOnly) }

// DaySpan is a span of days, both included. An empty one is unbounded.
type DaySpan struct{ From, To Day }

// Has reports whether a day is in the span.
func (s DaySpan) Has(day Day) bool { return day >= s.From && (s.To == "" || day <= s.To) }

// Keys returns the bounds of the keys of the sums of the span: from is included, before is not.
func (s DaySpan) Keys() (from, before string) {
	if s.To == "" {
		return s.From, "~"
	}
	return s.From, s.To + "!" // which follows the space after a day
}

// UsageSum is the usage of one day, session owner, agent, and kind and name of entry.
type UsageSum struct {
	Day      Day             `json:"day"`
	Tenant   string          `json:"tenant,omitempty"`
	UserID   string          `json:"user_id,omitempty"`
	Agent    string          `json:"agent"`
	Tags     []string        `json:"tags,omitempty"`
	Kind     cairn.UsageKind `json:"kind"`
	Name     string          `json:"name,omitempty"`
	Duration cairn.Duration  `json:"duration,omitempty"`
	Usage    cairn.Usage     `json:"usage"`
}

// Key identifies the sum. Keys are ordered by day.
func (s *UsageSum) Key() string {
	of := append([]string{s.Tenant, s.UserID, s.Agent, string(s.Kind), s.Name}, s.Tags...)
	return s.Day + " " + ids.Derive("usage", of...)
}

// Add adds another sum of the same key.
func (s *UsageSum) Add(other *UsageSum) {
	s.Duration += other.Duration
	s.Usage = s.Usage.Add(other.Usage)
}

// SumsOf calls visit with the sum of each entry of a row.
func SumsOf(r *cairn.UsageRow, visit func(*UsageSum)) {
	sum := UsageSum{Day: DayOf(r.At), Tenant: r.Tenant, UserID: r.UserID, Agent: r.Agent, Tags: r.Tags}
	for i := range r.Entries {
		e := &r.Entries[i]
		one := sum
		one.Kind, one.Name, one.Duration, one.Usage = e.Kind, e.Name, e.Duration, e.Usage
		visit(&one)
	}
}

// UsageRowOf returns the usage row of a commit after which a session has a row, without its time; nil for a commit that
// neither has usage nor ends a run. It is for implementers: package plan calls it.
func UsageRowOf(c *Commit, row *cairn.Session) *cairn.UsageRow {
	entries := c.UsageEntries
	ran := hasUsage(&c.Usage)
	if len(entries) == 0 && (ran || hasUsage(&c.UsageBeside)) {
		entries = []cairn.UsageEntry{{Kind: cairn.UsageUnknown, Usage: c.Usage.Add(c.UsageBeside)}}
	}
	ends := c.EndRun != nil && c.EndRun.Status != cairn.RunRunning
	if len(entries) == 0 {
		if !ends {
			return nil
		}
		entries = []cairn.UsageEntry{}
	}
	r := &cairn.UsageRow{SessionID: row.ID, RootID: row.RootID, Tenant: row.Tenant, UserID: row.UserID, Agent: row.Agent,
		Tags: row.Tags, Entries: entries}
	if ran {
		r.RunID, r.Step = row.RunID, row.Step
	} else if ends {
		r.RunID = c.EndRun.ID
	}
	return r
}

func hasUsage(u *cairn.Usage) bool {
	return u.InputTokens|u.OutputTokens|u.ReasoningTokens|u.CachedTokens|u.CacheWriteTokens|u.CacheWriteHourTokens|
		u.WebSearches|u.FileSearches|u.ModelCalls|u.DiscardedCalls|u.ToolCalls|u.ToolErrors|u.ToolCacheHits|u.WaitSeconds|
		u.SubAgentRuns|u.CostNanos|u.PricedCalls != 0 || len(u.Custom) > 0
}

// validateUsage checks the commit's usage.
func (c *Commit) validateUsage() error {
	for _, u := range []*cairn.Usage{&c.Usage, &c.UsageBeside} {
		if err := u.Validate(); err != nil {
			return err
		}
	}
	for i := range c.UsageEntries {
		if err := c.UsageEntries[i].Validate(); err != nil {
			return within("usage_entries", err)
		}
	}
	return nil
}
