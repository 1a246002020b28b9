package server

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/cairn-agents/cairn"
)

// A client that disconnects does not stop its turn, and any number of others can join it. Each receives all of it,
// from its beginning, in the same frames.
func TestReadersAreIndependent(t *testing.T) {
	w := chatWorld(t)
	get := func(ctx context.Context, method, path, body string) *http.Response {
		req, err := http.NewRequestWithContext(ctx, method, w.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer a")
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept-Encoding", "gzip, br")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		return res
	}
	const lastWord = `time."` // last word before the model waits; it may come in several deltas
	// until reads until a text has arrived.
	until := func(r io.Reader, text string) []byte {
		var got []byte
		for b := make([]byte, 1); !bytes.Contains(got, []byte(text)); got = append(got, b...) {
			if _, err := io.ReadFull(r, b); err != nil {
				t.Errorf("before %q: %v: %s", text, err, got)
				return got
			}
		}
		return got
	}
	ctx, leave := context.WithCancel(t.Context())
	res := get(ctx, "POST", "/chat", `{"id": "s", "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "slowly"}]}]}`)
	until(res.Body, lastWord)
	leave()

	const readers = 10
	bodies := make([]string, readers)
	var begun, ended sync.WaitGroup
	begun.Add(readers)
	for i := range readers {
		res := get(t.Context(), "GET", "/chat/s/stream", "")
		h := res.Header
		if res.StatusCode != 200 || h.Get("X-Accel-Buffering") != "no" || !strings.Contains(h.Get("Cache-Control"), "no-transform") || h.Get("Content-Encoding") != "" {
			t.Errorf("%s %v", res.Status, h)
		}
		ended.Go(func() {
			head := until(res.Body, lastWord)
			begun.Done()
			rest, err := io.ReadAll(res.Body)
			if err != nil {
				t.Error(err)
			}
			bodies[i] = string(head) + string(rest)
		})
	}
	begun.Wait()
	w.do("a", "GET", "/release?what=slowly", nil)
	ended.Wait()
	for _, body := range bodies {
		if body != bodies[0] {
			t.Errorf("one reader got\n%s\nanother one\n%s", bodies[0], body)
		}
	}
	if s := bodies[0]; strings.Count(s, `"type":"text-start"`) != 1 || !strings.Contains(s, `"type":"finish"`) || !strings.HasSuffix(s, "data: [DONE]\n\n") {
		t.Errorf("the readers got\n%s", s)
	}
	if row := w.settled("s"); row.Status != cairn.SessionCompleted || row.Usage.ModelCalls != 1 {
		t.Errorf("the session is %+v", row)
	}
	if res := get(t.Context(), "GET", "/chat/s/stream", ""); res.StatusCode != 204 {
		t.Errorf("after the turn: %s", res.Status)
	}
	if res, err := http.Get(w.url + "/sse?session_id=s&token=a"); err != nil || res.StatusCode != 401 {
		t.Errorf("a token in the URL: %v, %v", res, err)
	}
}

// Every test that the document names exists.
func TestPromisesAreHeld(t *testing.T) {
	doc, err := os.ReadFile("../docs/RELIABILITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(doc), "\n## What goes wrong with other chats\n")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := regexp.MustCompile(`(?m)^\| [^|]+ \| [^|]+ \| (.*) \|$`).FindAllStringSubmatch(table, -1)
	if !found || len(rows) < 22 {
		t.Fatalf("the table has %d rows", len(rows))
	}
	for _, row := range rows[1:] {
		for _, held := range regexp.MustCompile("`(\\S+)/([^/`]+)`").FindAllStringSubmatch(row[1], -1) {
			files, err := filepath.Glob(filepath.Join("..", held[1], "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			there := false
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				there = there || bytes.Contains(text, []byte("\nfunc "+held[2]+"(t *testing.T)"))
			}
			if !there {
				t.Errorf("there is no test %s in %s", held[2], held[1])
			}
		}
	}
}
