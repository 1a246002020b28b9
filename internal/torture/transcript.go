package torture

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
)

// messagesOnce finds messages without an id or with a repeated one, and a wrong message count.
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

// usesAnswered finds tool uses that do not have exactly one result before the next reply, results without a use,
// and messages in between. Only uses of the last reply may have none, while the session is suspended or a run
// resumes it.
func usesAnswered(h *History) error {
	ids := map[string]bool{}
	open := map[string]*cairn.ToolUse{}
	for i := range h.Messages {
		m := &h.Messages[i]
		for _, r := range m.ToolResults() {
			if use := open[r.CallID]; use == nil || use.Tool != r.Tool {
				return fmt.Errorf("message %s has a result of call %s of %s, which has none to come", m.ID, r.CallID, r.Tool)
			}
			delete(open, r.CallID)
		}
		if m.Hidden || m.Role == cairn.RoleTool {
			continue
		}
		for id := range open {
			return fmt.Errorf("message %s comes before the result of call %s", m.ID, id)
		}
		for _, use := range m.ToolUses() {
			if ids[use.CallID] {
				return fmt.Errorf("message %s: call %s was there before", m.ID, use.CallID)
			}
			ids[use.CallID], open[use.CallID] = true, use
		}
	}
	for id := range open {
		if h.Session.SuspendedStep == "" {
			return fmt.Errorf("call %s has no result, and nobody waits for one", id)
		}
	}
	return nil
}

// ofRuns finds messages that belong to no run.
func (h *History) ofRuns() error {
	for i := range h.Messages {
		m := &h.Messages[i]
		if !isLate(m) && !slices.ContainsFunc(h.Runs, func(r cairn.Run) bool { return r.ID == m.RunID }) {
			return fmt.Errorf("message %s belongs to no run: %q", m.ID, m.RunID)
		}
	}
	return nil
}

// transcriptScripted finds messages that are not exactly the model's reply to the messages before them, and turns
// with too many or too few messages.
func transcriptScripted(h *History) error {
	if err := h.ofRuns(); err != nil {
		return err
	}
	k := kindOf(h.Session.Agent)
	at := 0 // end of the previous turns
	ended := false
	for _, t := range h.turns() {
		if t.undone {
			continue
		}
		if err := t.begins(); err != nil {
			return err
		}
		if t.run.FirstMessage < at {
			return fmt.Errorf("run %s begins at message %d, those before it go to %d", t.run.ID, t.run.FirstMessage, at)
		}
		first := t.run.FirstMessage
		if len(t.withdrawn) > 0 && h.follows(first, t.withdrawn[:1]) { // of the previous run
			first++
		}
		if len(t.input) > 0 && !h.follows(first, t.input) {
			return fmt.Errorf("run %s begins at message %d, its input is not there", t.run.ID, t.run.FirstMessage)
		}
		for _, m := range t.input {
			ended = ended && m.Hidden // otherwise it continues the previous turn
		}
		for i := range t.steps {
			s := &t.steps[i]
			if want := i + 1; s.number != want && !(t.resumes && t.steps[0].number == 2 && s.number == want+1) {
				return fmt.Errorf("%s is in place %d", s, want)
			}
			if s.from < at || s.from < t.run.FirstMessage+len(t.input) {
				return fmt.Errorf("%s is at message %d, not behind what comes before it", s, s.from)
			}
			at = s.to
			if s.reply == nil {
				if !t.resumes || s.number != 1 {
					return fmt.Errorf("%s has no reply", s)
				}
				if err := s.rows(false); err != nil {
					return fmt.Errorf("%s: %w", s, err)
				}
				continue
			}
			if ended {
				return fmt.Errorf("%s comes after the turn's end", s)
			}
			l := next(h.Session.ID, h.Messages[:s.at], k)
			cut := stopped(t.run) && i == len(t.steps)-1
			if err := s.matches(&l, cut); err != nil {
				return fmt.Errorf("%s: %w", s, err)
			}
			ended = l.ends && h.endsTurn(s)
		}
		if err := h.ends(&t, ended); err != nil {
			return err
		}
		ended = ended && !stopped(t.run)
	}
	return nil
}

// endsTurn reports whether a reply that is to end the turn does so. The call that would end it is not carried out beside
// one that failed.
func (h *History) endsTurn(s *step) bool {
	for i := s.at + 1; i < len(h.Messages) && h.Messages[i].Role != cairn.RoleAssistant; i++ {
		for _, r := range h.Messages[i].ToolResults() {
			if r.IsError && (r.Code != cairn.ErrNotExecuted || r.Tool == toolClose || r.Tool == cairn.FinishTool) {
				return false
			}
		}
	}
	return true
}

// follows reports whether the transcript has the messages in sequence from an index on.
func (h *History) follows(at int, list []*cairn.Message) bool {
	for i, m := range list {
		if at+i >= len(h.Messages) || h.Messages[at+i].ID != m.ID {
			return false
		}
	}
	return true
}

// begins checks the beginning of a turn: a user's message or, if the run resumes the previous one, at most a
// context row. It also checks that each message belongs to a step.
func (t *turn) begins() error {
	if len(t.strangers) > 0 {
		return fmt.Errorf("message %s of run %s belongs to none of its steps", t.strangers[0].ID, t.run.ID)
	}
	if len(t.loose) > 0 && !stopped(t.run) && !t.onlyWaits() {
		return fmt.Errorf("message %s of run %s comes before no reply", t.loose[0].ID, t.run.ID)
	}
	if t.run.Kind == cairn.RunResume && (len(t.input) == 0 || len(t.input) == 1 && t.input[0].Hidden) {
		return nil
	}
	if len(t.input) != 1 || t.input[0].Role != cairn.RoleUser || t.input[0].Hidden {
		return fmt.Errorf("run %s begins with %d messages, not with one of a user", t.run.ID, len(t.input))
	}
	return nil
}

// onlyWaits reports whether a run has resumed a step, waits again without any result, and got late answers meanwhile.
func (t *turn) onlyWaits() bool {
	return t.resumes && t.run.Status == cairn.RunSuspended && len(t.steps) == 0 &&
		!slices.ContainsFunc(t.loose, func(m *cairn.Message) bool { return !isLate(m) })
}

// ends checks that a turn ended where its run says. ended reports whether the model's last reply ends the turn.
func (h *History) ends(t *turn, ended bool) error {
	committed := h.committedSteps(t.run)
	if n := t.count(committed); n != committed {
		return fmt.Errorf("run %s has %d steps in the transcript and says %d", t.run.ID, n, committed)
	}
	switch {
	case t.run.Status == cairn.RunCompleted && !ended:
		return fmt.Errorf("run %s is %s, the model was not at its end", t.run.ID, t.run.Status)
	case ended && len(t.steps) > 0 && (t.run.Status == cairn.RunRunning || t.run.Status == cairn.RunInterrupted && !stopped(t.run)):
		return fmt.Errorf("run %s is %s, the model was at its end", t.run.ID, t.run.Status)
	}
	return nil
}

// matches compares a step with the model's line for it. If the step was cut short, its reply is a prefix of the
// line.
func (s *step) matches(l *line, cut bool) error {
	text := s.reply.Text()
	if text != l.text && !(cut && strings.HasPrefix(l.text, text)) {
		return fmt.Errorf("the reply is %q, not %q", text, l.text)
	}
	uses := s.reply.ToolUses()
	if len(uses) > len(l.uses) || len(uses) < len(l.uses) && !cut || s.results != nil && len(uses) == 0 {
		return fmt.Errorf("%d tool uses, not %d", len(uses), len(l.uses))
	}
	for i, use := range uses {
		input, err := json.Marshal(l.uses[i].input)
		if err != nil {
			return err
		}
		if use.Tool != l.uses[i].tool || compact(use.Input) != compact(input) {
			return fmt.Errorf("use %d is %s %s, not %s %s", i, use.Tool, use.Input, l.uses[i].tool, input)
		}
	}
	return s.rows(len(uses) == 0 && !l.ends && (!cut || len(s.after) > 0))
}

// rows checks the rows after a step's results. If the model still owes its output, the engine asks for it in a row.
func (s *step) rows(owes bool) error {
	var rows []string
	if s.results != nil {
		for _, r := range s.results.ToolResults() {
			if r.Tool == toolNote && !r.IsError {
				rows = append(rows, note(r.CallID))
			}
		}
	}
	if owes {
		rows = []string{""}
	}
	if len(s.after) != len(rows) {
		return fmt.Errorf("%d rows after the results, not %d", len(s.after), len(rows))
	}
	for i, m := range s.after {
		if m.Role != cairn.RoleUser || rows[i] != "" && m.Text() != rows[i] {
			return fmt.Errorf("message %s is not the row %q", m.ID, rows[i])
		}
	}
	return nil
}

// stateFolded finds a state that is not the sum of the results in the transcript, and results that were not
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
			if r.IsError != (r.Tool == toolFail) && !mayFail(r) {
				return fmt.Errorf("call %s of %s: %s %s", r.CallID, r.Tool, r.Code, r.Output)
			}
			if r.IsError || !writesLedger(r.Tool) {
				continue
			}
			var out receipt
			if err := json.Unmarshal(r.Output, &out); err != nil {
				return fmt.Errorf("call %s: %w", r.CallID, err)
			}
			if r.Tool == toolClose { // it sees its siblings' writes
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

// booksBalanced finds rows of calls that are not in the state, and calls in the state without their row or with
// several.
func booksBalanced(h *History) error {
	if h.Books == nil {
		return nil
	}
	due, err := h.due()
	if err != nil || slices.Equal(h.Books, due) {
		return err
	}
	if len(h.undone()) > 0 && within(h.Books, due) { // rewinds leave the table alone
		return nil
	}
	return fmt.Errorf("the rows are %.2000v, not %.2000v", h.Books, due)
}

// within reports whether a list has all entries of another, in their order.
func within(list, part []entry) bool {
	for _, e := range list {
		if len(part) > 0 && e == part[0] {
			part = part[1:]
		}
	}
	return len(part) == 0
}

// due returns the rows that the calls in the state must have added.
func (h *History) due() ([]entry, error) {
	var sum ledger
	err := json.Unmarshal(h.State, &sum)
	return slices.DeleteFunc(sum.Entries, func(e entry) bool { return !entersBooks(e.N) }), err
}

// mayFail reports whether the call of a tool that does not fail by itself may be an error: it was stopped,
// cancelled, denied or late, or the consulted agent was stopped.
func mayFail(r *cairn.ToolResult) bool {
	switch r.Tool {
	case toolSend, toolWire:
		return true
	case toolAsk, toolAskSoon, toolPay, toolPaySoon, toolPayIf, toolVote:
		return r.IsError
	case toolAdd, toolNote, toolMark, toolFail, toolClose, toolInquire, cairn.FinishTool:
		return r.IsError && (r.Code == cairn.ErrNotExecuted || r.Code == cairn.ErrStopped)
	}
	return true
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
