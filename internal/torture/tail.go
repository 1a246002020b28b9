package torture

import (
	"fmt"
	"strings"
)

// tail returns, for debugging, the last events of a tree, the events of the runs and calls that the error names,
// and the last records of the sessions that it names.
func (t *Tree) tail(about error) string {
	const most = 100
	var b strings.Builder
	names := func(id string) bool { return id != "" && strings.Contains(about.Error(), id) }
	for i, ev := range t.Events {
		if i < len(t.Events)-most && !names(ev.RunID) && !names(ev.CallID) {
			continue
		}
		fmt.Fprintf(&b, "  %5d %s %-15s %s %s/%d %s %s %s %.60q\n", ev.Sequence, ev.Time.Format("05.000000"), ev.Type, ev.SessionID, ev.RunID, ev.Step,
			ev.CallID, ev.Tool, ev.Status, ev.Text)
	}
	for _, h := range t.Sessions {
		if !strings.Contains(about.Error(), h.Session.ID) {
			continue
		}
		fmt.Fprintf(&b, "  %+v\n", *h.Session)
		for i := range h.Runs {
			fmt.Fprintf(&b, "  run %+v\n", h.Runs[i])
		}
		for i := max(0, len(h.Messages)-30); i < len(h.Messages); i++ {
			m := &h.Messages[i]
			fmt.Fprintf(&b, "  %d %s %s %s %q", i, m.ID, m.RunID, m.Role, m.Text())
			for _, u := range m.ToolUses() {
				fmt.Fprintf(&b, " use %s %s", u.CallID, u.Tool)
			}
			for _, r := range m.ToolResults() {
				fmt.Fprintf(&b, " result %s %s %.60s", r.CallID, r.Tool, r.Output)
			}
			fmt.Fprintln(&b)
		}
		for _, r := range h.Journal[max(0, len(h.Journal)-most):] {
			fmt.Fprintf(&b, "  %+v\n", r)
		}
	}
	return b.String()
}
