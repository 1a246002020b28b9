package engine

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store"
	"github.com/cairn-agents/cairn/store/driver"
)

// UsageDimension is a property by which [Engine.Usage] groups usage.
type UsageDimension string

// The dimensions of usage.
const (
	UsageByDay    UsageDimension = "day"
	UsageByTenant UsageDimension = "tenant"
	UsageByUser   UsageDimension = "user"
	UsageByAgent  UsageDimension = "agent"
	// UsageByModel leaves out the usage of tools, waits and custom amounts, unless UsageByTool is there as well.
	UsageByModel UsageDimension = "model"
	// UsageByTool leaves out the usage of models and custom amounts, unless UsageByModel is there as well. A call that
	// ran an agent has the agent's name.
	UsageByTool UsageDimension = "tool"
	// UsageByTag counts the usage of a session with several tags once for each.
	UsageByTag UsageDimension = "tag"
)

var usageDimensions = []UsageDimension{UsageByDay, UsageByTenant, UsageByUser, UsageByAgent, UsageByModel, UsageByTool, UsageByTag}

// UsageQuery selects and groups usage. The zero value is the sum of all.
type UsageQuery struct {
	// By are the dimensions of the groups; nil means one group.
	By []UsageDimension
	// From and To are the first and the last day, in UTC, as in 2026-11-27; empty for no bound.
	From, To string
	// Tenant selects the sessions of a tenant; an empty one those without a tenant. nil means all.
	Tenant *string
	// UserID, Agent, Tag, Model and Tool select usage; empty means all.
	UserID, Agent, Tag, Model, Tool string
	// Cursor is the Next of the previous page; empty for the first one. Limit is the page's size, at most 1000; 0 means
	// 100.
	Cursor string
	Limit  int
}

// UsageGroup is the usage that has the same values of a query's dimensions.
type UsageGroup struct {
	// Day, Tenant, UserID, Agent, Model, Tool and Tag are the group's values of the query's dimensions. One that is
	// empty although the query has the dimension means usage without it, such as the usage of sessions without a user.
	// Model is UnknownModel for usage without entries.
	Day    string `json:"day,omitempty"`
	Tenant string `json:"tenant,omitempty"`
	UserID string `json:"user_id,omitempty"`
	Agent  string `json:"agent,omitempty"`
	Model  string `json:"model,omitempty"`
	Tool   string `json:"tool,omitempty"`
	Tag    string `json:"tag,omitempty"`
	// Duration is how long the model calls and the tools of the group took together, as far as it is known.
	Duration cairn.Duration `json:"duration"`
	// Usage is the sum of the group's usage, with discarded model calls.
	Usage cairn.Usage `json:"usage"`
	// Cost is the cost of the model calls, see [cairn.Usage.Cost].
	Cost string `json:"cost"`
}

// UnknownModel is the model of usage without entries, see [cairn.UsageUnknown].
const UnknownModel = "unknown"

// Usage returns usage across sessions, by day and other dimensions. It covers each commit up to the call, whether or not
// a worker has folded its row, of removed and erased sessions too; an erased user's usage has no user. The steps of an
// imported session that another store has committed count there. The groups are in the order of their values, day first.
//
// Usage reads the sums of the selected days and the rows that are not folded, which a Sweep folds: its cost grows with
// both. Each page is a read of its own. The error is ErrInvalid for an unknown dimension, an invalid day, or a store
// that keeps no usage.
func (e *Engine) Usage(ctx context.Context, q UsageQuery) (store.Page[UsageGroup], error) {
	var page store.Page[UsageGroup]
	from, err := q.validate()
	if err != nil {
		return page, err
	}
	p, ok := driver.As[driver.UsageProvider](e.store)
	if !ok {
		return page, cairn.Invalid("store", "%T keeps no usage: it is not a store.UsageProvider", e.store)
	}
	groups := map[[7]string]*UsageGroup{}
	err = p.Usages().Sums(ctx, driver.DaySpan{From: q.From, To: q.To}, func() { clear(groups) }, func(sum *driver.UsageSum) {
		for _, of := range q.groupsOf(sum) {
			g := groups[of.values()]
			if g == nil {
				g = &of
				groups[of.values()] = g
			}
			g.Duration += sum.Duration
			g.Usage = g.Usage.Add(sum.Usage)
		}
	})
	if err != nil {
		return page, err
	}
	list := make([]*UsageGroup, 0, len(groups))
	for _, g := range groups {
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b *UsageGroup) int {
		x, y := a.values(), b.values()
		return slices.Compare(x[:], y[:])
	})
	size := driver.PageSize(q.Limit)
	for _, g := range list[min(from, int64(len(list))):] {
		if len(page.Items) == size {
			page.Next = strconv.FormatInt(from+int64(size), 10)
			break
		}
		g.Cost = g.Usage.Cost()
		page.Items = append(page.Items, *g)
	}
	return page, nil
}

// UsageRows pages through the usage rows of all sessions, oldest first. A reader that remembers the cursor of the last full
// page, and reads again from there, finds each session that has a new step or the end of a run. Rows of concurrent commits
// may become visible a moment later than rows after them. q.Newest is ignored. The error is ErrInvalid for a store that
// keeps no usage.
func (e *Engine) UsageRows(ctx context.Context, q store.PageQuery) (page store.Page[cairn.UsageRow], err error) {
	p, ok := driver.As[driver.UsageProvider](e.store)
	if !ok {
		return page, cairn.Invalid("store", "%T keeps no usage: it is not a store.UsageProvider", e.store)
	}
	return p.Usages().Rows(ctx, q)
}

// values returns the group's values of all dimensions, in their order.
func (g *UsageGroup) values() [7]string {
	return [...]string{g.Day, g.Tenant, g.UserID, g.Agent, g.Model, g.Tool, g.Tag}
}

// validate reports the first mistake, and returns the number of the first group.
func (q *UsageQuery) validate() (from int64, err error) {
	for _, by := range q.By {
		if !slices.Contains(usageDimensions, by) {
			return 0, cairn.Invalid("by", "unknown dimension %q", by)
		}
	}
	for _, day := range [][2]string{{"from", q.From}, {"to", q.To}} {
		if _, err := time.Parse(time.DateOnly, day[1]); err != nil && day[1] != "" {
			return 0, cairn.Invalid(day[0], "%q is not a day, as in 2026-11-27", day[1])
		}
	}
	return driver.NumberCursor(q.Cursor)
}

// selects reports whether a sum is part of the query's usage.
func (q *UsageQuery) selects(sum *driver.UsageSum) bool {
	is := func(want, value string) bool { return want == "" || want == value }
	model, tool := names(sum)
	switch sum.Kind {
	case cairn.UsageModel, cairn.UsageUnknown:
		if q.by(UsageByTool) && !q.by(UsageByModel) {
			return false
		}
	case cairn.UsageCustom:
		if q.by(UsageByTool) != q.by(UsageByModel) {
			return false
		}
	default:
		if q.by(UsageByModel) && !q.by(UsageByTool) {
			return false
		}
	}
	return (q.Tenant == nil || *q.Tenant == sum.Tenant) && is(q.UserID, sum.UserID) && is(q.Agent, sum.Agent) && is(q.Model, model) &&
		is(q.Tool, tool) && (q.Tag == "" || slices.Contains(sum.Tags, q.Tag))
}

// names returns the model and the tool of a sum; each is empty for a sum without one.
func names(sum *driver.UsageSum) (model, tool string) {
	switch sum.Kind {
	case cairn.UsageModel:
		return sum.Name, ""
	case cairn.UsageUnknown:
		return UnknownModel, ""
	case cairn.UsageTool, cairn.UsageAgent, cairn.UsageWait:
		return "", sum.Name
	}
	return "", ""
}

func (q *UsageQuery) by(d UsageDimension) bool { return slices.Contains(q.By, d) }

// groupsOf returns the groups that a sum belongs to, without its usage: several only by tag.
func (q *UsageQuery) groupsOf(sum *driver.UsageSum) []UsageGroup {
	if !q.selects(sum) {
		return nil
	}
	var g UsageGroup
	model, tool := names(sum)
	set := func(d UsageDimension, field *string, value string) {
		if q.by(d) {
			*field = value
		}
	}
	set(UsageByDay, &g.Day, sum.Day)
	set(UsageByTenant, &g.Tenant, sum.Tenant)
	set(UsageByUser, &g.UserID, sum.UserID)
	set(UsageByAgent, &g.Agent, sum.Agent)
	set(UsageByModel, &g.Model, model)
	set(UsageByTool, &g.Tool, tool)
	if !q.by(UsageByTag) || len(sum.Tags) == 0 {
		return []UsageGroup{g}
	}
	var list []UsageGroup
	for _, tag := range sum.Tags {
		if g.Tag = tag; q.Tag == "" || q.Tag == tag {
			list = append(list, g)
		}
	}
	return list
}
