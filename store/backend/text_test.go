package backend

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/fastjson"
)

// someTexts are texts that JSON escapes, or that look like JSON.
var someTexts = []string{"", "plain", `"quoted"`, `back\`, `\"`, "line\n\ttab", "</b> ✓ \u2028", `{"text":"inner","parts":[]}`, "]},", strings.Repeat("long ", 1000)}

// someMessages returns messages of all kinds of parts.
func someMessages() (list []*cairn.Message) {
	random := rand.New(rand.NewPCG(1, 2))
	text := func() string { return someTexts[random.IntN(len(someTexts))] }
	raw := func() json.RawMessage {
		data, _ := json.Marshal(map[string]any{"text": text(), "n": []any{1.5e3, nil, true, map[string]any{}, []any{}, text()}})
		return data
	}
	kinds := []func() cairn.Part{
		func() cairn.Part { return cairn.TextPart(text()) },
		func() cairn.Part { return cairn.Part{Type: cairn.PartReasoning, Text: text(), Provider: raw()} },
		func() cairn.Part {
			return cairn.Part{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{CallID: text(), Tool: "t", Input: raw()}}
		},
	}
	for range 500 {
		m := &cairn.Message{ID: text(), RunID: "run", Role: cairn.RoleAssistant, Metadata: raw()}
		for range random.IntN(4) {
			m.Parts = append(m.Parts, kinds[random.IntN(len(kinds))]())
		}
		list = append(list, m)
	}
	return list
}

// forms returns a message in its forms in JSON.
func forms(tb testing.TB, m *cairn.Message) []string {
	tb.Helper()
	long, err1 := fastjson.MessageText(m)
	short, err2 := fastjson.ShortText(m, m.ID, "")
	if err := errors.Join(err1, err2); err != nil {
		tb.Fatal(err)
	}
	return []string{long, short}
}

// The text of a message is read as if all of the message were decoded.
func TestReadTextAsDecoded(t *testing.T) {
	t.Parallel()
	for _, m := range someMessages() {
		for _, form := range forms(t, m) {
			s := textReader{rest: form}
			if text := s.message(); s.failed || text != m.Text() {
				t.Fatalf("%q (failed: %t), want %q of %s", text, s.failed, m.Text(), form)
			}
			var spaced strings.Builder
			encoder := json.NewEncoder(&spaced)
			encoder.SetIndent(" ", "\t")
			if err := encoder.Encode(json.RawMessage(form)); err != nil {
				t.Fatal(err)
			}
			for _, form := range []string{form, spaced.String()} {
				var run cairn.Run
				if err := ReadText(&run, form); err != nil || run.Text != m.Text() {
					t.Fatalf("%q, %v, want %q of %s", run.Text, err, m.Text(), form)
				}
			}
		}
	}
}

// A message that is cut off or has another byte is corrupt, or is read as it decodes.
func TestReadTextOfDamagedMessage(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for _, m := range someMessages() {
		form := forms(t, m)[random.IntN(2)]
		run := cairn.Run{Text: "before"}
		if err := ReadText(&run, form[:random.IntN(len(form))]); !errors.Is(err, cairn.ErrCorrupt) || run.Text != "before" {
			t.Fatalf("cut off: %q, %v", run.Text, err)
		}
		damaged := []byte(form)
		damaged[random.IntN(len(damaged))] = "{}[],:\"\\x"[random.IntN(9)]
		want, wantErr := decodeText(string(damaged))
		run = cairn.Run{}
		if err := ReadText(&run, string(damaged)); wantErr == nil && (err != nil || run.Text != want) {
			t.Fatalf("%q, %v, want %q of %s", run.Text, err, want, damaged)
		}
	}
}

func BenchmarkReadText(b *testing.B) {
	m := cairn.Message{ID: "run/1/reply", RunID: "run", Role: cairn.RoleAssistant, Parts: []cairn.Part{
		cairn.TextPart(strings.Repeat("A sentence of a typical reply.\n", 32))}}
	for name, form := range map[string]string{"one": forms(b, &m)[1], "parts": forms(b, &m)[0]} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var run cairn.Run
				if err := ReadText(&run, form); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/decoded", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decodeText(form); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
