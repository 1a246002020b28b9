package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/terminal"
)

// Progress is a line at the terminal that says how far a command is. It is for one goroutine.
type Progress struct {
	out   io.Writer // nil without a terminal
	shown time.Time
}

// every is the time between two updates of a progress line.
const every = 200 * time.Millisecond

// Progress returns a progress line on standard error, which is not shown unless that is a terminal.
func (a *App) Progress() *Progress {
	if !terminal.Is(a.Stderr) {
		return &Progress{}
	}
	return &Progress{out: a.Stderr}
}

// Show shows a text in place of the one before, if that has been shown long enough.
func (p *Progress) Show(format string, args ...any) {
	if p.out != nil && time.Since(p.shown) >= every {
		p.shown = time.Now()
		fmt.Fprintf(p.out, "\r\x1b[K"+format, args...)
	}
}

// End removes the line.
func (p *Progress) End() {
	if p.out != nil && !p.shown.IsZero() {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

// Unfinished returns the error of a command that can be repeated to continue: one that says so if it was interrupted, else
// err.
func Unfinished(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return cairn.Errorf(cairn.ErrNotExecuted, "interrupted; run the command again to continue")
	}
	return err
}

// More prints the option with which a list continues, if there is more of it.
func (a *App) More(option, next string) error {
	if next == "" {
		return nil
	}
	_, err := fmt.Fprintf(a.Stderr, "There are more: %s %s\n", option, Quoted(next))
	return err
}
