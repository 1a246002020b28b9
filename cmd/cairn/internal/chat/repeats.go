package chat

import (
	"strings"

	"github.com/cairn-agents/cairn"
)

// repeats leaves out what an attempt at a step says again word for word, after the one before was discarded: of an answer that
// broke off and is begun anew, what is on the screen stays there, and the rest follows. As soon as the new attempt differs, it
// is passed on whole, behind the event that discards the one before.
type repeats struct {
	session string
	said    string // by the step under way: its texts, each kind behind a mark
	kind    cairn.EventType
	other   bool // the step has shown something else than texts

	held []cairn.Event // from the discard on, while the attempt repeats what was said
	at   int           // how much it has repeated
}

// pass returns the events that are to be shown when one comes.
func (r *repeats) pass(ev cairn.Event) []cairn.Event {
	if ev.SessionID != r.session { // of a sub-agent: it is shown as it comes
		if len(r.held) > 0 {
			return r.differs(ev)
		}
		r.other = true
		return []cairn.Event{ev}
	}
	switch ev.Type {
	case cairn.EventStepStart:
		r.at, r.kind = 0, ""
		if len(r.held) > 0 {
			return r.hold(ev)
		}
		r.said, r.other = "", false
	case cairn.EventStepDiscarded:
		r.at, r.kind = 0, ""
		if len(r.held) > 0 || r.said != "" && !r.other {
			return r.hold(ev)
		}
	case cairn.EventTextDelta, cairn.EventThinking:
		return r.text(ev)
	case cairn.EventToolStart, cairn.EventToolEnd, cairn.EventToolApproval, cairn.EventToolPending, cairn.EventStepCommitted, cairn.EventRunEnd:
		r.other = true
		if len(r.held) > 0 && r.at == len(r.said) {
			r.held = nil
		} else if len(r.held) > 0 {
			return r.differs(ev)
		}
	default:
		if len(r.held) > 0 {
			return r.hold(ev)
		}
	}
	return []cairn.Event{ev}
}

// text passes on a piece of text.
func (r *repeats) text(ev cairn.Event) []cairn.Event {
	chunk := ev.Text
	if ev.Type != r.kind {
		r.kind = ev.Type
		chunk = "\x00" + string(ev.Type) + "\x00" + ev.Text // no text has a NUL
	}
	if len(r.held) == 0 {
		r.said += chunk
		return []cairn.Event{ev}
	}
	rest := r.said[r.at:]
	switch {
	case strings.HasPrefix(rest, chunk):
		r.at += len(chunk)
		return r.hold(ev)
	case strings.HasPrefix(chunk, rest):
		r.said, r.held = r.said+chunk[len(rest):], nil
		ev.Text = strings.TrimPrefix(chunk[len(rest):], "\x00"+string(ev.Type)+"\x00")
		return []cairn.Event{ev}
	}
	r.said = r.said[:r.at] + chunk
	return r.differs(ev)
}

// hold keeps an event until it is known whether the attempt repeats what was said.
func (r *repeats) hold(ev cairn.Event) []cairn.Event {
	r.held = append(r.held, ev)
	return nil
}

// differs passes on what was held.
func (r *repeats) differs(ev cairn.Event) []cairn.Event {
	list := append(r.held, ev)
	r.held = nil
	return list
}
