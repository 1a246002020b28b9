package transcript

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
)

// LeaveOut returns the messages of a transcript with a text in the place of each file that a model's provider does not
// accept; messages[0] has index first. The messages that list such files remain: see [Plain].
func LeaveOut(messages []cairn.Message, first int, model string) []cairn.Message {
	out := slices.Clone(messages)
	for i := range messages {
		left := messages[i].LeftOut
		if left == nil || left.Model != model {
			continue
		}
		for _, f := range left.Files {
			at := f.Message - first
			if at < 0 || at >= i || f.Part >= len(out[at].Parts) || out[at].Parts[f.Part].File == nil {
				continue
			}
			out[at].Parts = slices.Clone(out[at].Parts)
			out[at].Parts[f.Part] = leftOut(out[at].Parts[f.Part].File, left.Reason)
		}
	}
	return out
}

func leftOut(f *cairn.File, reason string) cairn.Part {
	what := strings.TrimSpace(f.MediaType + " " + f.Name)
	return cairn.TextPart(fmt.Sprintf("[The file %q of this message was left out: the model's provider did not accept it. Its report: %s]", what, reason))
}

// Plain returns messages without those that only list files to be left out.
func Plain(messages []cairn.Message) []cairn.Message {
	return slices.DeleteFunc(slices.Clone(messages), func(m cairn.Message) bool { return m.LeftOut != nil })
}

// Files returns the places of the files in messages, and how many of them are from before the last reply, which a model
// has thus accepted; messages[0] has index first. Messages that a summary stands for are not searched.
func Files(messages []cairn.Message, first int) (places []cairn.FilePlace, accepted int) {
	from := 0
	if at := lastSummary(messages); at >= 0 {
		from = min(max(messages[at].Summary.From-first, 0), at)
	}
	for i := from; i < len(messages); i++ {
		if messages[i].Role == cairn.RoleAssistant {
			accepted = len(places)
		}
		for j := range messages[i].Parts {
			if messages[i].Parts[j].File != nil {
				places = append(places, cairn.FilePlace{Message: first + i, Part: j})
			}
		}
	}
	return places, accepted
}
