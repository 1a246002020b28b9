package anthropic_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/anthropic"
	"github.com/cairn-agents/cairn/model/anthropic/anthropictest"
)

// TestStreams reads each recorded stream as a server may send it: in one piece, in bytes, with other line ends and
// with comments in between. All must give the same chunks.
func TestStreams(t *testing.T) {
	t.Parallel()
	for name, stream := range streams(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crlf := strings.ReplaceAll(stream, "\n", "\r\n")
			comments := ": connected\n\n" + strings.ReplaceAll(stream, "event: ", ": keep-alive\n\nevent: ")
			replies := []anthropictest.Reply{
				{Raw: stream}, {Raw: stream, Piece: 1}, {Raw: stream, Piece: 7}, {Raw: crlf, Piece: 3}, {Raw: comments, Piece: 5},
			}
			m, _ := serve(t, replies...)
			for i := range replies {
				chunks, err := ask(t.Context(), m, hello())
				if problem := wellFormed(chunks, err); problem != "" {
					t.Error(problem)
				}
				if i == 0 || !*update {
					golden(t, "streams/"+name+".golden", lines(chunks, err))
				}
			}
		})
	}
}

// streams returns the recorded streams by name.
func streams(t testing.TB) map[string]string {
	files, err := filepath.Glob("testdata/streams/*.sse")
	if err != nil || len(files) == 0 {
		t.Fatal("no streams", err)
	}
	list := map[string]string{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		list[strings.TrimSuffix(filepath.Base(file), ".sse")] = string(data)
	}
	return list
}

// wellFormed says which rule of the Model contract a reply breaks.
func wellFormed(chunks []cairn.Chunk, err error) string {
	started, filled := map[string]bool{}, map[string]bool{}
	open := false // a part that can be ended
	for i, c := range chunks {
		switch c.Type {
		case cairn.ChunkText, cairn.ChunkReasoning:
			open = true
		case cairn.ChunkPartEnd:
			if !open {
				return "the end of a part that did not begin"
			}
			open = false
		case cairn.ChunkProvider:
			if open = false; len(c.Provider) == 0 {
				return "an item without content"
			}
		case cairn.ChunkToolStart:
			if open = false; c.CallID == "" || c.Tool == "" {
				return "a call without a name or id"
			}
			started[c.CallID] = true
		case cairn.ChunkToolArgs:
			if !started[c.CallID] || c.Text == "" {
				return "arguments of a call that has not begun, or none"
			}
			filled[c.CallID] = true
		case cairn.ChunkFinish:
			if i != len(chunks)-1 || err != nil || c.FinishReason == "" {
				return "something comes after the finish, or it has no reason"
			}
		}
		if len(c.Provider) > 0 && (c.Model != "anthropic:claude-test" || cairn.CheckJSON("provider", c.Provider) != nil) {
			return "provider data of no model, or that cannot be kept"
		}
	}
	if err != nil {
		var known *cairn.Error
		if !errors.As(err, &known) || known.Code.Category() != cairn.CategoryModel {
			return fmt.Sprintf("the error %v is not of the model's category", err)
		}
		return ""
	}
	if n := len(chunks); n == 0 || chunks[n-1].Type != cairn.ChunkFinish {
		return "neither finish nor error"
	}
	if len(filled) != len(started) {
		return "a call without arguments"
	}
	return ""
}

// transport answers requests without a network.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// plays answers every request with a stream.
func plays(stream string) transport {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}},
			Body: io.NopCloser(strings.NewReader(stream)), Request: r}, nil
	}
}

func through(f transport, o anthropic.Options) *anthropic.MessagesModel {
	o.HTTPClient, o.BaseURL = &http.Client{Transport: f}, "https://model.example"
	return anthropic.Model("claude-test", &o)
}

// FuzzStream reads anything for a stream, and sends back what it gave.
func FuzzStream(f *testing.F) {
	for _, stream := range streams(f) {
		f.Add(stream)
	}
	f.Fuzz(func(t *testing.T, stream string) {
		chunks, err := ask(t.Context(), through(plays(stream), anthropic.Options{}), hello())
		if problem := wellFormed(chunks, err); problem != "" {
			t.Fatalf("%s:\n%s", problem, lines(chunks, err))
		}
		req := hello()
		req.Messages = append(req.Messages, assistant(parts(chunks)...), user("And?"))
		if _, err := ask(t.Context(), through(plays(stream), anthropic.Options{}), req); err != nil && cairn.AsError(err).Code == cairn.CodeModelRequest {
			if strings.Contains(err.Error(), "cannot be encoded") {
				t.Fatal(err)
			}
		}
	})
}

func TestReaderMayStopAnywhere(t *testing.T) {
	t.Parallel()
	stream := streams(t)["search"]
	all, err := ask(t.Context(), through(plays(stream), anthropic.Options{}), hello())
	if err != nil {
		t.Fatal(err)
	}
	for n := range all {
		seen := 0
		for range through(plays(stream), anthropic.Options{}).Stream(t.Context(), hello()) {
			if seen++; seen == n+1 {
				break
			}
		}
		if seen != n+1 {
			t.Errorf("stopping after %d chunks: saw %d", n+1, seen)
		}
	}
}

// recorder keeps the body of a request, and answers with nothing.
func recorder(body *[]byte) transport {
	return func(r *http.Request) (*http.Response, error) {
		*body, _ = io.ReadAll(r.Body)
		return plays("")(r)
	}
}
