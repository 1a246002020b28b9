// Package dialog is a conversation over lines of text, as the demo and the client of a server have it: the screen that shows
// it, the lines that are typed, and the questions about pending calls. It knows neither engine nor server.
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
	// ErrLeft says that the conversation ends before the answer did.
	ErrLeft = errors.New("left")
	// ErrWoken says that something happened while a line was waited for.
	ErrWoken = errors.New("woken")
)

// Dialog is what both sides of a conversation say.
type Dialog struct {
	*Screen
	Lines      *terminal.Lines
	Interrupts <-chan os.Signal
	// Prompting is set at a terminal, where lines are typed after a prompt.
	Prompting bool
	// Wake ends a wait for a line early; nil for never.
	Wake <-chan struct{}
}

// New returns the dialog of a command with its user.
func New(a *cli.App, interrupts <-chan os.Signal) *Dialog {
	return &Dialog{
		Screen: NewScreen(a), Lines: terminal.ReadLines(a.Stdin), Interrupts: interrupts,
		Prompting: terminal.Is(a.Stdin) && terminal.Is(a.Stdout),
	}
}

// Ask returns the next line, the answer to a question or what the user says if that is empty. ok is false when there
// are no more lines, ErrLeft says that the user wants to go. After ErrWoken the same question may be asked again: if nothing
// was shown meanwhile, its prompt is still there.
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
