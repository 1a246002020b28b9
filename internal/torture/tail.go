package torture

import (
	"fmt"
	"strings"
)

// tail returns, for debugging, the last events of a tree, the events of the runs and calls that the error names,
// the last records of the sessions that it names, and the records of the effects that it names.
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
		keys := map[string]bool{}
		for i := range h.Calls {
			if c := &h.Calls[i]; c.Effect != nil && names(c.ID) {
				keys[c.Effect.Key] = true
				fmt.Fprintf(&b, "  %+v %+v\n", *c, *c.Effect)
			}
		}
		for i, r := range h.Journal {
			if i >= len(h.Journal)-most || keys[r.Key] {
				fmt.Fprintf(&b, "  %+v\n", r)
			}
		}
	}
	return b.String()
}
