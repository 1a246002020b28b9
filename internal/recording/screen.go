package main

import (
	"strings"
	"time"
	"unicode/utf8"
)

// Escape sequences that the recorder writes itself.
const (
	plain   = "\x1b[0m"
	comment = "\x1b[2m"
	prompt  = "\x1b[32m$ " + plain
	killed  = "\x1b[31mKilled" + plain
)

// style is how a text is dressed.
type style struct {
	bold, dim bool
	color     byte // the last digit of an SGR color; 0 is the default
}

// piece is a text in one line and style that appears at once.
type piece struct {
	at       time.Duration
	row, col int
	text     string
	style    style
}

// place is where the cursor is from a time on.
type place struct {
	at       time.Duration
	row, col int
}

// screen follows what is written to a terminal. It knows what the command writes: lines, and colors. Nothing is
// overwritten, so each piece stays.
type screen struct {
	width      int
	pieces     []piece
	cursor     []place
	transcript strings.Builder // the text without styles

	row, col int
	style    style
	held     string // an unfinished escape sequence or character
}

func newScreen(width int) *screen { return &screen{width: width} }

// write shows a text.
func (s *screen) write(at time.Duration, text string) {
	text, s.held = s.held+text, ""
	for text != "" {
		if text[0] == 0x1b {
			end := strings.IndexByte(text, 'm')
			if end < 0 {
				s.held = text
				break
			}
			s.dress(text[2:end])
			text = text[end+1:]
			continue
		}
		if !utf8.FullRuneInString(text) {
			s.held = text
			break
		}
		r, n := utf8.DecodeRuneInString(text)
		text = text[n:]
		s.put(at, r)
	}
	s.cursor = append(s.cursor, place{at, s.row, s.col})
}

// dress applies the parameters of an SGR sequence.
func (s *screen) dress(parameters string) {
	switch parameters {
	case "0":
		s.style = style{}
	case "1":
		s.style.bold = true
	case "2":
		s.style.dim = true
	default:
		if len(parameters) == 2 && parameters[0] == '3' {
			s.style.color = parameters[1]
		}
	}
}

func (s *screen) put(at time.Duration, r rune) {
	switch r {
	case '\r':
		s.col = 0
		return
	case '\n':
		s.row++
		s.transcript.WriteByte('\n')
		return
	}
	if s.col == s.width {
		s.row, s.col = s.row+1, 0
	}
	s.transcript.WriteRune(r)
	if n := len(s.pieces); n > 0 {
		last := &s.pieces[n-1]
		if last.at == at && last.row == s.row && last.style == s.style && last.col+utf8.RuneCountInString(last.text) == s.col {
			last.text += string(r)
			s.col++
			return
		}
	}
	s.pieces = append(s.pieces, piece{at, s.row, s.col, string(r), s.style})
	s.col++
}
