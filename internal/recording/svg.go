package main

import (
	"fmt"
	"html"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Sizes in pixels.
const (
	cell   = 8.4 // the width of a character
	line   = 20
	margin = 16
	bar    = 34
)

// sheet is the style sheet. The picture without animations, as for readers who prefer reduced motion, is the last one.
const sheet = `text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#e6edf3;white-space:pre}
.bold{font-weight:600}.dim{fill:#8b949e}.c1{fill:#ff7b72}.c2{fill:#7ee787}.c6{fill:#56d4dd}
.title{font:13px ui-sans-serif,system-ui,sans-serif;fill:#8b949e}
.a{animation-duration:%[1]s;animation-timing-function:step-end;animation-iteration-count:infinite}
@media (prefers-reduced-motion:reduce){.a{animation:none}}
`

// render returns the animation of a screen. It lasts total, and begins again.
func render(s *screen, total time.Duration) []byte {
	width, height := columns*84/10+2*margin, bar+rows*line+margin
	var rules, body strings.Builder
	percent := func(at time.Duration) string {
		return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", 100*at.Seconds()/total.Seconds()), "0"), ".") + "%"
	}
	var times []time.Duration
	for _, p := range s.pieces {
		if strings.TrimSpace(p.text) == "" {
			continue
		}
		class := "a"
		if p.at > 0 {
			if n := len(times); n == 0 || times[n-1] != p.at {
				times = append(times, p.at)
				fmt.Fprintf(&rules, "@keyframes k%[1]d{0%%{opacity:0}%[2]s{opacity:1}}.k%[1]d{animation-name:k%[1]d}\n", len(times), percent(p.at))
			}
			class += fmt.Sprintf(" k%d", len(times))
		}
		text := strings.TrimLeft(p.text, " ")
		col := p.col + len(p.text) - len(text)
		text = strings.TrimRight(text, " ")
		fmt.Fprintf(&body, `<text class="%s%s" x="%.1f" y="%d" textLength="%.1f" lengthAdjust="spacingAndGlyphs">%s</text>`+"\n",
			class, classes(p.style), float64(col)*cell, p.row*line+15, float64(utf8.RuneCountInString(text))*cell, html.EscapeString(text))
	}
	last := s.cursor[len(s.cursor)-1]
	scroll := max(0, last.row+1-rows)
	fmt.Fprintf(&rules, "@keyframes up{%s}.up{animation-name:up;transform:translateY(-%dpx)}\n", scrolling(s.cursor, percent), scroll*line)
	fmt.Fprintf(&rules, "@keyframes at{%s}.at{animation-name:at;transform:translate(%.1fpx,%dpx)}\n", moving(s.cursor, percent), float64(last.col)*cell, last.row*line)

	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" role="img">`+"\n", width, height)
	fmt.Fprintf(&out, "<title>A refund waits for approval; its process is killed, and another one finishes it</title>\n<desc>%s</desc>\n", html.EscapeString(s.transcript.String()))
	fmt.Fprintf(&out, "<style>"+sheet+"%[2]s</style>\n", fmt.Sprintf("%.2fs", total.Seconds()), rules.String())
	fmt.Fprintf(&out, `<rect x="0.5" y="0.5" width="%d" height="%d" rx="10" fill="#0d1117" stroke="#3d444d"/>`+"\n", width-1, height-1)
	for i, color := range []string{"#ff5f57", "#febc2e", "#28c840"} {
		fmt.Fprintf(&out, `<circle cx="%d" cy="18" r="5.5" fill="%s"/>`, 20+18*i, color)
	}
	fmt.Fprintf(&out, "\n"+`<text class="title" x="%d" y="22" text-anchor="middle">cairn demo</text>`+"\n", width/2)
	fmt.Fprintf(&out, `<svg x="%d" y="%d" width="%d" height="%d"><g class="a up">`+"\n", margin, bar+8, width-2*margin, rows*line)
	out.WriteString(body.String())
	fmt.Fprintf(&out, `<rect class="a at" width="%.1f" height="17" y="1" fill="#e6edf3" opacity="0.7"/>`+"\n</g></svg>\n</svg>\n", cell)
	return []byte(out.String())
}

func classes(s style) (list string) {
	if s.bold {
		list += " bold"
	}
	if s.dim {
		list += " dim"
	}
	if s.color != 0 {
		list += " c" + string(rune(s.color))
	}
	return list
}

// scrolling returns the key frames of the picture's movement.
func scrolling(cursor []place, percent func(time.Duration) string) string {
	list := []string{"0%{transform:translateY(0)}"}
	at := 0
	for _, p := range cursor {
		if up := p.row + 1 - rows; up > at {
			at = up
			list = append(list, fmt.Sprintf("%s{transform:translateY(-%dpx)}", percent(p.at), up*line))
		}
	}
	return strings.Join(list, "")
}

// moving returns the key frames of the cursor. Of several places at one time the last one counts.
func moving(cursor []place, percent func(time.Duration) string) string {
	var list []string
	for i, p := range cursor {
		if i+1 < len(cursor) && percent(cursor[i+1].at) == percent(p.at) {
			continue
		}
		list = append(list, fmt.Sprintf("%s{transform:translate(%.1fpx,%dpx)}", percent(p.at), float64(p.col)*cell, p.row*line))
	}
	return strings.Join(slices.Compact(list), "")
}
