package chat

import (
	"strings"

	"github.com/cairn-agents/cairn"
)

// repeats suppresses what a new attempt at a step repeats word for word after the previous attempt was discarded.
// When an answer breaks off and is begun again, the text on the screen stays and the rest follows. As soon as the
// new attempt differs, it is passed on whole, after the event that discards the previous one.
type repeats struct {
	session string
	step    cairn.Event // start of the step under way
	said    string      // its texts, each kind preceded by a mark
	kind    cairn.EventType
	other   bool // the step has shown more than texts

	held []cairn.Event // from the discard on, while the attempt repeats what was said
	at   int           // bytes repeated so far
}

// pass returns the events to show when ev arrives.
func (r *repeats) pass(ev cairn.Event) []cairn.Event {
	if ev.SessionID != r.session { // a sub-agent's event is shown when it arrives
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
		r.step, r.said, r.other = ev, "", false
	case cairn.EventStepDiscarded:
		void := ev.Voids(&r.step)
		if void {
			r.at, r.kind = 0, ""
			r.other = r.other || ev.Step != r.step.Step // earlier steps are void, too
		}
		if len(r.held) > 0 || void && r.said != "" && !r.other {
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
		chunk = "\x00" + string(ev.Type) + "\x00" + ev.Text // no text contains a NUL
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

// differs returns the held events followed by ev.
func (r *repeats) differs(ev cairn.Event) []cairn.Event {
	list := append(r.held, ev)
	r.held = nil
	return list
}
