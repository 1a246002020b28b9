// Package dialog is a conversation over lines of text, for the demo and for the client of a server: the screen, the
// typed lines, and the questions about pending calls. It knows neither engine nor server.
package dialog

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/cli"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/terminal"
)

var (
	// ErrLeft reports that the conversation ended before there was an answer.
	ErrLeft = errors.New("left")
	// ErrWoken reports that Wake fired while Ask waited for a line.
	ErrWoken = errors.New("woken")
)

// Dialog is a conversation between a command and its user.
type Dialog struct {
	*Screen
	Lines      *terminal.Lines
	Interrupts <-chan os.Signal
	// Prompting reports whether lines are typed at a terminal, after a prompt.
	Prompting bool
	// Wake ends a wait for a line early; nil means never.
	Wake <-chan struct{}
}

// New returns the dialog of a command with its user.
func New(a *cli.App, interrupts <-chan os.Signal) *Dialog {
	return &Dialog{
		Screen: NewScreen(a), Lines: terminal.ReadLines(a.Stdin), Interrupts: interrupts,
		Prompting: terminal.Is(a.Stdin) && terminal.Is(a.Stdout),
	}
}

// Ask returns the next line: the answer to question, or what the user says if question is empty. ok is false when
// there are no more lines. ErrLeft means that the user wants to leave. After ErrWoken the same question may be
// asked again: its prompt is still there if nothing was shown in between.
func (d *Dialog) Ask(ctx context.Context, question string) (line string, ok bool, err error) {
	for {
		if d.Prompting && !d.prompted(question) {
			d.Prompt(question)
		}
		select {
		case line, ok = <-d.Lines.Next:
		case <-d.Wake:
			return "", false, ErrWoken
		case <-d.Interrupts:
			d.Newline()
			return "", false, ErrLeft
		case <-ctx.Done():
			d.Newline()
			return "", false, ErrLeft
		}
		if !ok {
			if d.Prompting {
				d.Newline()
			}
			return "", false, d.Lines.Err
		}
		d.Typed()
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if !d.Prompting {
			d.Prompt(question)
			d.Print(output.Lined(line) + "\n")
			d.Typed()
		}
		return line, true, nil
	}
}
