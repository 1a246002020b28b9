package hosttest

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// readUsage gives each session of the tree its usage rows, if the store keeps them.
func (t *tree) readUsage(ctx context.Context, st driver.Store) error {
	p, ok := driver.As[driver.UsageProvider](st)
	if !ok {
		return nil
	}
	rows, err := pages(func(cursor string) (driver.Page[cairn.UsageRow], error) {
		return p.Usages().Rows(ctx, driver.PageQuery{Cursor: cursor})
	})
	if err != nil {
		return err
	}
	for _, r := range t.sessions {
		r.metered = true
		for i := range rows {
			if rows[i].SessionID == r.row.ID && rows[i].RootID == r.row.RootID {
				r.usage = append(r.usage, rows[i])
			}
		}
	}
	return nil
}

// unmetered finds counters of the session and its runs that differ from the sums of its usage rows.
func (r *record) unmetered() (problems []string) {
	if !r.metered {
		return nil
	}
	var session cairn.Usage
	runs := map[string]cairn.Usage{}
	for i := range r.usage {
		sum := r.usage[i].Usage()
		session, runs[r.usage[i].RunID] = session.Add(sum), runs[r.usage[i].RunID].Add(sum)
		for _, e := range r.usage[i].Entries {
			if e.Kind == cairn.UsageUnknown {
				problems = append(problems, fmt.Sprintf("usage of step %d of run %s is of an unknown kind", r.usage[i].Step, r.usage[i].RunID))
			}
		}
	}
	compare := func(what string, counter, rows cairn.Usage) {
		if a, b := usageText(counter), usageText(rows); a != b {
			problems = append(problems, fmt.Sprintf("%s counts %s, the usage rows %s", what, a, b))
		}
	}
	compare("the row", r.row.Usage, session)
	for i := range r.runs {
		run := &r.runs[i]
		counter := run.Usage
		if run.ID == r.row.RunID {
			counter = r.row.RunUsage
		}
		compare("run "+run.ID, counter, runs[run.ID])
	}
	return problems
}

// usageText returns usage as JSON. The order in which custom amounts were added does not matter.
func usageText(u cairn.Usage) string {
	custom := map[string]float64{}
	for name, n := range u.Custom {
		custom[name] = math.Round(n*1e6) / 1e6
	}
	u.Custom = custom
	raw, _ := json.Marshal(u) // numbers, all finite
	return string(raw)
}
