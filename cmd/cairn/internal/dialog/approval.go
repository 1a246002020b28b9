package dialog

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
)

const approvalHelp = `  y           let it happen
  n [REASON]  do not; the agent sees the reason
  e [JSON]    let it happen with other arguments
  l           leave it for later, or for another reviewer`

// Approval asks whether a call may happen, until it understands the answer. what names the call in the question. ok
// is false if there are no more lines. ErrLeft means that the call stays pending.
func (d *Dialog) Approval(ctx context.Context, call *cairn.PendingCall, what string) (answer cairn.Submission, ok bool, err error) {
	question := "Approve " + what + "? [y]es / [n]o / [e]dit / [l]ater: "
	for {
		line, ok, err := d.Ask(ctx, question)
		if err != nil || !ok {
			return answer, false, err
		}
		word, rest, _ := strings.Cut(line, " ")
		word, rest = strings.ToLower(word), strings.TrimSpace(rest)
		switch {
		case rest == "" && (word == "y" || word == "yes"):
			return cairn.Approve(call.CallRef), true, nil
		case word == "n" || word == "no":
			return cairn.Deny(call.CallRef, rest), true, nil
		case rest == "" && (word == "e" || word == "edit"):
			d.Note(Indent + "current arguments: " + output.OneLine(string(call.Input), 0))
			if rest, ok, err = d.Ask(ctx, "New arguments: "); err != nil || !ok {
				return answer, false, err
			}
			fallthrough
		case word == "e" || word == "edit":
			answer = cairn.Approve(call.CallRef)
			answer.Input = json.RawMessage(rest)
			return answer, true, nil
		case leaves(line):
			return answer, false, ErrLeft
		case d.Prompting || line == "/help":
			d.Note(approvalHelp)
		default:
			d.Note(fmt.Sprintf("Enter y, n, e or l, not %q. The call must be decided first.", output.OneLine(line, output.Width)))
			return answer, false, ErrLeft
		}
	}
}

// leaves reports whether a line leaves a call for later.
func leaves(line string) bool {
	switch strings.ToLower(line) {
	case "l", "later", "/quit", "/exit":
		return true
	}
	return false
}
