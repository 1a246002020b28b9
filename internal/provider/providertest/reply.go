package providertest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
)

var update = flag.Bool("update", false, "write the golden files")

// Golden compares a text with a file of testdata, or writes the file.
func Golden(t testing.TB, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", filepath.FromSlash(name))
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s (run with -update to accept):\n%s\nwant\n%s", name, got, want)
	}
}

// Hello is a request of one message.
func Hello() *cairn.Request {
	return &cairn.Request{SessionID: "s", Messages: []cairn.Message{cairn.User(cairn.TextPart("Hello"))}}
}

// Ask reads one reply to its end.
func Ask(ctx context.Context, m cairn.Model, req *cairn.Request) (chunks []cairn.Chunk, err error) {
	for c, streamErr := range m.Stream(ctx, req) {
		if streamErr != nil {
			return chunks, streamErr
		}
		chunks = append(chunks, c)
	}
	return chunks, nil
}

// Lines formats a reply, with a line for each chunk and one for the error.
func Lines(chunks []cairn.Chunk, err error) string {
	var b strings.Builder
	for _, c := range chunks {
		fmt.Fprintf(&b, "%s", c.Type)
		if c.CallID != "" {
			fmt.Fprintf(&b, " %s", c.CallID)
		}
		if c.Tool != "" {
			fmt.Fprintf(&b, " %s", c.Tool)
		}
		if c.Text != "" || c.Type == cairn.ChunkText {
			fmt.Fprintf(&b, " %q", c.Text)
		}
		if c.Provider != nil {
			fmt.Fprintf(&b, " %s %s", c.Model, c.Provider)
		}
		if c.File != nil {
			fmt.Fprintf(&b, " %s %s %q", c.File.Name, c.File.MediaType, c.File.Data)
		}
		for _, s := range c.Sources {
			fmt.Fprintf(&b, " <%s|%s|%s>", s.URL, s.Title, s.Quote)
		}
		if u := c.Usage; c.Type == cairn.ChunkUsage {
			fmt.Fprintf(&b, " in=%d out=%d reasoning=%d cached=%d written=%d",
				u.InputTokens, u.OutputTokens, u.ReasoningTokens, u.CachedTokens, u.CacheWriteTokens)
		}
		fmt.Fprintln(&b, strings.TrimRight(" "+string(c.FinishReason), " "))
	}
	if err != nil {
		e := cairn.AsError(err)
		fmt.Fprintf(&b, "error %s retryable=%t: %v\n", e.Code, e.Retryable(), e)
	}
	return b.String()
}

// Parts collects a reply in the form in which a session keeps it.
func Parts(chunks []cairn.Chunk) []cairn.Part {
	var list []cairn.Part
	open := false
	for _, c := range chunks {
		kind := map[cairn.ChunkType]cairn.PartType{cairn.ChunkText: cairn.PartText, cairn.ChunkReasoning: cairn.PartReasoning}[c.Type]
		if kind != "" && (!open || list[len(list)-1].Type != kind) {
			list, open = append(list, cairn.Part{Type: kind}), true
		}
		keep := func(p *cairn.Part) {
			if c.Provider != nil {
				p.Provider, p.Model = c.Provider, c.Model
			}
			p.Sources = append(p.Sources, c.Sources...)
		}
		switch c.Type {
		case cairn.ChunkText, cairn.ChunkReasoning:
			list[len(list)-1].Text += c.Text
			keep(&list[len(list)-1])
		case cairn.ChunkPartEnd:
			keep(&list[len(list)-1])
			open = false
		case cairn.ChunkProvider:
			list, open = append(list, cairn.Part{Type: cairn.PartProvider}), false
			keep(&list[len(list)-1])
		case cairn.ChunkFile:
			list, open = append(list, cairn.FilePart(*c.File)), false
		case cairn.ChunkToolStart:
			list, open = append(list, cairn.Part{Type: cairn.PartToolUse, ToolUse: &cairn.ToolUse{CallID: c.CallID, Tool: c.Tool}}), false
			keep(&list[len(list)-1])
		case cairn.ChunkToolArgs:
			for i := range list {
				if u := list[i].ToolUse; u != nil && u.CallID == c.CallID {
					u.Input = append(u.Input, c.Text...)
					keep(&list[i])
				}
			}
		}
	}
	return list
}

// WellFormed returns the rule of [cairn.Model] that a reply breaks, or the empty string.
func WellFormed(chunks []cairn.Chunk, err error) string {
	started, filled := map[string]bool{}, map[string]bool{}
	open := false // text or reasoning
	for i, c := range chunks {
		switch c.Type {
		case cairn.ChunkText, cairn.ChunkReasoning:
			open = true
		case cairn.ChunkPartEnd:
			if !open {
				return "a part ends that did not begin"
			}
			open = false
		case cairn.ChunkToolStart:
			if started[c.CallID] || c.CallID == "" || c.Tool == "" {
				return "a call without a name, or without an id of its own"
			}
			started[c.CallID], open = true, false
		case cairn.ChunkToolArgs:
			if !started[c.CallID] || c.Text == "" && c.Provider == nil {
				return "arguments of a call that has not begun, or none"
			}
			filled[c.CallID] = filled[c.CallID] || c.Text != ""
		case cairn.ChunkFinish:
			if i != len(chunks)-1 || err != nil {
				return "something comes after the finish"
			}
		}
		if len(c.Provider) > 0 && (cairn.CheckJSON("provider", c.Provider) != nil || c.Model == "" && c.Type != cairn.ChunkReasoning) {
			return "data of the provider that a session cannot keep, or without the model"
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
	for id := range started {
		if !filled[id] {
			return "a call without arguments"
		}
	}
	return ""
}

// Transport responds to requests without a network.
type Transport func(*http.Request) (*http.Response, error)

func (f Transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Client returns a client of the transport.
func (f Transport) Client() *http.Client { return &http.Client{Transport: f} }

// Plays responds to each request with a stream.
func Plays(stream string) Transport {
	return answers("text/event-stream", func(*http.Request) io.ReadCloser { return io.NopCloser(strings.NewReader(stream)) })
}

// Answering responds to each request with one JSON text, and keeps the request's body.
func Answering(status int, answer string, body *[]byte) Transport {
	return func(r *http.Request) (*http.Response, error) {
		var err error
		if *body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		res, err := answers("application/json", func(*http.Request) io.ReadCloser { return io.NopCloser(strings.NewReader(answer)) })(r)
		res.StatusCode = status
		return res, err
	}
}

func answers(media string, body func(*http.Request) io.ReadCloser) Transport {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {media}}, Body: body(r), Request: r}, nil
	}
}

// Streams returns the recorded streams of testdata/streams by name.
func Streams(t testing.TB) map[string]string {
	t.Helper()
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
		stream := string(data)
		if stream == "" {
			stream = "\n" // Raw must not be empty
		}
		list[strings.TrimSuffix(filepath.Base(file), ".sse")] = stream
	}
	return list
}
