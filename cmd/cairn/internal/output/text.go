package output

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cairn-agents/cairn"
)

// Width is the number of characters shown of a tool's arguments and result.
const Width = 90

// OneLine joins lines and cuts the text to limit characters; 0 means no limit.
func OneLine(text string, limit int) string {
	text = strings.Join(strings.Fields(Visible(text)), " ")
	if limit > 0 && utf8.RuneCountInString(text) > limit {
		text = string([]rune(text)[:limit-1]) + "…"
	}
	return text
}

// Lined makes text of several lines safe to print.
func Lined(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = Visible(line)
	}
	return strings.Join(lines, "\n")
}

// Visible replaces control characters, which could corrupt a terminal or a table. Text of a model or a user may
// contain any.
func Visible(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, text)
}

// Tokens formats input and output tokens.
func Tokens(u cairn.Usage) string { return fmt.Sprintf("%d/%d", u.InputTokens, u.OutputTokens) }

// Count formats a number of things, as in "1 message" and "2 messages".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Pairs formats names and values as one line, sorted by name. Values other than text are JSON.
func Pairs(m map[string]any) string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		text, ok := m[k].(string)
		if !ok {
			raw, _ := json.Marshal(m[k]) // it was read from JSON
			text = string(raw)
		}
		list = append(list, k+"="+text)
	}
	return strings.Join(list, ", ")
}

// Stamp formats a time in UTC.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// Age formats the time elapsed between t and now, in its largest unit.
func Age(now, t time.Time) string {
	d := max(now.Sub(t), 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", int(d.Hours()))
	}
	return fmt.Sprintf("%dd ago", int(d.Hours()/24))
}
