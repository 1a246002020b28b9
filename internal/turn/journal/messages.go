package journal

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/limits"
)

// maxFiles is how many files of a message an event lists. maxName is the limit of a name, a media type or an address in
// an event, in bytes.
const (
	maxFiles = 16
	maxName  = 1 << 10
)

// Added returns the events of messages that were added to the transcript from an index on: those of users, and hidden
// ones. What models and tools said is on the log already; a reply with files, and results with artifacts, get an event that
// says where the files are now.
func Added(index int, messages []cairn.Message) (list []cairn.Event) {
	for i := range messages {
		m := &messages[i]
		ev := cairn.Event{Type: cairn.EventUserMessage, Index: index + i, MessageID: m.ID, ChildID: m.ChildID}
		switch {
		case m.Role == cairn.RoleAssistant:
			ev.Type = cairn.EventFiles
			if files(&ev, m); len(ev.Files) > 0 {
				list = append(list, ev)
			}
			continue
		case m.Role == cairn.RoleTool:
			ev.Type = cairn.EventArtifact
			if artifacts(&ev, m); len(ev.Files) > 0 {
				list = append(list, ev)
			}
			continue
		case m.Summary != nil:
			ev.Type, ev.MessageCount = cairn.EventCompacted, m.Summary.From
		case len(m.Tools) > 0:
			ev.Type, ev.Name = cairn.EventContextChanged, ToolsChanged
			ev.Data, _ = json.Marshal(m.Tools) // names and booleans always encode
			list = append(list, ev)
			continue
		case m.LeftOut != nil:
			ev.Type, ev.Name = cairn.EventContextChanged, FilesLeftOut
			ev.Data, _ = json.Marshal(m.LeftOut.Files) // numbers always encode
		case m.Workspace != "":
			ev.Type, ev.Name = cairn.EventContextChanged, WorkspaceRestored
		case m.Hidden:
			ev.Type = cairn.EventContextAdded
		}
		said(&ev, m)
		list = append(list, ev)
	}
	return list
}

// The part of a session's context that changed, as the name of an EventContextChanged.
const (
	ToolsChanged      = "tools"
	FilesLeftOut      = "files"
	WorkspaceRestored = "workspace"
	SessionChanged    = "session"
)

// Queued returns the event of a queued turn that begins with the given messages.
func Queued(runID string, messages []cairn.Message) cairn.Event {
	ev := cairn.Event{Type: cairn.EventQueued, RunID: runID}
	for i := range messages {
		if !messages[i].Hidden {
			said(&ev, &messages[i])
			break
		}
	}
	return ev
}

// Dequeued returns the event of a turn that was removed from the queue and will not run by itself.
func Dequeued(runID string) cairn.Event {
	return cairn.Event{Type: cairn.EventDequeued, RunID: runID}
}

// Shorten cuts the text of an event to MaxEventText bytes.
func Shorten(ev *cairn.Event) {
	if len(ev.Text) > cairn.MaxEventText {
		ev.Text, ev.Truncated = limits.Cut(ev.Text, cairn.MaxEventText), true
	}
}

// Saved returns the event of something new in an agent's memory.
func Saved(id, text string) cairn.Event {
	ev := cairn.Event{Type: cairn.EventMemorySaved, Name: id, Text: limits.Clean(text)}
	Shorten(&ev)
	return ev
}

// said puts a message's content on an event: its text up to MaxEventText bytes, and its files.
func said(ev *cairn.Event, m *cairn.Message) {
	text := m.Text()
	ev.Text = limits.Cut(text, cairn.MaxEventText)
	ev.Truncated = len(ev.Text) < len(text)
	files(ev, m)
}

// files lists a message's files on an event.
func files(ev *cairn.Event, m *cairn.Message) {
	for i := range m.Parts {
		f := m.Parts[i].File
		if f == nil {
			continue
		}
		if len(ev.Files) == maxFiles {
			ev.Truncated = true
			return
		}
		ref := cairn.FileRef{Part: i, Name: limits.Cut(f.Name, maxName), MediaType: limits.Cut(f.MediaType, maxName), Size: len(f.Data)}
		if len(f.URL) <= maxName && !strings.HasPrefix(strings.ToLower(f.URL), "data:") {
			ref.URL = f.URL
		}
		ev.Files = append(ev.Files, ref)
	}
}

// artifacts lists the artifacts of results on an event.
func artifacts(ev *cairn.Event, m *cairn.Message) {
	for i := range m.Parts {
		r := m.Parts[i].Result
		if r == nil {
			continue
		}
		for _, a := range r.Artifacts {
			if len(ev.Files) == maxFiles {
				ev.Truncated = true
				return
			}
			ev.Files = append(ev.Files, cairn.FileRef{Part: i, Name: a.Name, MediaType: a.MediaType, Size: int(a.Size)})
		}
	}
}

// maxSources is how many sources of a part an event lists.
const maxSources = 64

// sources returns the event of what a part cites or has found. It reports false if there is nothing. A source whose
// address is too long for an event is left out.
func sources(number int, list []cairn.Source) (ev cairn.Event, ok bool) {
	ev = cairn.Event{Type: cairn.EventSources, Step: number}
	for _, s := range list {
		if len(s.URL) > maxName || len(ev.Sources) == maxSources {
			ev.Truncated = true
			continue
		}
		short := cairn.Source{URL: s.URL, Title: limits.Cut(s.Title, maxName), Quote: limits.Cut(s.Quote, cairn.MaxEventText)}
		ev.Truncated = ev.Truncated || short != s
		ev.Sources = append(ev.Sources, short)
	}
	return ev, len(ev.Sources) > 0
}

// messageMark returns the mark of a message's event.
func messageMark(ev *cairn.Event) mark { return mark{event: ev.Type, id: strconv.Itoa(ev.Index)} }
