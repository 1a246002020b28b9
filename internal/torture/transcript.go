package torture

import (
	"encoding/json"
	"fmt"

	"github.com/cairn-agents/cairn"
)

// messagesOnce finds messages without an id or with that of another, and a count that is not theirs.
func messagesOnce(h *History) error {
	if len(h.Messages) != h.Session.MessageCount {
		return fmt.Errorf("the session says %d messages and has %d", h.Session.MessageCount, len(h.Messages))
	}
	seen, digests := map[string]int{}, map[string]int{}
	for i := range h.Messages {
		m := &h.Messages[i]
		if before, ok := seen[m.ID]; ok || m.ID == "" {
			return fmt.Errorf("messages %d and %d have the id %q", before, i, m.ID)
		}
		seen[m.ID] = i
		if d := digestOf(m); d != "" {
			if before, ok := digests[d]; ok {
				return fmt.Errorf("messages %d and %d are both reply %s", before, i, d)
			}
			digests[d] = i
		}
	}
	return nil
}

// usesAnswered finds tool uses that are not answered by exactly one result in the message right after theirs, and
// results that answer nothing.
func usesAnswered(h *History) error {
	ids := map[string]bool{}
	for i := range h.Messages {
		m := &h.Messages[i]
		uses := m.ToolUses()
		if m.Role == cairn.RoleAssistant && len(uses) > 0 {
			var results []*cairn.ToolResult
			if i+1 < len(h.Messages) && h.Messages[i+1].Role == cairn.RoleTool {
				results = h.Messages[i+1].ToolResults()
			}
			if len(results) != len(uses) {
				return fmt.Errorf("message %s: %d tool uses, %d results", m.ID, len(uses), len(results))
			}
			for n, use := range uses {
				if results[n].CallID != use.CallID || results[n].Tool != use.Tool || ids[use.CallID] {
					return fmt.Errorf("message %s: use %s of %s is answered by %s of %s, seen before: %t",
						m.ID, use.CallID, use.Tool, results[n].CallID, results[n].Tool, ids[use.CallID])
				}
				ids[use.CallID] = true
			}
		}
		if m.Role == cairn.RoleTool && (i == 0 || len(h.Messages[i-1].ToolUses()) == 0) {
			return fmt.Errorf("message %s has results for no use", m.ID)
		}
	}
	return nil
}

// transcriptScripted finds what is not exactly what the model says to what comes before it, in a turn that has too much
// or too little.
func transcriptScripted(h *History) error {
	at := 0
	for _, t := range h.turns() {
		if err := t.begins(); err != nil {
			return err
		}
		if t.run.FirstMessage != at || len(t.input) > 0 && h.Messages[at].ID != t.input[0].ID {
			return fmt.Errorf("run %s begins at message %d, but says %d", t.run.ID, at, t.run.FirstMessage)
		}
		at += len(t.input)
		ended := false
		for i := range t.steps {
			s := &t.steps[i]
			if ended {
				return fmt.Errorf("%s comes after the turn's end", s)
			}
			if s.at != at {
				return fmt.Errorf("%s is at message %d, not %d", s, s.at, at)
			}
			l := next(h.Session.ID, h.Messages[:at], isTyped(h.Session.Agent))
			if err := s.matches(&l); err != nil {
				return fmt.Errorf("%s: %w", s, err)
			}
			ended = l.ends
			at += 1 + len(s.after)
			if s.results != nil {
				at++
			}
		}
		if n := h.committedSteps(t.run); len(t.steps) != n {
			return fmt.Errorf("run %s has %d steps in the transcript and says %d", t.run.ID, len(t.steps), n)
		}
		if ended != (t.run.Status == cairn.RunCompleted) {
			return fmt.Errorf("run %s is %s, the model was at its end: %t", t.run.ID, t.run.Status, ended)
		}
	}
	if at != len(h.Messages) {
		return fmt.Errorf("%d messages belong to no run", len(h.Messages)-at)
	}
	return nil
}

// begins checks what a turn begins with: what a user says, or, if it goes on with the one before, at most a row that
// says so.
func (t *turn) begins() error {
	if t.run.Kind == cairn.RunResume && (len(t.input) == 0 || len(t.input) == 1 && t.input[0].Hidden) {
		return nil
	}
	if len(t.input) != 1 || t.input[0].Role != cairn.RoleUser || t.input[0].Hidden {
		return fmt.Errorf("run %s begins with %d messages, not with one of a user", t.run.ID, len(t.input))
	}
	return nil
}

// matches compares a step with the line the model had for it.
func (s *step) matches(l *line) error {
	if text := s.reply.Text(); text != l.text {
		return fmt.Errorf("the reply is %q, not %q", text, l.text)
	}
	uses := s.reply.ToolUses()
	if len(uses) != len(l.uses) || (s.results != nil) != (len(uses) > 0) {
		return fmt.Errorf("%d tool uses, not %d", len(uses), len(l.uses))
	}
	var rows []string
	for i, use := range uses {
		input, err := json.Marshal(l.uses[i].input)
		if err != nil {
			return err
		}
		if use.Tool != l.uses[i].tool || compact(use.Input) != string(input) {
			return fmt.Errorf("use %d is %s %s, not %s %s", i, use.Tool, use.Input, l.uses[i].tool, input)
		}
		if use.Tool == toolNote {
			rows = append(rows, note(use.CallID))
		}
	}
	if len(uses) == 0 && !l.ends { // the engine asks for the typed output in its own words
		rows = []string{""}
	}
	if len(s.after) != len(rows) {
		return fmt.Errorf("%d rows after the results, not %d", len(s.after), len(rows))
	}
	for i, m := range s.after {
		if !m.Hidden || m.Role != cairn.RoleUser || rows[i] != "" && m.Text() != rows[i] {
			return fmt.Errorf("message %s is not the row %q", m.ID, rows[i])
		}
	}
	return nil
}

// stateFolded finds a state that is not what the results in the transcript add up to, and results that were not
// computed from the state before their step.
func stateFolded(h *History) error {
	var sum ledger
	sum.Entries = []entry{}
	middle := -1
	if n := len(h.Checkpoints); n > 0 {
		middle = h.Checkpoints[n/2].MessageCount
	}
	for i := range h.Messages {
		if i == middle {
			if err := sum.equals(h.Sample); err != nil {
				return fmt.Errorf("at checkpoint %s: %w", h.Checkpoints[len(h.Checkpoints)/2].ID, err)
			}
		}
		before := sum.Total
		for _, r := range h.Messages[i].ToolResults() {
			if r.Tool == cairn.FinishTool || (r.Tool == toolFail) != r.IsError {
				if r.Tool != cairn.FinishTool || r.IsError {
					return fmt.Errorf("call %s of %s: %s", r.CallID, r.Tool, r.Output)
				}
				continue
			}
			if r.IsError {
				continue
			}
			var out receipt
			if err := json.Unmarshal(r.Output, &out); err != nil {
				return fmt.Errorf("call %s: %w", r.CallID, err)
			}
			if r.Tool == toolClose { // sees what its siblings wrote
				before = sum.Total
			}
			if out.Total != before+out.N {
				return fmt.Errorf("call %s added %d to %d, not to %d", r.CallID, out.N, out.Total-out.N, before)
			}
			sum.Entries = append(sum.Entries, entry{r.CallID, out.N})
			sum.Total, sum.Last = out.Total, r.CallID
		}
	}
	return sum.equals(h.State)
}

// equals compares a ledger with a stored one.
func (l *ledger) equals(state json.RawMessage) error {
	want, err := json.Marshal(l)
	if err != nil {
		return err
	}
	var got ledger
	if err := json.Unmarshal(state, &got); err != nil {
		return err
	}
	if got.Entries == nil {
		got.Entries = []entry{}
	}
	have, err := json.Marshal(got)
	if err == nil && string(have) != string(want) {
		err = fmt.Errorf("the state is %.2000s, not %.2000s", have, want)
	}
	return err
}
