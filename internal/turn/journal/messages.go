package journal

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/limits"
)

// maxFiles is how many files of a message an event lists, maxName how many bytes a name, a media type or an address may
// have in it.
const (
	maxFiles = 16
	maxName  = 1 << 10
)

// Added says which messages the transcript has got from an index on: those of users and those that a chat does not
// show. What models and tools said is on the log already; of a reply with files it says where these are now.
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
			continue
		case m.Summary != nil:
			ev.Type, ev.MessageCount = cairn.EventCompacted, m.Summary.From
		case len(m.Tools) > 0:
			ev.Type, ev.Name = cairn.EventContextChanged, ToolsChanged
			ev.Data, _ = json.Marshal(m.Tools) // names and booleans encode
			list = append(list, ev)
			continue
		case m.Hidden:
			ev.Type = cairn.EventContextAdded
		}
		said(&ev, m)
		list = append(list, ev)
	}
	return list
}

// What of a session's context has changed, as the name of the event says.
const (
	ToolsChanged   = "tools"
	SessionChanged = "session"
)

// Queued says that a turn was queued that begins with some messages.
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

// Dequeued says that a turn was taken out of the queue and will not run by itself.
func Dequeued(runID string) cairn.Event {
	return cairn.Event{Type: cairn.EventDequeued, RunID: runID}
}

// said puts on an event what a message says: its text up to MaxEventText, and what files it has.
func said(ev *cairn.Event, m *cairn.Message) {
	text := m.Text()
	ev.Text = limits.Cut(text, cairn.MaxEventText)
	ev.Truncated = len(ev.Text) < len(text)
	files(ev, m)
}

// files puts on an event which files a message has.
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

// maxSources is how many sources of a part an event lists.
const maxSources = 64

// sources says what a part cites, or has found. It reports false if that is nothing. A source whose address is too long for an
// event is left out.
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

// messageMark names the event of a message.
func messageMark(ev *cairn.Event) mark { return mark{event: ev.Type, id: strconv.Itoa(ev.Index)} }
