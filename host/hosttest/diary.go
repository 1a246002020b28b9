package hosttest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/cairn-agents/cairn"
)

// diary records the hook calls of all processes of a scene, each until the death of its process.
type diary struct {
	mu   sync.Mutex
	list []entry
}

// entry is a call of a hook.
type entry struct {
	session string
	turn    int
	hook    string
	call    string // id of the call that the hook is about
	text    string
}

// parallel reports whether the hook may run concurrently for several calls of a step.
func (e *entry) parallel() bool {
	switch e.hook {
	case "BeforeTool", "OnStateChange", "BeforeSubAgent", "AfterSubAgent":
		return true
	}
	return false
}

// of returns the entries of a session as lines. They are sorted by turn, because on a host the hooks of a run's end
// may run while the next run begins, and within parallel calls by call.
func (d *diary) of(session string, order map[string]int) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(d.list), func(e entry) bool { return e.session != session })
	slices.SortStableFunc(list, func(a, b entry) int { return a.turn - b.turn })
	sortRuns(list, (*entry).parallel, func(e *entry) int { return order[e.call] })
	var lines []string
	for _, e := range list {
		lines = append(lines, e.text)
	}
	return lines
}

// ends counts the runs of a session whose hooks have run at their end or suspension.
func (d *diary) ends(session string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.list {
		if e.session == session && slices.Contains([]string{"RunComplete", "RunFail", "RunSuspended"}, e.hook) {
			n++
		}
	}
	return n
}

// has reports whether a hook has run for a session.
func (d *diary) has(session, hook string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.list, func(e entry) bool { return e.session == session && e.hook == hook })
}

// sortRuns sorts each unbroken sequence of parallel elements.
func sortRuns[T any](list []T, parallel func(*T) bool, place func(*T) int) {
	for i := 0; i < len(list); i++ {
		j := i
		for j < len(list) && parallel(&list[j]) {
			j++
		}
		slices.SortStableFunc(list[i:j], func(a, b T) int { return place(&a) - place(&b) })
		i = max(i, j-1)
	}
}

// writer returns a function that adds entries while alive reports true.
func (d *diary) writer(who string, alive func() bool) func(s *cairn.Step, hook, call, format string, args ...any) {
	return func(s *cairn.Step, hook, call, format string, args ...any) {
		if !alive() {
			return
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		text := strings.TrimSpace(who + " " + hook + " " + fmt.Sprintf(format, args...))
		d.list = append(d.list, entry{s.SessionID, s.Turn, hook, call, text})
	}
}

// hooks returns hooks that record every call in the diary under the name who.
func (d *diary) hooks(who string, alive func() bool) *cairn.Hooks {
	add := d.writer(who, alive)
	step := func(s *cairn.Step, hook, format string, args ...any) { add(s, hook, "", format, args...) }
	call := func(c *cairn.Call, hook, format string, args ...any) {
		add(c.Step, hook, c.ID, "%s %s", c.ID, fmt.Sprintf(format, args...))
	}
	return &cairn.Hooks{
		RunStart: func(_ context.Context, s *cairn.Step) { step(s, "RunStart", "turn %d", s.Turn) },
		RunResumed: func(_ context.Context, s *cairn.Step, previous string) {
			step(s, "RunResumed", "turn %d after %s", s.Turn, previous)
		},
		RunComplete: func(_ context.Context, s *cairn.Step, r *cairn.Result) {
			step(s, "RunComplete", "%s %q", r.Reason, r.Text)
		},
		RunFail: func(_ context.Context, s *cairn.Step, r *cairn.Result) { step(s, "RunFail", "%s", r.Error.Code) },
		RunInterrupt: func(_ context.Context, s *cairn.Step, r *cairn.Result) {
			step(s, "RunInterrupt", "%s %q", r.Reason, r.StopReason)
		},
		RunSuspended: func(_ context.Context, s *cairn.Step, r *cairn.Result) {
			step(s, "RunSuspended", "%s for %d calls, %d children", r.Status, len(r.Suspended.Calls), len(r.Suspended.Children))
		},
		StepContext: func(_ context.Context, s *cairn.Step) ([]string, error) {
			step(s, "StepContext", "%d", s.Number)
			return nil, nil
		},
		BeforeModel: func(_ context.Context, s *cairn.Step, req *cairn.Request) error {
			step(s, "BeforeModel", "%d with %d messages", s.Number, len(req.Messages))
			return nil
		},
		AfterModel: func(_ context.Context, s *cairn.Step, m *cairn.Message, u cairn.Usage) {
			step(s, "AfterModel", "%d %q, %d tokens", s.Number, m.Text(), u.OutputTokens)
		},
		TextDelta: func(_ context.Context, s *cairn.Step, text string) { step(s, "TextDelta", "%d %q", s.Number, text) },
		BeforeTool: func(_ context.Context, c *cairn.Call) error {
			call(c, "BeforeTool", "%s", c.Input)
			return nil
		},
		OnStateChange: func(_ context.Context, c *cairn.Call, ops []cairn.Op) {
			call(c, "OnStateChange", "%s %s", ops[0].Kind, ops[0].Path)
		},
		OnMessage: func(_ context.Context, s *cairn.Step, m *cairn.Message) {
			if m.Role == cairn.RoleTool {
				step(s, "OnMessage", "%d result of %s", s.Number, m.Parts[0].Result.CallID)
			} else {
				step(s, "OnMessage", "%d %s", s.Number, m.Role)
			}
		},
		AfterTool: func(_ context.Context, c *cairn.Call, r *cairn.ToolResult) {
			call(c, "AfterTool", "%s", brief(r.Output))
		},
		BeforeSubAgent: func(_ context.Context, c *cairn.Call, agent string) error {
			call(c, "BeforeSubAgent", "%s", agent)
			return nil
		},
		AfterSubAgent: func(_ context.Context, c *cairn.Call, agent string, r *cairn.ToolResult) {
			call(c, "AfterSubAgent", "%s %s", agent, brief(r.Output))
		},
	}
}
