package journal

import (
	"encoding/json"
	"slices"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/limits"
)

// fit makes an event small enough for the log. A large patch is split over several events; any other large part is cut,
// and the event is marked as truncated. The parts of an event share the limit equally.
func fit(ev cairn.Event, limit int) []cairn.Event {
	if len(ev.Patch) > 0 {
		return fitPatch(ev, limit)
	}
	ev.Error = Storable(ev.Error)
	share := limit / max(1, parts(&ev))
	// An event of a tool of this server is exempt: the tool got an error if it was too large.
	if payload(&ev) > share && (ev.Type != cairn.EventCustom || ev.Origin != "") {
		fitPayload(&ev, share)
	}
	if len(ev.Text) > share {
		ev.Text, ev.Truncated = limits.Cut(ev.Text, share), true
	}
	for len(ev.Files) > 0 && filesSize(ev.Files) > share {
		ev.Files, ev.Truncated = ev.Files[:len(ev.Files)-1], true
	}
	if sourcesSize(ev.Sources) > share {
		fitSources(&ev, share)
	}
	if ev.Error != nil && len(ev.Error.Message) > share {
		short := *ev.Error
		short.Message, short.Details, short.Cause = limits.Cut(short.Message, share), nil, nil
		ev.Error, ev.Truncated = &short, true
	}
	if ev.Usage != nil && customBytes(ev.Usage) > share {
		short := *ev.Usage
		short.Custom = nil
		ev.Usage, ev.Truncated = &short, true
	}
	return []cairn.Event{ev}
}

// parts counts the parts of an event that can be large.
func parts(ev *cairn.Event) (n int) {
	for _, has := range []bool{payload(ev) > 0, ev.Text != "", len(ev.Files) > 0, len(ev.Sources) > 0, ev.Error != nil, ev.Usage != nil && len(ev.Usage.Custom) > 0} {
		if has {
			n++
		}
	}
	return n
}

// mayNotFit reports whether fit may have to change the event. Deltas are split in add.
func mayNotFit(ev *cairn.Event, limit int) bool {
	return payload(ev)+len(ev.Text) > limit || len(ev.Patch)+len(ev.Sources)+len(ev.Files) > 0 || ev.Error != nil || ev.Usage != nil && len(ev.Usage.Custom) > 0
}

// payload returns how many bytes of text and JSON an event carries in addition to what every event has.
func payload(ev *cairn.Event) int {
	return len(ev.Data) + len(ev.Edited) + len(ev.Payload) + len(ev.Prompt)
}

// fitPayload cuts the parts of an event's payload that are too large: to limit if Data is the only part, otherwise to a
// quarter of it.
func fitPayload(ev *cairn.Event, limit int) {
	ev.Truncated = true
	if payload(ev) > len(ev.Data) {
		limit /= 4
	}
	for _, raw := range []*json.RawMessage{&ev.Data, &ev.Edited, &ev.Payload} {
		if len(*raw) > limit {
			*raw = truncate(*raw, limit)
		}
	}
	ev.Prompt = limits.Cut(ev.Prompt, limit)
}

// fitSources drops the quotes, which matter least, and then sources from the end.
func fitSources(ev *cairn.Event, limit int) {
	ev.Truncated = true
	ev.Sources = slices.Clone(ev.Sources)
	for i := range ev.Sources {
		ev.Sources[i].Quote = ""
	}
	for sourcesSize(ev.Sources) > limit {
		ev.Sources = ev.Sources[:len(ev.Sources)-1]
	}
}

func sourcesSize(list []cairn.Source) (n int) {
	for _, s := range list {
		n += len(s.URL) + len(s.Title) + len(s.Quote) + 64
	}
	return n
}

func filesSize(list []cairn.FileRef) (n int) {
	for _, f := range list {
		n += len(f.Name) + len(f.MediaType) + len(f.URL) + 64
	}
	return n
}

func customBytes(u *cairn.Usage) (n int) {
	for name := range u.Custom {
		n += len(name) + 32
	}
	return n
}

// fitPatch splits a large patch over several events. The first one has the conflicts that fit into half of it.
func fitPatch(ev cairn.Event, limit int) []cairn.Event {
	var list []cairn.Event
	conflicts := ev.Conflicts
	for conflictBytes(conflicts) > limit/2 {
		conflicts = conflicts[:len(conflicts)-1]
	}
	ev.Conflicts, limit = nil, limit-conflictBytes(conflicts)
	size, from := 0, 0
	flush := func(to int) {
		if to > from {
			part := ev
			part.Patch = ev.Patch[from:to]
			list = append(list, part)
		}
		size, from = 0, to
	}
	for i, op := range ev.Patch {
		n := len(op.Path) + len(op.Value) + 64
		if size+n > limit {
			flush(i)
		}
		if n > limit { // a reader that sees this event reads the state from the store
			part := ev
			part.Patch, part.Truncated, part.Name = nil, true, limits.Cut(op.Path, limit)
			list = append(list, part)
			from = i + 1
			continue
		}
		size += n
	}
	flush(len(ev.Patch))
	list[0].Conflicts = conflicts
	return list
}

func conflictBytes(list []cairn.StateConflict) (n int) {
	for _, c := range list {
		n += len(c.Path) + len(c.Lost) + len(c.Won) + 32
	}
	return n
}

// truncate returns the beginning of a JSON value as a JSON string of about limit bytes at most.
func truncate(raw json.RawMessage, limit int) json.RawMessage {
	text := string(raw)
	var s string
	if json.Unmarshal(raw, &s) == nil {
		text = s
	}
	short, _ := json.Marshal(limits.Cut(text, limit/6)) // a string always encodes
	return short
}

// Storable returns an error in a form that a run's record and the log can store.
func Storable(e *cairn.Error) *cairn.Error {
	if e == nil || e.Validate() == nil && len(e.Message) <= limits.ErrorBytes {
		return e
	}
	clean := *e
	clean.Code, clean.Message, clean.Field = cairn.Code(limits.Words(string(e.Code))), limits.Words(e.Message), limits.Words(e.Field)
	clean.Details = slices.Clone(e.Details)
	for i := range clean.Details {
		clean.Details[i] = limits.Words(clean.Details[i])
	}
	return &clean
}
