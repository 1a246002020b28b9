package dialog

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/calls"
	"github.com/cairn-agents/cairn/cmd/cairn/internal/output"
)

const valueHelp = `  JSON or text   the result for the agent; text is a JSON string
  /fail REASON   no result; the agent sees the reason
  /later         leave it for later, or for another client`

// Value asks for the result of a client's tool, or the answer to a question. ok is false if there are no more
// lines. ErrLeft means that the call stays pending.
func (d *Dialog) Value(ctx context.Context, call *cairn.PendingCall) (answer cairn.Submission, ok bool, err error) {
	what := strings.TrimPrefix(strings.TrimPrefix(calls.Missing(call.Kind), "an "), "a ")
	question := strings.ToUpper(what[:1]) + what[1:] + " for " + output.OneLine(call.Tool+" "+string(call.Input), output.Width) + " (/help): "
	for {
		line, ok, err := d.Ask(ctx, question)
		if err != nil || !ok {
			return answer, false, err
		}
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "/later", "/quit", "/exit":
			return answer, false, ErrLeft
		case "/fail":
			if rest = strings.TrimSpace(rest); rest == "" {
				rest = "the user gave none"
			}
			return cairn.AnswerError(call.CallRef, rest), true, nil
		case "/help":
			d.Note(valueHelp)
			if len(call.Schema) > 0 {
				d.Note(Indent + "it must match the schema " + output.OneLine(string(call.Schema), 0))
			}
		default:
			return cairn.Answer(call.CallRef, value(line, call.Schema)), true, nil
		}
	}
}

// value returns a line as JSON: unchanged, or as a string if it is not JSON or the schema wants a string.
func value(line string, schema json.RawMessage) json.RawMessage {
	var s struct {
		Type any `json:"type"`
	}
	if _ = json.Unmarshal(schema, &s); json.Valid([]byte(line)) && (s.Type != "string" || line[0] == '"') {
		return json.RawMessage(line)
	}
	raw, _ := json.Marshal(line) // a string always encodes
	return raw
}
