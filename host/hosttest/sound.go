package hosttest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/turn/transcript"
	"github.com/cairn-agents/cairn/store/driver"
)

// Unsound lists the inconsistencies of a session's tree that no process drives. The transcripts, runs, pending calls
// and log of any tree must be consistent.
func Unsound(ctx context.Context, st driver.Store, log driver.Log, session string) ([]string, error) {
	t, err := treeOf(ctx, st, log, session)
	if err != nil {
		return nil, err
	}
	return t.unsound(), nil
}

func (t *tree) unsound() []string {
	problems := gaps(t.events)
	for _, r := range t.sessions {
		for _, problem := range slices.Concat(r.unanswered(), r.unpublished(), r.unheard(), r.miscounted(), r.misplaced(), t.unaccounted(r), t.strayed(r), r.unread(), r.unmetered(), r.mistrusted()) {
			problems = append(problems, "session "+r.row.ID+": "+problem)
		}
	}
	return problems
}

// mistrusted finds a taint on the row that differs from that of the transcript.
func (r *record) mistrusted() (problems []string) {
	var index transcript.Index
	for i := range r.messages {
		index.Add(&r.messages[i])
	}
	if index.Tainted() != r.row.Tainted {
		problems = append(problems, fmt.Sprintf("the row says tainted %t, and the transcript %t", r.row.Tainted, index.Tainted()))
	}
	return problems
}

// gaps finds events whose sequence does not follow that of the previous event.
func gaps(events []cairn.Event) (problems []string) {
	for i := range events {
		if events[i].Sequence != int64(i)+1 {
			problems = append(problems, fmt.Sprintf("event %d has sequence %d", i+1, events[i].Sequence))
		}
	}
	return problems
}

// unanswered finds repeated messages and calls, and tool uses that do not have exactly one result before the next
// reply. In a suspended session, tool uses of the last reply may have none.
func (r *record) unanswered() (problems []string) {
	ids, calls := map[string]bool{}, map[string]bool{}
	for i := range r.messages {
		m := &r.messages[i]
		if m.ID == "" || ids[m.ID] {
			problems = append(problems, fmt.Sprintf("message id %q is empty or repeated", m.ID))
		}
		ids[m.ID] = true
		asked := map[string]int{}
		for _, use := range m.ToolUses() {
			if calls[use.CallID] {
				problems = append(problems, fmt.Sprintf("call id %q is repeated", use.CallID))
			}
			calls[use.CallID] = true
			asked[use.CallID] = 0
		}
		if m.Role != cairn.RoleAssistant {
			continue
		}
		j := i + 1
		for ; j < len(r.messages) && r.messages[j].Role != cairn.RoleAssistant; j++ {
			for _, result := range r.messages[j].ToolResults() {
				asked[result.CallID]++
			}
		}
		waits := j == len(r.messages) && r.row.Status == cairn.SessionPaused
		for _, id := range slices.Sorted(maps.Keys(asked)) {
			if n := asked[id]; !calls[id] || n > 1 || n == 0 && !waits {
				problems = append(problems, fmt.Sprintf("message %s: call %s has %d results", m.ID, id, n))
			}
		}
	}
	return problems
}

// inherited returns the number of messages before the session's first run: those of the session it branched from.
func (r *record) inherited() int {
	if len(r.runs) == 0 {
		return len(r.messages)
	}
	return r.runs[0].FirstMessage
}

// open lists the tool uses of the transcript that have no result.
func (r *record) open() []string {
	list := map[string]bool{}
	for i := range r.messages {
		for _, use := range r.messages[i].ToolUses() {
			list[use.CallID] = true
		}
		for _, result := range r.messages[i].ToolResults() {
			delete(list, result.CallID)
		}
	}
	return slices.Sorted(maps.Keys(list))
}

// unpublished finds runs whose begin, steps and end are not on the log exactly once each.
func (r *record) unpublished() (problems []string) {
	marks := map[string]int{}
	for i := range r.events {
		ev := &r.events[i]
		switch ev.Type {
		case cairn.EventRunStart, cairn.EventRunResumed:
			marks[ev.RunID+" begin"]++
		case cairn.EventStepCommitted:
			marks[fmt.Sprint(ev.RunID, " step ", ev.Step)]++
		case cairn.EventRunEnd:
			marks[fmt.Sprint(ev.RunID, " end ", ev.Status, " ", ev.Reason)]++
		}
	}
	want := map[string]int{}
	for i := range r.runs {
		run := &r.runs[i]
		if run.Turn != i+1 {
			problems = append(problems, fmt.Sprintf("run %d has turn %d", i+1, run.Turn))
		}
		if run.Status == cairn.RunRunning {
			problems = append(problems, fmt.Sprintf("run %s is still running", run.ID))
		}
		want[run.ID+" begin"]++
		want[fmt.Sprint(run.ID, " end ", run.Status, " ", run.Reason)]++
		for n := range run.Steps {
			want[fmt.Sprint(run.ID, " step ", n+1)]++
		}
	}
	for _, mark := range slices.Sorted(maps.Keys(want)) {
		if marks[mark] != want[mark] {
			problems = append(problems, fmt.Sprintf("the log has %d times %s", marks[mark], mark))
		}
		delete(marks, mark)
	}
	for _, mark := range slices.Sorted(maps.Keys(marks)) {
		if strings.Contains(mark, fmt.Sprint(" end ", cairn.RunSuspended)) && marks[mark] == 1 { // a stop ended the suspension
			continue
		}
		problems = append(problems, "the log has "+mark+", which did not happen")
	}
	return problems
}

// unheard finds replies whose text on the log, without discarded steps, differs from the transcript.
func (r *record) unheard() (problems []string) {
	said := map[string]string{}
	for _, ev := range kept(r.events) {
		if ev.Type == cairn.EventTextDelta {
			said[fmt.Sprintf("%s/%d", ev.RunID, ev.Step)] += ev.Text
		}
	}
	for i := range r.messages {
		m := &r.messages[i]
		step, ok := strings.CutSuffix(m.ID, "/reply")
		if !ok || i < r.inherited() {
			continue
		}
		if said[step] != m.Text() {
			problems = append(problems, fmt.Sprintf("of step %s a reader saw %q, the transcript has %q", step, said[step], m.Text()))
		}
		delete(said, step)
	}
	for _, step := range slices.Sorted(maps.Keys(said)) {
		if said[step] != "" && r.row.Epoch == 0 { // otherwise the transcript was rewound
			problems = append(problems, fmt.Sprintf("a reader saw %q of step %s, which is not in the transcript", said[step], step))
		}
	}
	return problems
}

// miscounted finds inconsistencies in the session's row.
func (r *record) miscounted() (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	row := r.row
	if row.MessageCount != len(r.messages) || row.Turn != len(r.runs) {
		say("the row counts %d messages and %d turns, there are %d and %d", row.MessageCount, row.Turn, len(r.messages), len(r.runs))
	}
	if row.Status == cairn.SessionActive {
		say("it is still active")
	} else if row.Lease.Owner != "" && row.Lease.Until.After(row.UpdatedAt) { // a late heartbeat sets Until alone
		say("no process drives it, but %s holds its lease", row.Lease.Owner)
	}
	if len(r.staged) > 0 {
		say("%d pieces are still staged", len(r.staged))
	}
	if n := len(r.runs); n > 0 && row.Epoch == 0 && (row.Status == cairn.SessionPaused) != (r.runs[n-1].Status == cairn.RunSuspended) {
		say("it is %s, its last run %s", row.Status, r.runs[n-1].Status)
	}
	paused := row.Status == cairn.SessionPaused
	if paused != (row.SuspendedStep != "") || !paused && (row.OpenCalls != 0 || !row.NextDeadline.IsZero()) {
		say("it is %s, but step %q has %d pending calls until %s", row.Status, row.SuspendedStep, row.OpenCalls, row.NextDeadline)
	}
	return problems
}

// unread finds messages that a reader of the whole log lacks.
func (r *record) unread() (problems []string) {
	had, want := Fold(r.row.ID, r.messages[:r.inherited()], r.events), Lines(r.messages)
	for i := range max(len(had), len(want)) {
		at := func(list []string) string {
			if i < len(list) {
				return list[i]
			}
			return "nothing"
		}
		if at(had) != at(want) {
			problems = append(problems, fmt.Sprintf("as message %d a reader has %s, the transcript %s", i, at(had), at(want)))
		}
	}
	return problems
}

// misplaced finds summaries that stand for later messages, and a row that does not name the latest summary.
func (r *record) misplaced() (problems []string) {
	var last cairn.SummaryPlace
	for i := range r.messages {
		if s := r.messages[i].Summary; s != nil {
			if last = (cairn.SummaryPlace{At: i, From: s.From}); s.From < 1 || s.From > i {
				problems = append(problems, fmt.Sprintf("message %d is a summary of those up to %d", i, s.From))
			}
		}
	}
	if r.row.Summary != last {
		problems = append(problems, fmt.Sprintf("the row has the latest summary at %+v, the transcript at %+v", r.row.Summary, last))
	}
	return problems
}

// unaccounted finds pending calls that do not match the transcript, the row or the log.
func (t *tree) unaccounted(r *record) (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	without := r.open()
	waiting, rows := 0, map[string]bool{}
	var next time.Time
	for i := range r.calls {
		c := &r.calls[i]
		rows[c.ID] = true
		hasResult := c.Kind == cairn.CallBudget && c.Status != cairn.CallOpen && c.Status != cairn.CallAnswered ||
			c.Kind != cairn.CallBudget && !slices.Contains(without, cmp.Or(c.ToolCallID, c.ID))
		switch c.Status {
		case cairn.CallOpen:
			waiting++
			if !c.Deadline.IsZero() && (next.IsZero() || c.Deadline.Before(next)) {
				next = c.Deadline
			}
			fallthrough
		case cairn.CallAnswered:
			if hasResult || c.StepID != r.row.SuspendedStep {
				say("call %s is %s, but its step %s is not suspended for it", c.ID, c.Status, c.StepID)
			}
		case cairn.CallSettled, cairn.CallDropped:
			if !hasResult {
				say("call %s is %s, but has no result", c.ID, c.Status)
			}
		}
		if c.Kind == cairn.CallEffect {
			problems = append(problems, t.unledgered(c)...)
			continue
		}
		if (c.Answer == nil) != (c.Status == cairn.CallOpen || c.Status == cairn.CallDropped && c.Answer == nil) {
			say("call %s is %s, its answer is %v", c.ID, c.Status, c.Answer)
		}
		if n := len(c.Trail); c.Answer != nil && n == 0 {
			say("call %s has an answer, but no trail", c.ID)
		}
		// A branch has decided calls of the session that it left.
		own := slices.ContainsFunc(r.runs, func(run cairn.Run) bool { return run.ID == c.RunID })
		if asked := t.asked(c); own && asked != 1 {
			say("the log asks %d times for an answer to call %s", asked, c.ID)
		}
	}
	if n := len(r.runs); n > 0 && r.row.Status == cairn.SessionPaused && r.runs[n-1].Suspended != nil {
		for _, c := range r.runs[n-1].Suspended.Children {
			if !c.Deadline.IsZero() && (next.IsZero() || c.Deadline.Before(next)) {
				next = c.Deadline
			}
		}
	}
	for _, child := range t.sessions {
		if child.row.ParentID == r.row.ID && child.row.Kind == cairn.ChildSubAgent && child.row.Status == cairn.SessionPaused {
			waiting++
		}
	}
	if r.row.Status == cairn.SessionPaused && r.row.OpenCalls > waiting {
		say("the row counts %d open calls, there are %d", r.row.OpenCalls, waiting)
	}
	if !r.row.NextDeadline.Equal(next) {
		say("the row's next deadline is %s, that of its calls and children %s", r.row.NextDeadline, next)
	}
	return problems
}

// unledgered finds what is wrong with a row of the ledger of effects.
func (t *tree) unledgered(c *cairn.PendingCall) (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if c.Effect == nil || c.Effect.Key == "" || c.Effect.Attempts == 0 || c.Effect.SentAt.IsZero() || c.ToolCallID == "" {
		return []string{fmt.Sprintf("the ledger's row %s is incomplete: %+v", c.ID, c.Effect)}
	}
	known := c.Effect.State == cairn.EffectConfirmed || c.Effect.State == cairn.EffectFailed
	if !known && c.Effect.State != cairn.EffectUnknown || known != (c.Status == cairn.CallSettled) {
		say("the effect %s is %s, but its row is %s", c.ID, c.Effect.State, c.Status)
	}
	if asked := t.asked(c); asked == 0 && (c.Answer != nil || c.Status == cairn.CallOpen) {
		say("the log does not ask for the outcome of effect %s", c.ID)
	}
	return problems
}

// asked counts how often the log asks for an answer to a call.
func (t *tree) asked(c *cairn.PendingCall) (n int) {
	for i := range t.events {
		ev := &t.events[i]
		if ev.CallID == c.ID && ev.ApprovalID == c.ApprovalID && (ev.Type == cairn.EventToolPending || ev.Type == cairn.EventToolApproval) {
			n++
		}
	}
	return n
}

// strayed finds results that are not on the log exactly once, and events of a sub-agent outside of the call that
// consulted it.
func (t *tree) strayed(r *record) (problems []string) {
	ends, begun, waiting := map[string]int{}, map[string]int{}, r.open()
	for _, ev := range kept(r.events) {
		switch ev.Type {
		case cairn.EventToolEnd:
			ends[ev.CallID]++
		case cairn.EventSubagentStart:
			begun[ev.ChildID]++
		case cairn.EventSubagentEnd:
			if begun[ev.ChildID] == 0 {
				problems = append(problems, fmt.Sprintf("the log has the end of %s, but not its beginning", ev.ChildID))
			}
		}
	}
	for i := range r.messages {
		for _, use := range r.messages[i].ToolUses() {
			n, again := ends[use.CallID], r.row.Epoch > 0 // a rewound call may have had the same id
			if i >= r.inherited() && n != 1 && !(again && n > 1) && !slices.Contains(waiting, use.CallID) {
				problems = append(problems, fmt.Sprintf("the log has %d times the end of call %s", n, use.CallID))
			}
		}
	}
	for _, child := range t.sessions {
		if child.row.ParentID == r.row.ID && child.row.Kind == cairn.ChildSubAgent {
			problems = append(problems, t.outside(r.row.ID, child.row.ID)...)
			if n := begun[child.row.ID]; n > 1 {
				problems = append(problems, fmt.Sprintf("the log has %d times the beginning of %s", n, child.row.ID))
			}
		}
	}
	return problems
}

// kept returns the events that a reader keeps after dropping discarded steps.
func kept(events []cairn.Event) (left []cairn.Event) {
	for _, ev := range events {
		if ev.Type == cairn.EventStepDiscarded {
			left = slices.DeleteFunc(left, func(e cairn.Event) bool { return ev.Voids(&e) })
			continue
		}
		left = append(left, ev)
	}
	return left
}

// outside finds events of a child before the call that consulted it began, or after that call ended. It also finds
// what the child begins while, according to the log, its parent is still suspended. A child of a discarded step is
// exempt from that: its process died, and the lease with which it began must lapse before the end of its run is
// published.
func (t *tree) outside(parent, child string) (problems []string) {
	began, ended, waits := false, false, false
	var by *cairn.Event // the event with which the call began; nil if it was discarded
	for i := range t.events {
		ev := &t.events[i]
		switch {
		case ev.SessionID == parent && (ev.Type == cairn.EventRunStart || ev.Type == cairn.EventRunResumed):
			waits = false
		case ev.SessionID == parent && ev.Type == cairn.EventRunEnd:
			waits = ev.Status == cairn.RunSuspended
		case by != nil && by.SessionID == parent && ev.Voids(by):
			by = nil
		case ev.Type == cairn.EventSubagentStart && ev.ChildID == child:
			by, began, ended = ev, true, false
		case ev.Type == cairn.EventSubagentEnd && ev.ChildID == child:
			ended = true
		case ev.SessionID == child && ev.RunID != "" && (!began || ended): // a verb needs no run
			problems = append(problems, fmt.Sprintf("%s of %s is outside of the call that consulted it", ev.Type, child))
		case ev.SessionID == child && waits && by != nil && begins(ev):
			problems = append(problems, fmt.Sprintf("%s of %s comes before its parent resumes", ev.Type, child))
		}
	}
	return problems
}

// begins reports whether an event marks a beginning.
func begins(ev *cairn.Event) bool {
	switch ev.Type {
	case cairn.EventRunStart, cairn.EventRunResumed, cairn.EventStepStart, cairn.EventToolStart, cairn.EventSubagentStart:
		return true
	}
	return false
}
