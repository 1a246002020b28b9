package openai_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/model/openai"
	"github.com/cairn-agents/cairn/model/openai/openaitest"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares got with a file below testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from %s (run with -update to accept)\n--- got\n%s--- want\n%s", path, got, want)
	}
}

// serve starts a fake server and returns a model that asks it.
func serve(t *testing.T, replies ...openaitest.Reply) (*openai.ChatModel, *openaitest.Server) {
	t.Helper()
	server := openaitest.NewServer(replies...)
	t.Cleanup(server.Close)
	return openai.Model("test-model", &openai.Options{BaseURL: server.BaseURL, APIKey: "sk-secret"}), server
}

func hello() *cairn.Request {
	return &cairn.Request{SessionID: "s", Messages: []cairn.Message{cairn.User(cairn.TextPart("Hello"))}}
}

// ask reads one reply to its end.
func ask(ctx context.Context, m cairn.Model, req *cairn.Request) (chunks []cairn.Chunk, err error) {
	for c, streamErr := range m.Stream(ctx, req) {
		if streamErr != nil {
			return chunks, streamErr
		}
		chunks = append(chunks, c)
	}
	return chunks, nil
}

// lines writes a reply down, a line for each chunk and one for the error.
func lines(chunks []cairn.Chunk, err error) string {
	var b strings.Builder
	for _, c := range chunks {
		switch c.Type {
		case cairn.ChunkToolStart:
			fmt.Fprintf(&b, "tool_start %s %s\n", c.CallID, c.Tool)
		case cairn.ChunkToolArgs:
			fmt.Fprintf(&b, "tool_args %s %s\n", c.CallID, c.Text)
		case cairn.ChunkUsage:
			u := c.Usage
			fmt.Fprintf(&b, "usage in=%d out=%d reasoning=%d cached=%d written=%d\n",
				u.InputTokens, u.OutputTokens, u.ReasoningTokens, u.CachedTokens, u.CacheWriteTokens)
		case cairn.ChunkFinish:
			fmt.Fprintf(&b, "finish %s\n", c.FinishReason)
		case cairn.ChunkReasoning:
			fmt.Fprintf(&b, "reasoning %q %s\n", c.Text, c.Provider)
		default:
			fmt.Fprintf(&b, "%s %q\n", c.Type, c.Text)
		}
	}
	if err != nil {
		e := cairn.AsError(err)
		fmt.Fprintf(&b, "error %s retryable=%t: %v\n", e.Code, e.Retryable(), e)
	}
	return b.String()
}

// hideHost makes output independent of the server's port.
func hideHost(text string, server *openaitest.Server) string {
	return strings.ReplaceAll(text, strings.TrimSuffix(strings.TrimPrefix(server.BaseURL, "http://"), "/v1"), "HOST")
}

// TestStreams reads each recorded stream as a server may send it: in one piece, in bytes, with other line ends and
// with comments in between. All must give the same chunks.
func TestStreams(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/streams/*.sse")
	if err != nil || len(files) == 0 {
		t.Fatal("no streams", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".sse")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			stream := string(data)
			if stream == "" {
				stream = "\n" // Raw needs something
			}
			crlf := strings.ReplaceAll(stream, "\n", "\r\n")
			comments := ": connected\n\n" + strings.ReplaceAll(stream, "data: {", ": keep-alive\n\n:\ndata: {")
			if strings.Contains(stream, "\nevent:") || strings.HasPrefix(stream, "event:") || strings.HasPrefix(stream, "id:") {
				comments = ": connected\n\n" + stream // a blank line would cut the event in two
			}
			replies := []openaitest.Reply{
				{Raw: stream}, {Raw: stream, Piece: 1}, {Raw: stream, Piece: 7},
				{Raw: crlf, Piece: 3}, {Raw: comments, Piece: 5},
			}
			m, server := serve(t, replies...)
			for i := range replies {
				got := hideHost(lines(ask(t.Context(), m, hello())), server)
				if i == 0 || !*update {
					golden(t, "streams/"+name+".golden", got)
				}
			}
		})
	}
}

func TestCallIDsAreUniqueAndArgumentsFollowTheirStart(t *testing.T) {
	t.Parallel()
	files, _ := filepath.Glob("testdata/streams/tool*.sse")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m, _ := serve(t, openaitest.Raw(string(data)))
		chunks, err := ask(t.Context(), m, hello())
		if problem := wellFormed(chunks, err); problem != "" {
			t.Errorf("%s: %s\n%s", file, problem, lines(chunks, err))
		}
	}
}

// wellFormed says which rule of the Model contract a reply breaks.
func wellFormed(chunks []cairn.Chunk, err error) string {
	started := map[string]bool{}
	filled := map[string]bool{}
	for i, c := range chunks {
		switch c.Type {
		case cairn.ChunkToolStart:
			if started[c.CallID] || c.CallID == "" || c.Tool == "" {
				return "a call without a name, or without an id of its own"
			}
			started[c.CallID] = true
		case cairn.ChunkToolArgs:
			if !started[c.CallID] || c.Text == "" {
				return "arguments of a call that has not begun, or none"
			}
			filled[c.CallID] = true
		case cairn.ChunkFinish:
			if i != len(chunks)-1 || err != nil {
				return "something comes after the finish"
			}
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

func TestReplyThatIsNotStreamed(t *testing.T) {
	t.Parallel()
	m, server := serve(t, openaitest.Reply{Reasoning: "Hm.", Text: "Let me look.",
		Calls: []openaitest.Call{{ID: "a", Tool: "lookup", Arguments: `{"n":1}`}, {ID: "b", Tool: "now", Arguments: ""}},
		Usage: openaitest.Usage{Input: 10, Output: 5, Cached: 4}})
	req := hello()
	req.Settings.Options = map[string]any{"stream": false, "stream_options": nil}
	got := hideHost(lines(ask(t.Context(), m, req)), server)
	want := `reasoning "Hm." {"field":"reasoning_content","host":"HOST"}
text "Let me look."
tool_start a lookup
tool_args a {"n":1}
tool_start b now
usage in=10 out=5 reasoning=0 cached=4 written=0
tool_args b {}
finish tools
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestReaderMayStopAnywhere(t *testing.T) {
	t.Parallel()
	for n := range 8 {
		m, _ := serve(t, openaitest.Reply{Reasoning: "Hm.", Text: "Hello there", Calls: []openaitest.Call{{Tool: "now"}}})
		seen := 0
		for range m.Stream(t.Context(), hello()) {
			if seen++; seen == n+1 {
				break
			}
		}
		if seen != min(n+1, 7) {
			t.Errorf("stopping after %d chunks: saw %d", n+1, seen)
		}
	}
}

// addStreams makes the recorded streams seeds of a fuzz test.
func addStreams(f *testing.F) {
	files, err := filepath.Glob("testdata/streams/*.sse")
	if err != nil || len(files) == 0 {
		f.Fatal("no streams", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data), false)
	}
}
