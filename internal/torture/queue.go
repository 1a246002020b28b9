package torture

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
)

// joins reports whether a user's message was sent to a turn under way, and returns the turn that it would have
// begun.
func joins(m *cairn.Message) (queued string, ok bool) {
	queued, ok = strings.CutSuffix(m.ID, "/in0")
	return queued, ok && m.Role == cairn.RoleUser && !m.Hidden && queued != m.RunID
}

// joined reports whether a message was sent to a turn under way.
func joined(m *cairn.Message) bool { _, ok := joins(m); return ok }

// queueInOrder finds queued turns that were lost, ran twice or out of order, or ran although they had been
// dequeued. It also finds messages that joined a turn out of order, and rows that miscount the queue.
func queueInOrder(h *History) error {
	if len(h.Queue) != h.Session.Queued {
		return fmt.Errorf("the session says that %d turns are queued, there are %d", h.Session.Queued, len(h.Queue))
	}
	if h.Settled && len(h.Queue) > 0 && h.Session.Status != cairn.SessionPaused {
		return fmt.Errorf("the session is %s, %d turns are queued", h.Session.Status, len(h.Queue))
	}
	said := map[string]string{}
	var order []string // turns that have begun, then those in the queue
	for _, t := range h.turns() {
		order = append(order, t.run.ID)
		if len(t.input) == 1 {
			said[t.run.ID] = t.input[0].Text()
		}
	}
	for _, q := range h.Queue {
		if slices.Contains(order, q.ID) {
			return fmt.Errorf("turn %s is queued and has begun, or twice", q.ID)
		}
		order = append(order, q.ID)
		said[q.ID] = q.Messages[0].Text()
	}
	steered := map[string]int{} // index of the message, by the turn that it would have begun
	for i := range h.Messages {
		if id, ok := joins(&h.Messages[i]); ok {
			steered[id], said[id] = i, h.Messages[i].Text()
		}
	}
	queued := slices.DeleteFunc(slices.Clone(h.Journal), func(r record) bool { return r.Kind != committed || r.Queued == "" })
	slices.SortFunc(queued, func(a, b record) int { return int(a.Version - b.Version) })
	out, undone := h.takenOut(), h.undone()
	turn, message := -1, -1 // positions of the previous turn and message
	for _, r := range queued {
		at := slices.Index(order, r.Queued)
		place, joins := steered[r.Queued]
		switch {
		case joins && (at >= 0 || !r.Steer):
			return fmt.Errorf("turn %s was queued, steers %t, and has joined another one; begun or in the queue: %t", r.Queued, r.Steer, at >= 0)
		case out[r.Queued] == dequeued && (joins || at >= 0):
			return fmt.Errorf("turn %s was taken out of the queue, and joined another one (%t) or ran", r.Queued, joins)
		case !joins && at < 0 && out[r.Queued] == "" && !h.undoneWith(r.Queued):
			return fmt.Errorf("turn %s was queued and is lost", r.Queued)
		case !joins && at < 0:
			continue
		case !r.Steer && at < turn:
			return fmt.Errorf("turn %s was queued after %s and is before it", r.Queued, order[turn])
		case joins && place < message:
			return fmt.Errorf("message %d joined a turn before message %d, which was sent earlier", place, message)
		case said[r.Queued] != r.Text && !undone[r.Queued]:
			return fmt.Errorf("turn %s was queued with %q and says %q", r.Queued, r.Text, said[r.Queued])
		}
		if !r.Steer {
			turn = at
		}
		if joins {
			message = place
		}
	}
	return nil
}

// takenOut returns the turns that were removed from the queue, or may have been: those that a process was removing
// when it died.
func (h *History) takenOut() map[string]recordKind {
	tries := map[string]int{}
	out := map[string]recordKind{}
	for _, r := range h.Journal {
		switch r.Kind {
		case dequeuing:
			tries[r.Queued]++
		case notQueued:
			tries[r.Queued]--
		case dequeued:
			out[r.Queued] = dequeued
		}
	}
	for id, n := range tries {
		if n > 0 && out[id] == "" {
			out[id] = dequeuing
		}
	}
	return out
}

// userMessagesLoggedOnce finds user messages that are missing on the log, are on it twice or at another index, or are
// only on the log.
func userMessagesLoggedOnce(h *History) error {
	logged, undone := map[string]int{}, h.undone()
	for i := range h.Events {
		ev := &h.Events[i]
		if ev.Type != cairn.EventUserMessage {
			continue
		}
		if logged[ev.MessageID]++; logged[ev.MessageID] > 1 {
			return fmt.Errorf("event %d: message %s is on the log twice", ev.Sequence, ev.MessageID)
		}
		at := slices.IndexFunc(h.Messages, func(m cairn.Message) bool { return m.ID == ev.MessageID })
		if at != ev.Index && (at >= 0 || h.logged()) && !undone[ev.RunID] {
			return fmt.Errorf("event %d: message %s is number %d, in the transcript %d", ev.Sequence, ev.MessageID, ev.Index, at)
		}
	}
	for i := range h.Messages {
		if m := &h.Messages[i]; h.logged() && m.Role == cairn.RoleUser && !m.Hidden && logged[m.ID] == 0 {
			return fmt.Errorf("message %d, %s, is not on the log", i, m.ID)
		}
	}
	return nil
}

// queueLogged finds queued turns that the log does not have as such, or whose removal from the queue it lacks: a turn is
// queued from its event on until that of its run or of its removal.
func queueLogged(h *History) error {
	waits := map[string]bool{}
	for i := range h.Events {
		ev := &h.Events[i]
		switch ev.Type {
		case cairn.EventQueued:
			if _, twice := waits[ev.RunID]; twice {
				return fmt.Errorf("event %d: turn %s was queued before", ev.Sequence, ev.RunID)
			}
			waits[ev.RunID] = true
		case cairn.EventDequeued:
			if !waits[ev.RunID] {
				return fmt.Errorf("event %d: turn %s is not queued", ev.Sequence, ev.RunID)
			}
			waits[ev.RunID] = false
		case cairn.EventRunStart:
			if _, queued := waits[ev.RunID]; queued {
				waits[ev.RunID] = false
			}
		}
	}
	if !h.logged() {
		return nil
	}
	for _, q := range h.Queue {
		if !q.Context && !waits[q.ID] {
			return fmt.Errorf("turn %s is queued, the log does not say so", q.ID)
		}
		delete(waits, q.ID)
	}
	for id, queued := range waits {
		if queued {
			return fmt.Errorf("turn %s is not queued, the log says so", id)
		}
	}
	return nil
}
