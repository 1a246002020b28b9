package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn/cmd/cairn/internal/terminal"
)

// Confirm asks a question at the terminal and reports whether the answer is yes. verb is what is asked about.
func Confirm(ctx context.Context, a *App, verb, question string) (bool, error) {
	if !terminal.Is(a.Stdin) {
		return false, Misuse("%s: standard input is no terminal; --yes %ss without asking", verb, verb)
	}
	fmt.Fprintf(a.Stderr, "%s [y/N] ", question)
	select {
	case answer := <-terminal.ReadLines(a.Stdin).Next:
		answer = strings.ToLower(strings.TrimSpace(answer))
		return answer == "y" || answer == "yes", nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
