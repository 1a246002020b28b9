package main

import (
	"bytes"
	"encoding/xml"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// keyLines are what a reader has to see, in this order.
var keyLines = []string{
	"$ cairn demo\n", "you: Order 42 arrived broken\n", `‖ refund {"order":42,"reason":"broken"} waits for approval`, "Approve refund of 24.50 EUR",
	"Killed\n", "$ cairn inbox approve call_ --reviewer ann\n", "approved by ann", "$ cairn demo\n", "resuming it", "support: Done: 24.50 EUR",
}

func checkStory(t *testing.T, transcript string) {
	t.Helper()
	rest := transcript
	for _, want := range keyLines {
		_, after, ok := strings.Cut(rest, want)
		if !ok {
			t.Fatalf("%q is missing, or not in its place, in\n%s", want, transcript)
		}
		rest = after
	}
}

// TestRecordingIsASafeImage checks what GitHub needs of an image: well-formed, small, without scripts and anything from
// elsewhere.
func TestRecordingIsASafeImage(t *testing.T) {
	t.Parallel()
	const most = 300 << 10
	text, err := os.ReadFile("../../docs/demo.svg")
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > most {
		t.Errorf("it has %d bytes, at most %d are permitted", len(text), most)
	}
	var shown, described strings.Builder
	var inside []string
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			inside = append(inside, token.Name.Local)
			if token.Name.Local == "script" || token.Name.Local == "foreignObject" || token.Name.Local == "image" {
				t.Errorf("it has a %s", token.Name.Local)
			}
			for _, a := range token.Attr {
				if name := strings.ToLower(a.Name.Local); strings.HasPrefix(name, "on") || name == "href" {
					t.Errorf("it has the attribute %s", name)
				}
			}
		case xml.EndElement:
			inside = inside[:len(inside)-1]
		case xml.CharData:
			if len(inside) == 0 {
				continue
			}
			switch inside[len(inside)-1] {
			case "text":
				shown.Write(token)
			case "desc":
				described.Write(token)
			case "style":
				if from := regexp.MustCompile(`@import|@font-face|url\(`).Find(token); from != nil {
					t.Errorf("its style has %s", from)
				}
			}
		}
	}
	checkStory(t, described.String())
	dense := func(s string) string { return strings.Join(strings.Fields(s), "") }
	if got, want := dense(shown.String()), "cairndemo"+dense(described.String()); got != want {
		t.Errorf("it shows %s, but describes %s", got, want)
	}
}

func TestScreenSplitsTextByTimeAndStyle(t *testing.T) {
	t.Parallel()
	s := newScreen(5)
	s.write(0, "ab\x1b[1m\x1b[36mc")
	s.write(time.Second, "\xe2\x80")
	s.write(2*time.Second, "\x96d\x1b[")
	s.write(2*time.Second, "0mef\r\ng")
	want := []piece{
		{0, 0, 0, "ab", style{}}, {0, 0, 2, "c", style{bold: true, color: '6'}}, {2 * time.Second, 0, 3, "‖d", style{bold: true, color: '6'}},
		{2 * time.Second, 1, 0, "ef", style{}}, {2 * time.Second, 2, 0, "g", style{}},
	}
	if len(s.pieces) != len(want) {
		t.Fatalf("got %v", s.pieces)
	}
	for i, p := range s.pieces {
		if p != want[i] {
			t.Errorf("piece %d is %v, want %v", i, p, want[i])
		}
	}
	if got, want := s.transcript.String(), "abc‖def\ng"; got != want {
		t.Errorf("the transcript is %q, want %q", got, want)
	}
	if got := s.cursor[len(s.cursor)-1]; got != (place{2 * time.Second, 2, 1}) {
		t.Errorf("the cursor is at %v", got)
	}
}
