package hosttest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
)

// Fold returns the transcript that a reader of events builds by the rules of docs/EVENTS.md, one line per message.
// The reader begins with messages and then reads events. Compared with [Lines] of the stored messages, it shows
// that a snapshot and the events after it are all that a reader needs.
func Fold(session string, messages []cairn.Message, events []cairn.Event) []string {
	return fold(session, messages, events, (*cairn.Event).Voids)
}

// fold is Fold with the rule by which a discard voids a step.
func fold(session string, messages []cairn.Message, events []cairn.Event, voids func(discard, start *cairn.Event) bool) []string {
	r := &reader{session: session, lines: Lines(messages), voids: voids, steps: map[stepKey]*readStep{}, files: map[int]int{}}
	for i := range events {
		r.read(&events[i])
	}
	return r.lines
}

// Lines returns the parts of messages that a reader of the log can see, one line per message.
func Lines(messages []cairn.Message) []string {
	list := make([]string, len(messages))
	for i := range messages {
		list[i] = line(&messages[i])
	}
	return list
}

// reader holds the transcript that a reader builds.
type reader struct {
	session string
	voids   func(discard, start *cairn.Event) bool
	lines   []string // by index; empty if nothing is known of the message yet
	steps   map[stepKey]*readStep
	loose   []string    // results of calls of earlier runs
	files   map[int]int // number of files of a reply, by the reply's index
}

type stepKey struct {
	run  string
	step int
}

type readStep struct {
	start       *cairn.Event
	text, calls string
	sources     []cairn.Source
	results     []string
}

func line(m *cairn.Message) string {
	var uses, results []string
	for _, use := range m.ToolUses() {
		uses = append(uses, use.CallID)
	}
	for _, r := range m.ToolResults() {
		results = append(results, r.CallID)
	}
	files := 0
	for i := range m.Parts {
		if m.Parts[i].File != nil {
			files++
		}
	}
	switch {
	case m.Role == cairn.RoleTool:
		return resultsLine(results)
	case m.Role == cairn.RoleAssistant:
		var sources []cairn.Source
		for i := range m.Parts {
			sources = append(sources, m.Parts[i].Sources...)
		}
		return replyLine(m.Text(), strings.Join(uses, " "), sources, files)
	}
	text := m.Text()
	if len(m.Tools) > 0 {
		text = ""
	}
	return saidLine(text[:min(len(text), cairn.MaxEventText)], files, m.ID)
}

func saidLine(text string, files int, id string) string {
	return fmt.Sprintf("said %q with %d files as %s", text, files, id)
}
func replyLine(text, calls string, sources []cairn.Source, files int) string {
	return fmt.Sprintf("reply %q, calls %s, sources %+v, %d files", text, calls, sources, files)
}
func resultsLine(calls []string) string {
	slices.Sort(calls)
	return "results of " + strings.Join(calls, " ")
}

func (r *reader) put(index int, line string) {
	for len(r.lines) <= index {
		r.lines = append(r.lines, "")
	}
	if r.lines[index] == "" {
		r.lines[index] = line
	}
}

// next sets the first free line.
func (r *reader) next(line string) {
	r.put(r.free(), line)
}

// free returns the index of the first free line.
func (r *reader) free() int {
	if i := slices.Index(r.lines, ""); i >= 0 {
		return i
	}
	return len(r.lines)
}

func (r *reader) settle() {
	if len(r.loose) > 0 {
		r.next(resultsLine(r.loose))
		r.loose = nil
	}
}

func (r *reader) read(ev *cairn.Event) {
	if ev.SessionID != r.session || ev.Origin != "" {
		return
	}
	key := stepKey{ev.RunID, ev.Step}
	st := r.steps[key]
	switch ev.Type {
	case cairn.EventUserMessage, cairn.EventContextAdded, cairn.EventContextChanged, cairn.EventCompacted:
		if ev.MessageID != "" {
			r.put(ev.Index, saidLine(ev.Text, len(ev.Files), ev.MessageID))
		}
	case cairn.EventFiles:
		r.files[ev.Index] = len(ev.Files)
	case cairn.EventStepStart:
		r.settle()
		r.steps[key] = &readStep{start: ev}
	case cairn.EventStepDiscarded:
		maps.DeleteFunc(r.steps, func(_ stepKey, st *readStep) bool { return r.voids(ev, st.start) })
	case cairn.EventTextDelta:
		if st != nil {
			st.text += ev.Text
		}
	case cairn.EventSources:
		if st != nil {
			st.sources = append(st.sources, ev.Sources...)
		}
	case cairn.EventToolArgEnd:
		if st != nil {
			st.calls = strings.TrimSpace(st.calls + " " + ev.CallID)
		}
	case cairn.EventToolEnd:
		if st == nil {
			r.loose = append(r.loose, ev.CallID)
		} else {
			st.results = append(st.results, ev.CallID)
		}
	case cairn.EventStepCommitted:
		if delete(r.steps, key); st == nil {
			return // the snapshot has it
		}
		if files := r.files[r.free()]; st.text != "" || st.calls != "" || files > 0 {
			r.next(replyLine(st.text, st.calls, st.sources, files))
		}
		if len(st.results) > 0 {
			r.next(resultsLine(st.results))
		}
	case cairn.EventRunEnd:
		r.settle()
	case cairn.EventRewound:
		r.lines, r.steps = r.lines[:min(ev.MessageCount, len(r.lines))], map[stepKey]*readStep{}
		maps.DeleteFunc(r.files, func(index, _ int) bool { return index >= ev.MessageCount })
	}
}
