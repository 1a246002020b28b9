package dialog

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/terminal"
)

// Screen writes a conversation, styled to a terminal, as plain text to anything else. One goroutine at a time may
// use it.
type Screen struct {
	// Agent is the name shown before the agent's text.
	Agent string
	// Session is the session whose conversation is shown; empty for a log without sub-agents. Other sessions are
	// those of sub-agents: only their calls are shown.
	Session string
	// Seen is the sequence in the event log up to which everything is on the screen. Skip holds later events that
	// are not to be shown.
	Seen int64
	Skip map[int64]bool

	w     io.Writer
	style terminal.Style
	now   func() time.Time

	// held are events up to holdTo. They are shown when a later one arrives or the run ends.
	held   []cairn.Event
	holdTo int64

	open []openStep // steps that began and are neither committed nor discarded

	inside   cairn.EventType // kind of the open line: text, thinking, the prompt (EventRunStart), or nothing
	question string          // question of the prompt
	started  time.Time       // start of the run that is shown
	total    cairn.Usage     // usage of the run that is shown
}

// openStep is a step, as one of its events names it.
type openStep struct {
	of    cairn.Event
	shown bool // the screen shows part of it
}

// NewScreen returns a screen on a command's output.
func NewScreen(a *cli.App) *Screen {
	return &Screen{w: a.Stdout, style: terminal.StyleFor(a.Stdout, a.Env), now: a.Now, Skip: map[int64]bool{}}
}

// Print writes text. It ignores a failed write: there is no better place to report it.
func (s *Screen) Print(text string) { _, _ = io.WriteString(s.w, text) }

// Newline ends an open line.
func (s *Screen) Newline() {
	if s.inside != "" {
		s.Print("\n")
		s.inside = ""
	}
}

// Note writes a remark of the program.
func (s *Screen) Note(text string) {
	s.Newline()
	s.Print(s.style.Dim(text) + "\n")
}

// Fail writes an error.
func (s *Screen) Fail(err error) {
	s.Newline()
	s.Print(s.style.Red("error: "+output.OneLine(err.Error(), 0)) + "\n")
}

const (
	userLabel = "you: "
	// Indent begins lines that are neither the user's nor the agent's.
	Indent = "  "
)

// label begins the agent's lines.
func (s *Screen) label() string { return output.Visible(s.Agent) + ": " }

// Prompt asks for a line: the answer to question, or what the user says if question is empty.
func (s *Screen) Prompt(question string) {
	s.Newline()
	if question == "" {
		s.Print("\n")
	}
	s.Print(s.style.Bold(s.style.Cyan(cmp.Or(output.Visible(question), userLabel))))
	s.inside, s.question = cairn.EventRunStart, question
}

// prompted reports whether the prompt of a question is open.
func (s *Screen) prompted(question string) bool {
	return s.inside == cairn.EventRunStart && s.question == question
}

// Typed records that the user ended the prompt's line.
func (s *Screen) Typed() { s.inside = "" }

// Said writes a user's line that was not typed at this terminal.
func (s *Screen) Said(line string) {
	s.Newline()
	s.Print("\n" + s.style.Bold(s.style.Cyan(userLabel)) + output.Lined(line) + "\n")
}

// Show writes an event of the run that is watched. It skips events that were shown before.
func (s *Screen) Show(ev cairn.Event) {
	if ev.Sequence <= s.holdTo && ev.Type != cairn.EventRunEnd {
		s.held = append(s.held, ev)
		return
	}
	held := s.held
	s.Release()
	for _, ev := range append(held, ev) {
		if ev.Sequence <= s.Seen {
			continue
		}
		s.Seen = ev.Sequence
		if s.Skip[ev.Sequence] {
			delete(s.Skip, ev.Sequence)
			continue
		}
		s.write(ev)
	}
}

// Hold keeps events up to a sequence off the screen until a later event proves that their publisher is alive.
func (s *Screen) Hold(sequence int64) { s.holdTo = sequence }

// Release drops the held events.
func (s *Screen) Release() { s.held, s.holdTo = nil, 0 }

// Partial reports whether the screen shows part of a step that is not committed.
func (s *Screen) Partial() bool {
	return slices.ContainsFunc(s.open, func(o openStep) bool { return o.shown })
}

// track keeps the list of open steps. It reports whether the event has closed any.
func (s *Screen) track(ev *cairn.Event) bool {
	at := slices.IndexFunc(s.open, func(o openStep) bool {
		return o.of.SessionID == ev.SessionID && o.of.RunID == ev.RunID && o.of.Step == ev.Step
	})
	n := len(s.open)
	switch ev.Type {
	case cairn.EventStepStart, cairn.EventTextDelta, cairn.EventThinking:
		if at < 0 {
			at, s.open = n, append(s.open, openStep{of: *ev})
		}
		s.open[at].shown = s.open[at].shown || ev.Type != cairn.EventStepStart
	case cairn.EventToolStart, cairn.EventToolEnd:
		if at >= 0 { // otherwise it ends a call of an earlier run
			s.open[at].shown = true
		}
	case cairn.EventStepCommitted:
		if at >= 0 {
			s.open = slices.Delete(s.open, at, at+1)
		}
	case cairn.EventStepDiscarded:
		s.open = slices.DeleteFunc(s.open, func(o openStep) bool { return ev.Voids(&o.of) })
	case cairn.EventRunEnd:
		s.open = slices.DeleteFunc(s.open, func(o openStep) bool { return o.of.SessionID == ev.SessionID && o.of.RunID == ev.RunID })
	}
	return len(s.open) < n
}

func (s *Screen) write(ev cairn.Event) {
	closed := s.track(&ev)
	if s.Session != "" && (ev.SessionID != s.Session || ev.Origin != "") {
		switch ev.Type {
		case cairn.EventToolStart, cairn.EventToolEnd, cairn.EventToolApproval, cairn.EventToolPending:
			s.Newline()
			s.Print(Indent)
		case cairn.EventUsage:
		default:
			return
		}
	}
	switch ev.Type {
	case cairn.EventRunStart, cairn.EventRunResumed:
		s.started, s.total = s.now(), cairn.Usage{}
	case cairn.EventTextDelta:
		s.flow(ev.Type, s.style.Bold(s.label()), output.Lined(ev.Text))
	case cairn.EventThinking:
		s.flow(ev.Type, Indent, s.style.Dim(output.Lined(ev.Text)))
	case cairn.EventThinkingEnd:
		s.Newline()
	case cairn.EventToolStart:
		s.Newline()
		s.Print(s.use(ev.Tool, ev.Data))
	case cairn.EventToolEnd:
		s.Newline()
		s.Print(s.result(ev.Data, ev.IsError))
	case cairn.EventToolApproval, cairn.EventToolPending:
		s.pending(ev)
	case cairn.EventStepDiscarded:
		if !closed { // no step has begun
			return
		}
		why := "the process died"
		if ev.Error != nil {
			why = ev.Error.Message
		}
		s.Note(Indent + "(the answer was interrupted and starts again: " + output.OneLine(why, output.Width) + ")")
	case cairn.EventModelFallback:
		s.Note(Indent + "(" + output.OneLine(ev.Name, output.Width) + " answers)")
	case cairn.EventToolsMissing:
		s.Note(Indent + "(without the tools of " + output.OneLine(ev.Name, output.Width) + ", which are unavailable)")
	case cairn.EventFiles, cairn.EventArtifact:
		for _, f := range ev.Files {
			s.Note(Indent + "[" + output.OneLine(f.MediaType+" "+f.Name, output.Width) + "]")
		}
	case cairn.EventUsage:
		if ev.Usage != nil {
			s.total = s.total.Add(*ev.Usage)
		}
	case cairn.EventRunEnd:
		s.end(ev)
	}
}

// pending shows a call that needs a person or a client.
func (s *Screen) pending(ev cairn.Event) {
	s.Newline()
	kind := cairn.CallClientTool
	switch {
	case ev.Type == cairn.EventToolApproval:
		kind = cairn.CallApproval
	case ev.ToolCallID != "":
		kind = cairn.CallQuestion
	}
	s.Print(s.Waits(kind, ev.Tool, ev.Data, ev.Deadline))
	if ev.Prompt != "" {
		s.flow(ev.Type, Indent, output.Lined(ev.Prompt))
		s.Newline()
	}
}

// flow appends streamed text to the line it belongs to.
func (s *Screen) flow(kind cairn.EventType, lead, text string) {
	if s.inside != kind {
		s.Newline()
		s.Print(lead)
		s.inside = kind
	}
	s.Print(text)
}

// end writes how a run ended and what it used.
func (s *Screen) end(ev cairn.Event) {
	if ev.Error != nil {
		s.Fail(ev.Error)
	}
	words := []string{string(ev.Status)}
	if ev.Status == cairn.RunSuspended {
		words[0] = "waiting"
	}
	if s.total.ModelCalls > 0 {
		words = append(words, output.Count(int(s.total.ModelCalls), "model call"))
	}
	if s.total.ToolCalls > 0 {
		words = append(words, output.Count(int(s.total.ToolCalls), "tool call"))
	}
	words = append(words, fmt.Sprintf("%d tokens in, %d out", s.total.InputTokens, s.total.OutputTokens))
	if !s.started.IsZero() {
		words = append(words, fmt.Sprintf("%.1f s", s.now().Sub(s.started).Seconds()))
	}
	s.Note(Indent + strings.Join(words, " · "))
}
