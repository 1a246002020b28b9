package transcript

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/limits"
)

// Recent returns the messages of a transcript that a model is sent; messages[0] has index first. These are the latest
// summary, the messages before it that it keeps, stripped of what is bound to still earlier ones, and all that followed
// it. Without a summary it returns all messages.
func Recent(messages []cairn.Message, first int) []cairn.Message {
	at := lastSummary(messages)
	if at < 0 {
		return messages
	}
	from := min(max(messages[at].Summary.From-first, 0), at)
	for from < at && messages[from].Role == cairn.RoleTool { // their uses are not sent
		from++
	}
	sent := append(make([]cairn.Message, 0, len(messages)-from+1), messages[at])
	for i := from; i < at; i++ {
		if m := unbound(&messages[i]); m.Summary == nil && len(m.Parts) > 0 {
			sent = append(sent, m)
		}
	}
	return append(sent, messages[at+1:]...)
}

// lastSummary returns the index of the latest summary in a list; -1 if there is none.
func lastSummary(messages []cairn.Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Summary != nil {
			return i
		}
	}
	return -1
}

// unbound returns a message without parts that its provider accepts only after the same messages, namely reasoning and
// provider items, and without the token count of the conversation that it was part of.
func unbound(m *cairn.Message) cairn.Message {
	out := *m
	out.Tokens = 0
	bound := func(p cairn.Part) bool {
		return p.Type == cairn.PartReasoning || p.Type == cairn.PartProvider || p.Provider != nil
	}
	if !slices.ContainsFunc(m.Parts, bound) {
		return out
	}
	out.Parts = nil
	for _, p := range m.Parts {
		if p.Type == cairn.PartReasoning || p.Type == cairn.PartProvider {
			continue
		}
		p.Provider, p.Model = nil, ""
		out.Parts = append(out.Parts, p)
	}
	return out
}

// Cuts returns the indexes at which a list of messages can be cut in two so that each tool use and its result are on
// the same side, with the files of the result: the starts of the second part, in order.
func Cuts(messages []cairn.Message) (list []int) {
	open := map[string]bool{}
	for i := range messages {
		m := &messages[i]
		if i > 0 && len(open) == 0 && m.Role != cairn.RoleTool && m.CallID == "" {
			list = append(list, i)
		}
		for _, use := range m.ToolUses() {
			open[use.CallID] = true
		}
		for _, r := range m.ToolResults() {
			delete(open, r.CallID)
		}
	}
	return list
}

// The token estimate, used where no provider has counted. Three bytes count as one token, which is more than most texts
// need. Messages, parts and files have an overhead.
const (
	bytesPerToken = 3
	partTokens    = 4
	fileTokens    = 1600 // of an image, or of a file that the provider fetches
)

// TextTokens estimates how many tokens a text of n bytes has.
func TextTokens(n int) int64 { return int64(n+bytesPerToken-1) / bytesPerToken }

// TextBytes estimates how many bytes a text of some tokens has.
func TextBytes(tokens int64) int { return int(tokens) * bytesPerToken }

// Tokens estimates how many tokens messages have.
func Tokens(messages []cairn.Message) (n int64) {
	for i := range messages {
		n += partTokens
		for j := range messages[i].Parts {
			n += partTokens + tokensOf(&messages[i].Parts[j])
		}
	}
	return n
}

func tokensOf(p *cairn.Part) int64 {
	n := len(p.Text) + len(p.Provider)
	if use := p.ToolUse; use != nil {
		n += len(use.Tool) + len(use.Input) + len(use.CallID)
	}
	if r := p.Result; r != nil {
		n += len(r.Output) + len(r.Edited) + len(r.CallID)
	}
	if f := p.File; f != nil {
		if strings.HasPrefix(f.MediaType, "text/") {
			n += len(f.Data)
		}
		return fileTokens + TextTokens(n)
	}
	return TextTokens(n)
}

// Measured returns how many tokens a request with messages has: the provider's count up to the last reply that has one,
// and an estimate for what followed. before is the number of tokens ahead of the messages.
func Measured(messages []cairn.Message, before int64) (counted, estimated int64) {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Tokens > 0 {
			return messages[i].Tokens, Tokens(messages[i+1:])
		}
	}
	return 0, before + Tokens(messages)
}

// Text returns messages as texts to be summarized, with at most most bytes of each part.
func Text(messages []cairn.Message, most int) []string {
	list := make([]string, 0, len(messages))
	for i := range messages {
		m := &messages[i]
		var b strings.Builder
		for j := range m.Parts {
			if text := textOf(&m.Parts[j]); text != "" {
				b.WriteString(speaker(m) + ": " + clipped(text, most) + "\n")
			}
		}
		if b.Len() > 0 {
			list = append(list, b.String())
		}
	}
	return list
}

func speaker(m *cairn.Message) string {
	switch {
	case m.Summary != nil:
		return "summary of earlier messages"
	case m.Hidden:
		return "context"
	}
	return string(m.Role)
}

// textOf returns a part as text; "" for reasoning.
func textOf(p *cairn.Part) string {
	switch {
	case p.Type == cairn.PartText:
		return p.Text
	case p.ToolUse != nil:
		return "calls " + p.ToolUse.Tool + " " + string(p.ToolUse.Input)
	case p.Result != nil && p.Result.IsError:
		return p.Result.Tool + " failed: " + string(p.Result.Output)
	case p.Result != nil:
		return p.Result.Tool + " returned " + string(p.Result.Output)
	case p.File != nil:
		return "[file " + p.File.Name + " " + p.File.MediaType + "]"
	}
	return ""
}

// clipped returns a text's beginning and end if the text is too long.
func clipped(text string, most int) string {
	if len(text) <= most {
		return text
	}
	head := limits.Cut(text, most*2/3)
	tail := strings.ToValidUTF8(text[len(text)-most/3:], "")
	return head + fmt.Sprintf(" [%d bytes left out] ", len(text)-len(head)-len(tail)) + tail
}
