package dialog

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/calls"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
)

func (s *Screen) use(tool string, input json.RawMessage) string {
	return Indent + s.style.Dim("→ "+tool+" "+output.OneLine(string(input), output.Width)) + "\n"
}

func (s *Screen) result(value json.RawMessage, isError bool) string {
	text := output.OneLine(string(value), output.Width)
	if isError {
		var why string
		if json.Unmarshal(value, &why) == nil {
			text = output.OneLine(why, output.Width)
		}
		return Indent + s.style.Red("← error: "+text) + "\n"
	}
	return Indent + s.style.Dim("← "+text) + "\n"
}

// Waits returns the line of a pending call.
func (s *Screen) Waits(kind cairn.CallKind, tool string, input json.RawMessage, deadline time.Time) string {
	text := "‖ " + tool + " " + output.OneLine(string(input), output.Width) + " waits for " + calls.Missing(kind)
	if !deadline.IsZero() {
		text += " until " + output.Stamp(deadline) + " UTC"
	}
	return Indent + text + "\n"
}

// Message writes a message of the transcript as it looked when it was streamed.
func (s *Screen) Message(m *cairn.Message) {
	s.Newline()
	if m.Hidden {
		return
	}
	for i := range m.Parts {
		switch p := &m.Parts[i]; p.Type {
		case cairn.PartText:
			if m.Role == cairn.RoleUser {
				s.Said(p.Text)
			} else {
				s.Print(s.style.Bold(s.label()) + output.Lined(p.Text) + "\n")
			}
		case cairn.PartReasoning:
			s.Print(Indent + s.style.Dim(output.Lined(p.Text)) + "\n")
		case cairn.PartToolUse:
			s.Print(s.use(p.ToolUse.Tool, p.ToolUse.Input))
		case cairn.PartToolResult:
			s.Print(s.result(p.Result.Output, p.Result.IsError))
		case cairn.PartFile:
			s.Print(Indent + s.style.Dim("["+p.File.MediaType+" "+p.File.Name+"]") + "\n")
		case cairn.PartData:
			s.Print(Indent + s.style.Dim("["+p.Data.Name+" "+string(p.Data.Value)+"]") + "\n")
		}
	}
}

// recentMessages is the number of messages that Recent shows.
const recentMessages = 4

// Recent writes the last few messages, shortened and without tools.
func (s *Screen) Recent(messages []cairn.Message) {
	var talk []string
	for i := range messages {
		m := &messages[i]
		text := output.OneLine(m.Text(), output.Width)
		switch {
		case m.Hidden || text == "":
		case m.Role == cairn.RoleUser:
			talk = append(talk, userLabel+text)
		case m.Role == cairn.RoleAssistant:
			talk = append(talk, s.label()+text)
		}
	}
	if len(talk) == 0 {
		return
	}
	s.Note(fmt.Sprintf("The session so far has %s. /history shows all.", output.Count(len(messages), "message")))
	for _, line := range talk[max(0, len(talk)-recentMessages):] {
		s.Note(Indent + line)
	}
}
