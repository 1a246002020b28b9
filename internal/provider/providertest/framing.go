package providertest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-agents/cairn"
)

// framings are legal ways to write a stream of events, and those of gateways.
var framings = map[string]func(stream string) string{
	"a byte order mark":      func(s string) string { return "\uFEFF" + s },
	"lines that end with CR": func(s string) string { return strings.ReplaceAll(s, "\n", "\r") },
	"comments": func(s string) string {
		return ": connected\n\n" + eachLine(s, func(line string) string { return ": keep-alive\n" + line + "\n:" })
	},
	"comments between events": func(s string) string { return strings.ReplaceAll(s, "\n\n", "\n\n: OPENROUTER PROCESSING\n\n") },
	"ids and retries":         func(s string) string { return strings.ReplaceAll(s, "data:", "id: 7\nretry: 10\ndata:") },
	"no space": func(s string) string {
		return eachLine(s, func(line string) string { return strings.Replace(line, ": ", ":", 1) })
	},
	"data in several lines": func(s string) string {
		return eachLine(s, func(line string) string {
			if data, ok := object(line); ok {
				return "data: {\ndata: " + data[1:]
			}
			return line
		})
	},
	"no names": func(s string) string {
		if !allObjects(s) || strings.Contains(s, "event: error") && !strings.Contains(s, `"error"`) { // data without a type of its own
			return s
		}
		return eachLine(s, func(line string) string {
			if strings.HasPrefix(line, "event:") {
				return ":"
			}
			return line
		})
	},
	"no blank line at the end": func(s string) string {
		if !allObjects(s) { // it may be cut
			return s
		}
		return strings.TrimRight(s, "\n") + "\n"
	},
}

// eachLine changes the lines that are not blank.
func eachLine(s string, change func(line string) string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if line != "" {
			lines[i] = change(line)
		}
	}
	return strings.Join(lines, "\n")
}

// allObjects reports whether the data of each event is an object.
func allObjects(s string) bool {
	for line := range strings.Lines(s) {
		if _, ok := object(strings.TrimSuffix(line, "\n")); strings.HasPrefix(line, "data:") && !ok {
			return false
		}
	}
	return true
}

// object returns the data of a line that has an object.
func object(line string) (string, bool) {
	data, ok := strings.CutPrefix(line, "data: ")
	return data, ok && strings.HasPrefix(data, "{") && json.Valid([]byte(data))
}

// leftOpen tests servers that leave the connection open after a complete reply, silent or with comments.
func (a Adapter[Q, R]) leftOpen(t *testing.T) {
	for name, rest := range map[string][]string{"silent": nil, "with comments": strings.Split(strings.Repeat(": keep-alive\n\n|", 500), "|")} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			pieces := append([]string{a.Piece + a.Last}, rest...)
			m := a.Model("m", Endpoint{BaseURL: "https://model.example", APIKey: "k", Client: slow(time.Second, pieces...).Client()})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			chunks, err := Ask(ctx, m, Hello())
			if err != nil || chunks[len(chunks)-1].Type != cairn.ChunkFinish {
				t.Errorf("%s: got\n%s", name, Lines(chunks, err))
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("%s: a reply that was complete after 1s ended after %v", name, took)
			}
		})
	}
}

// rawError tests gateways that write an error into the stream as it is, not as an event.
func (a Adapter[Q, R]) rawError(t *testing.T) {
	for _, body := range []string{`{"error":{"code":503,"message":"Too busy."}}`, "{\n  \"error\": {\n    \"code\": 503,\n    \"message\": \"Too busy.\"\n  }\n}\n",
		`[{"error":{"code":503,"message":"Too busy."}}]` + "\n\n"} {
		m := a.through(answers("text/event-stream", func(*http.Request) io.ReadCloser {
			return io.NopCloser(strings.NewReader(a.Piece + body))
		}))
		_, err := Ask(t.Context(), m, Hello())
		if e := cairn.AsError(err); e == nil || e.Code != cairn.ErrOverloaded || !strings.Contains(e.Message, "Too busy") {
			t.Errorf("%s: %+v", body, e)
		}
	}
}
