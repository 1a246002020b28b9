package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cairn-agents/cairn"
)

// screen writes a conversation to a terminal, or as plain text to anything else. It is used by one goroutine at a time.
type screen struct {
	w     io.Writer
	style style
	now   func() time.Time

	// seen is the place in the event log up to which everything is on the screen; skip are later events that are not
	// to be shown.
	seen int64
	skip map[int64]bool
	// held are events up to holdTo: they are shown when a later one comes, or the run ends.
	held   []cairn.Event
	holdTo int64
	// partial says that something of a step is shown that is not committed.
	partial bool

	inside  cairn.EventType // what the open line belongs to: text, thinking, the prompt (EventRunStart), or nothing
	started time.Time       // when the run that is shown began
	total   cairn.Usage     // of the run that is shown
}

func newScreen(a *app) *screen {
	return &screen{w: a.stdout, style: styleFor(a), now: a.now, skip: map[int64]bool{}}
}

func (s *screen) print(text string) { _, _ = io.WriteString(s.w, text) } // who closed the output does not read errors either

// newline ends an open line.
func (s *screen) newline() {
	if s.inside != "" {
		s.print("\n")
		s.inside = ""
	}
}

// note writes a remark of the program.
func (s *screen) note(text string) {
	s.newline()
	s.print(s.style.dim(text) + "\n")
}

// fail writes an error.
func (s *screen) fail(err error) {
	s.newline()
	s.print(s.style.red("error: "+oneLine(err.Error(), 0)) + "\n")
}

const (
	userLabel  = "you: "
	agentLabel = "support: "
	indent     = "  "
)

// prompt asks for a line: the answer to a question, or what the user has to say if that is empty.
func (s *screen) prompt(question string) {
	s.newline()
	if question == "" {
		s.print("\n")
	}
	s.print(s.style.bold(s.style.cyan(orElse(visible(question), userLabel))))
	s.inside = cairn.EventRunStart
}

// typed says that somebody ended the prompt's line.
func (s *screen) typed() { s.inside = "" }

// said writes a user's line where nobody saw it being typed.
func (s *screen) said(line string) {
	s.newline()
	s.print("\n" + s.style.bold(s.style.cyan(userLabel)) + lined(line) + "\n")
}

// show writes an event of the run that is watched. Events that were shown before are passed over.
func (s *screen) show(ev cairn.Event) {
	if ev.Sequence <= s.holdTo && ev.Type != cairn.EventRunEnd {
		s.held = append(s.held, ev)
		return
	}
	held := s.held
	s.release()
	for _, ev := range append(held, ev) {
		if ev.Sequence <= s.seen {
			continue
		}
		s.seen = ev.Sequence
		if s.skip[ev.Sequence] {
			delete(s.skip, ev.Sequence)
			continue
		}
		s.write(ev)
	}
}

// hold keeps events up to a sequence off the screen until there is proof that somebody lives who goes on with them.
func (s *screen) hold(sequence int64) { s.holdTo = sequence }

// release forgets what is held.
func (s *screen) release() { s.held, s.holdTo = nil, 0 }

func (s *screen) write(ev cairn.Event) {
	switch ev.Type {
	case cairn.EventTextDelta, cairn.EventThinking, cairn.EventToolStart, cairn.EventToolEnd:
		s.partial = true
	case cairn.EventStepCommitted, cairn.EventStepDiscarded, cairn.EventRunEnd:
		s.partial = false
	}
	switch ev.Type {
	case cairn.EventRunStart, cairn.EventRunResumed:
		s.started, s.total = s.now(), cairn.Usage{}
	case cairn.EventTextDelta:
		s.flow(ev.Type, s.style.bold(agentLabel), lined(ev.Text))
	case cairn.EventThinking:
		s.flow(ev.Type, indent, s.style.dim(lined(ev.Text)))
	case cairn.EventThinkingEnd:
		s.newline()
	case cairn.EventToolStart:
		s.newline()
		s.print(s.use(ev.Tool, ev.Data))
	case cairn.EventToolEnd:
		s.newline()
		s.print(s.result(ev.Data, ev.IsError))
	case cairn.EventToolApproval, cairn.EventToolPending:
		s.newline()
		kind := cairn.CallClientTool
		if ev.Type == cairn.EventToolApproval {
			kind = cairn.CallApproval
		}
		s.print(s.waits(kind, ev.Tool, ev.Data, ev.Deadline))
	case cairn.EventStepDiscarded:
		why := "the process died"
		if ev.Error != nil {
			why = ev.Error.Message
		}
		s.note(indent + "(the answer broke off and starts again: " + oneLine(why, maxWidth) + ")")
	case cairn.EventUsage:
		if ev.Usage != nil {
			s.total = s.total.Add(*ev.Usage)
		}
	case cairn.EventRunEnd:
		s.end(ev)
	}
}

// flow appends streamed text to the line it belongs to.
func (s *screen) flow(kind cairn.EventType, lead, text string) {
	if s.inside != kind {
		s.newline()
		s.print(lead)
		s.inside = kind
	}
	s.print(text)
}

// end writes how a run ended and what it used.
func (s *screen) end(ev cairn.Event) {
	if ev.Error != nil {
		s.fail(ev.Error)
	}
	words := []string{string(ev.Status)}
	if ev.Status.Suspends() {
		words[0] = "waiting"
	}
	if s.total.ModelCalls > 0 {
		words = append(words, count(int(s.total.ModelCalls), "model call"))
	}
	if s.total.ToolCalls > 0 {
		words = append(words, count(int(s.total.ToolCalls), "tool call"))
	}
	words = append(words, fmt.Sprintf("%d tokens in, %d out", s.total.InputTokens, s.total.OutputTokens))
	if !s.started.IsZero() {
		words = append(words, fmt.Sprintf("%.1f s", s.now().Sub(s.started).Seconds()))
	}
	s.note(indent + strings.Join(words, " · "))
}

// maxWidth is how much of a tool's arguments and result is shown, in characters.
const maxWidth = 90

func (s *screen) use(tool string, input json.RawMessage) string {
	return indent + s.style.dim("→ "+tool+" "+oneLine(string(input), maxWidth)) + "\n"
}

func (s *screen) result(output json.RawMessage, isError bool) string {
	text := oneLine(string(output), maxWidth)
	if isError {
		var why string
		if json.Unmarshal(output, &why) == nil {
			text = oneLine(why, maxWidth)
		}
		return indent + s.style.red("← error: "+text) + "\n"
	}
	return indent + s.style.dim("← "+text) + "\n"
}

// waits tells of a call that somebody outside has to see to.
func (s *screen) waits(kind cairn.CallKind, tool string, input json.RawMessage, deadline time.Time) string {
	text := "‖ " + tool + " " + oneLine(string(input), maxWidth) + " waits for " + missing(kind)
	if !deadline.IsZero() {
		text += " until " + stamp(deadline) + " UTC"
	}
	return indent + text + "\n"
}

// missing says what a pending call waits for.
func missing(kind cairn.CallKind) string {
	if kind == cairn.CallApproval {
		return "approval"
	}
	return "a result"
}

// message writes a message of the transcript as it was shown when it came.
func (s *screen) message(m *cairn.Message) {
	s.newline()
	if m.Hidden {
		return
	}
	for i := range m.Parts {
		switch p := &m.Parts[i]; p.Type {
		case cairn.PartText:
			if m.Role == cairn.RoleUser {
				s.said(p.Text)
			} else {
				s.print(s.style.bold(agentLabel) + lined(p.Text) + "\n")
			}
		case cairn.PartReasoning:
			s.print(indent + s.style.dim(lined(p.Text)) + "\n")
		case cairn.PartToolUse:
			s.print(s.use(p.ToolUse.Tool, p.ToolUse.Input))
		case cairn.PartToolResult:
			s.print(s.result(p.Result.Output, p.Result.IsError))
		case cairn.PartFile:
			s.print(indent + s.style.dim("["+p.File.MediaType+" "+p.File.Name+"]") + "\n")
		}
	}
}

// recentMessages is how many messages remind of what a session was about.
const recentMessages = 4

// recent writes the last few messages in short, without tools.
func (s *screen) recent(messages []cairn.Message) {
	var talk []string
	for i := range messages {
		m := &messages[i]
		text := oneLine(m.Text(), maxWidth)
		switch {
		case m.Hidden || text == "":
		case m.Role == cairn.RoleUser:
			talk = append(talk, userLabel+text)
		case m.Role == cairn.RoleAssistant:
			talk = append(talk, agentLabel+text)
		}
	}
	if len(talk) == 0 {
		return
	}
	s.note(fmt.Sprintf("The session so far has %s. /history shows all.", count(len(messages), "message")))
	for _, line := range talk[max(0, len(talk)-recentMessages):] {
		s.note(indent + line)
	}
}

// oneLine joins lines and cuts the text to a number of characters; 0 is no limit.
func oneLine(text string, limit int) string {
	text = strings.Join(strings.Fields(visible(text)), " ")
	if limit > 0 && utf8.RuneCountInString(text) > limit {
		text = string([]rune(text)[:limit-1]) + "…"
	}
	return text
}

// lined makes text of several lines safe to print.
func lined(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = visible(line)
	}
	return strings.Join(lines, "\n")
}
