package driver

import (
	"slices"
	"strings"
	"unicode"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/limits"
)

// Words returns the words by which a text is found: runs of letters, digits and their marks, in lower case, each once,
// sorted by bytes. A character of a script that is written without spaces (Han, Hiragana, Katakana) is a word of its
// own.
func Words(text string) []string {
	var words []string
	begin := -1
	text = strings.ToLower(text)
	for i, r := range text + " " {
		alone := unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana)
		if begin >= 0 && (alone || !inWord(r)) {
			words, begin = append(words, text[begin:i]), -1
		}
		switch {
		case alone:
			words = append(words, string(r))
		case begin < 0 && inWord(r):
			begin = i
		}
	}
	slices.Sort(words)
	return slices.Compact(words)
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r) }

// SearchWords returns the words by which a session is found: the words of its title and its opening.
func SearchWords(s *cairn.Session) []string { return Words(s.Title + " " + s.Opening) }

// found reports whether each of the words equals a word of the session or begins one.
func found(s *cairn.Session, words []string) bool {
	if len(words) == 0 {
		return true
	}
	have := SearchWords(s)
	for _, word := range words {
		i, _ := slices.BinarySearch(have, word)
		if i == len(have) || !strings.HasPrefix(have[i], word) {
			return false
		}
	}
	return true
}

// OpeningOf returns the opening found in messages, and the index of the message that it is taken from. first is the
// index of messages[0] in its session. The opening is empty if the messages contain no text of the user.
func OpeningOf(messages []cairn.Message, first int) (opening string, at int) {
	for i := range messages {
		m := &messages[i]
		if m.Role != cairn.RoleUser || m.Hidden {
			continue
		}
		if text := strings.TrimSpace(m.Text()); text != "" {
			return limits.Cut(text, cairn.MaxOpeningBytes), first + i
		}
	}
	return "", 0
}
