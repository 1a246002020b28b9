package hosttest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/store/driver"
)

// Describe describes all that a session's tree left behind: each session's row, transcript, state, runs, checkpoints,
// pending calls and events. It normalizes the differences between two plays of a conversation: times are omitted,
// generated identifiers become names such as run1 and call2, numbered by first appearance, and events of parallel calls
// are sorted by call.
func Describe(ctx context.Context, st driver.Store, log driver.Log, session string) (string, error) {
	t, err := treeOf(ctx, st, log, session)
	if err != nil {
		return "", err
	}
	return named(t.describe(nil)), nil
}

// madeID matches identifiers that are random or derived from random ones.
var madeID = regexp.MustCompile(`\b(run|cp|call|question|effect|budget|child|approval|msg|answer|secret|engine)_[a-z2-7]{26}`)

// moment matches a time in an error's message.
var moment = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// named replaces identifiers with names, and omits times.
func named(text string) string {
	text = moment.ReplaceAllString(text, "…")
	names, counts := map[string]string{}, map[string]int{}
	return madeID.ReplaceAllStringFunc(text, func(id string) string {
		if _, ok := names[id]; !ok {
			kind, _, _ := strings.Cut(id, "_")
			counts[kind]++
			names[id] = kind + strconv.Itoa(counts[kind])
		}
		return names[id]
	})
}

func (t *tree) describe(d *diary) string {
	var b strings.Builder
	for _, r := range t.sessions {
		describeSession(&b, r.row)
		section(&b, "transcript", r.messages, messageLine)
		fmt.Fprintf(&b, "state: %s\n", r.state)
		section(&b, "runs", r.runs, runLine)
		section(&b, "checkpoints", r.checkpoints, func(cp *cairn.Checkpoint) string {
			return fmt.Sprintf("%d after %s: %d messages", cp.Number, cp.StepID, cp.MessageCount)
		})
		section(&b, "calls", r.calls, callLine)
		section(&b, "staged", r.staged, func(s *driver.Staged) string { return s.StepID + " " + s.Key })
		section(&b, "events", t.settled(r.events), eventLine)
		if d != nil {
			section(&b, "hooks", d.of(r.row.ID, t.order), func(line *string) string { return *line })
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}

func section[T any](b *strings.Builder, name string, list []T, line func(*T) string) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(b, "%s:\n", name)
	for i := range list {
		fmt.Fprintf(b, "  %s\n", line(&list[i]))
	}
}

func describeSession(b *strings.Builder, row *cairn.Session) {
	fmt.Fprintf(b, "== %s of %s", row.ID, row.Agent)
	if row.ParentID != "" {
		fmt.Fprintf(b, ", child of %s", row.ParentID)
	}
	fmt.Fprintf(b, ": %s", row.Status)
	if row.SuspendedStep != "" {
		fmt.Fprintf(b, ", step %s waits for %d", row.SuspendedStep, row.OpenCalls)
	}
	if !row.NextDeadline.IsZero() {
		fmt.Fprintf(b, ", with a deadline")
	}
	if row.Queued > 0 {
		fmt.Fprintf(b, ", %d turns queued", row.Queued)
	}
	fmt.Fprintln(b)
}

func messageLine(m *cairn.Message) string {
	var b strings.Builder
	who := string(m.Role)
	switch {
	case m.Summary != nil:
		who = fmt.Sprintf("summary up to %d", m.Summary.From)
	case m.LeftOut != nil:
		who = fmt.Sprintf("files %v left out for %s", m.LeftOut.Files, m.LeftOut.Model)
	case m.Hidden:
		who = "context"
	}
	fmt.Fprintf(&b, "%s", who)
	for _, p := range m.Parts {
		switch p.Type {
		case cairn.PartText:
			fmt.Fprintf(&b, " %q", p.Text)
			if m.Summary != nil && p.Provider != nil {
				fmt.Fprintf(&b, " and %s's %s", p.Model, p.Provider)
			}
		case cairn.PartReasoning:
			fmt.Fprintf(&b, " thinking %q", p.Text)
		case cairn.PartToolUse:
			fmt.Fprintf(&b, " %s(%s)#%s", p.ToolUse.Tool, p.ToolUse.Input, p.ToolUse.CallID)
			if p.ToolUse.Deferred {
				b.WriteString(" deferred")
			}
		case cairn.PartToolResult:
			fmt.Fprintf(&b, " #%s=%s", p.Result.CallID, brief(p.Result.Output))
			if p.Result.IsError {
				fmt.Fprintf(&b, " (%s)", p.Result.Code)
			}
			if p.Result.Edited != nil {
				fmt.Fprintf(&b, " of %s", p.Result.Edited)
			}
		case cairn.PartProvider:
			fmt.Fprintf(&b, " %s's %s", p.Model, p.Provider)
		case cairn.PartFile:
			fmt.Fprintf(&b, " file %s", p.File.Name)
		}
		describeSources(&b, p.Sources)
	}
	return b.String()
}

func runLine(r *cairn.Run) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s %s: %s", r.Turn, r.ID, r.Kind, r.Status)
	if r.Reason != "" {
		fmt.Fprintf(&b, ", %s", r.Reason)
	}
	fmt.Fprintf(&b, ", %d steps, %d model calls, %d tool calls", r.Steps, r.Usage.ModelCalls, r.Usage.ToolCalls)
	if r.Usage.ToolErrors > 0 {
		fmt.Fprintf(&b, " of which %d failed", r.Usage.ToolErrors)
	}
	if r.Usage.ToolCacheHits > 0 {
		fmt.Fprintf(&b, " and %d cached", r.Usage.ToolCacheHits)
	}
	if r.Usage.SubAgentRuns > 0 {
		fmt.Fprintf(&b, ", %d sub-agents", r.Usage.SubAgentRuns)
	}
	if r.Text != "" {
		fmt.Fprintf(&b, ", text %q", r.Text)
	}
	if r.Output != nil {
		fmt.Fprintf(&b, ", output %s", r.Output)
	}
	if r.Model != "" {
		fmt.Fprintf(&b, ", model %q", r.Model)
	}
	if r.PreviousRunID != "" {
		fmt.Fprintf(&b, ", after %s", r.PreviousRunID)
	}
	if len(r.RolledBack) > 0 {
		fmt.Fprintf(&b, ", rolled back %s", strings.Join(r.RolledBack, " "))
	}
	if s := r.Suspended; s != nil {
		fmt.Fprintf(&b, ", step %s waits for", s.StepID)
		for _, c := range s.Calls {
			fmt.Fprintf(&b, " %s", c.ID)
		}
		for _, c := range s.Children {
			fmt.Fprintf(&b, " %s", c.SessionID)
		}
	}
	if r.Error != nil {
		fmt.Fprintf(&b, ", error %s: %s", r.Error.Code, r.Error.Message)
	}
	return b.String()
}

func callLine(c *cairn.PendingCall) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s of %s, opened by %s: %s", c.ID, c.Kind, c.Tool, c.StepID, c.Status)
	if c.ApprovalID != "" {
		fmt.Fprintf(&b, ", %s", c.ApprovalID)
	}
	if c.Effect != nil {
		fmt.Fprintf(&b, ", %s after %d attempts at %s", c.Effect.State, c.Effect.Attempts, c.ToolCallID)
	} else if c.Kind.Asked() {
		fmt.Fprintf(&b, ", question %d of %s", c.Number, c.ToolCallID)
	}
	fmt.Fprintf(&b, ", input %s", c.Input)
	if c.Prompt != "" {
		fmt.Fprintf(&b, ", prompt %q %s", c.Prompt, c.Payload)
	}
	if c.NoEdits {
		fmt.Fprintf(&b, ", as it is")
	}
	if len(c.Reviewers) > 0 {
		fmt.Fprintf(&b, ", for %s of %s", cmp.Or(string(c.Quorum), "any"), strings.Join(c.Reviewers, " and "))
	}
	if !c.Deadline.IsZero() {
		fmt.Fprintf(&b, ", with a deadline")
	}
	if c.ClaimedBy != "" {
		fmt.Fprintf(&b, ", claimed by %s", c.ClaimedBy)
	}
	if a := c.Answer; a != nil {
		fmt.Fprintf(&b, "; %s%s", a.Kind, by(a.Reviewer))
		if a.Value != nil {
			fmt.Fprintf(&b, " %s", brief(a.Value))
		}
		if a.Text != "" {
			fmt.Fprintf(&b, " %q", a.Text)
		}
	}
	for _, d := range c.Trail {
		fmt.Fprintf(&b, "\n    %s: %s%s", d.Step, d.Kind, by(d.Reviewer))
		if d.Notes != "" {
			fmt.Fprintf(&b, " %q", d.Notes)
		}
		if d.Value != nil {
			fmt.Fprintf(&b, " %s", d.Value)
		}
	}
	return b.String()
}

func by(who string) string {
	if who == "" {
		return ""
	}
	return " by " + who
}

func eventLine(ev *cairn.Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", ev.Type)
	if ev.Step > 0 {
		fmt.Fprintf(&b, " %d", ev.Step)
	}
	for _, s := range []string{ev.CallID, ev.Tool, ev.Name, ev.ChildID, ev.ApprovalID, ev.ToolCallID, string(ev.Status), string(ev.Reason)} {
		if s != "" {
			fmt.Fprintf(&b, " %s", s)
		}
	}
	if ev.Text != "" {
		fmt.Fprintf(&b, " %q", ev.Text)
	}
	if ev.Data != nil && ev.Type != cairn.EventUsage { // which has durations
		fmt.Fprintf(&b, " %s", brief(ev.Data))
	}
	if ev.Prompt != "" {
		fmt.Fprintf(&b, " %q %s", ev.Prompt, ev.Payload)
	}
	if ev.Edited != nil {
		fmt.Fprintf(&b, " edited to %s", ev.Edited)
	}
	if ev.Patch != nil {
		raw, _ := json.Marshal(ev.Patch) // decoded data always encodes
		fmt.Fprintf(&b, " %s", raw)
	}
	for _, flag := range []struct {
		name string
		set  bool
	}{{"error", ev.IsError}, {"cut", ev.Truncated}, {"cached", ev.Cached}, {"deadline", !ev.Deadline.IsZero()}} {
		if flag.set {
			fmt.Fprintf(&b, " (%s)", flag.name)
		}
	}
	if ev.Attempts > 0 {
		fmt.Fprintf(&b, " at attempt %d", ev.Attempts)
	}
	if ev.Error != nil {
		fmt.Fprintf(&b, " %s", ev.Error.Code)
	}
	if ev.MessageID != "" {
		fmt.Fprintf(&b, ", message %d", ev.Index)
	}
	for _, f := range ev.Files {
		fmt.Fprintf(&b, ", %s %q of %d bytes", f.MediaType, f.Name, f.Size)
	}
	describeSources(&b, ev.Sources)
	if ev.MessageCount > 0 {
		fmt.Fprintf(&b, ", %d messages", ev.MessageCount)
	}
	return b.String()
}

func describeSources(b *strings.Builder, list []cairn.Source) {
	for _, s := range list {
		fmt.Fprintf(b, " <%s %q %q>", s.URL, s.Title, s.Quote)
	}
}

// brief omits the schema library's own messages, and truncates long values.
func brief(data json.RawMessage) string {
	if len(data) > 400 {
		return fmt.Sprintf("%s… of %d bytes", data[:20], len(data))
	}
	const said = "violate the schema: "
	if i := bytes.Index(data, []byte(said)); i >= 0 {
		return string(data[:i+len(said)]) + "…\""
	}
	return string(data)
}

// settled joins adjacent deltas, and sorts the events of parallel calls by call.
func (t *tree) settled(events []cairn.Event) []cairn.Event {
	var list []cairn.Event
	for _, ev := range events {
		delta := ev.Type == cairn.EventTextDelta || ev.Type == cairn.EventThinking || ev.Type == cairn.EventToolArgDelta
		if n := len(list); delta && n > 0 && list[n-1].Type == ev.Type && list[n-1].CallID == ev.CallID && list[n-1].Step == ev.Step {
			list[n-1].Text += ev.Text
			continue
		}
		list = append(list, ev)
	}
	sortRuns(list, func(ev *cairn.Event) bool { return slices.Contains(parallelEvents, ev.Type) },
		func(ev *cairn.Event) int { return t.order[ev.CallID] })
	return list
}

// parallelEvents are events of calls of one step that run concurrently.
var parallelEvents = []cairn.EventType{cairn.EventToolStart, cairn.EventToolEnd, cairn.EventSubagentStart, cairn.EventSubagentEnd}
