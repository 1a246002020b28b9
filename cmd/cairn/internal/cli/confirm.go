package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/terminal"
	"github.com/cairn-agents/cairn/store/driver"
)

// ConfirmSession asks whether to end a session for good, in the words of verb and its participle. note follows the
// question. The error is ErrNotExecuted if the answer is no, and ErrInvalid for a sub-agent's session, which ends with
// its root.
func ConfirmSession(ctx context.Context, a *App, verb, participle string, s *cairn.Session, note string) error {
	if s.RootID != s.ID {
		return driver.NotRoot(s)
	}
	if s.Running(s.AsOf) {
		note = " Its run will be aborted." + note
	}
	question := fmt.Sprintf("%s%s session %s with its %s?%s", strings.ToUpper(verb[:1]), verb[1:], s.ID, output.Count(s.MessageCount, "message"), note)
	yes, err := Confirm(ctx, a, verb, question)
	if err == nil && !yes {
		err = cairn.Errorf(cairn.ErrNotExecuted, "session %q was not %s", s.ID, participle)
	}
	return err
}

// Confirm asks a question at the terminal and reports whether the answer is yes. verb names the action.
func Confirm(ctx context.Context, a *App, verb, question string) (bool, error) {
	if !terminal.Is(a.Stdin) {
		return false, Misuse("%s: stdin is not a terminal; pass --yes to %s without confirmation", verb, verb)
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
