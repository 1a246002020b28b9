package providertest

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-agents/cairn"
	"github.com/cairn-agents/cairn/internal/testenv"
)

// Shape is a reply of a provider, and what becomes of it. The files of testdata/corpus have one after the other:
//
//	# name: what is special about it
//	> {"type":"message_stop"}          an event of the stream; the name of the event is its type
//	> event: x                         a line of the stream as it is, if it is neither an object nor [DONE]; "." is empty
//	> next                             the stream of the next request begins
//	= text "Hi"                        what the reply becomes, see Outcome
//	+ "reasoning_details":[            a piece of the next request, in which the reply is sent back
//	- "signature"                      a text that the next request does not have
//
// The first line of a shape of a reply that is not streamed is "> whole". A shape is "late" if an error may follow
// its complete reply: then a cut stream may be complete.
type Shape struct {
	Name    string
	Whole   bool
	Late    bool
	Stream  string
	Want    string
	Sends   []string
	Lacks   []string
	Written []string // its lines except those of Want
}

// nextStream separates the streams of several requests.
const nextStream = "\x00"

// drawn is how many places of a stream are drawn.
const drawn = 20

// Corpus checks every shape of testdata/corpus: read whole, in pieces, and cut. named says whether events have names.
func (a Adapter[Q, R]) Corpus(t *testing.T, named bool) {
	files, err := filepath.Glob("testdata/corpus/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no corpus", err)
	}
	for _, file := range files {
		shapes := readShapes(t, file, named)
		for i := range shapes {
			s := &shapes[i]
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+"/"+s.Name, func(t *testing.T) {
				if !*update {
					t.Parallel()
				}
				a.shape(t, s)
			})
		}
		if *update {
			writeShapes(t, file, shapes)
		}
	}
}

func readShapes(t *testing.T, file string, named bool) []Shape {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var list []Shape
	for line := range strings.Lines(string(data)) {
		kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if kind == "#" {
			name, about, _ := strings.Cut(rest, ":")
			list = append(list, Shape{Name: name, Late: strings.Contains(about, "(late)")})
		}
		if kind == "" {
			continue
		}
		s := &list[len(list)-1]
		switch kind {
		case "#":
		case ">":
			s.event(rest, named)
		case "=":
			s.Want += rest + "\n"
			continue
		case "+":
			s.Sends = append(s.Sends, rest)
		case "-":
			s.Lacks = append(s.Lacks, rest)
		default:
			t.Fatalf("%s: the line %q has no kind", file, line)
		}
		s.Written = append(s.Written, strings.TrimSuffix(line, "\n"))
	}
	return list
}

var typeOf = regexp.MustCompile(`^\{"type":"([a-z_.]+)"`)

// event adds a line of a file to the stream.
func (s *Shape) event(line string, named bool) {
	switch match := typeOf.FindStringSubmatch(line); {
	case line == "whole":
		s.Whole = true
	case line == "next":
		s.Stream += nextStream
	case s.Whole:
		s.Stream += line
	case named && match != nil:
		s.Stream += "event: " + match[1] + "\ndata: " + line + "\n\n"
	case strings.HasPrefix(line, "{") || line == "[DONE]":
		s.Stream += "data: " + line + "\n\n"
	case line == ".":
		s.Stream += "\n"
	default:
		s.Stream += line + "\n"
	}
}

// writeShapes writes the shapes with what they become now.
func writeShapes(t *testing.T, file string, shapes []Shape) {
	t.Helper()
	var b strings.Builder
	for _, s := range shapes {
		at := slices.IndexFunc(s.Written, func(line string) bool { return line[0] == '+' || line[0] == '-' })
		if at < 0 {
			at = len(s.Written)
		}
		for _, line := range s.Written[:at] {
			b.WriteString(line + "\n")
		}
		for line := range strings.Lines(s.Want) {
			b.WriteString("= " + line)
		}
		for _, line := range s.Written[at:] {
			b.WriteString(line + "\n")
		}
		b.WriteString("\n")
	}
	if err := os.WriteFile(file, []byte(strings.TrimSuffix(b.String(), "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (a Adapter[Q, R]) shape(t *testing.T, s *Shape) {
	chunks, err := a.plays(t, s, len(s.Stream), nil)
	if problem := WellFormed(chunks, err); problem != "" {
		t.Error(problem)
	}
	got := outcome(chunks, err)
	if *update {
		s.Want = got
	}
	if got != s.Want {
		t.Errorf("got\n%swant\n%s", got, s.Want)
	}
	if err == nil {
		a.sendsBack(t, s, chunks)
	}
	places := s.places()
	for _, at := range places {
		for _, end := range []error{io.EOF, io.ErrUnexpectedEOF} {
			some, cutErr := a.plays(t, s, at, end)
			if problem := cut(chunks, err, some, cutErr); problem != "" && !s.Late {
				t.Errorf("cut after %d bytes, %q, by %v: %s\n%s", at, last(s.Stream[:at]), end, problem, outcome(some, cutErr))
			}
		}
	}
	if s.Whole {
		return
	}
	for _, at := range places {
		again, againErr := a.plays(t, s, -at, nil)
		if now := outcome(again, againErr); now != got {
			t.Errorf("in pieces of about %d bytes: got\n%swant\n%s", at, now, got)
		}
	}
}

func last(text string) string { return text[max(0, len(text)-40):] }

// places returns places within the stream: all of them in a soak.
func (s *Shape) places() []int {
	var list []int
	if testenv.Soak() {
		for i := 1; i < len(s.Stream); i++ {
			list = append(list, i)
		}
		return list
	}
	h := fnv.New64()
	_, _ = io.WriteString(h, s.Name) // cannot fail
	r := rand.New(rand.NewPCG(h.Sum64(), uint64(len(s.Stream))))
	for range drawn {
		list = append(list, 1+r.IntN(len(s.Stream)-1))
	}
	return list
}

// plays reads a stream up to a place, where the connection ends with an error. A negative place stands for the whole
// stream, which is received in pieces whose sizes are drawn from it.
func (a Adapter[Q, R]) plays(t *testing.T, s *Shape, at int, end error) ([]cairn.Chunk, error) {
	media := "text/event-stream"
	if s.Whole {
		media = "application/json"
	}
	to := at
	if at < 0 {
		to = len(s.Stream)
	}
	streams := strings.Split(s.Stream[:to], nextStream)
	n := 0
	m := a.through(func(r *http.Request) (*http.Response, error) {
		body := ""
		if n < len(streams) {
			body = streams[n]
		}
		n++
		var from io.Reader = &pieces{rest: body, seed: -at}
		if at >= 0 {
			from = strings.NewReader(body)
		}
		if n >= len(streams) && end != nil {
			from = io.MultiReader(from, ending{end})
		}
		return answers(media, func(*http.Request) io.ReadCloser { return io.NopCloser(from) })(r)
	})
	return Ask(t.Context(), m, Hello())
}

type ending struct{ err error }

func (e ending) Read([]byte) (int, error) { return 0, e.err }

// pieces is received in pieces.
type pieces struct {
	rest string
	seed int
}

func (p *pieces) Read(to []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	p.seed = p.seed*31%997 + 1
	n := copy(to, p.rest[:min(len(p.rest), 1+p.seed%61)])
	p.rest = p.rest[n:]
	return n, nil
}

// cut returns what is wrong with the reply of a cut stream, or nothing.
func cut(whole []cairn.Chunk, wholeErr error, some []cairn.Chunk, err error) string {
	if problem := WellFormed(some, err); problem != "" {
		return problem
	}
	if err == nil {
		var broken *cairn.Error
		if errors.As(wholeErr, &broken) {
			return "a reply that failed is complete"
		}
		if got, want := contents(some), contents(whole); got != want {
			return "a reply that is cut is taken for a complete one"
		}
		return ""
	}
	for _, kind := range []cairn.ChunkType{cairn.ChunkText, cairn.ChunkReasoning, cairn.ChunkToolStart, cairn.ChunkToolArgs} {
		if !strings.HasPrefix(said(whole, kind), said(some, kind)) {
			return "the reply begins differently"
		}
	}
	return ""
}

// said joins the chunks of a type.
func said(chunks []cairn.Chunk, kind cairn.ChunkType) string {
	var b strings.Builder
	for _, c := range chunks {
		if c.Type == kind {
			b.WriteString(c.CallID + c.Tool + c.Text)
		}
	}
	return b.String()
}

// contents returns a complete reply without its usage, which may follow its end.
func contents(chunks []cairn.Chunk) string {
	return outcome(slices.DeleteFunc(slices.Clone(chunks), func(c cairn.Chunk) bool { return c.Type == cairn.ChunkUsage }), nil)
}

// outcome formats a reply as a session keeps it: a line for each part, the usage, and the finish reason or the error.
func outcome(chunks []cairn.Chunk, err error) string {
	var b strings.Builder
	for _, p := range Parts(chunks) {
		switch p.Type {
		case cairn.PartToolUse:
			fmt.Fprintf(&b, "call %s %s %s", p.ToolUse.CallID, p.ToolUse.Tool, p.ToolUse.Input)
		case cairn.PartFile:
			fmt.Fprintf(&b, "file %s %d %s", p.File.MediaType, len(p.File.Data), p.File.URL)
		case cairn.PartProvider:
			b.WriteString("item")
		default:
			fmt.Fprintf(&b, "%s %q", p.Type, p.Text)
		}
		if p.Provider != nil {
			fmt.Fprintf(&b, " keeps %s", p.Provider)
		}
		for _, s := range p.Sources {
			fmt.Fprintf(&b, " <%s|%s|%s>", s.URL, s.Title, s.Quote)
		}
		b.WriteString("\n")
	}
	var usage cairn.Usage
	counted, reason := false, cairn.FinishReason("")
	for _, c := range chunks {
		switch c.Type {
		case cairn.ChunkUsage:
			usage, counted = c.Usage, true
		case cairn.ChunkFinish:
			reason = c.FinishReason
		}
		if c.Awaits != nil {
			fmt.Fprintf(&b, "awaits %s %s\n", c.CallID, c.Awaits.Kind)
		}
	}
	if counted {
		fmt.Fprintf(&b, "usage in=%d out=%d reasoning=%d cached=%d written=%d\n",
			usage.InputTokens, usage.OutputTokens, usage.ReasoningTokens, usage.CachedTokens, usage.CacheWriteTokens)
	}
	if err == nil {
		return b.String() + "finish " + string(reason) + "\n"
	}
	e := cairn.AsError(err)
	return b.String() + fmt.Sprintf("error %s retryable=%t: %s\n", e.Code, e.Retryable(), strings.ReplaceAll(e.Message, "\n", " "))
}

// sendsBack makes the request that follows a reply, with results for its calls.
func (a Adapter[Q, R]) sendsBack(t *testing.T, s *Shape, chunks []cairn.Chunk) {
	req := Hello()
	reply := cairn.Message{Role: cairn.RoleAssistant, Parts: Parts(chunks)}
	req.Messages = append(req.Messages, reply)
	if uses := reply.ToolUses(); len(uses) > 0 {
		results := cairn.Message{Role: cairn.RoleTool}
		for _, u := range uses {
			results.Parts = append(results.Parts, cairn.Part{Type: cairn.PartToolResult,
				Result: &cairn.ToolResult{CallID: u.CallID, Tool: u.Tool, Output: []byte(`"done"`)}})
		}
		req.Messages = append(req.Messages, results)
	} else {
		req.Messages = append(req.Messages, cairn.User(cairn.TextPart("And?")))
	}
	var body string
	m := a.through(func(r *http.Request) (*http.Response, error) {
		raw, err := io.ReadAll(r.Body)
		body = string(raw)
		if err != nil {
			return nil, err
		}
		return Plays(s.Stream)(r)
	})
	_, _ = Ask(t.Context(), m, req) // the reply is known
	for _, piece := range s.Sends {
		if !strings.Contains(body, piece) {
			t.Errorf("the next request lacks %s\n%s", piece, body)
		}
	}
	for _, piece := range s.Lacks {
		if strings.Contains(body, piece) {
			t.Errorf("the next request has %s\n%s", piece, body)
		}
	}
}
