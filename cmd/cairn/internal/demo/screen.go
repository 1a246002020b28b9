package demo

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/terminal"
)

// screen writes a conversation to a terminal, or as plain text to anything else. It is used by one goroutine at a time.
type screen struct {
	w     io.Writer
	style terminal.Style
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

func newScreen(a *cli.App) *screen {
	return &screen{w: a.Stdout, style: terminal.StyleFor(a.Stdout, a.Env), now: a.Now, skip: map[int64]bool{}}
}

// print writes text. A failed write has no better place to be reported.
func (s *screen) print(text string) { _, _ = io.WriteString(s.w, text) }

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
	s.print(s.style.Dim(text) + "\n")
}

// fail writes an error.
func (s *screen) fail(err error) {
	s.newline()
	s.print(s.style.Red("error: "+output.OneLine(err.Error(), 0)) + "\n")
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
	s.print(s.style.Bold(s.style.Cyan(cmp.Or(output.Visible(question), userLabel))))
	s.inside = cairn.EventRunStart
}

// typed records that the prompt's line was ended by a key.
func (s *screen) typed() { s.inside = "" }

// said writes a user's line that was not typed at this terminal.
func (s *screen) said(line string) {
	s.newline()
	s.print("\n" + s.style.Bold(s.style.Cyan(userLabel)) + output.Lined(line) + "\n")
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

// hold keeps events up to a sequence off the screen until a later event proves that the process that publishes them is
// alive.
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
		s.flow(ev.Type, s.style.Bold(agentLabel), output.Lined(ev.Text))
	case cairn.EventThinking:
		s.flow(ev.Type, indent, s.style.Dim(output.Lined(ev.Text)))
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
		switch {
		case ev.Type == cairn.EventToolApproval:
			kind = cairn.CallApproval
		case ev.ToolCallID != "":
			kind = cairn.CallQuestion
		}
		s.print(s.waits(kind, ev.Tool, ev.Data, ev.Deadline))
		if ev.Prompt != "" {
			s.flow(ev.Type, indent, output.Lined(ev.Prompt))
			s.newline()
		}
	case cairn.EventStepDiscarded:
		why := "the process died"
		if ev.Error != nil {
			why = ev.Error.Message
		}
		s.note(indent + "(the answer broke off and starts again: " + output.OneLine(why, output.Width) + ")")
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
		words = append(words, output.Count(int(s.total.ModelCalls), "model call"))
	}
	if s.total.ToolCalls > 0 {
		words = append(words, output.Count(int(s.total.ToolCalls), "tool call"))
	}
	words = append(words, fmt.Sprintf("%d tokens in, %d out", s.total.InputTokens, s.total.OutputTokens))
	if !s.started.IsZero() {
		words = append(words, fmt.Sprintf("%.1f s", s.now().Sub(s.started).Seconds()))
	}
	s.note(indent + strings.Join(words, " · "))
}
